"""Starts a stream at the journal's position, or where the logs begin if they no longer have that position."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from aiokafka.errors import (  # type: ignore[import-untyped] # it ships no types
    GroupAuthorizationFailedError,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

from nodes.machine.journal import DataPosition
from streams.bus.bus import BusError, OffsetOutOfRange
from streams.bus.errors import denied
from streams.live.data.collector import SlotCollector

REFUSED = (GroupAuthorizationFailedError, TopicAuthorizationFailedError)
"""A broker's refusals, which do not pass by themselves as other errors of a broker do."""


class Start:
    """The position of a stream that starts at `given` (None: the topic's end) and fills a collector.

    `over`: whether the stream needs no more records. `floor`: positions that may be beyond the log's end, as
    a power cut has ended the previous life; records below these positions are skipped when they come.
    `partitions`: the partitions to read; None: all. `undue` returns, for each partition with records that
    wait until they are due, the first of their offsets.
    """

    def __init__(
        self,
        topic: str,
        given: DataPosition | None,
        collector: SlotCollector,
        over: Callable[[], bool] = lambda: False,
        floor: DataPosition = (),
        partitions: tuple[int, ...] | None = None,
        undue: Callable[[], Mapping[int, int]] | None = None,
    ) -> None:
        self._undue = undue
        self._floor, self.partitions = dict(floor), partitions
        self._topic, self._given, self._collector, self._over = topic, given, collector, over

    @property
    def next(self) -> Mapping[int, int]:
        """The offset of each partition's next record."""
        offsets = self._collector.next
        for partition, first in ({} if self._undue is None else self._undue()).items():
            offsets[partition] = max(first, offsets.get(partition, 0))  # there is no record in between
        return offsets

    @property
    def holds_back(self) -> bool:
        """Whether records wait outside until they are due."""
        return self._undue is not None

    @property
    def room(self) -> bool:
        """Whether more records are wanted now."""
        return not (self._collector.blocked or self._over())

    def wants(self, partition: int) -> bool:
        """Return whether records of that partition are wanted now."""
        is_undue = self._undue is not None and partition in self._undue()
        return not is_undue and self._collector.wants(partition)

    def begin(self, spans: Mapping[int, tuple[int, int]]) -> None:
        """Handle the logs' first offsets and ends.

        Raises OffsetOutOfRange for a position beyond an end, but for the floor.
        """
        positions = None if self._given is None else dict(self._given)
        offsets, missing = {}, 0
        for partition, (first, end) in spans.items():
            offset = end if positions is None else positions.get(partition, first)
            if offset > end and offset != self._floor.get(partition):
                text = (
                    f"the position of partition {partition} is beyond the log's end: the topic was made anew"
                )
                raise OffsetOutOfRange(self._topic, text)
            missing += max(0, first - offset)
            offsets[partition] = max(first, offset)
        self._collector.start(offsets, missing)

    def lose(self, count: int) -> None:
        """Count records that left a log before they were read."""
        self._collector.start({}, count)


class DataFailed(Exception):
    """The data side of the process is broken."""


class DataCut(DataFailed):
    """A data log has lost its end while the process was reading; the process must find its position again."""


def failure(servers: str, topics: Mapping[str, str], error: BaseException) -> DataFailed:
    """Return the error with a text safe to log: a client's own text may hold a record.

    `topics` has the group of each topic.
    """
    first, group = next(iter(topics.items()))
    topic = first if len(topics) == 1 else "the data topics"
    if isinstance(error, TopicAuthorizationFailedError):
        return DataFailed(str(denied(servers, _named(error, topics) or topic, "read")))
    if isinstance(error, GroupAuthorizationFailedError):
        return DataFailed(str(denied(servers, f"group {group}", "commit offsets")))
    if isinstance(error, DataFailed):
        return error
    if isinstance(error, OffsetOutOfRangeError):
        return DataCut(f"{topic}: the log has lost its end")
    if isinstance(error, BusError):
        return DataFailed(str(error))
    text = str(error) if isinstance(error, OSError) else ""  # the error of a time-out has no text
    return DataFailed(f"{topic}: {text or type(error).__name__}")


def _named(error: BaseException, topics: Iterable[str]) -> str | None:
    """Return the first of the topics that the error names."""
    return next((topic for topic in topics if error.args and error.args[0] == topic), None)


@contextmanager
def patience() -> Iterator[None]:
    """Ignore an error of a broker that is away, as the request is repeated. Raises a refusal."""
    try:
        yield
    except REFUSED:
        raise
    except (KafkaError, TimeoutError):
        pass
