"""Whether the parts of a process still turn, whatever its brokers and its data do.

Each part gives signs of life in its own thread. Any thread may ask.
"""

import logging
import time
from collections.abc import Callable, Mapping


class Pulse:
    """The signs of life of one part. None is expected before the first, nor between `rest` and `wake`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: float | None = None
        self._resting = False

    def beat(self) -> None:
        """Give a sign of life."""
        self._last = self._clock()

    def begin(self) -> None:
        """Expect signs from now on, if there was none."""
        if self._last is None:
            self.beat()

    def wake(self) -> None:
        """Expect signs from now on: the part begins, also after a rest."""
        self._resting = False
        self.beat()

    def rest(self) -> None:
        """Expect no more signs: the part has ended."""
        self._resting = True

    @property
    def rests(self) -> bool:
        """Whether no more signs are expected."""
        return self._resting

    @property
    def age(self) -> float:
        """The seconds since the last sign; 0 if none is expected."""
        last = self._last
        return 0.0 if last is None or self._resting else self._clock() - last


class Liveness:
    """Tells which part stands still, and logs it once.

    `pulses` must not be older than `limit` seconds. Each of `threads` returns whether that thread is there.
    """

    def __init__(
        self,
        limit: float,
        pulses: Mapping[str, Pulse],
        threads: Mapping[str, Callable[[], bool]],
        log: logging.Logger,
    ) -> None:
        self._limit, self._pulses, self._threads, self._log = limit, pulses, threads, log
        self._said: set[str] = set()

    def stalled(self) -> str | None:
        """Return the first part that stands still, and how it does; None while all work."""
        for name, is_alive in self._threads.items():
            if not is_alive():
                return self._say(name, f"{name} is dead")
        for name, pulse in self._pulses.items():
            age = pulse.age
            if age > self._limit:
                return self._say(name, f"{name} has not turned for {age:.0f} s")
            self._said.discard(name)
        return None

    def _say(self, name: str, reason: str) -> str:
        if name not in self._said:
            self._said.add(name)
            self._log.error("%s: the process must be restarted", reason)
        return reason
