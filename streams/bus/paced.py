"""Sends records at once while they are few, and together while they are many: for what no round waits for.

A broker's work goes with how often it is woken, not with how many records it takes.
"""

import time
from collections import deque
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

    Order holds: it changes from one to the other only while everything is acknowledged. `make` returns a
    sender that waits that many milliseconds; `clock` is monotonic.
    """

    def __init__(self, make: Callable[[int], Sender], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self._at_once = self._sender = make(0)
        self._together: Sender | None = None
        self._sent = deque[float](maxlen=_COUNTED)

    @classmethod
    def of(cls, broker: BrokerSettings, largest: int) -> "PacedSender":
        """Return one that sends records of up to `largest` bytes to this broker."""
        return cls(lambda linger: Sender(broker, largest, linger))

    def send(
        self, topic: str, value: bytes, acknowledged: Callable[[], None] | None, key: bytes | None = None
    ) -> None:
        """Take a record, and the available reports. Raises BusError if the producer is full or broken."""
        self._sender.serve()
        if not self._sender.waiting:
            self._choose()
        self._sender.send(topic, value, acknowledged, key)
        self._sent.append(self._clock())

    @property
    def waiting(self) -> int:
        """The number of records not acknowledged yet."""
        return self._sender.waiting

    def serve(self, seconds: float = 0.0) -> None:
        """Take the available reports, as `Sender.serve`."""
        self._sender.serve(seconds)

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all are acknowledged, and return whether they are."""
        return self._sender.flush(seconds)

    def close(self) -> None:
        """Drop records not acknowledged, and disconnect."""
        self._at_once.close()
        if self._together is not None:
            self._together.close()

    def _choose(self) -> None:
        full = len(self._sent) == _COUNTED
        if full and MANY * (self._clock() - self._sent[0]) <= _COUNTED:
            if self._together is None:
                self._together = self._make(TOGETHER)
            self._sender = self._together
        else:
            self._sender = self._at_once
