"""A clock that stands still while nothing can be fetched: no silence is held against anyone then."""

from collections.abc import Callable
from threading import Lock

BEAT = 1.0
"""Seconds between the beats that a process sends, to others and to this clock."""
PATIENCE = 1.5
"""Seconds from one own beat read to the next that still count as time."""


class FetchClock:
    """Seconds during which a process could read its own beats from the broker. Thread-safe.

    From `PATIENCE` seconds after a beat was read it stands still until the next one is. `clock` is monotonic.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, Lock()
        self._passed, self._beat = 0.0, clock()

    def beat(self) -> None:
        """Take note that an own beat was read just now."""
        with self._lock:
            now = self._clock()
            self._passed += min(now - self._beat, PATIENCE)
            self._beat = now

    def now(self) -> float:
        """Return the seconds that count so far."""
        with self._lock:
            return self._passed + min(self._clock() - self._beat, PATIENCE)

    @property
    def going(self) -> bool:
        """Whether the broker is there, as far as is known."""
        with self._lock:
            return self._clock() - self._beat < PATIENCE
