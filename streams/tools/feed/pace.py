"""When each record of a feed is due."""

import time
from types import TracebackType

from streams.bus.bus import BusError
from streams.live.process import Stopped
from streams.live.stopping import Stop
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.user_code import interrupt

_BURST = 0.1


def most_ahead(mesh: MeshSettings, topic: float) -> float:
    """Return how many seconds ahead of the clock a record may be, where the topic takes it up to `topic`.

    With slots by time nodes drop what is more than the horizon ahead: half of it, as their clock is not ours.
    """
    return topic if mesh.slots.by == "count" else min(topic, mesh.horizon * mesh.slots.period / 2)


class Pace:
    """At full speed, at `rate` records a second, or `by_timestamps`.

    A feed that was held up makes up for a tenth of a second of its rate: a burst would be another rate.
    `replay`: what lies in the past keeps its intervals; else it is due at once, since slots by time go by
    the clock. `ahead`: seconds that a record's time may be ahead of the clock, as the topic takes it.
    """

    def __init__(
        self, ahead: float, *, rate: float | None = None, by_timestamps: bool = False, replay: bool = False
    ) -> None:
        self._ahead, self._rate, self._by_timestamps, self._replay = ahead, rate, by_timestamps, replay
        self._next: float | None = None
        self._shift: float | None = None

    def delay(self, timestamp: float | None, wall: float, steady: float) -> float:
        """Return the seconds from now until the next record is due.

        Parameters
        ----------
        timestamp : float or None
            Its own time.
        wall, steady : float
            Now, in seconds since 1970 and on a clock that is never set.
        """
        delay = 0.0
        if self._rate is not None:
            due = steady if self._next is None else max(self._next, steady - _BURST)
            self._next = due + 1.0 / self._rate
            delay = due - steady
        if timestamp is not None:
            delay = max(delay, timestamp - self._ahead - wall)
            if self._by_timestamps:
                if self._shift is None:
                    self._shift = max(0.0, wall - timestamp) if self._replay else 0.0
                delay = max(delay, timestamp + self._shift - wall)
        return max(0.0, delay)


class Waiting:
    """A context that a signal leaves with Stopped: a read from a pipe would go on for ever.

    Outside of it a signal only sets `stop.asked`, and the next wait ends before it begins.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._inside = False
        stop.then(self._leave)

    def __enter__(self) -> None:
        self._inside = True
        if self._stop.asked.is_set():
            self._leave()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = False

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises Stopped."""
        with self:
            time.sleep(seconds)

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            interrupt(Stopped)


class FeedFailed(BusError):
    """The feed cannot go on; the text is one line for the user, and never shows a record."""
