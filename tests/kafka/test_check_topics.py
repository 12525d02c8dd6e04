"""`check` looks at a topic that is there: whether it can be read."""

import json
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers.topics import PATIENCE
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.in_process import Commands

pytestmark = pytest.mark.kafka

SCHEMA = {"features": {"amount": "number", "age": "number"}, "label": {"column": "fraud"}}
PARTITIONS = 3


@pytest.fixture
def topic(broker):
    """A topic with 40 records of four keys in each partition, and an aborted one at its end."""
    name = f"payments.{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    configs = {"retention.bytes": "9000000", "retention.ms": "900000000"}
    admin.create_topics([NewTopic(name, PARTITIONS, 1, config=configs)])[name].result(PATIENCE)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
    producer.init_transactions()
    for finish in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for k in range(40 * PARTITIONS):
            value = json.dumps({"op": "c", "after": {"amount": k, "age": 81723, "fraud": 1}})
            producer.produce(name, value, key=str(k // PARTITIONS % 4), partition=k % PARTITIONS)
        finish()
    return name


def checked(tmp_path, broker, capsys, **source):
    given = {"kind": "topic", "schema": SCHEMA, "value": "after"} | source
    path = small_mesh_file(
        tmp_path,
        broker.address,
        sources={"a": given},
        loss="squared",
        dimension=2,
        slots={"by": "count", "size": 2},
    )
    outcome = Commands(capsys)("check", path)
    assert "Traceback" not in outcome.err
    assert "81723" not in outcome.out + outcome.err
    return outcome


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ({"topic": "no.such.topic"}, "there is no such topic"),
        ({"partitions": [1, 7]}, "source.partitions: [1, 7]: has no partition 7: must be among 0 to 2"),
    ],
)
def test_what_does_not_fit_is_a_line_at_its_key(tmp_path, broker, topic, capsys, source, line):
    outcome = checked(tmp_path, broker, capsys, **({"topic": topic} | source))
    assert (outcome.code, outcome.out) == (2, "")
    assert line in outcome.err


@pytest.mark.parametrize(
    "caution",
    [
        "message.timestamp.type is CreateTime: retention.ms goes by the times that producers write",
        "retention.bytes is 9000000: the sizes of other records decide",
    ],
)
def test_what_its_settings_let_vanish_is_a_warning(tmp_path, broker, topic, capsys, caution):
    outcome = checked(tmp_path, broker, capsys, topic=topic)
    assert outcome.code == 0
    assert any(
        line.startswith("Warning: ") and f"source.topic: {topic}: {caution}" in line
        for line in outcome.out.splitlines()
    )
