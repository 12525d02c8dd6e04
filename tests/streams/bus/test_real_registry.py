"""A real schema registry: its schemas, and what a producer's serializer writes by them."""

import json
from contextlib import closing
from decimal import Decimal

import pytest
from confluent_kafka.serialization import MessageField, SerializationContext

from streams.bus.registry import SchemaRegistry
from streams.mesh.settings.brokers import RegistrySettings
from streams.mesh.settings.node import TopicSettings
from streams.records.decoder import SchemaDecoder
from streams.records.messages import Messages
from tests.support.brokers.avro import need_fastavro, record

pytestmark = pytest.mark.slow

CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ROW = record("Payment", amount="double", customer=record("Customer", age="int"), fraud="int")
LATER = record("Payment", note=["null", "string"], fraud="long", amount=["null", CENTS])
LATER["fields"].append({"name": "customer", "type": ["null", record("Customer", age="long", name="string")]})
SCHEMA = {"features": {"amount": "number", "customer.age": "number"}, "label": {"column": "fraud"}}


@pytest.fixture(autouse=True)
def _extra():
    need_fastavro()


def client_of(url):
    from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 # an extra

    return SchemaRegistryClient({"url": url})


def test_it_gives_schemas_with_those_that_they_refer_to(schema_registry):
    from confluent_kafka.schema_registry import Schema, SchemaReference  # noqa: PLC0415 # an extra

    url, _ = schema_registry
    settings = RegistrySettings.model_validate({"url": url})
    with client_of(url) as client, closing(SchemaRegistry(settings)) as registry:
        registry.look()
        money, order = record("Money", amount=CENTS), record("Order", price="Money")
        client.register_schema("money", Schema(json.dumps(money), "AVRO"))
        reference = SchemaReference("Money", "money", 1)
        number = client.register_schema("order", Schema(json.dumps(order), "AVRO", [reference]))
        definition = registry.schema(number)
        assert definition.kind == "AVRO"
        assert [json.loads(text) for text in (*definition.references, definition.text)] == [money, order]
        text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"})
        assert registry.schema(client.register_schema("object", Schema(text, "JSON"))).kind == "JSON"
        assert registry.schema(2**31 - 1) is None


def test_what_producers_write_is_read_by_the_schemas_that_they_registered(schema_registry):
    from confluent_kafka.schema_registry.avro import AvroSerializer  # noqa: PLC0415 # an extra

    url, _ = schema_registry
    tree = {
        "kind": "topic",
        "topic": "payments",
        "format": "avro",
        "registry": {"url": url},
        "schema": SCHEMA,
    }
    source = TopicSettings.model_validate(tree)
    decoder = SchemaDecoder(source.record, Messages(source))
    rows = [
        (ROW, {"amount": 2.5, "customer": {"age": 30}, "fraud": 1}),
        (LATER, {"amount": Decimal("1.50"), "customer": {"age": 40, "name": "?"}, "fraud": 0, "note": None}),
        (LATER, {"amount": None, "customer": None, "fraud": 0, "note": "?"}),
    ]
    context = SerializationContext("payments", MessageField.VALUE)
    with client_of(url) as client, closing(SchemaRegistry(source.registry)) as registry:
        values = [AvroSerializer(client, json.dumps(schema))(row, context) for schema, row in rows]
        for number in decoder.schemas.unknown(values):
            decoder.schemas.learn(number, registry.schema(number))
    pairs = [decoder.decode(value) for value in values]
    assert [None if pair is None else (pair[0].tolist(), pair[1]) for pair in pairs] == [
        ([2.5, 30.0], 1.0),
        ([1.5, 40.0], 0.0),
        None,
    ]
    assert str(decoder.fault(values[2])) == "amount: empty"
