"""A node's own records that come in transactions: learnt once they are committed, and never if aborted."""

import json
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaException, Producer

from nodes.machine.slots import CountSlots, LatePolicy, TimeSlots
from nodes.privacy.reveal import opened
from streams.bus.connection import PATIENCE as SILENCE
from streams.bus.logs import Logs
from streams.bus.preflight import Outside, preflight
from streams.bus.rights import Access
from streams.collaboration.processes import TopicSet
from streams.live.data.stream import DataStream
from streams.live.data.streams import DataStreams
from tests.kafka.test_data_stream import committed
from tests.support.brokers.damage import damage
from tests.support.brokers.data_streams import DataTopic, Live, Numbers, live_stream, numbers, running
from tests.support.brokers.feeding import SCHEMA, Feeding, row, rows
from tests.support.brokers.topics import PATIENCE, connection, until
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, released_in_memory

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(broker):
    return DataTopic(broker.address)


class Field:
    """A producer with transactions, by default of no other's name."""

    def __init__(self, topic, name=None, **settings):
        self.topic = topic
        client = topic.client | {"transactional.id": name or topic.node, "linger.ms": 50} | settings
        self.producer = Producer(client)
        self.producer.init_transactions(PATIENCE)

    def begin(self, *values, **fields):
        """Begin a transaction with these values, all in the log."""
        self.producer.begin_transaction()
        self.more(*values, **fields)

    def more(self, *values, **fields):
        for value in values:
            record = value if isinstance(value, bytes) else b"%d " % value
            self.producer.produce(self.topic.name, record, partition=0, **fields)
        assert self.producer.flush(PATIENCE) == 0

    def commit(self, *values, **fields):
        if values:
            self.begin(*values, **fields)
        self.producer.commit_transaction(PATIENCE)

    def abort(self, *values, **fields):
        if values:
            self.begin(*values, **fields)
        self.producer.abort_transaction(PATIENCE)


def learnt(topic, folder, count, position=(), **changes):
    """The next so many records that a node learns from, and what it counts."""
    with live_stream(topic, folder, position, **changes) as live:
        found, position = live.take(count, position)
        return found, position, live.counts


def brings_nothing(live, round, position):
    """Whether a slot that closes by its time-out has no record."""
    slot = live.slot(round, position)
    return numbers(slot) == [] and slot.position == position


# ------------------------------------------------------------------------------ commit, abort, crash, fence


def test_a_record_that_was_aborted_twice_and_then_committed_is_learnt_once(topic, tmp_path):
    field = Field(topic)
    field.abort(7)
    field.abort(7)
    field.commit(7)
    topic.send([b"8 "])
    found, _, counts = learnt(topic, tmp_path, 2)
    assert found == [7.0, 8.0]
    assert (counts.records, counts.malformed) == (2, 0)


def test_transactions_of_several_producers_among_plain_records(topic, tmp_path):
    fields = [Field(topic, f"{topic.node}-{k}") for k in range(3)]
    for number, field in enumerate(fields):
        field.begin(10 * number)
    topic.send([b"99 "])
    for number, field in enumerate(fields):
        field.more(10 * number + 1)
    fields[1].abort()
    fields[2].commit()
    fields[1].commit(12, 13)  # the producer of the aborted one goes on
    fields[0].commit()
    fields[0].abort(5)
    topic.send([b"98 "])
    expected = [0.0, 20.0, 99.0, 1.0, 21.0, 12.0, 13.0, 98.0]
    assert learnt(topic, tmp_path, 8)[0] == expected
    # within the aborted transaction, behind its last record, and at its marker
    assert learnt(topic, tmp_path, 6, ((0, 3),))[0] == expected[2:]
    assert learnt(topic, tmp_path, 3, ((0, 7),))[0] == expected[5:]


def test_an_open_transaction_is_a_topic_that_brings_nothing(topic, tmp_path):
    topic.count_up(1)
    field = Field(topic)
    field.begin(1, 2)
    topic.send([b"3 "])  # nobody knows yet whether it is the second record or the fourth
    with live_stream(topic, tmp_path, timeout=1.0) as live:
        assert filled(live, 1) == [0.0]
        slot = live.slot(100, ((0, 1),))
        assert (numbers(slot), slot.position) == ([], ((0, 1),))
        until(lambda: live.lag == 0)
    with live_stream(topic, tmp_path, ((0, 1),), timeout=1.0) as live:  # a restart is no other topic
        slot = live.slot(1, ((0, 1),))
        assert (numbers(slot), slot.position) == ([], ((0, 1),))
        field.commit()
        assert filled(live, 3, ((0, 1),)) == [1.0, 2.0, 3.0]
    assert live.failed is None


