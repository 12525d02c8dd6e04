"""What the bus on Kafka promises beside the contract suite: acknowledgements, positions, failures."""

import queue
import time

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from streams.bus.bus import NOWHERE, OffsetOutOfRange, UnknownTopic, Unreachable
from streams.bus.provision import Admin
from streams.bus.reader import MOST, KafkaReader
from tests.support.brokers.topics import PATIENCE, bus_of, connection, fresh_topics, until

pytestmark = pytest.mark.kafka


@pytest.fixture
def at(broker):
    return connection(broker.address)


@pytest.fixture
def topics(at):
    return fresh_topics(at, "a", "b")


@pytest.fixture
def bus(at, topics):
    made = bus_of(at, *topics)
    yield made
    made.close()


@pytest.fixture
def read(bus):
    """Subscribes; returns the reader and a queue of (topic, offset, value) and (topic, error)."""
    readers = []

    def subscribe(offsets, lossy=()):
        handed = queue.SimpleQueue()
        reader = bus.subscribe(
            offsets, lambda *record: handed.put(record[:3]), lambda *failure: handed.put(failure), lossy=lossy
        )
        readers.append(reader)
        return reader, handed

    yield subscribe
    for reader in readers:
        reader.close()


def fill(bus, topic, count):
    for k in range(count):
        bus.send(topic, bytes([k]))
    assert bus.flush(PATIENCE)


def nothing(handed, within=0.5):
    with pytest.raises(queue.Empty):
        handed.get(timeout=within)


def test_every_send_is_acknowledged_once(bus, topics):
    acknowledged = []
    for k in range(50):
        bus.send(topics[0], bytes([k]), lambda k=k: acknowledged.append(k))
    assert bus.flush(PATIENCE)
    assert acknowledged == list(range(50))
    assert bus.waiting == 0


def test_a_reader_serves_the_acknowledgements(bus, topics, read):
    read({topics[1]: 0})
    acknowledged = []
    bus.send(topics[0], b"x", lambda: acknowledged.append(True))
    until(lambda: acknowledged)


def test_a_record_that_the_broker_refuses_is_sent_again_until_it_takes_it(bus, at, topics):
    topic, acknowledged = topics[0], []
    set_limit(at, topic, 100)
    bus.send(topic, bytes(500), lambda: acknowledged.append(1))
    bus.send(topic, b"small", lambda: acknowledged.append(2))
    assert not bus.flush(1.5)
    assert (acknowledged, bus.waiting) == ([2], 1)
    set_limit(at, topic, 1000)
    assert bus.flush(PATIENCE)
    assert acknowledged == [2, 1]
    assert list(bus.read(topic, 0)) == [b"small", bytes(500)]


def set_limit(at, topic, limit):
    with Admin(at) as admin:
        configs = {"max.message.bytes": str(limit)}
        admin._client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])


def test_several_topics_are_stored_with_their_offsets(bus, topics):
    fill(bus, topics[0], 3)
    fill(bus, topics[1], 2)
    found = bus.stored({topics[0]: 1, topics[1]: 0})
    assert [record[:2] for record in found[topics[0]]] == [(1, bytes([1])), (2, bytes([2]))]
    assert [record[:2] for record in found[topics[1]]] == [(0, bytes([0])), (1, bytes([1]))]
    assert all(0 <= time.time() - record.timestamp < 60 for record in found[topics[0]])


def test_reading_outside_the_log_is_an_error_not_silence(bus, topics):
    fill(bus, topics[0], 2)
    with pytest.raises(OffsetOutOfRange, match="3 is not from 0 to 2"):
        bus.read(topics[0], 3)


def test_a_bus_is_refused_where_a_topic_is_not_there(at, topics):
    with pytest.raises(UnknownTopic, match="no topic not-there"):
        bus_of(at, *topics, "not-there")


def test_a_bus_reads_the_log_of_any_topic_and_sends_to_its_own_alone(at, bus, topics):
    """A node looks for its releases on edges that only another mesh file has."""
    fill(bus, topics[0], 2)
    other = bus_of(at, topics[1])
    try:
        assert other.span(topics[0]) == (0, 2)
        assert list(other.read(topics[0], 0)) == [bytes([0]), bytes([1])]
        with pytest.raises(UnknownTopic):
            other.send(topics[0], b"")
        with pytest.raises(UnknownTopic, match="no topic not-there"):
            other.span("not-there")
    finally:
        other.close()


def test_a_bus_is_refused_where_no_broker_is(monkeypatch):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.5)
    with pytest.raises(Unreachable):
        bus_of(connection("127.0.0.1:1"))


def test_a_position_outside_the_log_is_told_once_and_the_reader_can_be_moved(bus, topics, read):
    fill(bus, topics[0], 3)
    fill(bus, topics[1], 1)
    reader, handed = read({topics[0]: 99, topics[1]: 0})
    first, second = sorted([handed.get(timeout=PATIENCE), handed.get(timeout=PATIENCE)], key=len)
    assert (first[0], type(first[1])) == (topics[0], OffsetOutOfRange)
    assert second == (topics[1], 0, bytes([0]))
    assert reader.position(topics[0]) == NOWHERE
    nothing(handed)
    reader.move(topics[0], 1)
    assert [handed.get(timeout=PATIENCE)[1] for _ in range(2)] == [1, 2]


