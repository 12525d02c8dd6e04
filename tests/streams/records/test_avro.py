"""Avro behind a registry's frame: how each type is read, evolution, and hostile schemas and bytes."""

import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.bus.registry import Definition
from streams.mesh.settings.node import TopicSettings
from streams.records.avro import REMEMBERED, Schemas
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.messages import Messages
from streams.records.observed import observed
from streams.records.record import WholeMessage
from tests.support.brokers.avro import message, need_fastavro, record

ID = 7
LABEL = {"column": "y"}


@pytest.fixture(autouse=True)
def _extra():
    need_fastavro()


def topic(features, **settings):
    tree = {"kind": "topic", "topic": "payments", "format": "avro", "registry": {"url": "http://127.0.0.1:1"}}
    schema = {"features": features, "label": LABEL} | settings.pop("more", {})
    return TopicSettings.model_validate(tree | {"schema": schema} | settings)


def decoder(features, schemas, **settings):
    """A decoder that knows these schemas, by their ids."""
    source = topic(features, **settings)
    of_topic = SchemaDecoder(source.record, Messages(source))
    for number, schema in schemas.items():
        of_topic.schemas.learn(number, definition(schema))
    return of_topic


def definition(schema, *references, kind="AVRO"):
    return Definition(kind, json.dumps(schema), tuple(map(json.dumps, references)))


def logical(kind, name, /, **more):
    return {"type": kind, "logicalType": name} | more


