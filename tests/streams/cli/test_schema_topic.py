"""`mirrormesh schema --topic` on messages that are no JSON: Avro by a registry, and CSV lines."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
import yaml

from streams.bus.existing_topic import Sample
from streams.mesh.settings.node import TopicSettings
from streams.mesh.settings.schema import SchemaSettings
from streams.tools import schema as written
from tests.support.brokers.avro import message, need_fastavro, record
from tests.support.brokers.registry import stub_registry

CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AT = {"type": "long", "logicalType": "timestamp-millis"}
COUNTRY = {"type": "enum", "name": "Country", "symbols": ["DE", "FR", "XK"]}
CUSTOMER = record("Customer", country=COUNTRY, age=["null", "int"], since=AT)
TAGS = {"type": "array", "items": "int"}
PAYMENT = record(
    "Payment", amount=CENTS, note=["null", "string"], customer=CUSTOMER, tags=TAGS, at=AT, fraud="boolean"
)
ROWS = 60


class Message:
    """A message of a topic."""

    def __init__(self, value):
        self._value = value

    def value(self):
        return self._value


def payment(number):
    moment = datetime.fromtimestamp(1_700_000_000 + number, UTC)
    age = None if number % 5 == 0 else number
    return {
        "amount": Decimal(1_000 + number).scaleb(-2),
        "note": None if number % 3 else f"note {number % 7}",
        "customer": {"country": COUNTRY["symbols"][number % 3], "age": age, "since": moment},
        "tags": [number],
        "at": moment,
        "fraud": number % 4 == 0,
    }


@pytest.fixture
def called(call, monkeypatch):
    """Write the schema of a topic that begins with these messages."""

    def schema(values, *options):
        first = Sample(1, tuple(map(Message, values)))
        monkeypatch.setattr(written, "reach", lambda _: None)
        monkeypatch.setattr(written, "sample", lambda *_: first)
        return call("schema", "--topic", "payments", "--servers", "127.0.0.1:1", *options)

    return schema


def source_of(text):
    """Return the source that a schema's comment names."""
    (line,) = [row for row in text.splitlines() if "  source: " in row]
    return yaml.safe_load(line.removeprefix("#   "))["source"]


@pytest.fixture
def registry():
    """A registry that knows one schema."""
    need_fastavro()
    with stub_registry() as stub:
        stub.schemas[7] = PAYMENT
        yield stub


def test_avro_is_read_by_its_registry_as_a_node_reads_it(called, registry):
    values = [message(7, PAYMENT, payment(number)) for number in range(ROWS)]
    # a tombstone, one without a frame, one of an unknown schema, one that is cut off
    odd = [None, b"{}", b"\0\0\0\0\x09" + values[0][5:], values[1][:-1]]
    outcome = called([*values, *odd], "--registry", registry.url, "--public")
    assert (outcome.code, outcome.err) == (0, "")
    tree = yaml.safe_load(outcome.out)
    schema = SchemaSettings.model_validate(tree)
    assert list(schema.features) == ["amount", "note", "customer.country", "customer.age"]
    assert schema.features["amount"].bounds == (10, 10.59)
    assert schema.features["customer.age"].bounds == (1, 59)
    assert set(schema.features["customer.country"].categories) == {"DE", "FR", "XK"}
    assert set(schema.features["note"].categories) == {f"note {k}" for k in range(7)}
    assert [name for name, column in schema.features.items() if column.missing] == ["note", "customer.age"]
    assert (schema.label.column, schema.label.positive) == ("fraud", ("true",))
    assert "# tags" in outcome.out
    assert "# timestamp: {column: customer.since}" in outcome.out
    source = source_of(outcome.out)
    assert (source["format"], source["registry"]) == ("avro", {"url": registry.url})
    TopicSettings.model_validate(source | {"schema": tree})
    private = called(values, "--registry", registry.url)
    assert "categories: FILL-IN" in private.out
    assert not any(text in private.out for text in ("DE", "10.59", "note 1"))


def test_a_registry_that_knows_no_schema_or_refuses_is_one_line(called, registry):
    values = [message(8, PAYMENT, payment(number)) for number in range(3)]
    outcome = called(values, "--registry", registry.url)
    why = "none is a record: of a schema that the registry denies (3)"
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"payments: of its first 3 messages {why}\n")
    registry.answer = lambda _: 401
    refused = called(values, "--registry", registry.url)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == f"{registry.url}: the schema registry refuses these credentials (401)\n"


def test_a_frame_where_json_is_expected_names_the_option(called):
    outcome = called([b"\0\0\0\0\x07ab"] * 3)
    why = "none is a JSON object: 3 have a schema registry's frame, so name it: --registry URL"
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"payments: of its first 3 messages {why}\n")


def test_lines_of_csv_have_the_columns_that_are_named(called):
    rows = [(number + 0.5, ("de", "fr")[number % 2], number % 4 // 3) for number in range(ROWS)]
    lines = [",".join(map(str, row)).encode() for row in rows]
    outcome = called([*lines, b"1,de", None], "--columns", "amount,country,fraud", "--public")
    assert (outcome.code, outcome.err) == (0, "")
    tree = yaml.safe_load(outcome.out)
    schema = SchemaSettings.model_validate(tree)
    assert list(schema.features) == ["amount", "country"]
    assert schema.features["amount"].bounds == (0.5, 59.5)
    assert (schema.label.column, schema.label.positive) == ("fraud", ("1",))
    source = source_of(outcome.out)
    assert (source["format"], source["columns"]) == ("csv", ["amount", "country", "fraud"])
    TopicSettings.model_validate(source | {"schema": tree})
    outcome = called([b"1,de"], "--columns", "amount,country,fraud")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("payments: of its first 1 messages none is a record: ")
