"""Limits the log lines and dead letters that others can cause, which could fill a disk."""

import logging
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from streams.bus.bus import Bus, BusError
from streams.codec import Refused, encode_dead_letter

PERIOD = 10.0
"""Seconds between two lines of one kind."""


@dataclass(slots=True)
class _Kind:
    """A kind of line: when it was last logged, the newest line since then, and the number of those lines."""

    told: float
    level: int
    line: str
    event: dict[str, Any] | None
    count: int = 0


class Summed:
    """Logs the first line of a kind at once, and then one line per `period` seconds that counts the others.

    Call `catch_up` now and then, so that the last lines are logged too, and `end` at the end. There must be
    few kinds: the caller must not make kinds from others' messages.
    """

    def __init__(
        self, log: logging.Logger, period: float = PERIOD, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._period, self._clock = log, period, clock
        self._kinds: dict[Hashable, _Kind] = {}

    def say(self, level: int, kind: Hashable, line: str, event: dict[str, Any] | None = None) -> None:
        """Log the line, or count it; `event`: of the line (`LogEvent.of`)."""
        line_kind = self._kinds.get(kind)
        if line_kind is None:
            self._kinds[kind] = _Kind(self._clock(), level, line, event)
            self._log.log(level, "%s", line, extra=event)
            return
        line_kind.level, line_kind.line, line_kind.event = level, line, event
        line_kind.count += 1
        if self._clock() - line_kind.told >= self._period:
            self._tell(line_kind)

    def catch_up(self) -> None:
        """Log the lines that are due, and forget kinds without new lines."""
        now = self._clock()
        due = [
            (kind, line_kind)
            for kind, line_kind in self._kinds.items()
            if now - line_kind.told >= self._period
        ]
        for kind, line_kind in due:
            if line_kind.count:
                self._tell(line_kind)
            else:
                del self._kinds[kind]

    def end(self) -> None:
        """Log all that is left."""
        for line_kind in self._kinds.values():
            if line_kind.count:
                self._tell(line_kind)

    def _tell(self, known: _Kind) -> None:
        now = self._clock()
        seconds = now - known.told
        text = "%s (%d more in %.0f s)"
        self._log.log(known.level, text, known.line, known.count, seconds, extra=known.event)
        known.told, known.count = now, 0


MOST = 10
"""The largest number of dead letters a second. So a flooded edge neither fills a disk nor delays the node."""


class DeadLetters:
    """Writes up to `MOST` dead letters a second with `send`; drops the rest.

    `longest`: the bytes of the longest letter that the topic accepts; a longer value is cut to its beginning.
    """

    def __init__(
        self, send: Callable[[bytes], None], longest: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._send, self._longest, self._clock = send, longest, clock
        self._second, self._written = 0, 0

    @classmethod
    def to(cls, bus: Bus, topic: str, clock: Callable[[], float] = time.monotonic) -> "DeadLetters":
        """Return a DeadLetters that writes to a topic."""
        return cls(partial(bus.send, topic), bus.largest(topic), clock)

    def write(self, topic: str, value: bytes, refused: Refused) -> None:
        """Write the dead letter of a value read from `topic`."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._written = second, 0
        if self._written < MOST:
            self._written += 1
            with suppress(BusError):  # drop this letter
                self._send(encode_dead_letter(topic, value, refused, self._longest))
