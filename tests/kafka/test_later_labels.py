"""Labels that come later than their records, on a real broker: which one counts, and when a record is due."""

import json
import logging
import os
import signal
import time
import uuid
from collections import defaultdict
from itertools import count

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from nodes.machine.slots import CountSlots, TimeSlots
from nodes.privacy.reveal import opened
from streams.bus.existing_topic import ExistingTopics, topic_configs
from streams.live.data import streams
from streams.live.data.labels import LaterLabels
from streams.live.data.stream import DataStream
from streams.live.data.streams import DataStreams
from streams.mesh.settings.node import FileSettings
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.lint import topic_lines
from tests.support.brokers.avro import message as avro_message
from tests.support.brokers.avro import need_fastavro
from tests.support.brokers.avro import record as avro_record
from tests.support.brokers.data_streams import DataTopic, Live, running
from tests.support.brokers.feeding import stored
from tests.support.brokers.forgetting import stepped
from tests.support.brokers.registry import stub_registry
from tests.support.brokers.topics import PATIENCE, connection, until
from tests.support.meshes.files import changed, loaded
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = pytest.mark.kafka

AFTER = 3_600
LABELS = {
    "join": "payment_id",
    "after": f"{AFTER}s",
    "value": {"constant": "fraud"},
    "otherwise": "legitimate",
}
SCHEMA = {"features": {"amount": "number"}, "label": {"column": "outcome", "positive": "fraud"}}
FRAUD, LEGITIMATE = 1.0, -1.0


class LabelTopic:
    """A topic of labels, made anew."""

    def __init__(self, address, partitions=1):
        self.name = f"chargebacks.{uuid.uuid4().hex[:8]}"
        self.client = {"bootstrap.servers": address}
        admin = AdminClient(self.client)
        admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(PATIENCE)

    def send(self, key, at, value=b"{}", partition=0):
        """Append the label of a payment, at that time in seconds; `value` None takes it back."""
        producer = Producer(self.client)
        milliseconds = round(at * 1_000)
        producer.produce(self.name, value, str(key).encode(), partition=partition, timestamp=milliseconds)
        assert producer.flush(PATIENCE) == 0


def record(number, payment):
    return json.dumps({"amount": number, "payment_id": payment}).encode()


def send(topic, number, payment, at, partition=0):
    """Append a record of that time in seconds."""
    topic.send([record(number, payment)], partition, timestamp=round(at * 1_000))


def labelled_stream(topic, label_topic, tmp_path, slots=lambda: CountSlots(1), labels_on=None, **changes):
    """A stream on the topic whose labels are on the other one, and on that broker (None: the same)."""
    tree = {"kind": "json-lines", "schema": SCHEMA, "labels": LABELS | {"topic": label_topic.name} | changes}
    source, broker = FileSettings.model_validate(tree), connection(topic.address)
    decoder = SchemaDecoder(source.record, json_fields)
    labels = LaterLabels(source.labels, labels_on or broker, decoder, logging.getLogger("test"))
    stream = DataStream(topic.topics, "r", slots, decoder, None, labels=labels)
    return Live(stream, DataStreams(broker, [stream], state=tmp_path, web=None))


def learnt(live, slots, position=(), first=1):
    """The (amount, label) of the records of so many slots, and where the next slot begins."""
    pairs = []
    for round in range(first, first + slots):
        slot = live.slot(round, position)
        observations = opened(slot.observations)
        pairs += zip(observations.features[:, 0].tolist(), observations.labels.tolist(), strict=True)
        position = slot.position
    return pairs, position


