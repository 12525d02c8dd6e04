"""What a mesh needs of a broker: append-only topics, read in order from any offset.

Order holds within a topic. Delivery is at least once. Errors are the sender's: `UnknownTopic`, `TooLarge`.
"""

from collections.abc import Sequence
from typing import Protocol


class BusError(Exception):
    """The bus cannot do what was asked."""


class UnknownTopic(BusError):
    """No such topic is provisioned."""


class TooLarge(BusError):
    """The record is longer than the topic takes."""


class Bus(Protocol):
    """Topics of bytes, one partition each."""

    def send(self, topic: str, value: bytes) -> None:
        """Append `value`. Raises UnknownTopic, TooLarge."""

    def end(self, topic: str) -> int:
        """Return the offset that the next record will have. Raises UnknownTopic."""

    def read(self, topic: str, offset: int) -> Sequence[bytes]:
        """Return the records from `offset` to the topic's end. Raises UnknownTopic."""
