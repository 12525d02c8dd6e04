"""What carries a mesh's messages: the interface that nodes and schedulers use, whatever stands behind it."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol


class BusError(Exception):
    """The bus cannot do what was asked."""


class UnknownTopic(BusError):
    """No such topic is provisioned."""


class TooLarge(BusError):
    """The record is longer than the topic takes."""


class OffsetOutOfRange(BusError):
    """A position is not inside its log: what stood there is gone, or the topic was made anew."""

    def __init__(self, topic: str, text: str) -> None:
        super().__init__(f"{topic}: {text}")
        self.topic = topic


class Denied(BusError):
    """The broker refuses these credentials, or what they ask for."""


class Unreachable(BusError):
    """No answer from the broker; the same again may succeed."""


NOWHERE = -1
"""A reader's position in a topic that cannot be read."""
RecordHandler = Callable[[str, int, bytes], None]
"""Takes (topic, offset, bytes)."""
FailureHandler = Callable[[str, BusError], None]
"""Takes (topic, error)."""


class Stored(NamedTuple):
    """A record, where it stands, and when it was sent, by its sender's clock (seconds since 1970)."""

    offset: int
    value: bytes
    timestamp: float
    key: bytes = b""


def check_position(topic: str, offset: int, span: tuple[int, int]) -> None:
    """Raise OffsetOutOfRange unless a log of that span can be read from `offset` on."""
    first, end = span
    if not first <= offset <= end:
        raise OffsetOutOfRange(topic, f"{offset} is not from {first} to {end}, where its log is")


class Reader(Protocol):
    """Reads some topics until it is closed; made by `Bus.subscribe`."""

    def when_read(self, ends: Mapping[str, int], action: Callable[[], None]) -> None:
        """Do `action` once every record below these offsets was handed on; at once where it was."""

    def close(self) -> None:
        """Hand nothing more on. Not from within a handler of this reader's."""


class Stores(Protocol):
    """Answers what is in a log. Raises UnknownTopic, Denied, Unreachable."""

    def span(self, topic: str) -> tuple[int, int]:
        """Return the log's first offset, and the one that its next record will have."""

    def stored(self, offsets: Mapping[str, int]) -> dict[str, list[Stored]]:
        """Return each topic's records, from its offset to the end that it has now.

        Raises OffsetOutOfRange for an offset that is not inside its log.
        """


class Bus(Stores, Protocol):
    """One process's hold of append-only topics of bytes.

    * A topic is one log. A record gets the next offset; all readers see the same records in the same order,
      at least once each: an older one may come again. Nothing is ordered between topics.
    * A log may lose its oldest records at any time, so it does not begin at 0 for ever. An offset outside it
      is an error, and never means "from the beginning" or "from the end".
    * A send waits for nothing. It is repeated until the log has the record; then it is acknowledged, once.
      What a process has not had acknowledged when it dies, or closes its bus, may be lost; what was
      acknowledged is not.
    * Positions belong to the reader's side: a bus remembers none, and a process that starts says where from.
    * Handlers and acknowledgements are called one at a time, from `send`, from `flush`, or between them by
      the bus's own thread or loop. A handler must return before the next record comes.

    `tests/contracts/test_bus.py` holds every bus to this.
    """

    def send(
        self,
        topic: str,
        value: bytes,
        acknowledged: Callable[[], None] | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append `value`, and then do `acknowledged`. Raises UnknownTopic, TooLarge."""

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until every send is acknowledged, and return whether it is."""

    def subscribe(self, offsets: Mapping[str, int], record: RecordHandler, failed: FailureHandler) -> Reader:
        """Hand every record of these topics on, each topic from its offset.

        `failed` is told once of a topic that cannot be read any more: it yields nothing more. Close the
        reader before the bus. Raises UnknownTopic.
        """

    def close(self) -> None:
        """Let go of the topics: see above for what is not acknowledged yet."""

    def end(self, topic: str) -> int:
        """Return the offset that the next record will have. Raises as `span`."""
        return self.span(topic)[1]

    def read(self, topic: str, offset: int) -> Sequence[bytes]:
        """Return the values from `offset` to the topic's end. Raises as `stored`."""
        return [record.value for record in self.stored({topic: offset})[topic]]