def test_the_newest_label_until_the_record_was_due_counts_for_each_of_its_records(broker, tmp_path):
    topic, labels = DataTopic(broker.address), LabelTopic(broker.address)
    at = time.time() - AFTER - 60
    due = at + AFTER
    payments = ["in time", "too late", "taken back", "twice", "twice", "given again", 7, "before", "none"]
    for number, payment in enumerate(payments):
        send(topic, number, payment, at)
    labels.send("in time", due)
    labels.send("too late", due + 0.001)
    labels.send("taken back", due - 9)
    labels.send("taken back", due - 8, None)
    labels.send("twice", at)
    labels.send("given again", at, None)
    labels.send("given again", at)
    labels.send("7.0", at + 1)
    labels.send("before", at - 0.001)
    live = labelled_stream(topic, labels, tmp_path)
    with running([live], {live.stream.node: ()}):
        pairs, _ = learnt(live, len(payments))
    expected = [FRAUD, LEGITIMATE, LEGITIMATE, FRAUD, FRAUD, FRAUD, FRAUD, LEGITIMATE, LEGITIMATE]
    assert pairs == list(zip(map(float, range(len(payments))), expected, strict=True))


def test_a_record_is_taken_when_it_is_due_and_one_dated_ahead_does_not_overtake(broker, tmp_path):
    topic, labels = DataTopic(broker.address), LabelTopic(broker.address)
    now = time.time()
    send(topic, 0, "a", now - AFTER - 10)
    send(topic, 1, "b", now - AFTER + 4)
    send(topic, 2, "c", now - AFTER - 10)  # behind one of a later time: it waits for that
    live = labelled_stream(topic, labels, tmp_path)
    with running([live], {live.stream.node: ()}):
        pairs, position = learnt(live, 1)
        slot = live.slot(2, position)
        assert time.time() >= now + 4
        labels.send("c", now - 5)
        pairs += learnt(live, 1, slot.position, 3)[0]
    assert pairs == [(0.0, LEGITIMATE), (2.0, FRAUD)]


def test_the_owner_hears_how_many_records_one_dated_ahead_holds_up(broker, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "GROWN", 0.0)
    topic, labels, now = DataTopic(broker.address, 2), LabelTopic(broker.address), time.time()
    send(topic, 0, "a", now + 100 * AFTER)
    send(topic, 1, "b", now - AFTER - 10)
    send(topic, 2, "c", now - AFTER - 10, partition=1)
    live = labelled_stream(topic, labels, tmp_path)
    with running([live], {live.stream.node: ()}):
        pairs, position = learnt(live, 1)
        assert pairs == [(2.0, LEGITIMATE)]  # another partition waits for nothing
        until(lambda: opened(live.stream.label_counts).held_up == 2)
        live.open(2, position)
        send(topic, 3, "d", now - AFTER - 10)
        until(lambda: opened(live.stream.label_counts).held_up == 3)
        assert live.slots.empty()


