"""Reads topics in one thread and hands on every record, in the order of its topic.

The caller gives positions; the broker stores none. There is no group, so nothing is ever rebalanced. Every
error passes, is got around, or fails a topic: `streams/bus/errors.py` says which.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from threading import Event, Lock, Thread

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.bus.bus import (
    NOWHERE,
    BusError,
    ClientFailed,
    FailureHandler,
    Reader,
    RecordHandler,
    Unreachable,
)
from streams.bus.connection import LOGGER, consumer_settings, log_error
from streams.bus.errors import Cure, bus_error, cure, denied, is_denial
from streams.bus.logs import SOON, Gap, append_time
from streams.log_events import LogEvent
from streams.mesh.settings.brokers import BrokerSettings

# Finds topics that have been silent for so long that the reader checks whether its client still reads them.
#
# A client may wait for ever on a topic that was deleted and recreated: it mistakes the new topic's leader for
# an outdated one, and reports nothing.

LOOK = 5.0
"""Seconds without a record, or since the last check, after which a topic is checked."""


class Silent:
    """The silence of some topics, by a monotonic `clock` in seconds. For one thread."""

    def __init__(self, topics: Iterable[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = dict.fromkeys(topics, clock())
        self._behind: dict[str, int] = {}  # positions, of topics not at their end

    def heard(self, topic: str) -> None:
        """Record that the client has reported something about the topic."""
        self._since[topic] = self._clock()
        self._behind.pop(topic, None)

    def due(self) -> str | None:
        """Return the topic to check now, the one of the longest silence; None if no check is due."""
        topic = min(self._since, key=self._since.__getitem__)
        return topic if self._clock() - self._since[topic] >= LOOK else None

    def put_off(self) -> None:
        """Check no topic for a while, as the broker does not answer."""
        self._since = dict.fromkeys(self._since, self._clock())
        self._behind.clear()

    def is_deaf(self, topic: str, position: int, end: int) -> bool:
        """Return whether two checks in a row saw the reader at `position`, short of the log's `end`."""
        before = self._behind.get(topic)
        self.heard(topic)
        if position != end:
            self._behind[topic] = position
        return position != end and position == before


POLL = 0.2
"""Seconds that the thread waits for a record before it checks whether to stop."""
WAIT = 500
"""Milliseconds that the broker may wait for a record. It answers at once when a record comes."""
MOST = 64
"""Largest number of records taken at once, between two rounds of acknowledgements."""
ALL = "the mesh broker"
"""What fails where an error names no topic."""


