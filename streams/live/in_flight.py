"""What was sent and is not acknowledged: counted without a lock: each number has one writer at a time."""


class InFlight:
    """The machine counts, in its turn, what it sends, the reader's thread what the broker has."""

    def __init__(self) -> None:
        self._sent = self._acknowledged = 0

    @property
    def none(self) -> bool:
        """Whether the broker has all."""
        return self._acknowledged == self._sent

    def sent(self) -> None:
        """Count one that was sent."""
        self._sent += 1

    def acknowledged(self) -> None:
        """Count one that the broker has."""
        self._acknowledged += 1
