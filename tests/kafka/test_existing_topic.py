"""A node reads a topic that was there before: of any name, in partitions, in envelopes, on its own broker."""

import json
import time
import uuid
from collections import defaultdict

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from streams.live.data import streams
from streams.state.journal_file import JournalReader
from tests.support.brokers.feeding import stored
from tests.support.brokers.forgetting import stepped
from tests.support.brokers.topics import PATIENCE, connection
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.forked import Forked, command
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SCHEMA = {
    "features": {"amount": "number", "customer.age": {"bounds": [0, 100]}},
    "label": {"column": "fraud"},
}
PARTITIONS = 3
SIZE = 7


def message(number, at=0.0):
    """A message, of a kind that its number gives: a tombstone, an update, one that is broken, or a record."""
    row = {"amount": number % 5, "customer": {"age": number % 90}, "fraud": number % 2, "created_at": at}
    kinds = {3: None, 5: b"{"}
    op = "u" if number % 11 == 7 else "c"
    return kinds.get(number % 11, json.dumps({"payload": {"op": op, "after": row}}).encode())


def source(topic, **settings):
    return {
        "kind": "topic",
        "topic": topic,
        "schema": SCHEMA,
        "value": "payload.after",
        "where": {"payload.op": "c"},
    } | settings


@pytest.fixture
def topic():
    """A topic that no other test knows."""
    return f"payments.{uuid.uuid4().hex[:8]}"


def create(address, topic, partitions, **configs):
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=configs)]).values():
        future.result(PATIENCE)


def produce(address, topic, messages, partitions=PARTITIONS):
    """Write messages, by far most of them to partition 0."""
    producer = Producer({"bootstrap.servers": address})
    for k, value in enumerate(messages):
        producer.produce(topic, value, key=str(k).encode(), partition=max(0, k % 9 - 9 + partitions))
    assert producer.flush(PATIENCE) == 0


def times(address, topic, partitions=PARTITIONS):
    """The place of each record of the topic that can be read, and its own time."""
    return [
        (part, record.offset(), json.loads(record.value())["payload"]["after"]["created_at"])
        for part in range(partitions)
        for record in stored(connection(address), topic, part)
        if b'"op": "c"' in (record.value() or b"")
    ]


def readable(address, topic):
    """The places of records that can be read."""
    return {(part, offset) for part, offset, _ in times(address, topic)}


def topics(address):
    """The topics of a broker."""
    return AdminClient({"bootstrap.servers": address}).list_topics(timeout=PATIENCE).topics


def reader(mesh):
    """The node that reads the topic of partitions."""
    return next(iter(mesh.file.mesh.nodes))


def learnt(address, mesh):
    """The rounds in which the reader predicted each place of its topic; of those alone that it could read."""
    rounds = defaultdict(set)
    for record in stored(connection(address), mesh.file.data_topics(reader(mesh)).predictions):
        prediction = json.loads(record.value())
        if prediction["prediction"] is not None:
            rounds[prediction["partition"], prediction["offset"]].add(prediction["round"])
    return rounds


def position(mesh):
    """Where node a goes on in its topic, by its journal."""
    with JournalReader(mesh.folder / "state" / f"{reader(mesh)}.journal") as journal:
        return dict(journal.records(1)[-1].data_position)


def prepared(tmp_path, broker, topic, messages, *, elsewhere=None, own=None, **changes):
    """A mesh file of three nodes: the first reads the topic, the others topics of one partition."""
    address = (elsewhere or broker).address
    create(address, topic, PARTITIONS)
    produce(address, topic, messages)
    sources = {"a": source(**({"topic": topic} | (own or {})))}
    for node in "bc":
        create(broker.address, f"{topic}.{node}", 1)
        produce(broker.address, f"{topic}.{node}", messages, 1)
        sources[node] = source(f"{topic}.{node}")
    settings = {"loss": "squared", "dimension": 2, "slots": {"by": "count", "size": SIZE, "timeout": "none"}}
    return small_mesh_file(
        tmp_path, broker.address, sources=sources, own={"a": {"predictions": True}}, **(settings | changes)
    )