def filled(live, count, position=()):
    """The next so many records, whatever slots are empty before."""
    found, round = [], 1
    while len(found) < count:
        slot = live.slot(round, position)
        found, position, round = found + numbers(slot), slot.position, round + 1
    return found


def test_with_slots_by_time_an_open_transaction_holds_up_no_slot(topic, tmp_path):
    start = time.time() // 1 + 3
    topic.send([b"1 "], timestamp=int(start * 1000) + 100)
    field = Field(topic)
    field.begin(2, timestamp=int(start * 1000) + 200)
    with live_stream(topic, tmp_path, slots=lambda: TimeSlots(9, start=start, period=1.0, grace=0.2)) as live:
        assert live.take(1)[0] == [1.0]
        field.commit()  # its slot is over
        assert numbers(live.slot(2, ((0, 1),))) == []
        live.slot(3, ((0, 1),))
        until(lambda: live.counts.late == 1)
    assert live.failed is None


def test_a_crash_of_the_producer_leaves_nothing(topic, tmp_path):
    Field(topic, **{"transaction.timeout.ms": 2000}).begin(1, 2)
    topic.send([b"3 "])  # the broker aborts what is open for too long
    found, _, counts = learnt(topic, tmp_path, 1)
    assert found == [3.0]
    assert counts.records == 1


def test_a_fenced_producer_leaves_nothing(topic, tmp_path):
    old = Field(topic)
    old.begin(1, 2)
    Field(topic).commit(3)
    with pytest.raises(KafkaException):
        old.commit()
    assert learnt(topic, tmp_path, 1)[0] == [3.0]


# ----------------------------------------------------------------------------------- where offsets have holes


def test_a_late_policy_counts_records(topic, tmp_path):
    field = Field(topic)
    for value in range(60):
        field.commit(value) if value % 2 else field.abort(value)
    late = LatePolicy("drop-oldest", 10, 2)
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(2), late=late) as live:
        assert live.take(5)[0] == [float(value) for value in range(41, 61, 2)]
        assert live.counts.skipped == 20
        until(lambda: live.lag == 0)
    with live_stream(topic, tmp_path, late=LatePolicy("sample", 10)) as live:
        # the last of three, then the last of two each time, then all
        assert live.take(7)[0] == [5.0, 9.0, 13.0, 17.0, 21.0, 23.0, 25.0]
        assert live.counts.skipped == 6


def test_one_open_transaction_of_a_host_holds_up_no_other_node(broker, tmp_path):
    held, late, other = topics = [DataTopic(broker.address) for _ in range(3)]
    Field(held).begin(1)
    field = Field(late)
    for value in range(20):
        field.commit(value)
    Field(other).abort(4)
    other.count_up(3)
    policies = [None, LatePolicy("drop-oldest", 5), None]
    with hosted(broker, topics, tmp_path, policies) as (waiting, newest, plain):
        waiting.open(1, ())
        assert newest.take(5)[0] == [15.0, 16.0, 17.0, 18.0, 19.0]
        assert plain.take(3)[0] == [0.0, 1.0, 2.0]
        assert newest.counts.skipped == 15
        assert waiting.counts.records == 0
        until(lambda: [live.lag for live in (waiting, newest, plain)] == [0, 0, 0])
        until(lambda: committed(other) == ([5], []))  # for outside tools: behind the aborted, and its marker
    assert waiting.failed is None


@contextmanager
def hosted(broker, topics, folder, policies):
    """Streams of several nodes in one process, one a topic."""
    nodes = [
        DataStream(topic.topics, "r", lambda: CountSlots(1), Numbers(), None, late)
        for topic, late in zip(topics, policies, strict=True)
    ]
    streams = DataStreams(connection(broker.address), nodes, state=folder, web=None)
    lives = [Live(node, streams) for node in nodes]
    with running(lives, dict.fromkeys((node.node for node in nodes), ())):
        yield lives


EXPECTED = {
    None: [0, 1, 5, 6, 8, 9],
    0: [None, None, 5, 6, 8, 9],
    1: [0, 1, 5, 6, 8, 9],  # aborted, and a marker: what cannot be read is no record
    2: [0, 1, 5, 6, 8, 9],
    3: [0, 1, None, None, 8, 9],
    4: [0, 1, 5, 6, 8, 9],
    5: [0, 1, 5, 6, None, None],
}
"""By the broken batch: the record at each place, or None where it counts as malformed."""


