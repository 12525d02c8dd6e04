"""Sends records until they are acknowledged.

A send returns at once and never waits for the broker. A refused record is sent again with the same bytes: a
failed delivery report does not prove that the record is missing, and receivers drop duplicates. So a right
that is taken away ends nothing here: it is named once, until it is back.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from itertools import count
from threading import Lock
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.bus.bus import BusError, ClientFailed
from streams.bus.connection import LOGGER, producer_settings
from streams.bus.errors import bus_error, denied, is_denial
from streams.mesh.settings.brokers import BrokerSettings

AGAIN = 1.0
"""Seconds from a refusal to the next attempt."""
MOST = 64 * 2**20
"""Bytes of refused records that may wait: as many as the client's own queue takes."""
_SLICE = 0.1  # seconds that `flush` waits for reports before it sends refused records again


class _Record(NamedTuple):
    number: int  # of the send
    topic: str
    value: bytes
    acknowledged: Callable[[], None] | None
    key: bytes | None


class Sender:
    """One producer. Call `send` from any thread; reports arrive in calls of `serve` or `flush`.

    With `linger` records wait up to that many milliseconds for others to go with.
    """

    def __init__(self, broker: BrokerSettings, largest: int, linger: int = 0) -> None:
        settings = producer_settings(broker, largest, linger) | {"error_cb": self._note}
        self._servers = broker.servers
        self._producer = Producer(settings, logger=LOGGER)
        self._lock = Lock()
        self._numbers = count()  # atomic, so no lock is needed
        self._refused: list[tuple[float, _Record]] = []  # with when to send it again
        self._denied: set[str] = set()  # topics, until a record is taken again
        self._broken: BusError | None = None
        self._closed = False

    def send(
        self, topic: str, value: bytes, acknowledged: Callable[[], None] | None, key: bytes | None = None
    ) -> None:
        """Queue a record. Raises BusError if the producer is full or broken."""
        self._produce(_Record(next(self._numbers), topic, value, acknowledged, key))

    @property
    def waiting(self) -> int:
        """The number of records not acknowledged yet."""
        return len(self._producer) + len(self._refused)

    def serve(self, seconds: float = 0.0) -> None:
        """Handle the available reports, waiting up to `seconds` for one; resend records that are due.

        Raises ClientFailed once the producer has failed for good.
        """
        try:
            self._producer.poll(seconds)
        except KafkaException as error:  # raised in place of a call of `error_cb` where the error is fatal
            self._broken = ClientFailed(f"the producer has failed: {error.args[0].str()}")
            raise self._broken from None
        if self._refused:
            self._send_again()

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all are acknowledged, and return whether they are. Raises as `serve`."""
        until = time.monotonic() + seconds
        while self.waiting:
            left = until - time.monotonic()
            if left <= 0:
                return False
            self.serve(min(left, _SLICE))
        return True

    def close(self) -> None:
        """Drop records not acknowledged, and disconnect."""
        self._closed = True
        self._refused.clear()
        self._producer.purge()
        self._producer.close()

    def _produce(self, record: _Record) -> None:
        if self._broken is not None:
            raise self._broken
        delivered = partial(self._delivered, record)
        try:
            self._producer.produce(record.topic, record.value, record.key, partition=0, on_delivery=delivered)
        except BufferError:
            raise BusError(f"{record.topic}: {self.waiting} records wait for the broker already") from None
        except KafkaException as error:
            if error.args[0].fatal() or error.args[0].code() == KafkaError._FATAL:  # noqa: SLF001 # its name
                raise ClientFailed(f"{record.topic}: the producer has failed") from None
            if not is_denial(error.args[0]):  # it knows of a refusal by now, and does not ask again
                raise bus_error(error.args[0], record.topic) from None
            self._refuse(record, error.args[0])

    def _delivered(self, record: _Record, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._denied.discard(record.topic)
            if record.acknowledged is not None:
                record.acknowledged()
        elif not self._closed:
            self._refuse(record, error)

    def _refuse(self, record: _Record, error: KafkaError) -> None:
        """Keep a record that is to be sent again, and say why."""
        with self._lock:
            self._refused.append((time.monotonic() + AGAIN, record))
            if sum(len(kept_record.value) for _, kept_record in self._refused) > MOST:
                self._broken = BusError(f"{record.topic}: {self.waiting} records wait for the broker already")
            new = record.topic not in self._denied
            if is_denial(error):
                self._denied.add(record.topic)
        if not is_denial(error):
            LOGGER.warning("%s to %s: %s; it is sent again", error.name(), record.topic, error.str())
        elif new:
            words = denied(self._servers, record.topic, "write")
            LOGGER.error("%s; until then its records wait", str(words))  # a kind is a text

    def _send_again(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [record for at, record in self._refused if at <= now]
            self._refused = [entry for entry in self._refused if entry[0] > now]
        for record in sorted(due, key=lambda record: record.number):
            self._produce(record)

    def _note(self, error: KafkaError) -> None:
        LOGGER.warning("%s [%s] %s", error.name(), self._servers, error.str())


# Batches records under load and sends them immediately otherwise. For topics that no round waits on.
#
# A broker's work goes with how often it is woken, not with how many records it takes.

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
        """Queue a record. Raises BusError if the producer is full or broken."""
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
        """Handle the available reports, as `Sender.serve`."""
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
