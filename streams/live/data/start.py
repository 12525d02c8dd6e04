"""The start of a stream: at the journal's position, as far as the logs still have it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aiokafka.errors import (  # type: ignore[import-untyped] # it ships no types
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from nodes.machine.journal import DataPosition
from streams.bus.bus import BusError, OffsetOutOfRange
from streams.bus.denials import denied
from streams.live.data.collector import SlotCollector


class Start:
    """The position of a stream that starts at `given` (None: the topic's end) and fills a collector."""

    def __init__(self, topic: str, given: DataPosition | None, collector: SlotCollector) -> None:
        self._topic, self._given, self._collector = topic, given, collector

    @property
    def next(self) -> Mapping[int, int]:
        """The offset of each partition's next record."""
        return self._collector.next

    def begin(self, spans: Mapping[int, tuple[int, int]]) -> None:
        """Take the logs' first offsets and ends. Raises OffsetOutOfRange for a position beyond an end."""
        given = None if self._given is None else dict(self._given)
        offsets, lost = {}, 0
        for partition, (first, end) in spans.items():
            offset = end if given is None else given.get(partition, first)
            if offset > end:
                said = (
                    f"the position of partition {partition} is beyond the log's end: the topic was made anew"
                )
                raise OffsetOutOfRange(self._topic, said)
            lost += max(0, first - offset)
            offsets[partition] = max(first, offset)
        self._collector.start(offsets, lost)

    def lose(self, count: int) -> None:
        """Count records that left a log before they were read."""
        self._collector.start({}, count)


class DataFailed(Exception):
    """The data side of the process is broken."""


def failure(servers: str, topic: str, error: BaseException) -> DataFailed:
    """Return the error with a text safe to log: a client's own text may hold a record."""
    if isinstance(error, TopicAuthorizationFailedError):
        return DataFailed(str(denied(servers, topic, "read")))
    if isinstance(error, GroupAuthorizationFailedError):
        return DataFailed(str(denied(servers, f"group {topic}", "commit offsets")))
    if isinstance(error, DataFailed):
        return error
    if isinstance(error, BusError):
        return DataFailed(str(error))
    return DataFailed(f"{topic}: {error if isinstance(error, OSError) else type(error).__name__}")


@contextmanager
def patience() -> Iterator[None]:
    """Ignore that the broker is away, as it is asked again; raise a refusal."""
    try:
        yield
    except (GroupAuthorizationFailedError, TopicAuthorizationFailedError):
        raise
    except (KafkaError, TimeoutError):
        pass