def test_each_message_of_a_topic_of_partitions_has_one_place_kills_included(tmp_path, new_broker, topic):
    broker, rounds = new_broker(), 60
    path = prepared(tmp_path, broker, topic, [message(k) for k in range(SIZE * rounds + 20)], rounds=rounds)
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        mesh.nodes()
        for goal in (10, 25, 40):
            wait_until(lambda goal=goal: stepped(mesh)[0] >= goal)
            mesh.processes[reader(mesh)].kill()
            mesh.node(reader(mesh))
        mesh.finish("scheduler", *mesh.file.mesh.nodes)
        rounds_of, ends = learnt(broker.address, mesh), position(mesh)
        assert {len(at) for at in rounds_of.values()} == {1}
        assert sum(ends.values()) == SIZE * rounds  # what holds no record, or cannot be read, keeps its place
        assert set(rounds_of) == {(part, k) for part, k in readable(broker.address, topic) if k < ends[part]}
        assert min(ends.values()) > 0


def test_a_topic_on_a_broker_of_its_own_in_time_with_messages_left_out(tmp_path, new_broker, topic):
    broker, elsewhere = new_broker(), new_broker("elsewhere")
    begin, period, rounds = int(time.time()) - 6, 1.0, 12
    messages = [message(k, begin + 0.05 * k) for k in range(20 * rounds)]
    slots = {"by": "time", "start": begin, "period": period, "size": 4, "grace": 0.5}
    own = {
        "broker": {"servers": elsewhere.address},
        "partitions": [0, 2],
        "schema": SCHEMA | {"timestamp": "created_at"},
    }
    path = prepared(
        tmp_path,
        broker,
        topic,
        messages,
        elsewhere=elsewhere,
        own=own,
        slots=slots,
        rounds=rounds,
        horizon=600,  # slots that are over before a slow machine has started its processes are made up for
    )
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        mesh.nodes()
        mesh.finish()
        rounds_of = learnt(broker.address, mesh)
        assert {len(at) for at in rounds_of.values()} == {1}
        expected = defaultdict(list)
        for part, offset, at in times(elsewhere.address, topic):
            if part != 1:
                expected[int((at - begin) // period) + 1].append((at, part, offset))
        for round in range(1, rounds + 1):
            first = [(part, offset) for _, part, offset in sorted(expected[round])[:4]]
            assert sorted(place for place, at in rounds_of.items() if at == {round}) == sorted(first)
        assert topic not in topics(broker.address)


def test_columns_come_from_headers_and_keys_behind_frames(tmp_path, new_broker, topic):
    broker, rounds, frame = new_broker(), 6, b"\0\0\0\0\1"
    place, total = f"{topic}.framed", SIZE * rounds
    features = {"amount": {"number": True, "from": {"header": "amount"}}}
    features |= {"age": {"bounds": [0, 100], "from": {"key": "age"}}}
    own = {"topic": place, "schema": SCHEMA | {"features": features}, "framed": True}
    create(broker.address, place, 1)
    producer = Producer({"bootstrap.servers": broker.address})
    for k in range(total):
        headers = [] if k % 7 == 3 else [("amount", str(k % 5).encode())]
        value = (b"" if k % 7 == 5 else frame) + json.dumps({"fraud": k % 2}).encode()
        producer.produce(place, value, key=frame + json.dumps({"age": k}).encode(), headers=headers)
    assert producer.flush(PATIENCE) == 0
    path = prepared(
        tmp_path,
        broker,
        topic,
        [message(k) for k in range(total + 20)],
        own=own | {"value": None, "where": None},
        rounds=rounds,
    )
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        mesh.nodes()
        mesh.finish()
        assert set(learnt(broker.address, mesh)) == {(0, k) for k in range(total) if k % 7 not in {3, 5}}


def looking(*given):
    """Do a command that looks for further partitions each second."""
    streams.GROWN = 1.0
    command(*given)


class Looking(Forked):
    """A command in a process that does."""

    target = staticmethod(looking)


def test_partitions_that_are_added_are_read_from_their_first_record(tmp_path, new_broker, topic):
    broker, rounds = new_broker(), 40
    path = prepared(tmp_path, broker, topic, [message(k) for k in range(SIZE * 10)], rounds=rounds)
    with LiveMesh(path, Looking) as mesh:
        mesh.scheduler()
        mesh.nodes()
        wait_until(lambda: stepped(mesh)[0] >= 5)
        admin = AdminClient({"bootstrap.servers": broker.address})
        for future in admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)]).values():
            future.result(PATIENCE)
        producer = Producer({"bootstrap.servers": broker.address})
        for k in range(SIZE * 30):
            producer.produce(topic, message(k), partition=PARTITIONS)
        assert producer.flush(PATIENCE) == 0
        for node in "bc":
            produce(broker.address, f"{topic}.{node}", [message(k) for k in range(SIZE * 30)], 1)
        mesh.finish()
        ends = position(mesh)
        assert sum(ends.values()) == SIZE * rounds
        rounds_of = learnt(broker.address, mesh)
        assert {len(at) for at in rounds_of.values()} == {1}
        assert (PARTITIONS, 0) in rounds_of
        assert "has got further partitions" in mesh.processes[reader(mesh)].log


