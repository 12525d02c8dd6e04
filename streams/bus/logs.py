"""Reads a broker's topics: which exist, where a log begins and ends, and its records."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.bus.bus import Denied, Stored, Stores, Unreachable, check_position
from streams.bus.connection import LOGGER, PATIENCE, consumer_settings
from streams.bus.errors import bus_error, is_passing
from streams.bus.handshake import Untrusted, check_own
from streams.bus.probe import SILENT, listens, why_silent
from streams.mesh.settings.brokers import BrokerSettings

_PAUSE = 0.1
SOON = 0.5
"""Seconds that a busy thread waits for an answer."""
LONG = 20.0
"""Seconds that a command waits for a busy broker, which takes a moment to log a user in."""


class Logs(Stores):
    """Requests to one broker. Each raises Unreachable without an answer within `PATIENCE` seconds."""

    def __init__(self, broker: BrokerSettings) -> None:
        self._servers = broker.servers
        # no callbacks: nobody polls between requests, and waiting messages take memory
        self._consumer = Consumer(consumer_settings(broker) | {"log_level": 0})
        self._reading = Lock()

    def close(self) -> None:
        """Disconnect from the broker."""
        self._consumer.close()

    def cluster(self) -> str:
        """Return the id of the broker's cluster: equal for two addresses of one."""
        return str(self._listing().cluster_id)

    def partitions(self, topics: Iterable[str]) -> dict[str, int]:
        """Return each topic's number of partitions. Raises UnknownTopic, Denied."""
        there = self._listing().topics
        counts = {}
        for topic in topics:
            # the list of all topics omits forbidden ones; a request by name gives the reason
            found = there.get(topic) or self._listing(topic).topics[topic]
            if found.error is not None:
                raise bus_error(found.error, topic)
            counts[topic] = len(found.partitions)
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

        Several topics together take no longer than one. Raises UnknownTopic, Denied, OffsetOutOfRange.
        """
        ends = {}
        for topic, offset in offsets.items():
            first, ends[topic] = self.span(topic)
            check_position(topic, offset, (first, ends[topic]))
        found: dict[str, list[Stored]] = {topic: [] for topic in offsets}
        unread = {topic for topic, end in ends.items() if offsets[topic] < end}
        if unread:
            with self._reading:
                self._consumer.assign([TopicPartition(topic, 0, offsets[topic]) for topic in unread])
                try:
                    self._collect(found, unread, ends)
                finally:
                    self._consumer.unassign()
        return found

    def _collect(self, records: dict[str, list[Stored]], unread: set[str], ends: Mapping[str, int]) -> None:
        while unread:
            message = self._consumer.poll(PATIENCE)
            if message is None:
                raise Unreachable(f"{self._servers}: {', '.join(sorted(unread))} cannot be read to the end")
            topic, offset = message.topic(), message.offset()
            if topic not in unread or offset is None:
                continue  # from the client, or from an earlier read
            if not _is_end(message, topic) and offset < ends[topic]:
                value, key = message.value() or b"", message.key() or b""
                records[topic].append(Stored(offset, value, message.timestamp()[1] / 1e3, key))
                offset += 1
            if offset >= ends[topic]:
                unread.discard(topic)

    def _listing(self, topic: str | None = None) -> Any:
        asked = {} if topic is None else {"topic": topic}
        try:
            return self._consumer.list_topics(timeout=PATIENCE, **asked)
        except KafkaException as error:
            told = bus_error(error.args[0], self._servers)
            if isinstance(told, Unreachable):  # the client's own text is for programmers
                told = Unreachable(f"{self._servers}: {SILENT}")
            raise told from None


def _is_end(message: "Message[bytes, bytes]", topic: str) -> bool:
    """Return whether the message marks the end of the log. Raises BusError for any other error."""
    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 # librdkafka's names of local errors
        raise bus_error(error, topic)
    return True


def reach(broker: BrokerSettings) -> str:
    """Return the id of the broker's cluster: equal for two addresses of one.

    Raises Denied for a wrong password or certificate, Unreachable without an answer within `PATIENCE`
    seconds: it says why, as far as can be found out.
    """
    if not broker.verify_host_name:
        _warn_unverified(broker.servers)
    with _denied(broker):
        check_own(broker)
    told: list[KafkaError] = []
    consumer = Consumer(consumer_settings(broker) | {"error_cb": told.append, "log_level": 0})
    try:
        return str(consumer.list_topics(timeout=PATIENCE).cluster_id)
    except KafkaException:
        consumer.poll(0)  # only this reports a refused password
        for failure in [bus_error(error, broker.servers) for error in told]:
            if isinstance(failure, Denied):
                raise failure from None
        with _denied(broker):
            why = why_silent(broker)
        raise Unreachable(f"{broker.servers}: {why}") from None
    finally:
        consumer.close()


def reach_busy(broker: BrokerSettings) -> str:
    """Return as `reach`, which it repeats for `LONG` seconds while somebody listens there, but is slow."""
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
    """Log a warning, once a process."""
    LOGGER.warning("verify_host_name is false: anyone with a certificate of the CA can pose as %s", servers)


def reached(broker: BrokerSettings) -> Logs:
    """Return the logs of a broker that answers. Raises Denied, Unreachable, as `reach`."""
    reach(broker)
    return Logs(broker)


class Stopped(Protocol):
    """Tells whether the process was asked to stop (like `threading.Event`)."""

    def is_set(self) -> bool:
        """Return whether it was asked."""

    def wait(self, timeout: float) -> bool:
        """Wait up to that many seconds, and return whether it was asked."""


def wait_for(broker: BrokerSettings, stopped: Stopped) -> str | None:
    """Wait until the broker answers, however long, and log that once a minute. Raises Denied.

    Returns the id of its cluster, or None if `stopped` was set first.
    """
    while not stopped.is_set():
        try:
            return reach(broker)
        except Unreachable as error:
            LOGGER.warning("waiting for the broker: %s", str(error))  # a kind is a text
            stopped.wait(0.1)
    return None
