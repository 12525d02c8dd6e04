"""Why a record does not decode: the column and the kind, never a value."""

import json
import random

import pytest

from streams.mesh.settings.schema import SchemaSettings
from streams.mesh.settings.sparse import LibsvmSettings
from streams.records.decoder import CsvFields, SchemaDecoder, json_fields
from streams.records.faults import UNKNOWN, Fault, FaultCounts
from streams.records.sources import decoder
from streams.records.sparse import LibsvmDecoder
from tests.streams.records.test_fuzz import spoilt
from tests.support.meshes.sources import KINDS, SPARSE, mesh_of, record

SCHEMA = {
    "features": {"amount": {"bounds": [0, 1]}, "shop": {"categories": ["a", "b"]}},
    "label": {"column": "fraud", "positive": "fraud", "negative": "ok"},
    "timestamp": "at",
}
BAD_CSV = {
    b"nan,a,ok,1": "amount: not finite",
    b"1e999,a,ok,1": "amount: not finite",
    b"secret,a,ok,1": "amount: not a number",
    b'"1,5",a,ok,1': "amount: a decimal comma",
    b'"-1.234,5",a,ok,1': "amount: a decimal comma",
    b'"1,234,567",a,ok,1': "amount: not a number",
    b",a,ok,1": "amount: empty",
    b"1,a,OK,1": "fraud: not one of ok, fraud",
    b"1,a,,1": "fraud: empty",
    b"1,5,a,ok,1": "wrong number of fields",
    b"1,a": "wrong number of fields",
    b'1,"a,ok,1': "a quote that is not closed",
    b"1,\xe9,ok,1": "not UTF-8",
    b"1,a,ok," + b"9" * 20_000: "longer than 16,384 bytes, the source's max_record_bytes",
    b"": "empty, or longer than a record may be",
}
BAD_JSON = {
    b'{"amount": 1': "not JSON",
    b"[" * 100_000: "longer than 16,384 bytes, the source's max_record_bytes",
    b"[" * 10_000: "not JSON",
    b"[1]": "not a JSON object",
    b"\x00\x00\x00\x00\x07" + b'{"amount": 1}': "begins with a zero byte, as a schema registry's frame does",
    b"\x00\x00\x01\xe9\x07" + b'{"amount": 1}': "begins with a zero byte, as a schema registry's frame does",
    b'{"amount": "\xe9"}': "not UTF-8",
    b'{"shop": "a", "fraud": "ok"}': "amount: missing",
    b'{"amount": 1, "shop": "a"}': "fraud: missing",
    b'{"amount": null, "shop": "a", "fraud": "ok"}': "amount: empty",
    b'{"amount": true, "shop": "a", "fraud": "ok"}': "amount: not a number",
    b'{"amount": [1], "shop": "a", "fraud": "ok"}': "amount: not a number",
    b'{"amount": NaN, "shop": "a", "fraud": "ok"}': "amount: not finite",
    b'{"amount": 1, "shop": "a", "fraud": ["ok"]}': "fraud: not one of ok, fraud",
    b'{"amount": ' + b"9" * 400 + b', "shop": "a", "fraud": "ok"}': "amount: not finite",
}
TIMES = {
    b"1,a,ok,2024-03-01 12:00:00": "at: a time without a zone",
    b"1,a,ok,2024-03-01": "at: a time without a zone",
    b"1,a,ok,noon": "at: not a time",
    b"1,a,ok,": "at: empty",
    b"1,a,ok,inf": "at: not finite",
    b"1,a": "wrong number of fields",
    b"": "empty, or longer than a record may be",
}


def of_schema(fields, **changes):
    return SchemaDecoder(SchemaSettings.model_validate(SCHEMA | changes), fields)


CSV = of_schema(CsvFields(("amount", "shop", "fraud", "at")))


@pytest.mark.parametrize(("value", "said"), BAD_CSV.items())
def test_a_csv_line(value, said):
    assert CSV.decode(value) is None
    assert str(CSV.fault(value)) == said


@pytest.mark.parametrize(("value", "said"), BAD_JSON.items())
def test_a_json_line(value, said):
    found = of_schema(json_fields)
    assert found.decode(value) is None
    assert str(found.fault(value)) == said


@pytest.mark.parametrize(("value", "said"), TIMES.items())
def test_a_time(value, said):
    assert CSV.timestamp(value) is None
    assert str(CSV.time_fault(value)) == said


