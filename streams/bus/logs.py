"""Reads a broker's topics: which exist, where a log begins and ends, and its records."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from math import inf
from threading import Lock
from typing import Any, Protocol

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from streams.bus.bus import Denied, Stored, Stores, Unreachable, check_position
from streams.bus.connection import LOGGER, PATIENCE, consumer_settings, log_error
from streams.bus.diagnosis import SILENT, Untrusted, check_own, listens, why_silent
from streams.bus.errors import Cure, bus_error, cure, is_passing
from streams.log_events import LogEvent
from streams.mesh.settings.brokers import BrokerSettings

# Skips records that no client can read, such as a broken or boundless compressed batch.
#
# A batch fails as a whole, at each of its offsets, and the error names its first offset alone. So the reader
# asks for offsets further and further on until one is not in that batch, and then halves the distance. This
# finds the first offset behind the batch, and skips no other record. A batch of one record takes one request,
# a batch of n records about 2 log2(n).


class Gap:
    """The offsets from `first` on of the unreadable batch that begins at `batch`.

    `asked` is the offset to read from next. Report the result by `unreadable` or `readable`. Both return
    whether `asked` is the first offset behind the gap; if it is not, read from it. A log's end counts as
    readable.
    """

    def __init__(self, first: int, batch: int) -> None:
        self.first, self.asked = first, first + 1
        self._batch = batch
        self._last = first  # the highest offset known as of the batch
        self._behind: int | None = None  # the lowest one known as behind it

    def unreadable(self, batch: int) -> bool:
        """Record that the next records, in the batch that begins at `batch`, cannot be read."""
        if batch != self._batch:
            self.asked = max(self._last + 1, min(self.asked, batch))
            return self.readable()
        self._last = self.asked
        if self._behind is not None and self._behind <= self._last:  # the log was replaced meanwhile
            self._behind = None
        self._ask()
        return False

    def readable(self) -> bool:
        """Record that `asked` is not in the batch."""
        if self.asked == self._last + 1:
            return True
        self._behind = self.asked
        self._ask()
        return False

    def _ask(self) -> None:
        if self._behind is None:
            self.asked = 2 * self._last - self.first + 1
        else:
            self.asked = max(self._last + 1, (self._last + self._behind) // 2)


_PAUSE = 0.1
SOON = 0.5
"""Seconds that a busy thread waits for an answer."""
LONG = 20.0
"""Seconds that a command waits for a busy broker, which takes a moment to log a user in."""


def append_time(message: "Message[bytes, bytes]") -> float:
    """Return when the broker appended the message, by its clock; inf if the message has the sender's time."""
    kind, milliseconds = message.timestamp()
    return milliseconds / 1e3 if kind == TIMESTAMP_LOG_APPEND_TIME else inf


