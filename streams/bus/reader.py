"""Reads topics in one thread and hands on every record, in the order of its topic.

The caller gives positions; the broker stores none. There is no group, so nothing is ever rebalanced.
"""

from collections.abc import Callable, Mapping
from threading import Event, Lock, Thread

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from streams.bus.bus import NOWHERE, BusError, FailureHandler, Reader, RecordHandler, Unreachable
from streams.bus.connection import LOGGER, consumer_settings
from streams.bus.denials import denied
from streams.bus.errors import bus_error, is_denial
from streams.mesh.settings.brokers import BrokerSettings

POLL = 0.2
"""Seconds that the thread waits for a record before it checks whether to stop."""
MOST = 64
"""Largest number of records taken at once, between two rounds of acknowledgements."""
_HARMLESS = {KafkaError.GROUP_AUTHORIZATION_FAILED}  # there is no group, and it reads anyway


class KafkaReader(Reader):
    """Reads every topic of `offsets` from its offset on, until it is closed.

    `record` and `failed` are called in the reader's thread; nothing is read meanwhile. `failed` takes (topic,
    error) once for OffsetOutOfRange, Denied or UnknownTopic: the topic yields nothing more until `move`. Any
    other BusError ends the thread. An unreachable broker is not a failure: reading continues when it is back.
    `between` is called after the records that are there together, and at least every `POLL` seconds.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        offsets: Mapping[str, int],
        record: RecordHandler,
        failed: FailureHandler,
        between: Callable[[], None],
    ) -> None:
        self._servers = broker.servers
        self._record, self._failed, self._between = record, failed, between
        self._positions = dict(offsets)
        self._moves: dict[str, int] = {}
        self._awaited: list[tuple[Mapping[str, int], Callable[[], None]]] = []
        self._lock = Lock()
        self._stopped = Event()
        self._consumer = Consumer(consumer_settings(broker) | {"error_cb": self._note}, logger=LOGGER)
        self._consumer.assign([TopicPartition(topic, 0, offset) for topic, offset in offsets.items()])
        self._thread = Thread(target=self._read, name="mesh-reader")
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether its thread is there. From any thread."""
        return self._thread.is_alive()

    def position(self, topic: str) -> int:
        """Return the next offset: all records below it were handed on. NOWHERE after a failure."""
        return self._positions[topic]

    def when_read(self, ends: Mapping[str, int], action: Callable[[], None]) -> None:
        """Do `action` once all records below these offsets were handed on: at once, or in the thread."""
        with self._lock:
            if not self._is_read(ends):
                self._awaited.append((ends, action))
                return
        action()

    def move(self, topic: str, offset: int) -> None:
        """Read the topic from that offset on, even after a failure."""
        with self._lock:
            self._moves[topic] = self._positions[topic] = offset

    def close(self) -> None:
        """Stop reading. Do not call it in the reader's own thread."""
        self._stopped.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        try:
            while not self._stopped.is_set():
                self._read_once()
        except Exception as error:  # noqa: BLE001 # a process must not continue without its reader
            said = str(error) if isinstance(error, BusError) else type(error).__name__
            self._failed("the mesh broker", BusError(f"reading has failed: {said}"))

    def _read_once(self) -> None:
        if self._moves:
            self._move()
        first = self._consumer.poll(POLL)
        if first is not None:
            self._take(first)
            for message in self._consumer.consume(MOST, 0):  # with a time it would wait for as many
                if message.topic() not in self._moves:
                    self._take(message)
        self._between()

    def _move(self) -> None:
        with self._lock:
            moves, self._moves = self._moves, {}
        self._consumer.incremental_unassign([TopicPartition(topic, 0) for topic in moves])
        self._consumer.incremental_assign([TopicPartition(topic, 0, at) for topic, at in moves.items()])

    def _take(self, message: "Message[bytes, bytes]") -> None:
        error, topic, offset = message.error(), message.topic(), message.offset()
        if error is None and topic is not None and offset is not None:
            self._record(topic, offset, message.value() or b"")
            self._advance(topic, offset + 1)
        elif error is not None and topic is not None and offset is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 # librdkafka's names of local errors
                self._advance(topic, offset)
            else:
                self._fail(topic, error)
        elif error is not None:
            self._note(error)

    def _advance(self, topic: str, offset: int) -> None:
        with self._lock:
            if topic in self._moves:
                return
            self._positions[topic] = offset
            if not self._awaited:
                return
            done = [action for ends, action in self._awaited if self._is_read(ends)]
            self._awaited = [entry for entry in self._awaited if not self._is_read(entry[0])]
        for action in done:
            action()

    def _is_read(self, ends: Mapping[str, int]) -> bool:
        return all(self._positions[topic] >= end for topic, end in ends.items())

    def _note(self, error: KafkaError) -> None:
        """Take an error of the client, or of a topic if its text begins with `<topic> [<partition>]`."""
        topic, bracket, _ = error.str().partition(" [")
        if bracket and topic in self._positions:
            self._fail(topic, error)
        elif error.code() not in _HARMLESS and not isinstance(bus_error(error, ""), Unreachable):
            LOGGER.warning("%s [reader] %s", error.name(), error.str())

    def _fail(self, topic: str, error: KafkaError) -> None:
        refused = is_denial(error)
        failure = denied(self._servers, topic, "read") if refused else bus_error(error, topic)
        if isinstance(failure, Unreachable):  # librdkafka logs it
            return
        with self._lock:
            if topic in self._moves or self._positions[topic] == NOWHERE:
                return
            self._positions[topic] = NOWHERE
        if not refused:  # the failure says all
            LOGGER.warning("%s [%s] %s", error.name(), topic, error.str())
        self._failed(topic, failure)