class KafkaReader(Reader):
    """Reads every topic of `offsets` from its offset on, until it is closed.

    `record` and `failed` are called in the reader's thread; nothing is read meanwhile. `failed` takes (topic,
    error) once for OffsetOutOfRange, Denied or UnknownTopic: the topic yields nothing more until `move`. Any
    other BusError ends the thread. An unreachable broker is not a failure: reading continues when it is back.
    `between` is called after each batch of records, and at least every `POLL` seconds.

    `largest`: the bytes of the largest value of all topics (None: not known). `lossy`: as `Bus.subscribe`.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        offsets: Mapping[str, int],
        record: RecordHandler,
        failed: FailureHandler,
        between: Callable[[], None],
        *,
        largest: int | None = None,
        lossy: Collection[str] = (),
    ) -> None:
        self._servers, self._lossy = broker.servers, frozenset(lossy)
        self._record, self._failed, self._between = record, failed, between
        self._positions = dict(offsets)
        self._moves: dict[str, int] = {}
        self._gaps: dict[str, Gap] = {}
        self._outside: dict[str, KafkaError] = {}  # topics whose log is to be looked at
        self._silent = Silent(offsets, time.monotonic)
        self._broken = False
        self._awaited: list[tuple[Mapping[str, int], Callable[[], None]]] = []
        self._lock = Lock()
        self._stopped = Event()
        settings = consumer_settings(broker, largest) | {"error_cb": self._note, "fetch.wait.max.ms": WAIT}
        self._consumer = Consumer(settings, logger=LOGGER)
        self._consumer.assign([TopicPartition(topic, 0, offset) for topic, offset in offsets.items()])
        self._thread = Thread(target=self._read, name="mesh-reader")
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the reader's thread runs. Call it from any thread."""
        return self._thread.is_alive()

    def position(self, topic: str) -> int:
        """Return the next offset; all records below it were handed on. NOWHERE after a failure."""
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
            self._gaps.pop(topic, None)
            self._outside.pop(topic, None)

    def close(self) -> None:
        """Stop reading. Do not call it in the reader's own thread."""
        self._stopped.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        try:
            while not self._stopped.is_set():
                self._read_once()
        except ClientFailed as failed:
            self._failed(ALL, failed)
        except Exception as error:  # noqa: BLE001 # a process must not continue without its reader
            reason = str(error) if isinstance(error, BusError) else type(error).__name__
            self._failed(ALL, BusError(f"reading has failed: {reason}"))

    def _read_once(self) -> None:
        if self._moves:
            self._move()
        first = self._consumer.poll(POLL)
        if first is not None:
            self._take(first)
            for message in self._consumer.consume(MOST, 0):  # with a time-out it would wait for that many
                if message.topic() not in self._moves:
                    self._take(message)
        elif self._positions and (silent := self._silent.due()):
            self._listen(silent)
        for topic in tuple(self._outside):
            self._look(topic)
        self._between()

    def _move(self) -> None:
        with self._lock:
            moves, self._moves = self._moves, {}
        self._consumer.incremental_unassign([TopicPartition(topic, 0) for topic in moves])
        self._consumer.incremental_assign([TopicPartition(topic, 0, at) for topic, at in moves.items()])

    def _take(self, message: "Message[bytes, bytes]") -> None:
        error, topic, offset = message.error(), message.topic(), message.offset()
        if topic is not None:
            self._silent.heard(topic)
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 # librdkafka's name
            self._heal(error, topic, offset)
        elif topic is None or offset is None or self._positions[topic] == NOWHERE:  # it has failed
            return
        elif self._is_past_gap(topic):
            if error is None:
                self._record(topic, offset, message.value() or b"", append_time(message))
            self._advance(topic, offset if error else offset + 1)

    def _advance(self, topic: str, offset: int) -> None:
        with self._lock:
            if topic in self._moves:
                return
            self._positions[topic] = offset
            if not self._awaited:
                return
            due_actions = [action for ends, action in self._awaited if self._is_read(ends)]
            self._awaited = [entry for entry in self._awaited if not self._is_read(entry[0])]
        for action in due_actions:
            action()

    def _is_read(self, ends: Mapping[str, int]) -> bool:
        return all(self._positions[topic] >= end for topic, end in ends.items())

    # ------------------------------------------------------------------------------------------- errors

    def _note(self, error: KafkaError) -> None:
        """Handle an error of the client, or of a topic if its text begins with `<topic> [<partition>]`."""
        topic, bracket, _ = error.str().partition(" [")
        self._heal(error, topic if bracket else None, None)

    def _heal(self, error: KafkaError, topic: str | None, offset: int | None) -> None:
        """React to an error as `cure` says; `topic` None: the error concerns all topics."""
        remedy = cure(error)
        if remedy is Cure.WAIT:
            _report(error, topic)
        elif topic is None or topic not in self._positions:
            self._break(error)
        elif self._positions[topic] == NOWHERE:  # reported before
            return
        elif remedy is Cure.SKIP:
            self._skip(topic, error, offset)
        elif remedy is Cure.SEEK and self._is_past_gap(topic):
            self._outside[topic] = error
        elif remedy is Cure.END:
            self._fail(topic, error)

    def _skip(self, topic: str, error: KafkaError, offset: int | None) -> None:
        """Find the way around records that cannot be read; `offset`: where their batch begins."""
        gap = self._gaps.get(topic)
        if gap is not None and gap.unreadable(gap.asked if offset is None else offset):
            self._leave(topic, gap)
            gap = None
        if topic in self._moves:
            return
        if gap is None:
            first = max(self._positions[topic], offset or 0)
            gap = self._gaps[topic] = Gap(first, first if offset is None else offset)
            log_error(error, topic)
        with self._lock:
            self._moves[topic] = gap.asked

    def _leave(self, topic: str, gap: Gap) -> None:
        """Hand on an unreadable batch as one empty record, which all decoders refuse; continue behind it."""
        self._gaps.pop(topic, None)  # `move` may have removed it
        self._record(topic, gap.first, b"", inf)
        self._advance(topic, gap.asked)

    def _is_past_gap(self, topic: str) -> bool:
        """Record that a record can be read; return whether to hand it on."""
        gap = self._gaps.get(topic)
        if gap is None:
            return True
        if not gap.readable():
            with self._lock:
                self._moves[topic] = gap.asked
            return False
        self._leave(topic, gap)
        return topic not in self._moves

    def _look(self, topic: str) -> None:
        """Find why a position is outside its log. If the topic is lossy, continue at the log's beginning."""
        first = None
        if topic in self._lossy:
            try:
                first, _ = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), SOON)
            except KafkaException as failed:
                if cure(failed.args[0]) is Cure.WAIT:  # a later call asks again
                    return
        with self._lock:
            error, position = self._outside.pop(topic, None), self._positions[topic]
        if error is None:  # it was moved
            return
        if first is None or position >= first:  # or the log has lost its end, which a start mends
            self._fail(topic, error)
            return
        lost_count = first - position
        text = "%s [%s] %d records were deleted before they were read"
        LOGGER.warning(text, error.name(), topic, lost_count, extra=LogEvent.RECORDS_DELETED.of())
        with self._lock:
            self._moves[topic] = self._positions[topic] = first

    def _listen(self, topic: str) -> None:
        """Check whether a silent topic has records that the client does not return."""
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, 0), SOON)
        except KafkaException:  # the client itself reports lasting errors
            self._silent.put_off()
            return
        position = self._positions[topic]
        waits = topic in self._moves or topic in self._gaps or topic in self._outside
        if self._silent.is_deaf(topic, position, end) and not waits and position != NOWHERE:
            detail = f"stands at {position} for ever, and the log ends at {end}: it may be another one"
            self._fail(topic, KafkaError(KafkaError.OFFSET_OUT_OF_RANGE, detail))

    def _fail(self, topic: str, error: KafkaError) -> None:
        refused = is_denial(error)
        failure = denied(self._servers, topic, "read") if refused else bus_error(error, topic)
        with self._lock:
            if topic in self._moves or self._positions[topic] == NOWHERE:
                return
            self._positions[topic] = NOWHERE
        if not refused:  # the failure says all
            log_error(error, topic)
        self._failed(topic, failure)

    def _break(self, error: KafkaError) -> None:
        """Handle an error after which nothing can be read."""
        if not self._broken and not self._stopped.is_set():
            self._broken = True
            log_error(error, "reader")
            self._failed(ALL, bus_error(error, self._servers))


def _report(error: KafkaError, topic: str | None) -> None:
    """Log a temporary error, unless the client logs it."""
    harmless = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED  # there is no group, and it reads anyway
    if not harmless and not isinstance(bus_error(error, ""), Unreachable):
        log_error(error, topic or "reader")