def test_broken_batches_in_and_near_an_aborted_transaction(broker, tmp_path):
    """In one host, where a broken batch makes the client drop what it had of all topics."""
    topics = [DataTopic(broker.address) for _ in EXPECTED]
    for topic, broken in zip(topics, EXPECTED, strict=True):
        topic.client |= {"linger.ms": 50}
        field = Field(topic)
        topic.send([b"0 ", b"1 "])
        field.abort(2, 3)
        field.commit(5, 6)
        topic.send([b"8 ", b"9 "])
        if broken is not None:
            damage(broker, topic.name, broken, mend=False)
    with hosted(broker, topics, tmp_path, [None] * len(topics)) as lives:
        for live, expected in zip(lives, EXPECTED.values(), strict=True):
            found, position = [], ()
            for round in range(1, 7):
                slot = live.slot(round, position)
                seen, position = opened(slot.observations), slot.position
                found.append(int(seen.features[0, 0]) if seen.present[0] else None)
            assert found == expected
            assert (live.counts.records, live.counts.malformed) == (6, expected.count(None))
    assert lives[0].failed is None


# ------------------------------------------------------------------------------------------ the other readers


def test_positions_are_checked_by_what_is_committed(topic):
    topic.count_up(3)
    Field(topic).begin(3, 4)
    at = connection(topic.address)
    logs = {level: Logs(at, committed=level) for level in (True, False)}
    try:
        assert {level: log.span(topic.name) for level, log in logs.items()} == {True: (0, 3), False: (0, 5)}
    finally:
        for log in logs.values():
            log.close()
    access = Access((topic.name,), ())
    assert preflight(at, access, {topic.name: {0: 3}}) == ()
    assert preflight(at, access, {topic.name: {0: 4}}) == (Outside(topic.name, 0, 4, 0, 3),)


def test_an_owners_set_is_what_is_committed(topic):
    field = Field(topic)
    for value in range(5):
        field.commit(value)
        field.abort(value)
    field.begin(7)
    at = connection(topic.address)
    whole = TopicSet(at, topic.name, None)
    began = time.monotonic()
    assert [int(value) for value in whole.values()] == [0, 1, 2, 3, 4]
    assert time.monotonic() - began < SILENCE  # it does not wait for as many records as offsets
    field.commit()
    assert [int(value) for value in TopicSet(at, topic.name, whole.extent()).values()] == [0, 1, 2, 3, 4]
    assert [int(value) for value in TopicSet(at, topic.name, None).values()] == [0, 1, 2, 3, 4, 7]


@pytest.mark.parametrize("ending", ["commit", "abort", None])
def test_a_feed_goes_on_behind_what_others_write_in_transactions(broker, tmp_path, ending):
    feeding = Feeding(tmp_path, broker.address)
    feeding.provision().write(rows(5))
    assert feeding(records=3).records == 3
    at = {"bootstrap.servers": broker.address}
    field = Field(SimpleNamespace(client=at, node=feeding.name, name=feeding.topics.records))
    field.begin(7)
    if ending:
        getattr(field, ending)()
    fed = feeding()
    assert (fed.before, fed.records) == (3, 2)
    assert fed.others == (2 if ending else 1)  # the record, and the mark at the end of its transaction


@pytest.mark.slow
def test_a_mesh_learns_from_what_is_committed_as_in_one_process(broker, tmp_path):
    """Each record of one node is aborted twice and then committed, in a mesh that else is fed."""
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"\n".join(rows(6)))
    source = {"kind": "json-lines", "path": str(path), "schema": SCHEMA}
    mesh = {"loss": "squared", "dimension": 2, "rounds": 6}
    file = small_mesh_file(tmp_path, broker.address, sources=dict.fromkeys("abc", source), **mesh)
    with LiveMesh(file) as live:
        first, *others = live.file.mesh.nodes
        at = {"bootstrap.servers": broker.address}
        field = Field(SimpleNamespace(client=at, node=first, name=live.file.data_topics(first).records))
        for number in range(1, 7):
            wrong = json.dumps({"x": 99, "y": 9, "z": 777}).encode()
            field.abort(wrong, row(number))
            field.abort(row(number))
            field.commit(row(number, number))
        for name in others:
            live.feed(name)
        live.scheduler()
        live.nodes()
        live.finish()
        values = live.values()
    assert {key: {value for *_, value in found} for key, found in values.items()} == {
        key: {value} for key, value in released_in_memory(file).items()
    }