NOON = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
CENTS = logical("bytes", "decimal", precision=12, scale=2)
TYPES = [
    # Avro's type, a value, and what JSON would hold in its place
    ("null", None, None),
    ("boolean", True, True),
    ("boolean", False, False),
    ("int", -3, -3),
    ("long", 2**53 + 1, 2**53 + 1),
    ("float", 0.5, 0.5),
    ("double", 0.1, 0.1),
    ("double", 7.0, 7.0),
    ("double", float("inf"), float("inf")),
    ("double", float("nan"), float("nan")),
    ("string", "DE", "DE"),
    ("string", "12.5", "12.5"),
    ("string", "1_0", "1_0"),
    ("string", "", ""),
    ({"type": "enum", "name": "E", "symbols": ["FR", "DE"]}, "DE", "DE"),
    (["null", "double"], None, None),
    (["null", "double"], 2.5, 2.5),
    (["string", "null"], "DE", "DE"),
    (["null", "int", "string"], "DE", "DE"),
    (["null", "int", "string"], 3, 3),
    (["null", logical("long", "timestamp-millis"), "string"], "DE", "DE"),
    (["null", logical("long", "timestamp-millis"), "string"], NOON, "2026-01-31T12:00:00.123000+00:00"),
    (CENTS, Decimal("12.30"), 12.3),
    (CENTS, Decimal("-12.00"), -12),
    (CENTS, Decimal("0.10"), 0.1),
    (logical("bytes", "decimal", precision=3), Decimal(7), 7),
    (logical("bytes", "decimal", precision=20), Decimal(2**53 + 1), 2**53 + 1),
    (logical("fixed", "decimal", name="F", size=8, precision=12, scale=4), Decimal("-1.25"), -1.25),
    (logical("int", "date"), date(2026, 1, 31), "2026-01-31"),
    (logical("int", "date"), date(1969, 12, 31), "1969-12-31"),
    (logical("int", "time-millis"), time(1, 2, 3, 4000), "01:02:03.004000"),
    (logical("long", "time-micros"), time(1, 2, 3, 4), "01:02:03.000004"),
    (logical("long", "timestamp-millis"), NOON, "2026-01-31T12:00:00.123000+00:00"),
    (logical("long", "timestamp-micros"), NOON, "2026-01-31T12:00:00.123456+00:00"),
    (logical("long", "timestamp-nanos"), 1_769_860_800_123_456_789, "2026-01-31T12:00:00.123456+00:00"),
    (logical("long", "local-timestamp-millis"), datetime(2026, 1, 31, 12), "2026-01-31T12:00:00"),  # noqa: DTZ001
    (logical("long", "local-timestamp-micros"), datetime(2026, 1, 31, 12), "2026-01-31T12:00:00"),  # noqa: DTZ001
    (logical("string", "uuid"), UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (logical("long", "of-somebody-s-own"), 5, 5),
    (logical("int", "timestamp-millis"), 5, 5),  # not of that type, so as it is
    (logical("bytes", "of-somebody-s-own"), b"x", []),
    ("bytes", b"x", []),
    ({"type": "fixed", "name": "F", "size": 2}, b"xy", []),
    ({"type": "array", "items": "int"}, [1], [1]),
    ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
    (record("Inner", a="int"), {"a": 1}, {"a": 1}),
]
COLUMNS = [
    "number",
    {"bounds": [-5, 5]},
    {"buckets": [0, 1]},
    {"categories": ["DE", "12.3", "true", "3", "2026-01-31", "7", str(2**53 + 1)]},
    {"hashed": 8},
    {"hour": "UTC"},
    {"weekday": "Europe/Berlin"},
]


@pytest.mark.parametrize("column", COLUMNS, ids=str)
@pytest.mark.parametrize(("kind", "value", "as_json"), TYPES, ids=lambda value: str(value)[:50])
def test_a_value_is_read_as_json_would_have_it(kind, value, as_json, column):
    schema = record(x=kind, y="int")
    of_topic = decoder({"x": column}, {ID: schema})
    value = message(ID, schema, {"x": value, "y": 1})
    of_json = SchemaDecoder(topic({"x": column}).record, json_fields)
    line = json.dumps({"x": as_json, "y": 1}).encode()
    alone, expected = of_topic.decode(value), of_json.decode(line)
    assert (alone is None) == (expected is None)
    if expected is not None:
        assert alone[0].tolist() == expected[0].tolist()
        assert of_topic.at_once([value] * 9)[0].tolist() == [expected[0].tolist()] * 9
    elif isinstance(as_json, str) or as_json is None:
        assert of_topic.fault(value) == of_json.fault(line)


@pytest.mark.parametrize("kind", ["timestamp-millis", "timestamp-micros"])
def test_a_timestamp_is_a_record_s_time(kind):
    schema = record(x="int", y="int", at=logical("long", kind))
    for unit in ("s", "ms"):  # which is said of numbers alone
        more = {"timestamp": {"column": "at", "unit": unit}}
        of_topic = decoder({"x": "number"}, {ID: schema}, more=more)
        at = datetime(2026, 1, 31, 12, tzinfo=UTC)
        assert of_topic.timestamp(message(ID, schema, {"x": 1, "y": 1, "at": at})) == at.timestamp()


def test_a_plain_long_is_a_time_in_the_unit_that_is_said():
    schema = record(x="int", y="int", at="long")
    of_topic = decoder({"x": "number"}, {ID: schema}, more={"timestamp": {"column": "at", "unit": "us"}})
    assert of_topic.timestamp(message(ID, schema, {"x": 1, "y": 1, "at": 5_000_000})) == 5.0


def test_records_in_envelopes_in_records_in_unions_and_maps():
    row = record("Row", amount=CENTS, customer=["null", record("Customer", at=logical("int", "date"))])
    row["fields"].append({"name": "tags", "type": {"type": "map", "values": CENTS | {"scale": 1}}})
    row["fields"].append({"name": "y", "type": "int"})
    row["fields"].append({"name": "status", "type": ["null", logical("int", "date")]})
    schema = record("Envelope", before=["null", row], after=["null", "Row"], op="string")
    features = {"amount": "number", "customer.at": {"categories": ["2026-01-31"]}}
    features |= {"tag": {"number": True, "from": "tags.size"}}
    where = {"op": "c", "after.status": "2026-02-01"}
    of_topic = decoder(features, {ID: schema}, value="after", where=where)
    after = {
        "amount": Decimal("1.25"),
        "customer": {"at": date(2026, 1, 31)},
        "tags": {"size": Decimal("2.5")},
        "y": 4,
        "status": date(2026, 2, 1),
    }
    create = message(ID, schema, {"before": None, "after": after, "op": "c"})
    assert of_topic.no_record(create) is None
    features, label = of_topic.decode(create)
    assert (features.tolist(), label) == ([1.25, 1.0, 2.5], 4.0)
    other = message(ID, schema, {"before": None, "after": after | {"status": date(2026, 2, 2)}, "op": "c"})
    assert of_topic.no_record(other) is not None
    deleted = message(ID, schema, {"before": after, "after": None, "op": "c"})
    assert of_topic.decode(deleted) is None


def test_schemas_evolve_and_each_record_has_its_writer_s():
    first = record(x="int", y="int", old="string")
    second = record(y="long", z="double", x=["null", CENTS])
    renamed = record(amount="double", y="int")
    of_topic = decoder({"x": "number"}, {1: first, 2: second, 3: renamed})
    records = [
        message(1, first, {"x": 1, "y": 1, "old": "?"}),
        message(2, second, {"y": 2, "z": 0.5, "x": Decimal("2.5")}),
        message(3, renamed, {"amount": 3.0, "y": 3}),
        message(2, second, {"y": 4, "z": 0.5, "x": None}),
    ]
    pairs = [of_topic.decode(value) for value in records]
    assert [None if pair is None else (pair[0].tolist(), pair[1]) for pair in pairs] == [
        ([1.0], 1.0),
        ([2.5], 2.0),
        None,
        None,
    ]
    assert [str(of_topic.fault(value)) for value in records[2:]] == ["x: missing", "x: empty"]
    slot = observed(tuple(4 * records), of_topic)
    assert slot.present.tolist() == 4 * [True, True, False, False]
    assert of_topic.at_once(4 * records[:2])[0].ravel().tolist() == 4 * [1.0, 2.5]


def test_types_of_other_schemas_that_one_refers_to():
    money = record("Money", amount=CENTS) | {"namespace": "shop"}
    line = record("Line", price="shop.Money")
    order = record("Order", line="Line", y="int")
    of_topic = decoder({"line.price.amount": "number"}, {})
    of_topic.schemas.learn(ID, definition(order, money, line))
    whole = record("Order", line=record("Line", price=money), y="int")
    value = message(ID, whole, {"line": {"price": {"amount": Decimal("2.50")}}, "y": 1})
    assert of_topic.decode(value)[0].tolist() == [2.5]


def test_a_key_has_a_schema_of_its_own():
    value, key = record(y="int"), record("Key", at=logical("int", "date"))
    features = {"day": {"categories": ["1970-01-02"], "from": {"key": "at"}}}
    of_topic = decoder(features, {1: value, 2: key})
    whole = WholeMessage.of(message(1, value, {"y": 1}), message(2, key, {"at": date(1970, 1, 2)}), ())
    assert of_topic.decode(whole)[0].tolist() == [1.0]


@pytest.mark.parametrize(("kind", "key", "number"), [("long", 17, 17.0), (CENTS, Decimal("1.50"), 1.5)])
def test_a_whole_key_is_a_single_value(kind, key, number):
    value = record(y="int")
    of_topic = decoder({"id": {"number": True, "from": {"key": "."}}}, {1: value, 2: kind})
    whole = WholeMessage.of(message(1, value, {"y": 1}), message(2, kind, key), ())
    assert of_topic.decode(whole)[0].tolist() == [number]
    unknown = WholeMessage.of(message(1, value, {"y": 1}), message(3, kind, key), ())
    assert of_topic.decode(unknown) is None


AMBIGUOUS = [logical("int", "date"), logical("long", "timestamp-millis")]


@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_a_union_that_does_not_say_which_of_two_a_value_is_holds_no_single_value(column):
    schema = record(x=AMBIGUOUS, y="int")
    of_topic = decoder({"x": column}, {ID: schema})
    assert of_topic.decode(message(ID, record(x=["int", "long"], y="int"), {"x": 1, "y": 1})) is None


def test_records_of_one_of_two_types_are_read_alike():
    at = logical("long", "timestamp-millis")
    card, transfer = record("Card", at=at, amount=CENTS), record("Transfer", at=at, amount=CENTS)
    schema = record(payment=[card, transfer], y="int")
    of_topic = decoder({"payment.amount": "number", "payment.at": {"hour": "UTC"}}, {ID: schema})
    for name in ("Card", "Transfer"):
        payment = (name, {"at": NOON, "amount": Decimal("1.50")})
        features, _ = of_topic.decode(message(ID, schema, {"payment": payment, "y": 1}))
        assert features.tolist()[:1] == [1.5]
        assert features.tolist()[1:].index(1.0) == 12


def test_what_is_not_read_may_be_any_time():
    written = record(x="int", y="int", at="long")
    schema = record(x="int", y="int", at=logical("long", "timestamp-millis"))
    value = message(ID, written, {"x": 1, "y": 1, "at": 2**62})
    assert decoder({"x": "number"}, {ID: schema}).decode(value) is not None
    read = decoder({"x": "number", "at": {"hour": "UTC"}}, {ID: schema})
    assert read.decode(value) is None
    assert str(read.fault(value)) == "not Avro of its schema"


FLAT = record(x="double", y="int")
GOOD = b"\0\0\0\0\7" + struct.pack("<d", 1.0) + b"\2"
"""x is 1.0, and y is 1."""


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (b"{}", "without a schema registry's frame"),
        (b"\1" + GOOD[1:], "without a schema registry's frame"),
        (GOOD[:5], "without a schema registry's frame"),
        (GOOD[:4] + b"\x08" + GOOD[5:], "of a schema that is not known"),
        (GOOD[:-1], "not Avro of its schema"),
        (GOOD + b"\0", "not Avro of its schema"),
        (b"\0\0\0\0\1\n", "not an Avro record"),
    ],
)
def test_bytes_that_are_no_record_of_their_schema(value, fault):
    of_topic = decoder({"x": "number"}, {ID: FLAT, 1: "long"})
    assert of_topic.decode(value) is None
    assert str(of_topic.fault(value)) == fault
    assert of_topic.at_once([*[GOOD] * 9, value]) is None