COMPACTED = {"cleanup.policy": "compact", "min.compaction.lag.ms": "7200000"}


def test_a_compacted_topic_that_spares_what_waits_is_read_until_its_settings_change(
    tmp_path, broker, topic, monkeypatch
):
    """Two hours are spared, and the owner says one; then the topic's owner takes that back."""
    monkeypatch.setattr(streams, "GROWN", 0.5)
    create(broker.address, f"{topic}.compacted", 1, **COMPACTED | {"retention.bytes": "1000000"})
    produce(broker.address, f"{topic}.compacted", [message(k) for k in range(SIZE * 4)], 1)
    own = {"topic": f"{topic}.compacted", "lag": "1h"}
    path = prepared(tmp_path, broker, topic, [message(k) for k in range(SIZE * 4)], own=own, rounds=9)
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        mesh.nodes()
        wait_until(lambda: stepped(mesh)[0] >= 4)
        node = mesh.processes[reader(mesh)]
        assert "retention.bytes is 1000000: the sizes of other records decide" in node.log
        assert "message.timestamp.type is CreateTime: min.compaction.lag.ms goes by the times" in node.log
        admin = AdminClient({"bootstrap.servers": broker.address})
        change = ConfigEntry("min.compaction.lag.ms", "60000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(
            ConfigResource.Type.TOPIC, f"{topic}.compacted", incremental_configs=[change]
        )
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(PATIENCE)
        assert node.ends() == 1
        assert "min.compaction.lag.ms is 60000: must be at least 3600000 (1h, source.lag)" in node.log
        assert node.log.count("the sizes of other records decide") == 1
        assert "Traceback" not in node.log


@pytest.mark.parametrize(
    ("own", "line"),
    [
        ({"partitions": [0, 7]}, ".source.partitions: [0, 7]: has no partition 7: must be among 0 to 2"),
        ({"topic": "{}.missing"}, ".missing"),
        (
            {"topic": "{}.compacted"},
            "cleanup.policy is compact: must be delete, or needs source.lag",
        ),
        (
            {"topic": "{}.compacted", "lag": "3h"},
            "lag.ms is 7200000: must be at least 10800000",
        ),
    ],
    ids=["partition", "topic", "compacted", "lag"],
)
def test_what_a_topic_lacks_is_one_line(tmp_path, broker, topic, own, line):
    create(broker.address, f"{topic}.compacted", 1, **COMPACTED)
    if "topic" in own:
        own = own | {"topic": own["topic"].format(topic)}
    path = prepared(tmp_path, broker, topic, [message(k) for k in range(9)], own=own, rounds=2)
    with LiveMesh(path) as mesh:
        node = mesh.node(reader(mesh))
        assert node.ends() == 1
        assert line in node.log
        assert "Traceback" not in node.log
        assert [row for row in node.log.splitlines() if " ERROR " in row and line not in row] == []
        feed = mesh.start("feed", "feed", mesh.path, reader(mesh))
        assert feed.ends() == 2
        assert f"nodes.{reader(mesh)}.source.kind" in feed.log
