"""Checks a data topic before a feed, and finds the lines that it holds.

A feed writes line n to offset n - 1 of partition 0, and nobody else writes there. So missing or repeated
lines, and other writers' records, are found at once: those of open and aborted transactions too, as they take
offsets. So it alone reads a data topic uncommitted.
"""

from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from streams.bus.admin import Admin
from streams.bus.bus import Unreachable
from streams.bus.connection import PATIENCE, consumer_settings
from streams.bus.logs import Logs
from streams.bus.preflight import preflight
from streams.bus.rights import Access
from streams.bus.topic_specs import OVERHEAD
from streams.codec.topics import DataTopics
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.parties import feeder_user
from streams.tools.feed.lines import digest
from streams.tools.feed.pace import FeedFailed

LINE, MARK = "line", "mark"
"""The headers of a fed record: its number in ASCII, and the mark of all lines up to it."""
ANEW = "feed what it was begun with, or delete it, provision it, and give the run a new name"


@dataclass(frozen=True, slots=True)
class FeedTopic:
    """A data topic that can be fed: it holds `line` lines; the last has the `mark`.

    `largest`: the longest value that it takes, in bytes. With `timed` records keep their own times, which may
    be `ahead` seconds ahead of the clock. `lettered`: the digests of the stored dead letters. `access`: what
    the feed needs of the broker.
    """

    name: str
    letters: str
    largest: int
    ahead: float
    timed: bool
    line: int
    mark: bytes | None
    lettered: frozenset[bytes]
    access: Access


def feed_topic(
    broker: BrokerSettings, topics: DataTopics, access: Access, *, by_time: bool, timed: bool
) -> FeedTopic:
    """Check the data topic of a node or an owner, which a feed has that `access` to.

    Raises BusError if it cannot be fed: see `PreflightFailed`.
    """
    name = topics.records
    preflight(broker, access, {}, (name,) if by_time else (), feeder_user(topics.node))
    with Admin(broker) as admin:
        description = admin.topics([name])[name]
    if timed and description.configs["message.timestamp.type"] != "CreateTime":
        words = "slots go by the records' own times" if by_time else "the records' own times are wanted"
        raise FeedFailed(f"{name}: message.timestamp.type must be CreateTime: {words}")
    line, mark = _held(broker, name, description.partitions)
    return FeedTopic(
        name,
        topics.dead_letters,
        max(0, int(description.configs["max.message.bytes"]) - OVERHEAD),
        int(description.configs["message.timestamp.after.max.ms"])
        / 2000,  # half, as the broker's clock may differ
        timed,
        line,
        mark,
        _lettered(broker, topics.dead_letters) if topics.dead_letters in access.reads else frozenset(),
        access,
    )


def _held(broker: BrokerSettings, topic: str, partitions: int) -> tuple[int, bytes | None]:
    """Return the number of lines in a topic, and the mark of the last. Raises FeedFailed."""
    logs = Logs(broker)
    try:
        for partition in range(1, partitions):
            if logs.span(topic, partition)[1] > 0:
                text = f"partition {partition} holds records, and a feed writes to partition 0 alone"
                raise FeedFailed(f"{topic}: {text}: {ANEW}")
        first, end = logs.span(topic)
    finally:
        logs.close()
    if end == 0:
        return 0, None
    if first == end:
        raise FeedFailed(f"{topic}: its records are gone, so nobody knows the last line that was fed: {ANEW}")
    last = _last(broker, topic, end - 1)
    headers = {} if last is None else dict(last.headers() or [])  # a message without a value is false
    line, mark = headers.get(LINE), headers.get(MARK)
    if not isinstance(line, bytes) or not line.isdigit() or not isinstance(mark, bytes):
        raise FeedFailed(f"{topic}: its last record was not fed by this command: {ANEW}")
    if int(line) != end:
        raise FeedFailed(f"{topic}: line {int(line):,} is its record {end:,}: others wrote to it: {ANEW}")
    return end, mark


def _lettered(broker: BrokerSettings, topic: str) -> frozenset[bytes]:
    logs = Logs(broker)
    try:
        return frozenset(digest(letter.value) for letter in logs.stored({topic: logs.span(topic)[0]})[topic])
    finally:
        logs.close()


def _last(broker: BrokerSettings, topic: str, offset: int) -> "Message[bytes, bytes] | None":
    """Return the record at the log's last offset; None if a transaction's marker is there."""
    consumer = Consumer(consumer_settings(broker) | {"log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        message = consumer.poll(PATIENCE)
    finally:
        consumer.close()
    error = None if message is None else message.error()
    at_end = error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 # librdkafka's name
    # before the log's end it is of a broker that was asked too early: it is asked again
    if at_end and message is not None and (message.offset() or 0) > offset:
        return None
    if message is None or error is not None:
        raise Unreachable(f"{broker.servers}: the last record of {topic} cannot be read")
    return message
