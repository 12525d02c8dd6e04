"""Gives up silent peers at a deadline, after their topics were read to the ends that they have at it.

The deadline starts when the process's own message is acknowledged, and pauses while fetches fail. For a few
peers that are slower than the others the deadline passes earlier, when the node's patience has ended.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from threading import Lock
from typing import Protocol

from nodes.protocol import StartDeadline
from streams.bus.bus import Reader, Unreachable
from streams.bus.connection import LOGGER
from streams.log_events import LogEvent
from streams.runtime.actions import ActionScheduler

EACH = 0.02
"""The least seconds between looks at whether patience has ended."""


class Waiting(Protocol):
    """Reports what a node waits for."""

    @property
    def held(self) -> bool:
        """Whether the node waits only for some neighbours, and has heard at least as many others."""

    @property
    def done(self) -> bool:
        """Whether the node waits only for the next plan."""


class Patience:
    """The rest of the time `limit`, in seconds, for which a node may wait for slow neighbours.

    Waiting for slow neighbours uses up the time, and all other time restores it, so a node waits for them at
    most half of its time. Time without a plan restores nothing, as the same neighbours may then delay all
    others at the end of the plans. `clock` stands still while the broker is away. Call `look` before anything
    that may change what the node waits for.
    """

    def __init__(self, limit: float, clock: Callable[[], float], node: Waiting) -> None:
        self._limit = self._left = limit
        self._clock, self._node, self._looked = clock, node, clock()

    @property
    def left(self) -> float:
        """The least number of seconds for which the node may still wait for slow neighbours."""
        return self._left

    @property
    def ended(self) -> bool:
        """Whether the node must stop waiting for its slow neighbours."""
        return self._left == 0 and self._node.held

    def look(self) -> None:
        """Count the time since the last look by what the node waits for now."""
        now = self._clock()
        seconds, self._looked = now - self._looked, now
        if self._node.held:
            self._left = max(0.0, self._left - seconds)
        elif not self._node.done:
            self._left = min(self._limit, self._left + seconds)


PATIENCE = 1.5
"""Seconds without the process's own heartbeat after which the broker counts as away."""


class FetchClock:
    """Counts the seconds in which a process can read its own heartbeats from the broker. Thread-safe.

    It runs for `PATIENCE` seconds after a heartbeat was read, or half of `silence` (seconds) if that is less,
    so that an outage alone makes nobody silent. It always runs where there are no `beats`. `clock` is
    monotonic.
    """

    def __init__(
        self, clock: Callable[[], float], silence: float | None = None, *, beats: bool = True
    ) -> None:
        self._clock, self._lock = clock, Lock()
        self._patience = inf if not beats else PATIENCE if silence is None else min(PATIENCE, silence / 2)
        self._passed, self._beat = 0.0, clock()

    def beat(self) -> None:
        """Note that an own heartbeat was read just now."""
        with self._lock:
            now, before = self._clock(), self._beat
            self._passed += min(now - before, self._patience)
            self._beat = now
        if now - before >= PATIENCE:  # a line only where the log has one of the outage
            text = "the mesh broker answers again, after %.0f s"
            LOGGER.info(text, now - before, extra=LogEvent.BROKER_BACK.of())

    def now(self) -> float:
        """Return the seconds that count so far."""
        with self._lock:
            return self._passed + min(self._clock() - self._beat, self._patience)

    @property
    def going(self) -> bool:
        """Whether the clock runs: the broker answers, as far as is known."""
        with self._lock:
            return self._clock() - self._beat < PATIENCE


AGAIN = 0.1
"""Seconds between checks while the broker is away."""


SOON = 0.01
"""The least seconds between checks. While the clock is paused the remaining wait does not fall."""


class InFlight:
    """Counts unacknowledged messages without a lock, as each number has one writer at a time.

    The machine counts sent messages in its turn. The reader's thread counts acknowledged ones.
    """

    def __init__(self) -> None:
        self._sent = self._acknowledged = 0

    @property
    def none(self) -> bool:
        """Whether the broker has acknowledged all messages."""
        return self._acknowledged == self._sent

    def sent(self) -> None:
        """Count a message that was sent."""
        self._sent += 1

    def acknowledged(self) -> None:
        """Count a message that the broker has acknowledged."""
        self._acknowledged += 1


class Ends(Protocol):
    """Looks up the ends of logs."""

    def ends(self, topics: Sequence[str], /) -> Mapping[str, int]:
        """Return the offset of each topic's next record. Raises Unreachable, and other errors of the bus."""


class Deadlines:
    """The deadline of the current round, one at a time. `passed` is called in the loop's turn.

    The deadline passes earlier if `patience` has ended.
    """

    def __init__(
        self,
        loop: ActionScheduler,
        clock: FetchClock,
        bus: Ends,
        edges: Sequence[str],
        timeout: float | None,
        passed: Callable[[int], None],
        patience: Patience | None = None,
    ) -> None:
        self._loop, self._clock, self._bus, self._patience = loop, clock, bus, patience
        self._edges, self._timeout, self._passed = edges, timeout, passed
        self._releases = InFlight()
        self._began = 0.0  # on the clock: the last acknowledgement, or the deadline's start
        self._current: StartDeadline | None = None
        self._reader: Reader | None = None

    def watch(self, reader: Reader) -> None:
        """Set the edges' reader. Before that no edge counts as read to its end."""
        self._reader = reader

    def sent(self) -> None:
        """Count a release that was sent."""
        self._releases.sent()

    def acknowledged(self) -> None:
        """Count an acknowledged release; only from the reader's thread."""
        self._began = self._clock.now()
        self._releases.acknowledged()

    def start(self, started: StartDeadline) -> None:
        """Start the deadline of a round."""
        self._current = started
        if self._releases.none:
            self._began = self._clock.now()
        self._look(started)

    def cancel(self) -> None:
        """Cancel the deadline."""
        self._current = None

    def _look(self, started: StartDeadline) -> None:
        if self._current is not started:
            return
        seconds_left = self._left(started)
        if seconds_left > 0:
            # patience that is used up can come back, and end again, at any time
            delay = (
                seconds_left if self._patience is None else min(seconds_left, max(self._patience.left, EACH))
            )
            self._loop.after(max(delay, SOON), partial(self._look, started))
        elif not self._read_to_the_ends(started):
            self._loop.after(AGAIN, partial(self._look, started))

    def _left(self, started: StartDeadline) -> float:
        if started.at_once or self._timeout is None:
            return 0.0
        if not self._releases.none:
            return AGAIN
        if self._patience is not None and self._patience.ended:
            return 0.0
        return self._began + self._timeout - self._clock.now()

    def _read_to_the_ends(self, started: StartDeadline) -> bool:
        if self._reader is None:
            return False
        try:
            ends = self._bus.ends(self._edges)
        except Unreachable:
            self._began = self._clock.now()  # recently sent releases need time to arrive
            return False
        self._reader.when_read(ends, lambda: self._loop.put(partial(self._passed, started.number)))
        return True
