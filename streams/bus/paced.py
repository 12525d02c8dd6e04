"""Sends records at once while they are few, and together while they are many: for what no round waits for.

A broker's work goes with how often it is woken, not with how many records it takes.
"""

import time
from collections import Counter, deque
from collections.abc import Callable

from streams.bus.sender import Sender
from streams.mesh.settings.brokers import BrokerSettings

TOGETHER = 5
"""Milliseconds that a record waits for the ones after it, while they are many."""
MANY = 50.0
"""Records a second from which on they wait."""
_COUNTED = 8
"""Intervals between sends that the rate is taken of."""


class PacedSender:
    """A sender with two producers, of which the second, which waits, is made once records are many.

    Order holds within a topic: a topic changes from one to the other only while all its own records are
    acknowledged, so topics that share a sender do not hold each other back. `make` returns a sender that
    waits that many milliseconds; `clock` is monotonic.
    """

    def __init__(self, make: Callable[[int], Sender], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self._at_once = make(0)
        self._together: Sender | None = None
        self._of: dict[str, Sender] = {}  # by topic
        self._open = Counter[str]()
        self._sent = deque[float](maxlen=_COUNTED)

    @classmethod
    def of(cls, broker: BrokerSettings, largest: int) -> "PacedSender":
        """Return one that sends records of up to `largest` bytes to this broker."""
        return cls(lambda linger: Sender(broker, largest, linger))

    def send(
        self, topic: str, value: bytes, acknowledged: Callable[[], None] | None, key: bytes | None = None
    ) -> None:
        """Take a record, and the available reports. Raises BusError if the producer is full or broken."""
        self.serve()
        if not self._open[topic]:
            self._of[topic] = self._chosen()

        def taken() -> None:
            self._open[topic] -= 1
            if acknowledged is not None:
                acknowledged()

        self._of[topic].send(topic, value, taken, key)
        self._open[topic] += 1
        self._sent.append(self._clock())

    @property
    def waiting(self) -> int:
        """The number of records not acknowledged yet."""
        return sum(sender.waiting for sender in self._made)

    def serve(self, seconds: float = 0.0) -> None:
        """Take the available reports, as `Sender.serve`."""
        for sender in self._made:
            sender.serve(seconds)

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` for each producer until all are acknowledged, and return whether they are."""
        flushed = [sender.flush(seconds) for sender in self._made]
        return all(flushed)

    def close(self) -> None:
        """Drop records not acknowledged, and disconnect."""
        for sender in self._made:
            sender.close()

    @property
    def _made(self) -> tuple[Sender, ...]:
        return (self._at_once,) if self._together is None else (self._at_once, self._together)

    def _chosen(self) -> Sender:
        full = len(self._sent) == _COUNTED
        if not (full and MANY * (self._clock() - self._sent[0]) <= _COUNTED):
            return self._at_once
        if self._together is None:
            self._together = self._make(TOGETHER)
        return self._together