LIST = record("L", next=["null", "L"], y="int")
DEEP = record("Deep0", x="int")
for number in range(1, 110):
    DEEP = record(f"Deep{number}", x=DEEP)
CHAIN = [record("Deep0", x="int"), *(record(f"Deep{k}", x=f"Deep{k - 1}") for k in range(1, 5_000))]


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (LIST, "of a schema that holds itself"),
        (record(x="int", y={"type": "array", "items": LIST}), "of a schema that holds itself"),
        (record(x={"type": "array", "items": "null"}), "of a schema with lists of items without a size"),
        (record(x={"type": "array", "items": record("E")}), "of a schema with lists of items without a size"),
        (
            record(x={"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}),
            "of a schema with lists of items without a size",
        ),
        (
            record(x={"type": "map", "values": {"type": "array", "items": record("E", a="null", b="null")}}),
            "of a schema with lists of items without a size",
        ),
        (DEEP, "of a schema that is too deep"),
        (CHAIN, "of a schema that is too deep"),
        (record(x="nobody"), "of a schema that is not valid"),
        ({"type": "record"}, "of a schema that is not valid"),
        (5, "of a schema that is not valid"),
        (record(**{f"x{k}": "int" for k in range(40_000)}), "of a schema that is too large"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_schema_that_is_hostile_makes_its_records_unreadable(schema, fault):
    of_topic = decoder({"x": "number"}, {ID: schema})
    for value in (GOOD, GOOD[:5] + b"\2" * 16_000 + b"\0", GOOD[:5] + b"\xfe\xff\xff\xff\xff\xff\xff\x7f\0"):
        assert of_topic.decode(value) is None
        assert str(of_topic.fault(value)) == fault


def test_a_type_that_is_named_often_is_walked_once():
    """Each of these holds the one before it twice: walked in full that would be 2^45."""
    wide = [record("W0", x="int"), *(record(f"W{k}", a=f"W{k - 1}", b=f"W{k - 1}") for k in range(1, 45))]
    of_topic = decoder({"x": "number", "a.a.a.a": "number"}, {ID: [*wide, FLAT]})
    assert str(of_topic.fault(GOOD)) != "of a schema that is not known"
    assert of_topic.schemas.schema_of(GOOD) is not None


@pytest.mark.parametrize("kind", ["JSON", "PROTOBUF"])
def test_a_schema_of_another_kind(kind):
    of_topic = decoder({"x": "number"}, {})
    of_topic.schemas.learn(ID, definition(FLAT, kind=kind))
    assert str(of_topic.fault(GOOD)) == "of a schema that is not Avro"


def test_what_the_registry_denies_is_asked_for_again_after_a_while_alone():
    now = 0.0
    schemas = Schemas([("x",)], lambda: now)
    assert schemas.unknown([GOOD, b"", b"{}", GOOD]) == {ID}
    schemas.learn(ID, None)
    assert schemas.unknown([GOOD]) == set()
    assert str(schemas.fault(GOOD)) == "of a schema that the registry denies"
    now = REMEMBERED
    assert schemas.unknown([GOOD]) == {ID}
    assert schemas.schema_of(GOOD) is None
    schemas.learn(ID, definition(FLAT))
    now = 1e9
    assert schemas.unknown([GOOD]) == set()
    assert schemas.schema_of(GOOD) is not None


def test_a_message_and_its_key_stay_unreadable_that_arrive_before_their_schemas():
    schemas, other = Schemas([]), b"\0\0\0\0\1x"
    schemas.learn(ID, definition(FLAT))
    whole = WholeMessage.of(GOOD, other, [("h", b"v")])
    assert schemas.settled(GOOD) is GOOD
    assert schemas.settled(b"{}") == b"{}"
    early, message = schemas.settled(other), schemas.settled(whole)
    assert (early, message, message.key, message.headers) == (other, GOOD, other, {"h": b"v"})
    schemas.learn(1, definition(FLAT))
    assert schemas.schema_of(other) is not None
    assert [schemas.schema_of(value) for value in (early, message.key)] == [None, None]
    assert schemas.schema_of(message) is not None
    assert str(schemas.fault(early)) == "of a schema that is not known"
    early = Schemas([]).settled(whole)
    assert (early, early.key, early.headers) == (GOOD, other, {"h": b"v"})


def test_any_number_of_ids_that_are_denied_take_some_room_alone():
    schemas = Schemas([])
    for number in range(30_000):
        schemas.learn(number, None)
    assert len(schemas._refused) == 10_000
    assert schemas.unknown([b"\0\0\0\0\1x"]) == {1}


ROWS = st.fixed_dictionaries(
    {"x": st.one_of(st.none(), st.floats(), st.integers(-9, 9), st.text(max_size=2)), "y": st.integers(-9, 9)}
)
WIDE = record(x=["null", "double", "long", "string"], y="int")
VALUES = st.one_of(
    st.binary(max_size=12),
    st.binary(max_size=12).map(lambda rest: GOOD[:5] + rest),
    ROWS.map(lambda row: message(ID, WIDE, row)),
    st.builds(lambda row, end: message(ID, WIDE, row)[:end], ROWS, st.integers(0, 12)),
    st.just(message(ID, WIDE, {"x": 1.0, "y": 2})),
)
FAST = st.sampled_from(["number", {"categories": ["a", "1", "2"]}, {"hashed": 4}])


@given(st.lists(VALUES, min_size=8, max_size=12), FAST)
def test_a_slot_decoded_at_once_is_each_record_decoded_alone(values, column):
    of_topic = decoder({"x": column}, {ID: WIDE})
    slot = observed(tuple(values), of_topic)
    pairs = [of_topic.decode(value) for value in values]
    assert slot.present.tolist() == [pair is not None for pair in pairs]
    for k, pair in enumerate(pairs):
        if pair is not None:
            assert np.array_equal(slot.features[k], pair[0])
            assert slot.labels[k] == pair[1]
        else:
            assert str(of_topic.fault(values[k]))
