"""Log lines of what others send, which may come by the hundred thousand: few lines, with the exact sum."""

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

PERIOD = 10.0
"""Seconds between two lines of one kind."""


@dataclass(slots=True)
class _Kind:
    """A kind of line: when it was last told, the newest one since, and the number of those since."""

    told: float
    level: int
    line: str
    count: int = 0


class Summed:
    """Logs the first line of a kind at once, and then one in `period` seconds that counts those since.

    Call `catch_up` now and then, so that the last ones are told too, and `end` at the end. Kinds are few: the
    caller makes none from what others send.
    """

    def __init__(
        self, log: logging.Logger, period: float = PERIOD, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._period, self._clock = log, period, clock
        self._kinds: dict[Hashable, _Kind] = {}

    def say(self, level: int, kind: Hashable, line: str) -> None:
        """Log the line, or count it."""
        known = self._kinds.get(kind)
        if known is None:
            self._kinds[kind] = _Kind(self._clock(), level, line)
            self._log.log(level, "%s", line)
            return
        known.level, known.line = level, line
        known.count += 1
        if self._clock() - known.told >= self._period:
            self._tell(known)

    def catch_up(self) -> None:
        """Log what is due, and forget kinds that have come no more."""
        now = self._clock()
        due = [(kind, known) for kind, known in self._kinds.items() if now - known.told >= self._period]
        for kind, known in due:
            if known.count:
                self._tell(known)
            else:
                del self._kinds[kind]

    def end(self) -> None:
        """Log all that is left."""
        for known in self._kinds.values():
            if known.count:
                self._tell(known)

    def _tell(self, known: _Kind) -> None:
        now = self._clock()
        seconds = now - known.told
        self._log.log(known.level, "%s (%d more in %.0f s)", known.line, known.count, seconds)
        known.told, known.count = now, 0