def test_a_lossy_topic_that_retention_overtook_goes_on_where_its_log_begins(bus, at, topics, read):
    for topic in topics:
        fill(bus, topic, 6)
    with Admin(at) as admin:
        admin._client.delete_records({TopicPartition(topic, 0): 4 for topic in topics})
    reader, handed = read({topics[0]: 1}, lossy=topics)
    assert [handed.get(timeout=PATIENCE)[1] for _ in range(2)] == [4, 5]
    reader.when_read({topics[0]: 6}, lambda: handed.put("to the end"))
    assert handed.get(timeout=PATIENCE) == "to the end"
    _, strict = read({topics[1]: 1})
    topic, error = strict.get(timeout=PATIENCE)
    assert (topic, type(error)) == (topics[1], OffsetOutOfRange)


def test_an_action_waits_until_all_below_was_handed_on(bus, topics, read):
    fill(bus, topics[0], 20)
    reader, handed = read({topics[0]: 0, topics[1]: 0})
    reader.when_read({topics[0]: 20, topics[1]: 1}, lambda: handed.put("all read"))
    assert [handed.get(timeout=PATIENCE)[1] for _ in range(20)] == list(range(20))
    nothing(handed)
    bus.send(topics[1], b"last")
    assert handed.get(timeout=PATIENCE) == (topics[1], 0, b"last")
    assert handed.get(timeout=PATIENCE) == "all read"
    reader.when_read({topics[0]: 20}, lambda: handed.put("at once"))
    assert handed.get_nowait() == "at once"


def test_a_failed_topic_counts_as_unread(bus, topics, read):
    reader, handed = read({topics[0]: 99})
    handed.get(timeout=PATIENCE)
    reader.when_read({topics[0]: 0}, lambda: handed.put("read"))
    nothing(handed)
    reader.move(topics[0], 0)
    assert handed.get(timeout=PATIENCE) == "read"


def test_offsets_that_hold_no_record_are_passed(bus, at, topics, read):
    """A peer that writes with a transaction leaves an offset at the log's end that no reader is handed."""
    peer = Producer({"bootstrap.servers": at.servers, "transactional.id": topics[0]})
    peer.init_transactions(PATIENCE)
    peer.begin_transaction()
    peer.produce(topics[0], b"theirs", partition=0)
    assert peer.flush(PATIENCE) == 0
    reader, handed = read({topics[0]: 0})
    assert handed.get(timeout=PATIENCE) == (topics[0], 0, b"theirs")  # and it holds nobody up
    peer.commit_transaction(PATIENCE)
    until(lambda: bus.end(topics[0]) == 2)
    assert list(bus.read(topics[0], 0)) == [b"theirs"]
    assert list(bus.read(topics[0], 1)) == []
    reader.when_read({topics[0]: 2}, lambda: handed.put("to the end"))
    assert handed.get(timeout=PATIENCE) == "to the end"
    peer.close()


def test_a_topic_that_is_deleted_while_it_is_read_is_told(bus, at, topics, read):
    reader, handed = read({topics[0]: 0})
    reader.when_read({topics[0]: 0}, lambda: handed.put("read"))
    assert handed.get(timeout=PATIENCE) == "read"
    with Admin(at) as admin:
        admin._client.delete_topics([topics[0]])
    topic, error = handed.get(timeout=PATIENCE)
    assert (topic, type(error)) == (topics[0], UnknownTopic)
    nothing(handed, within=2.5)  # librdkafka tells it every second or two


def test_a_closed_reader_hands_nothing_more(bus, topics):
    handed = queue.SimpleQueue()
    reader = bus.subscribe({topics[0]: 0}, lambda *record: handed.put(record[:3]), lambda *failure: None)
    reader.close()
    fill(bus, topics[0], 1)
    nothing(handed)


def test_records_that_are_there_together_are_taken_together(bus, at, topics):
    fill(bus, topics[0], 250)
    handed, turns, most = queue.SimpleQueue(), [], 0

    def record(*_):
        turns.append("record")
        if turns.count("record") == 250:
            handed.put("all")

    reader = KafkaReader(at, {topics[0]: 0}, record, lambda *failure: None, lambda: turns.append("between"))
    try:
        assert handed.get(timeout=PATIENCE) == "all"
    finally:
        reader.close()
    for turn in " ".join(turns).split("between"):
        most = max(most, turn.count("record"))
    assert 20 < most <= MOST + 1


def test_a_move_drops_what_was_taken_with_the_record(bus, at, topics):
    fill(bus, topics[0], 50)
    handed = queue.SimpleQueue()

    def record(_, offset, *__):
        handed.put(offset)
        if offset == 3 and not moved:
            moved.append(offset)
            reader.move(topics[0], 40)

    moved = []
    reader = KafkaReader(at, {topics[0]: 0}, record, lambda *failure: None, lambda: None)
    try:
        assert [handed.get(timeout=PATIENCE) for _ in range(14)] == [0, 1, 2, 3, *range(40, 50)]
    finally:
        reader.close()
