"""The log of the Kafka clients: a line a minute for each kind of trouble, however often it comes."""

import logging
import time
from collections.abc import Callable

PERIOD = 60.0
"""Seconds between two lines of one kind and client."""


class Sparse(logging.Filter):
    """Lets one record of a kind through in `period` seconds, with the number of those kept back since.

    The kind is the message before its arguments are put in, with the first two of them: in a line of
    librdkafka what happened, and the client; in one of ours as the caller chooses.
    """

    def __init__(self, period: float = PERIOD, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._period, self._clock = period, clock
        self._last: dict[tuple[object, ...], float] = {}
        self._kept_back: dict[tuple[object, ...], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record goes through; says in it how many did not."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        kind = (record.msg, *arguments[:2])
        now = self._clock()
        if now - self._last.get(kind, -self._period) < self._period:
            self._kept_back[kind] = self._kept_back.get(kind, 0) + 1
            return False
        self._last[kind] = now
        more = self._kept_back.pop(kind, 0)
        if more:
            record.msg, record.args = f"{record.getMessage()} (and {more} times since the last line)", ()
        return True


LOGGER = logging.getLogger("mirrormesh.kafka")
"""Of all Kafka clients, and of what we say of them."""
LOGGER.addFilter(Sparse())