class Logs(Stores):
    """Requests to one broker. Each raises Unreachable without an answer within `PATIENCE` seconds.

    `largest`: the bytes of the largest value of all topics (None: not known). `committed`: whether a log ends
    where a transaction is open (its last stable offset), as for the readers of data topics.
    """

    def __init__(
        self, broker: BrokerSettings, largest: int | None = None, *, committed: bool = False
    ) -> None:
        self._servers = broker.servers
        # no callbacks: nobody polls between requests, and waiting messages take memory
        self._consumer = Consumer(consumer_settings(broker, largest, committed=committed) | {"log_level": 0})
        self._reading = Lock()

    def close(self) -> None:
        """Disconnect from the broker."""
        self._consumer.close()

    def cluster(self) -> str:
        """Return the id of the broker's cluster: equal for two addresses of one."""
        return str(self._listing().cluster_id)

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of each topic. Raises UnknownTopic, Denied."""
        listed_topics = self._listing().topics
        counts = {}
        for topic in topics:
            # the list of all topics omits forbidden ones; a request by name gives the reason
            listing = listed_topics.get(topic) or self._listing(topic).topics[topic]
            if listing.error is not None:
                raise bus_error(listing.error, topic)
            counts[topic] = len(listing.partitions)
        return counts

    def span(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the log's first offset, and that of its next record. Raises UnknownTopic."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                first, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE)
            except KafkaException as error:
                if is_passing(error.args[0]) and time.monotonic() < until:
                    time.sleep(_PAUSE)  # the topic is new, or the broker has just come back
                    continue
                self.partitions([topic])  # an unknown topic may be missing, or its broker away
                raise bus_error(error.args[0], topic) from None
            return first, end

    def end(self, topic: str) -> int:
        """Return the offset of the log's next record, or raise Unreachable soon."""
        try:
            return int(self._consumer.get_watermark_offsets(TopicPartition(topic, 0), SOON)[1])
        except KafkaException as error:
            raise Unreachable(f"{topic}: {error.args[0].str()}") from None

    def stored(self, offsets: Mapping[str, int]) -> dict[str, list[Stored]]:
        """Return each topic's records from its offset to its log's current end.

        Consecutive unreadable records are returned as one empty record. Several topics take no longer than
        one.
        Raises UnknownTopic, Denied, OffsetOutOfRange.
        """
        ends = {}
        for topic, offset in offsets.items():
            first, ends[topic] = self.span(topic)
            check_position(topic, offset, (first, ends[topic]))
        reading = _Reading(self._consumer, offsets, ends)
        if reading.unread:
            with self._reading:
                reading.begin()
                try:
                    while reading.unread:
                        self._take(reading)
                finally:
                    self._consumer.unassign()
        return reading.records

    def _take(self, reading: "_Reading") -> None:
        message = self._consumer.poll(PATIENCE)
        if message is None:
            unread = ", ".join(sorted(reading.unread))
            raise Unreachable(f"{self._servers}: {unread} cannot be read to the end")
        topic = message.topic()
        if topic in reading.unread:  # else from the client, or from an earlier read
            reading.take(topic, message)

    def _listing(self, topic: str | None = None) -> Any:
        topic_filter = {} if topic is None else {"topic": topic}
        try:
            return self._consumer.list_topics(timeout=PATIENCE, **topic_filter)
        except KafkaException as error:
            failure = bus_error(error.args[0], self._servers)
            if isinstance(failure, Unreachable):  # the client's own text is for programmers
                failure = Unreachable(f"{self._servers}: {SILENT}")
            raise failure from None


