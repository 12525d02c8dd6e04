"""The bus: the interface through which nodes and schedulers exchange messages, on memory or Kafka."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple, Protocol


class BusError(Exception):
    """The bus cannot fulfil a request."""


class UnknownTopic(BusError):
    """No such topic is provisioned."""


class TooLarge(BusError):
    """The record is longer than the topic allows."""


class OffsetOutOfRange(BusError):
    """A position is outside its log: its record was deleted, or the topic was recreated."""

    def __init__(self, topic: str, text: str) -> None:
        super().__init__(f"{topic}: {text}")
        self.topic = topic


class Denied(BusError):
    """The broker refuses these credentials or their request."""


class Unreachable(BusError):
    """The broker does not answer; trying again may succeed."""


class ClientFailed(BusError):
    """A client has failed for good, as when the broker lost acknowledged records; a new client works."""


NOWHERE = -1
"""A reader's position in an unreadable topic."""
RecordHandler = Callable[[str, int, bytes, float], None]
"""A callback (topic, offset, bytes, append time); see `Stored.appended`."""
FailureHandler = Callable[[str, BusError], None]
"""A callback (topic, error)."""


class Stored(NamedTuple):
    """A record, its offset, and its time by the sender's clock (seconds since 1970).

    `appended`: when the broker appended the record, by the broker's clock, so equal for all readers.
    `timestamp` is then the same time. On a topic with the senders' timestamps, `appended` is inf.
    """

    offset: int
    value: bytes
    timestamp: float
    key: bytes = b""
    appended: float = inf


def check_position(topic: str, offset: int, span: tuple[int, int]) -> None:
    """Raise OffsetOutOfRange unless a log of this span can be read from `offset` on."""
    first, end = span
    if not first <= offset <= end:
        raise OffsetOutOfRange(topic, f"{offset} is not from {first} to {end}, where its log is")


class Reader(Protocol):
    """Reads some topics until it is closed; made by `Bus.subscribe`."""

    @property
    def alive(self) -> bool:
        """Whether the reader still reads. Call it from any thread."""

    def when_read(self, ends: Mapping[str, int], action: Callable[[], None]) -> None:
        """Call `action` once all records below these offsets were handed on; at once if they were."""

    def close(self) -> None:
        """Stop handing on records. Do not call it in one of this reader's handlers."""


class Stores(Protocol):
    """Reads stored records. Raises UnknownTopic, Denied, Unreachable."""

    def span(self, topic: str) -> tuple[int, int]:
        """Return the log's first offset, and that of its next record."""

    def stored(self, offsets: Mapping[str, int]) -> dict[str, list[Stored]]:
        """Return each topic's records from its offset to its current end.

        Raises OffsetOutOfRange for an offset outside its log.
        """


class Bus(Stores, Protocol):
    """One process's access to append-only topics of bytes.

    * A topic is one log. A record gets the next offset. All readers see the same records in the same order,
      each at least once, so an older record may come again. There is no order between topics.
    * A log may lose its oldest records at any time, so it may begin above 0. An offset outside it is an
      error, and never means "from the beginning" or "from the end".
    * A send does not block. It is repeated until the log has the record; then it is acknowledged once.
      Records not acknowledged when a process dies, or closes its bus, may be lost; acknowledged ones are not.
    * A record that cannot be read, such as a broken compressed one, is handed on empty.
    * A bus stores no positions of readers. A starting process gives the offsets to read from.
    * Handlers and acknowledgements are called one at a time, from `send`, from `flush`, or between them by
      the bus's own thread or loop. A handler must return before the next record comes.

    `tests/contracts/test_bus.py` tests this on every bus.
    """

    def send(
        self,
        topic: str,
        value: bytes,
        acknowledged: Callable[[], None] | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append `value`, then call `acknowledged`. Raises UnknownTopic, TooLarge."""

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all sends are acknowledged, and return whether they are."""

    def subscribe(
        self,
        offsets: Mapping[str, int],
        record: RecordHandler,
        failed: FailureHandler,
        *,
        lossy: Collection[str] = (),
    ) -> Reader:
        """Hand on every record of these topics, each topic from its offset.

        `failed` is called once for a topic that has become unreadable; that topic yields no further records.
        If records of a topic in `lossy` were deleted before they were read, reading continues at the
        beginning of its log. Close the reader before the bus. Raises UnknownTopic.
        """

    def close(self) -> None:
        """Disconnect; sends not yet acknowledged may be lost."""

    def largest(self, topic: str) -> int:
        """Return the length in bytes of the longest value that the topic allows. Raises UnknownTopic."""

    def end(self, topic: str) -> int:
        """Return the offset of the next record. Raises as `span`."""
        return self.span(topic)[1]

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the offset of each topic's next record. Raises as `span`."""
        return {topic: self.end(topic) for topic in topics}

    def read(self, topic: str, offset: int) -> Sequence[bytes]:
        """Return the values from `offset` to the topic's end. Raises as `stored`."""
        return [record.value for record in self.stored({topic: offset})[topic]]