def test_a_record_dated_ahead_holds_up_its_partition_for_the_wait_at_most(broker, tmp_path):
    topic, labels, now, after = DataTopic(broker.address), LabelTopic(broker.address), time.time(), 6.0
    send(topic, 0, "a", now + 100 * AFTER)
    send(topic, 1, "b", now - 10)
    live = labelled_stream(topic, labels, tmp_path, after="6s")
    with running([live], {live.stream.node: ()}):
        pairs, _ = learnt(live, 2)
        assert time.time() >= now + after
    assert [number for number, _ in pairs] == [0.0, 1.0]


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_stream_that_begins_again_loses_and_doubles_nothing(broker, tmp_path, partitions):
    topic = DataTopic(broker.address, partitions)
    labels, at, records = LabelTopic(broker.address, 2), time.time() - AFTER - 60, 30
    for number in range(records):
        send(topic, number, number, at + number, number % partitions)
        if number % 2:
            labels.send(number, at + number + 1, partition=number // 2 % 2)
    pairs, position, rounds = [], (), count(1)
    for _ in range(3):
        live = labelled_stream(topic, labels, tmp_path, lambda: CountSlots(2))
        with running([live], {live.stream.node: position}):
            for _ in range(5):
                more, position = learnt(live, 1, position, next(rounds))
                pairs += more
    assert sorted(pairs) == [(float(k), FRAUD if k % 2 else LEGITIMATE) for k in range(records)]


def test_slots_by_time_are_those_of_the_time_and_the_wait(broker, tmp_path):
    topic, labels = DataTopic(broker.address), LabelTopic(broker.address)
    period, now = 2.0, time.time()
    start = now - AFTER - 100  # of slots of records without labels: 50 of them have passed
    for number in range(4):
        send(topic, number, number, start + number * period + 1)
    labels.send(2, start + 2 * period + 50)
    begin = start + AFTER
    live = labelled_stream(topic, labels, tmp_path, lambda: TimeSlots(2, begin, period, 0.1, 8, AFTER))
    with running([live], {live.stream.node: ()}):
        pairs, _ = learnt(live, 5)
    assert pairs == [(0.0, LEGITIMATE), (1.0, LEGITIMATE), (2.0, FRAUD), (3.0, LEGITIMATE)]


def test_the_owner_hears_what_came_of_labels(broker, tmp_path):
    topic, labels = DataTopic(broker.address), LabelTopic(broker.address)
    at = time.time() - AFTER - 60
    send(topic, 0, "a", at)
    send(topic, 1, "b", at)
    labels.send("a", at + 1, b"[")
    labels.send("c", at + 1)
    live = labelled_stream(topic, labels, tmp_path)
    with running([live], {live.stream.node: ()}):
        pairs, position = learnt(live, 1)
        labels.send("a", at + AFTER + 1)
        pairs += learnt(live, 1, position, 2)[0]
        until(lambda: opened(live.stream.label_counts).late == 1)
        counts = opened(live.stream.label_counts)
    assert (counts.came, counts.unreadable) == (2, 1)
    assert [label for _, label in pairs] == [LEGITIMATE, LEGITIMATE]


def test_slots_by_time_close_empty_while_the_labels_are_away_and_the_owner_hears_how_many(
    broker, tmp_path, caplog
):
    topic, labels = DataTopic(broker.address), LabelTopic(broker.address)
    period, start = 2.0, time.time() - AFTER - 100
    send(topic, 0, 0, start + 1)
    slots = lambda: TimeSlots(2, start + AFTER, period, 0.1, 8, AFTER)  # noqa: E731 # it is passed on
    live = labelled_stream(topic, labels, tmp_path, slots, labels_on=connection("127.0.0.1:1"))
    with running([live], {live.stream.node: ()}):
        slot = live.slot(1, ())
        assert opened(slot.observations).features.size == 0
        assert slot.position == ((0, 1),)
        assert live.counts.unlabelled == 1
    (line,) = [record.getMessage() for record in caplog.records if "labels cannot be read" in record.message]
    assert line.startswith(f"{labels.name}: ")


def heard(caplog, text):
    return any(text in record.getMessage() for record in caplog.records)


def test_slots_by_count_wait_while_the_labels_broker_is_away_and_lose_no_label(
    broker, new_broker, tmp_path, caplog
):
    elsewhere, at = new_broker(), time.time() - AFTER - 60
    topic, labels = DataTopic(broker.address), LabelTopic(elsewhere.address)
    for number in range(3):
        send(topic, number, number, at)
        labels.send(number, at + 1)
    live = labelled_stream(topic, labels, tmp_path, labels_on=connection(elsewhere.address))
    with running([live], {live.stream.node: ()}):
        pairs, position = learnt(live, 1)
        os.kill(elsewhere.pid, signal.SIGKILL)
        live.open(2, position)
        until(lambda: heard(caplog, "labels cannot be read now"))
        assert live.slots.empty()
        new_broker()
        slot = live.closed()
        observations = opened(slot.observations)
        pairs += zip(observations.features[:, 0].tolist(), observations.labels.tolist(), strict=True)
        pairs += learnt(live, 1, slot.position, 3)[0]
        assert opened(live.stream.counts).unlabelled == 0
    assert pairs == [(0.0, FRAUD), (1.0, FRAUD), (2.0, FRAUD)]


def test_slots_by_time_have_labels_again_once_their_broker_is_back(broker, new_broker, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    elsewhere, period, start = new_broker(), 2.0, time.time() - AFTER - 100
    topic, labels = DataTopic(broker.address), LabelTopic(elsewhere.address)
    for number in range(3):
        send(topic, number, number, start + number * period + 1)
        labels.send(number, start + number * period + 2)
    slots = lambda: TimeSlots(2, start + AFTER, period, 0.1, 99, AFTER)  # noqa: E731 # it is passed on
    live = labelled_stream(topic, labels, tmp_path, slots, labels_on=connection(elsewhere.address))
    with running([live], {live.stream.node: ()}):
        pairs, position = learnt(live, 1)
        os.kill(elsewhere.pid, signal.SIGKILL)
        slot = live.slot(2, position)
        assert opened(slot.observations).features.size == 0
        new_broker()
        until(lambda: heard(caplog, "labels can be read again"))
        pairs += learnt(live, 1, slot.position, 3)[0]
        assert opened(live.stream.counts).unlabelled == 1
    assert pairs == [(0.0, FRAUD), (2.0, FRAUD)]


def test_labels_in_avro_may_be_on_another_broker_than_the_records(broker, new_broker, tmp_path):
    need_fastavro()
    elsewhere = new_broker()
    topic, labels, at = DataTopic(broker.address), LabelTopic(elsewhere.address), time.time() - AFTER - 60
    schema = avro_record(payment_id="string", outcome="string")
    for number in range(4):
        send(topic, number, number, at)
    with stub_registry() as registry:
        registry.schemas[5] = schema
        for number, outcome in enumerate(("fraud", "legitimate", "fraud")):
            fields = {"payment_id": str(number), "outcome": outcome}
            labels.send(number, at + 1, avro_message(5, schema, fields))
        labels.send(2, at + 2, avro_message(5, schema, {"payment_id": "2", "outcome": "legitimate"}))
        changes = {"value": {"column": "outcome"}, "format": "avro", "registry": {"url": registry.url}}
        live = labelled_stream(topic, labels, tmp_path, labels_on=connection(elsewhere.address), **changes)
        with running([live], {live.stream.node: ()}):
            pairs, _ = learnt(live, 4)
    assert [label for _, label in pairs] == [FRAUD, LEGITIMATE, LEGITIMATE, LEGITIMATE]


def test_topics_that_keep_less_than_labels_need_are_named(broker):
    day = 86_400
    admin = AdminClient({"bootstrap.servers": broker.address})
    names = {name: f"{name}.{uuid.uuid4().hex[:8]}" for name in ("short", "long", "compacted", "missing")}
    configs = {
        "short": {"retention.ms": str(7 * day * 1_000)},
        "long": {"retention.ms": str(45 * day * 1_000)},
        "compacted": {"retention.ms": "1000", "cleanup.policy": "compact"},
    }
    for name, settings in configs.items():
        new = NewTopic(names[name], 1, 1, config=settings)
        admin.create_topics([new])[names[name]].result(PATIENCE)
    there = [names[name] for name in configs]
    until(lambda: None not in topic_configs(connection(broker.address), there).values())
    lines = []
    log = logging.getLogger("test.retention")
    log.addHandler(handler := logging.Handler())
    handler.emit = lambda record: lines.append(record.getMessage())
    kept = dict.fromkeys(names.values(), 45.0 * day)
    topics = ExistingTopics(connection(broker.address), {}, log, kept)
    assert topics.short() == [f"{names['short']} keeps 7d (retention.ms); labels need 45d"]
    assert topics.unfit() == topics.short()[0]
    (line,) = lines  # once
    assert line.startswith(f"{names['missing']}: its settings cannot be seen")


def test_check_says_which_time_a_label_has_and_what_keeps_too_little(broker, tmp_path):
    labels = LabelTopic(broker.address)
    address = {"servers": broker.address}
    brokers = {"mesh": address, "data": address, "trust_broker": True}
    later = LABELS | {"topic": labels.name}
    source = {"kind": "json-lines", "path": None, "schema": SCHEMA, "labels": later}

    def looked_at():
        tree = changed(nodes=["a"], loss="hinge", dimension=1, topology={"graph": "complete"})
        own = {name: value for name, value in source.items() if value is not None}
        tree["nodes"] = {"a": {"source": own, "brokers": brokers}}
        return topic_lines(loaded(tmp_path, tree))

    assert looked_at().looked_at == [
        f"{labels.name}: a label's time is what its producer writes (CreateTime)"
    ]
    admin = AdminClient(labels.client)
    resource = ConfigResource(ConfigResource.Type.TOPIC, labels.name)
    for name, value in (("retention.ms", "60000"), ("message.timestamp.type", "LogAppendTime")):
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE)
    until(lambda: looked_at().looked_at[0].endswith("when the broker took it (LogAppendTime)"))
    (line,) = looked_at().wrong
    assert line.endswith(f"{labels.name} keeps 1m (retention.ms); labels need 1h")
    source["labels"] = later | {"topic": f"{labels.name}.missing"}
    (line,) = looked_at().wrong
    assert line.endswith("there is no such topic")
    source["labels"] = later | {"broker": {"servers": "127.0.0.1:1"}}
    (line,) = looked_at().looked_at
    assert line.startswith(f"{labels.name} was not looked at: 127.0.0.1:1")
    source["labels"] = later | {"format": "avro", "registry": {"url": "http://127.0.0.1:1"}}
    assert (
        looked_at().looked_at[0].startswith(f"{labels.name}: its messages are Avro, and cannot be read now")
    )


def payment(number, **changes):
    """A message of the topic of payments."""
    return json.dumps({"amount": number % 5, "payment_id": f"canary-payment-{number}"} | changes).encode()


@pytest.mark.slow
def test_a_node_learns_once_from_each_record_kills_included_and_keeps_no_label(tmp_path, broker, new_broker):
    """The labels are on a broker of their own."""
    address, records, partitions, size, elsewhere = broker.address, 90, 3, 3, new_broker().address
    name, labels, at = f"payments.{uuid.uuid4().hex[:8]}", LabelTopic(elsewhere, 2), time.time() - AFTER - 60
    producer, labelling = Producer({"bootstrap.servers": address}), Producer(labels.client)
    admin = AdminClient({"bootstrap.servers": address})
    names = {"a": name} | {node: f"{name}.{node}" for node in "bc"}
    for node, topic in names.items():
        parts = partitions if node == "a" else 1
        admin.create_topics([NewTopic(topic, parts, 1)])[topic].result(PATIENCE)
    for number in range(records):
        moment = {"timestamp": round((at + number / 3) * 1_000)}
        producer.produce(name, payment(number), partition=number % partitions, **moment)
        for node in "bc":
            producer.produce(names[node], payment(number, outcome="canary-fraud"), **moment)
        if number % 2:
            label = payment(number, outcome="canary-fraud")
            labelling.produce(labels.name, label, partition=number % 4 // 2, **moment)
    assert producer.flush(PATIENCE) == labelling.flush(PATIENCE) == 0
    label = {"column": "outcome", "positive": "canary-fraud"}
    schema = {"features": {"amount": "number"}, "intercept": True, "label": label}
    sources = {node: {"kind": "topic", "topic": topic, "schema": schema} for node, topic in names.items()}
    sources["a"]["labels"] = LABELS | {"topic": labels.name, "value": {"column": "outcome"}}
    sources["a"]["labels"]["broker"] = {"servers": elsewhere}
    path = small_mesh_file(
        tmp_path,
        address,
        sources=sources,
        own={"a": {"predictions": True}},
        loss="hinge",
        dimension=2,
        rounds=records // size,
        slots={"by": "count", "size": size, "timeout": "none"},
    )
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        mesh.nodes()
        first = next(iter(mesh.file.mesh.nodes))
        for goal in (7, 15):
            wait_until(lambda goal=goal: stepped(mesh)[0] >= goal)
            mesh.processes[first].kill()
            mesh.node(first)
        mesh.finish("scheduler", *mesh.file.mesh.nodes)
        rounds_of = defaultdict(set)
        for message in stored(connection(address), mesh.file.data_topics(first).predictions):
            prediction = json.loads(message.value())
            rounds_of[prediction["partition"], prediction["offset"]].add(prediction["round"])
        assert {len(rounds) for rounds in rounds_of.values()} == {1}
        expected = {(part, offset) for part in range(partitions) for offset in range(records // partitions)}
        assert set(rounds_of) == expected
        files = [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix != ".yaml"]
        assert any(file.suffix == ".journal" for file in files)
        assert [file for file in files if b"canary-payment" in file.read_bytes()] == []