class _Reading:
    """Collects the records of some logs, from `offsets` to `ends`. `unread`: the topics that are left."""

    def __init__(self, consumer: Consumer, offsets: Mapping[str, int], ends: Mapping[str, int]) -> None:
        self._consumer, self._next, self._ends = consumer, dict(offsets), ends
        self._gaps: dict[str, Gap] = {}
        self.records: dict[str, list[Stored]] = {topic: [] for topic in offsets}
        self.unread = {topic for topic, end in ends.items() if offsets[topic] < end}

    def begin(self) -> None:
        """Read from the offsets on."""
        self._consumer.assign([TopicPartition(topic, 0, self._next[topic]) for topic in self.unread])

    def take(self, topic: str, message: "Message[bytes, bytes]") -> None:
        """Handle a message on an unread topic. Raises BusError for an error that does not pass."""
        error, offset = message.error(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 # librdkafka's name
            self._heal(topic, error, offset)
        elif offset is not None and self._is_past_gap(topic):
            if error is None:
                value, key = message.value() or b"", message.key() or b""
                self._add(
                    topic, Stored(offset, value, message.timestamp()[1] / 1e3, key, append_time(message))
                )
            self._reach(topic, offset if error else offset + 1)

    def _heal(self, topic: str, error: KafkaError, offset: int | None) -> None:
        remedy = cure(error)
        if remedy is Cure.SKIP:
            self._skip(topic, error, offset)
        elif remedy is not Cure.WAIT and (remedy is not Cure.SEEK or self._is_past_gap(topic)):
            raise bus_error(error, topic)

    def _skip(self, topic: str, error: KafkaError, offset: int | None) -> None:
        """Skip records that cannot be read. `offset`: where their batch begins."""
        gap = self._gaps.get(topic)
        if gap is not None and gap.unreadable(gap.asked if offset is None else offset):
            self._leave(topic, gap)
            gap = None
        if gap is None:
            first = max(self._next[topic], offset or 0)
            gap = self._gaps[topic] = Gap(first, first if offset is None else offset)
            log_error(error, topic)
        self._move(topic, gap.asked)

    def _is_past_gap(self, topic: str) -> bool:
        gap = self._gaps.get(topic)
        if gap is None:
            return True
        if not gap.readable():
            self._move(topic, gap.asked)
            return False
        self._leave(topic, gap)
        return True

    def _leave(self, topic: str, gap: Gap) -> None:
        del self._gaps[topic]
        self._add(topic, Stored(gap.first, b"", 0.0))
        self._reach(topic, gap.asked)

    def _move(self, topic: str, offset: int) -> None:
        self._consumer.incremental_unassign([TopicPartition(topic, 0)])
        self._consumer.incremental_assign([TopicPartition(topic, 0, offset)])

    def _add(self, topic: str, record: Stored) -> None:
        if record.offset < self._ends[topic]:
            self.records[topic].append(record)

    def _reach(self, topic: str, offset: int) -> None:
        self._next[topic] = offset
        if offset >= self._ends[topic]:
            self.unread.discard(topic)


def reach(broker: BrokerSettings) -> str:
    """Return the id of the broker's cluster. Two addresses of one cluster give the same id.

    Raises Denied for a wrong password or certificate, Unreachable without an answer within `PATIENCE`
    seconds. Its text gives the reason, as far as it can be found out.
    """
    if not broker.verify_host_name:
        _warn_unverified(broker.servers)
    with _denied(broker):
        check_own(broker)
    client_errors: list[KafkaError] = []
    consumer = Consumer(consumer_settings(broker) | {"error_cb": client_errors.append, "log_level": 0})
    try:
        return str(consumer.list_topics(timeout=PATIENCE).cluster_id)
    except KafkaException:
        consumer.poll(0)  # only this reports a refused password
        for failure in [bus_error(error, broker.servers) for error in client_errors]:
            if isinstance(failure, Denied):
                raise failure from None
        with _denied(broker):
            reason = why_silent(broker)
        raise Unreachable(f"{broker.servers}: {reason}") from None
    finally:
        consumer.close()


def reach_busy(broker: BrokerSettings) -> str:
    """Return as `reach`; repeat it for up to `LONG` seconds while a server listens there but is slow."""
    until = time.monotonic() + LONG
    while True:
        try:
            return reach(broker)
        except Unreachable as error:
            slow = str(error).endswith(SILENT) and listens(broker)
            if not slow or time.monotonic() > until:
                raise


@contextmanager
def _denied(broker: BrokerSettings) -> Iterator[None]:
    try:
        yield
    except Untrusted as error:
        raise Denied(f"{broker.servers}: {error}") from None


@cache
def _warn_unverified(servers: str) -> None:
    """Log a warning, once in a process."""
    text = "verify_host_name is false: anyone with a certificate of the CA can pose as %s"
    LOGGER.warning(text, servers, extra=LogEvent.HOST_UNVERIFIED.of())


def reached(broker: BrokerSettings) -> Logs:
    """Return a broker's logs once it answers. Raises Denied, Unreachable, as `reach`."""
    reach(broker)
    return Logs(broker)


class Stopped(Protocol):
    """Whether the process was asked to stop (like `threading.Event`)."""

    def is_set(self) -> bool:
        """Return whether the process was asked to stop."""

    def wait(self, timeout: float) -> bool:
        """Wait up to that many seconds, and return whether the process was asked to stop."""


def wait_for(broker: BrokerSettings, stopped: Stopped) -> str | None:
    """Wait until the broker answers, however long, and log that once a minute. Raises Denied.

    Returns the id of its cluster, or None if `stopped` was set first.
    """
    while not stopped.is_set():
        try:
            return reach(broker)
        except Unreachable as error:
            text = str(error)  # RateLimited compares texts
            LOGGER.warning("waiting for the broker: %s", text, extra=LogEvent.BROKER_AWAY.of())
            stopped.wait(0.1)
    return None
