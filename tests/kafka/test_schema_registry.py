"""A node reads Avro by a real schema registry, as producers write it, and waits while that is away."""

import json
import signal
from decimal import Decimal

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.serialization import MessageField, SerializationContext

from streams.mesh.settings.node import TopicSettings
from streams.mesh.settings.schema import SchemaSettings
from tests.kafka.test_existing_topic import SIZE, create, learnt, message, prepared, reader
from tests.kafka.test_existing_topic import topic as _topic
from tests.support.brokers.avro import need_fastavro, record
from tests.support.brokers.feeding import stored
from tests.support.brokers.forgetting import stepped
from tests.support.brokers.registry import stub_registry
from tests.support.brokers.topics import PATIENCE, connection
from tests.support.processes.in_process import Commands
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

topic = _topic
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ROW = record("Payment", amount="double", customer=record("Customer", age="int"), fraud="int")
LATER = record("Payment", note=["null", "string"], fraud="long", amount=["null", CENTS])
LATER["fields"].append({"name": "customer", "type": ["null", record("Customer", age="long", name="string")]})
OWN = {"format": "avro", "value": None, "where": None}


@pytest.fixture(autouse=True)
def _extra():
    need_fastavro()


def client_of(url):
    from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 # an extra

    return SchemaRegistryClient({"url": url})


def written(url, topic, number):
    """A message as a producer's serializer writes it; of what kind, its number says."""
    from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: PLC0415 # an extra

    customer = {"age": number % 90, "name": "?"}
    row = {"amount": number % 5, "customer": customer, "fraud": number % 2, "note": None}
    schema = ROW if number % 2 else LATER
    if schema is LATER:
        row["amount"] = None if number % 10 == 8 else Decimal(number % 5).scaleb(-1).quantize(Decimal("0.01"))
    with client_of(url) as client:
        serializer = AvroSerializer(client, json.dumps(schema), conf={"auto.register.schemas": True})
        return serializer(row, SerializationContext(topic, MessageField.VALUE))


def readable(number):
    """Whether a message of that number holds a record that can be read."""
    return number % 10 not in {3, 6, 8}


def produce(url, address, topic, numbers):
    producer = Producer({"bootstrap.servers": address})
    kinds = {k: written(url, topic, k) for k in range(10)}
    for number in numbers:
        odd = {3: None, 6: b"\0\x7f\xff\xff\xff" + kinds[6][5:]}  # a tombstone, and an id that nobody has
        producer.produce(topic, odd.get(number % 10, kinds[number % 10]), partition=0)
    assert producer.flush(PATIENCE) == 0


def test_a_node_reads_what_producers_write_and_waits_while_the_registry_is_away(
    tmp_path, new_broker, topic, schema_registry
):
    (url, process), broker, rounds = schema_registry, new_broker(), 30
    place, total = f"{topic}.avro", SIZE * 30
    create(broker.address, place, 1)
    produce(url, broker.address, place, range(total // 2))
    own = OWN | {"topic": place, "registry": {"url": url}}
    messages = [message(k) for k in range(total + 20)]
    path = prepared(tmp_path, broker, topic, messages, own=own, rounds=rounds)
    with LiveMesh(path) as mesh:
        mesh.scheduler()
        mesh.nodes()
        wait_until(lambda: stepped(mesh)[0] >= rounds // 2)
        node = mesh.processes[reader(mesh)]
        process.send_signal(signal.SIGSTOP)
        try:
            wait_until(lambda: "the schema registry is away" in node.log)
            producer = Producer({"bootstrap.servers": broker.address})
            kinds = [
                stored_message.value() for stored_message in stored(connection(broker.address), place)[:10]
            ]
            for k in range(total // 2, total):
                producer.produce(place, kinds[k % 10], partition=0)
            assert producer.flush(PATIENCE) == 0
            assert stepped(mesh)[0] == rounds // 2
        finally:
            process.send_signal(signal.SIGCONT)
        mesh.finish()
        assert "the schema registry answers again" in node.log
        assert set(learnt(broker.address, mesh)) == {(0, k) for k in range(total) if readable(k)}


def test_a_schema_is_written_from_what_producers_write(tmp_path, broker, topic, schema_registry, capsys):
    (url, _), address = schema_registry, broker.address
    create(address, topic, 1)
    produce(url, address, topic, range(60))
    call = Commands(capsys)
    outcome = call("schema", "--topic", topic, "--servers", address, "--registry", url, "--public")
    assert (outcome.code, outcome.err) == (0, "")
    tree = yaml.safe_load(outcome.out)
    schema = SchemaSettings.model_validate(tree)
    assert {"amount", "customer.age"} <= set(schema.features)
    assert schema.features["amount"].bounds == (0, 4)  # numbers, and decimals of tenths
    assert schema.features["customer.age"].bounds == (0, 9)
    assert schema.label.column == "fraud"
    (line,) = [row for row in outcome.out.splitlines() if "  source: " in row]
    source = yaml.safe_load(line.removeprefix("#   "))["source"]
    assert (source["format"], source["registry"]) == ("avro", {"url": url})
    TopicSettings.model_validate(source | {"schema": tree})


def test_a_registry_that_refuses_is_one_line(tmp_path, new_broker, topic):
    broker = new_broker()
    with stub_registry(user="reader:hush") as stub:
        registry = {"url": stub.url, "username": "reader", "password": "of-nobody"}
        path = prepared(tmp_path, broker, topic, [message(0)], own=OWN | {"registry": registry}, rounds=2)
        with LiveMesh(path) as mesh:
            node = mesh.node(reader(mesh))
            assert node.ends() == 1
            assert f"{stub.url}: the schema registry refuses these credentials (401)" in node.log
            assert "of-nobody" not in node.log
            assert "Traceback" not in node.log
