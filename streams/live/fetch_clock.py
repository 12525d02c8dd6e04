"""A clock that stands still while nothing can be fetched: no silence is held against anyone then."""

from collections.abc import Callable
from threading import Lock

PATIENCE = 1.5
"""Seconds without an own beat after which the broker counts as away."""


class FetchClock:
    """Seconds during which a process could read its own beats from the broker. Thread-safe.

    It goes on for `PATIENCE` seconds after a beat was read, or half of `silence` (seconds) if that is less:
    an outage alone must make nobody silent. `clock` is monotonic.
    """

    def __init__(self, clock: Callable[[], float], silence: float | None = None) -> None:
        self._clock, self._lock = clock, Lock()
        self._patience = PATIENCE if silence is None else min(PATIENCE, silence / 2)
        self._passed, self._beat = 0.0, clock()

    def beat(self) -> None:
        """Take note that an own beat was read just now."""
        with self._lock:
            now = self._clock()
            self._passed += min(now - self._beat, self._patience)
            self._beat = now

    def now(self) -> float:
        """Return the seconds that count so far."""
        with self._lock:
            return self._passed + min(self._clock() - self._beat, self._patience)

    @property
    def going(self) -> bool:
        """Whether the broker is there, as far as is known."""
        with self._lock:
            return self._clock() - self._beat < PATIENCE
