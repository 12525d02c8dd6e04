"""The bus on Apache Kafka, with some further requests of live processes.

Threads: `send` may be called from any thread. The callbacks for acknowledgements, records and failures run in
the reader's thread, or in calls of `flush`. Requests (`span`, `end`, `read`, `stored`) block for up to three
seconds, then raise Unreachable.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import count
from threading import Lock
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.bus.bus import (
    Bus,
    BusError,
    ClientFailed,
    FailureHandler,
    RecordHandler,
    Stored,
    TooLarge,
    UnknownTopic,
)
from streams.bus.connection import LOGGER, log_error, producer_settings
from streams.bus.errors import bus_error, denied, is_denial
from streams.bus.logs import Logs
from streams.bus.reader import KafkaReader
from streams.log_events import LogEvent
from streams.mesh.settings.brokers import BrokerSettings

# Sends records until they are acknowledged.
#
# A send returns at once and never waits for the broker. A refused record is sent again with the same bytes: a
# failed delivery report does not prove that the record is missing, and receivers drop duplicates. So a
# revoked right does not end the sender. The right is logged once, and its records wait until it is back.

AGAIN = 1.0
"""Seconds from a refusal to the next attempt."""
MOST = 64 * 2**20
"""Bytes of refused records that may wait: as many as the client's own queue may have."""
_SLICE = 0.1  # seconds that `flush` waits for reports before it sends refused records again


class _Record(NamedTuple):
    number: int  # of the send
    topic: str
    value: bytes
    acknowledged: Callable[[], None] | None
    key: bytes | None


class Sender:
    """One producer. Call `send` from any thread; reports arrive in calls of `serve` or `flush`.

    `linger` and `batches` as in `producer_settings`.
    """

    def __init__(
        self, broker: BrokerSettings, largest: int, linger: int = 0, *, batches: bool = False
    ) -> None:
        settings = producer_settings(broker, largest, linger, batches=batches) | {"error_cb": self._note}
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
            seconds_left = until - time.monotonic()
            if seconds_left <= 0:
                return False
            self.serve(min(seconds_left, _SLICE))
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
            if not is_denial(error.args[0]):  # the client remembers a refusal
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
        """Keep a record that is to be sent again, and log why."""
        with self._lock:
            self._refused.append((time.monotonic() + AGAIN, record))
            if sum(len(kept_record.value) for _, kept_record in self._refused) > MOST:
                self._broken = BusError(f"{record.topic}: {self.waiting} records wait for the broker already")
            new = record.topic not in self._denied
            if is_denial(error):
                self._denied.add(record.topic)
        if not is_denial(error):
            text = "%s to %s: %s; it is sent again"
            LOGGER.warning(text, error.name(), record.topic, error.str(), extra=LogEvent.SENT_AGAIN.of())
        elif new:
            words = denied(self._servers, record.topic, "write")
            text = "%s; until then its records wait"
            LOGGER.error(text, str(words), extra=LogEvent.ACCESS_DENIED.of())  # RateLimited compares texts

    def _send_again(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [record for at, record in self._refused if at <= now]
            self._refused = [entry for entry in self._refused if entry[0] > now]
        for record in sorted(due, key=lambda record: record.number):
            self._produce(record)

    def _note(self, error: KafkaError) -> None:
        log_error(error, self._servers)


# Batches records under load and sends them immediately otherwise. For topics that no round waits on.
#
# A broker's work depends on the number of requests, not on the number of records in them.

TOGETHER = 5
"""Milliseconds that a record waits for the ones after it, while they are many."""
MANY = 50.0
"""Records a second from which on a record waits for later ones."""
_COUNTED = 8
"""Intervals between sends over which the rate is measured."""


class PacedSender:
    """A sender with an immediate producer and a batching one, which is made at the first high rate.

    Order holds within a topic, because a topic changes its producer only while all records of that topic are
    acknowledged. Other topics of the same sender do not delay this. `make` returns a sender that waits the
    given number of milliseconds; `clock` is monotonic.
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
        """Return a paced sender of records of up to `largest` bytes to this broker."""
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


# The bus: what is sent and what is read, behind one interface.


class KafkaBus(Bus):
    """Topics of one partition on one broker. Close it when done.

    Raises UnknownTopic or Denied for the first of `topics` that is missing, Unreachable if the broker is.
    Create the bus half a second before the first send. Otherwise that send waits half a second for the
    producer's id.

    Parameters
    ----------
    broker : BrokerSettings
        How to reach it.
    topics : mapping of str to int
        All topics to send to or subscribe to, each with the bytes of its longest value (TopicSpec.largest).
    paced : bool
        Whether records are batched while they are many (PacedSender).
    batches : bool
        Whether records that are sent together go in one request. A refused record then fails all of them.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        topics: Mapping[str, int],
        *,
        paced: bool = False,
        batches: bool = False,
    ) -> None:
        self._broker, self._topics = broker, dict(topics)
        self._largest = max(self._topics.values(), default=0)
        self._logs = Logs(broker, self._largest)
        try:
            self._logs.partitions(self._topics)
        except BusError:
            self._logs.close()
            raise
        self._sender = (
            PacedSender.of(broker, self._largest) if paced else Sender(broker, self._largest, batches=batches)
        )

    def send(
        self,
        topic: str,
        value: bytes,
        acknowledged: Callable[[], None] | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append `value`, repeated until the broker has it, without waiting. Then call `acknowledged`.

        Order holds within a topic, except for records refused at first. Raises UnknownTopic, TooLarge.
        """
        largest = self.largest(topic)
        if len(value) > largest:
            raise TooLarge(f"{len(value)} bytes for {topic}: at most {largest} are allowed")
        self._sender.send(topic, value, acknowledged, key)

    def largest(self, topic: str) -> int:
        """Return the bytes of the longest value that the topic takes. Raises UnknownTopic."""
        self._check(topic)
        return self._topics[topic]

    @property
    def waiting(self) -> int:
        """The number of records sent and not yet acknowledged."""
        return self._sender.waiting

    def serve(self, seconds: float = 0.0) -> None:
        """Handle acknowledgements, waiting up to `seconds` for the first. For a bus without a reader."""
        self._sender.serve(seconds)

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all sends are acknowledged, and return whether they are."""
        return self._sender.flush(seconds)

    def span(self, topic: str) -> tuple[int, int]:
        """Return the log's first offset, and that of its next record. It may be any topic of the broker."""
        return self._logs.span(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the offset of each topic's next record.

        Raises Unreachable after half a second without an answer, or another error of the broker.
        """
        return {topic: self._logs.end(topic) for topic in topics}

    def stored(self, offsets: Mapping[str, int]) -> dict[str, list[Stored]]:
        """Return each topic's records from its offset to the end. They may be any topics of the broker."""
        return self._logs.stored(offsets)

    def subscribe(
        self,
        offsets: Mapping[str, int],
        record: RecordHandler,
        failed: FailureHandler,
        *,
        lossy: Collection[str] = (),
    ) -> KafkaReader:
        """Read these topics from now on (see KafkaReader). Close the reader before the bus."""
        for topic in offsets:
            self._check(topic)
        serve, largest = self._sender.serve, self._largest
        return KafkaReader(self._broker, offsets, record, failed, serve, largest=largest, lossy=lossy)

    def close(self) -> None:
        """Disconnect. Records not acknowledged may be lost: call `flush` before."""
        self._sender.close()
        self._logs.close()

    def _check(self, topic: str) -> None:
        if topic not in self._topics:
            raise UnknownTopic(f"no topic {topic}")