def test_a_label_of_other_kinds():
    row = {"amount": 1, "shop": "a"}
    for label, value, said in (
        ({"column": "fraud"}, "secret", "not a number"),
        ({"column": "fraud", "classes": ["a", "b", 3]}, "secret", "not one of a, b, 3"),
        (
            {"column": "fraud", "classes": list("abcdefgh")},
            "secret",
            "not one of a, b, c, d, e, f and 2 more",
        ),
        ({"column": "fraud", "positive": "a"}, {"secret": 1}, "neither text nor a number"),
    ):
        found, line = of_schema(json_fields, label=label), json.dumps(row | {"fraud": value}).encode()
        assert found.decode(line) is None
        assert found.fault(line) == ("fraud", said)


@pytest.mark.parametrize("kind", ["hour", "weekday"])
@pytest.mark.parametrize(("value", "said"), [(line, said) for line, said in TIMES.items() if b",ok," in line])
def test_the_hour_or_weekday_of_what_is_no_time(kind, value, said):
    found = of_schema(CsvFields(("amount", "shop", "fraud", "at")), features={"at": {kind: "UTC"}})
    assert found.decode(value) is None
    assert str(found.fault(value)) == said


def test_other_kinds_of_columns():
    features = {"a": {"log": [1, 9]}, "b": {"buckets": [1]}, "at": {"hour": "UTC"}}
    found = of_schema(CsvFields(("a", "b", "fraud", "at")), features=features)
    for line, said in (
        (b"x,1,ok,1", "a: not a number"),
        (b"-1,nan,ok,1", "b: not finite"),
        (b"1,1,ok,1e300", "at: not in the years 1 to 9999"),
    ):
        assert found.decode(line) is None
        assert str(found.fault(line)) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"secret 1:1", "label: not a number"),
        (b"1_0 1:1", "label: not a number"),
        (b"2 1:1", "label: not one of -1, 1"),
        (b"1 1", "not index:value"),
        (b"1 1:2:3", "not index:value"),
        (b"1 x:2", "not index:value"),
        (b"1 6:1", "index: not from 1 to 5"),
        (b"1 2:1 2:1", "index: not above the one before it"),
        (b"1 2:nan", "value: not finite"),
        (b"1 2:0,5", "value: a decimal comma"),
        (b"   ", "label: empty"),
    ],
)
def test_a_sparse_line(value, said):
    label = {"positive": 1, "negative": -1}
    found = LibsvmDecoder(LibsvmSettings.model_validate({"kind": "libsvm", "label": label}), 5)
    assert found.decode(value) is None
    assert str(found.fault(value)) == said


@pytest.mark.parametrize("kind", KINDS)
def test_every_spoilt_record_has_a_reason_and_no_sound_one_has(tmp_path, monkeypatch, kind):
    read = decoder(mesh_of(tmp_path, monkeypatch, kind), "b")
    rng, bad = random.Random(18), 0  # noqa: S311 # nothing secret
    for _ in range(5_000):
        value = spoilt(rng, record(kind))
        if read.decode(value) is None:
            bad += 1
            assert read.fault(value).kind != UNKNOWN, value
        elif kind in SPARSE:
            assert read.fault(value).kind == UNKNOWN
        elif kind != "own":
            assert read._fault(value) is None
    assert bad > 1_000


@pytest.mark.parametrize("kind", KINDS)
def test_no_reason_shows_what_a_record_holds(tmp_path, monkeypatch, kind):
    """There are few reasons, however many values: none depends on one."""
    read = decoder(mesh_of(tmp_path, monkeypatch, kind), "b")
    rng = random.Random(19)  # noqa: S311 # as above
    spoils = [spoilt(rng, record(kind)) for _ in range(5_000)]
    said = {str(read.fault(value)) for value in spoils if read.decode(value) is None}
    assert not any(mark in text for text in said for mark in ("1.5", "999", "true", "exit", "9223"))
    assert len(said) < 20


def test_the_commonest_stand_first():
    counts = FaultCounts()
    for fault in [None, *[Fault("fraud", "empty")] * 13, *[Fault("amount", "not a number")] * 1_087]:
        counts.add(fault)
    assert (counts.records, counts.malformed) == (1_101, 1_100)
    assert str(counts) == "amount: not a number (1,087), fraud: empty (13)"
    for k in range(7):
        counts.add(Fault(f"x{k}", "empty"))
    assert str(counts).endswith("x3: empty (1), others (3)")
