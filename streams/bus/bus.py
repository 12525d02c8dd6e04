"""What a bus may answer. What it does: append-only topics of bytes, read in order from any offset.

Order holds within a topic. Delivery is at least once. Errors are the sender's: `UnknownTopic`, `TooLarge`.
Every bus keeps `tests/contracts/test_bus.py`.
"""


class BusError(Exception):
    """The bus cannot do what was asked."""


class UnknownTopic(BusError):
    """No such topic is provisioned."""


class TooLarge(BusError):
    """The record is longer than the topic takes."""
