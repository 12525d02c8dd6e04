"""The pace of a feed: when each record is due."""

import time
from types import TracebackType

from streams.bus.bus import BusError
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.user_code import interrupt
from streams.runtime.process import ProcessStopped, Stop

_BURST = 0.1


def most_ahead(mesh: MeshSettings, topic: float) -> float:
    """Return the seconds that a record may be ahead of the clock; the topic takes it up to `topic`.

    With slots by time nodes drop records beyond the horizon; half of it is used, as their clocks may differ.
    """
    return topic if mesh.slots.by == "count" else min(topic, mesh.horizon * mesh.slots.period / 2)


class Pace:
    """At full speed, at `rate` records a second, or `by_timestamps`.

    A delayed feed makes up for at most a tenth of a second of its rate, to avoid bursts. `replay`: past
    records keep their intervals; otherwise they are due at once, as slots by time follow the clock. `ahead`:
    the seconds that a record's time may be ahead of the clock.
    """

    def __init__(
        self, ahead: float, *, rate: float | None = None, by_timestamps: bool = False, replay: bool = False
    ) -> None:
        self._ahead, self._rate, self._by_timestamps, self._replay = ahead, rate, by_timestamps, replay
        self._next: float | None = None
        self._shift: float | None = None

    @property
    def at_full_speed(self) -> bool:
        """Whether a record without a time is due at once."""
        return self._rate is None

    def delay(self, timestamp: float | None, wall: float, steady: float) -> float:
        """Return the seconds from now until the next record is due.

        Parameters
        ----------
        timestamp : float or None
            The record's own time.
        wall, steady : float
            Now, in seconds since 1970 and on a monotonic clock.
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


class Interruptible:
    """A context in which a signal raises ProcessStopped, as a read from a pipe may never return.

    Outside of it a signal only sets `stop.asked`, and the next wait ends at once.
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
        """Sleep. Raises ProcessStopped."""
        with self:
            time.sleep(seconds)

    def _leave(self) -> None:
        if self._inside:
            self._inside = False
            interrupt(ProcessStopped)


class FeedFailed(BusError):
    """The feed cannot go on; the text is one line for the user, and never shows a record."""
