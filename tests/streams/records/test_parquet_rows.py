"""A slot of Parquet rows has the bits that their lines have, by columns, whatever the rows hold."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.mesh.settings.schema import SchemaSettings
from streams.records import parquet
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.faults import FaultCounts
from streams.records.observed import observed
from streams.records.parquet import (
    Row,
    RowDecoder,
    RowFields,
    parquet_columns,
    parquet_lines,
    parquet_row_values,
)
from streams.records.sources import open_source
from tests.streams.records.test_at_once import FEATURES, LABELS
from tests.support.meshes.sources import mesh_of

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'mirrormesh[parquet]'")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: pip install 'mirrormesh[parquet]'")

TEXTS = st.one_of(
    st.sampled_from(
        ["a", "1", "yes", "no", "3", "", " ", "true", "1e20", "nan", "-0", "1_0", "\u0661", "NULL"]
    ),
    st.sampled_from(["2026-03-08T07:30:00Z", "2026-03-08", '"', "\\", "\x00", "\u2028", "\U0001f600" * 30]),
    st.text(max_size=5).filter(lambda text: text.isprintable() or text.isascii()),
)
FLOATS = st.one_of(
    st.floats(),
    st.sampled_from([0.0, -0.0, 3.0, 5e-324, 1e308, 1e20, math.nan, math.inf, -math.inf, 253402300800.0]),
)
KINDS = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "float64": (pa.float64(), FLOATS),
    "float32": (pa.float32(), st.floats(width=32)),
    "float16": (pa.float16(), st.floats(width=16).map(np.float16)),
    "bool": (pa.bool_(), st.booleans()),
    "null": (pa.null(), st.none()),
    "string": (pa.string(), TEXTS),
    "binary": (None, TEXTS.map(str.encode) | st.sampled_from([b"a\xff", b"\xed\xa0\x80"])),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "yes", "1"])),
    "decimal": (pa.decimal128(9, 3), st.integers(-(10**8), 10**8).map(lambda number: Decimal(number) / 1000)),
    "utc": (
        pa.timestamp("us", "UTC"),
        st.integers(0, 2 * 10**9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
    ),
}
FEW = 12


def column(kind, values):
    """An Arrow array; `binary` is text that need not be UTF-8."""
    if kind != "binary":
        return pa.array(values, KINDS[kind][0])
    bare = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(values), bare.buffers(), bare.null_count)


@st.composite
def tables(draw):
    """A few rows of some columns, mostly ordinary numbers, and a schema of them."""
    names = draw(st.lists(st.sampled_from(sorted(FEATURES)), min_size=1, max_size=4, unique=True))
    size = draw(st.integers(1, 30))
    columns = {}
    for name in [*names, "label"]:
        kind = draw(st.sampled_from([*KINDS, "float64", "int64", "string"]))
        values = KINDS[kind][1]
        if draw(st.booleans()):
            values = st.just(draw(values))  # so that whole slots are ordinary
        values = values | st.none() if draw(st.sampled_from([False, False, True])) else values
        columns[name] = column(kind, draw(st.lists(values, min_size=size, max_size=size)))
    kinds = {name: {"number": True} if name == "plain" else FEATURES[name] for name in names}
    missing = draw(st.sampled_from([{}, {}, {"as": 0}, {"as": "indicator"}, {"as": 0, "texts": [1, 3, "a"]}]))
    tree = {
        "features": {name: kind | ({"missing": missing} if missing else {}) for name, kind in kinds.items()},
        "label": LABELS[draw(st.sampled_from(sorted(LABELS)))],
        "intercept": draw(st.booleans()),
        "norm": draw(st.sampled_from([None, 1.0])),
    } | draw(st.sampled_from([{}, {"missing": ["3", "no", 9007199254740993]}]))
    return pa.table(columns), SchemaSettings.model_validate(tree)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return str(tmp_path_factory.mktemp("rows") / "rows.parquet")


def both(path, schema, longest=None):
    """The rows and the lines of a file, and their decoders."""
    columns = list(schema.columns)
    rows = list(parquet_row_values(path, columns, schema))
    lines = list(parquet_lines(path, columns))
    return rows, lines, RowDecoder(schema, RowFields(), longest), SchemaDecoder(schema, json_fields, longest)


def assert_the_same(rows, lines, of_rows, of_lines):
    """Arrays to the bit, faults, parts and words."""
    by_rows, by_lines = observed(tuple(rows), of_rows), observed(tuple(lines), of_lines)
    for name in ("features", "labels", "present"):
        assert getattr(by_rows, name).tobytes() == getattr(by_lines, name).tobytes(), name
    counts = FaultCounts(), FaultCounts()
    for row, line, present in zip(rows, lines, by_lines.present.tolist(), strict=True):
        counts[0].add(None if present else of_rows.fault(row))
        counts[1].add(None if present else of_lines.fault(line))
    assert (counts[0].records, counts[0].faults) == (counts[1].records, counts[1].faults)
    for part, other in zip(of_rows.parts_of(rows), of_lines.parts_of(lines), strict=True):
        assert part.tobytes() == other.tobytes()


@given(
    tables(),
    st.sampled_from([1, 3, 4096]),
    st.sampled_from([None, 40, 90]),
    st.randoms(use_true_random=False),
)
def test_rows_by_columns_are_what_their_lines_are(path, table, batch, longest, order):
    arrow, schema = table
    pq.write_table(arrow, path, row_group_size=7)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parquet, "ROWS", batch)
        rows, lines, of_rows, of_lines = both(path, schema, longest)
    assert len(rows) == len(lines)
    places = list(range(len(rows)))
    order.shuffle(places)
    assert_the_same([rows[k] for k in places], [lines[k] for k in places], of_rows, of_lines)
    assert [of_rows.words(row, schema.columns) for row in rows] == [
        of_lines.words(line, schema.columns) for line in lines
    ]


def test_an_ordinary_slot_needs_no_line(path, monkeypatch):
    names = sorted(FEATURES)
    values = {"categories": "a", "hashed": "word", "hour": "2026-03-08T07:30:00Z", "weekday": 1772953200.5}
    table = {name: [values.get(name, 1.5)] * FEW for name in names} | {"label": [3] * FEW}
    pq.write_table(pa.table(table), path)
    for label in LABELS.values():
        schema = SchemaSettings.model_validate({"features": FEATURES, "label": label})
        rows, lines, of_rows, of_lines = both(path, schema)
        assert_the_same(rows, lines, of_rows, of_lines)
        with monkeypatch.context() as patched:
            patched.setattr(parquet.RowBatch, "line", lambda *_: pytest.fail("a line was made"))
            for size in (1, FEW):
                assert observed(tuple(rows[:size]), of_rows).present.all()


@pytest.mark.parametrize("spoilt", ["categories", "hashed"])
def test_a_text_that_is_none_is_a_bad_record_of_its_own(path, spoilt):
    texts = {"categories": [b"a"] * FEW, "hashed": [b"word"] * FEW}
    texts[spoilt][3] = b"a\xff"
    table = {name: column("binary", values) for name, values in texts.items()} | {"label": [1.0] * FEW}
    pq.write_table(pa.table(table), path)
    features = {name: FEATURES[name] for name in texts}
    schema = SchemaSettings.model_validate({"features": features, "label": LABELS["number"]})
    rows, lines, of_rows, of_lines = both(path, schema)
    assert_the_same(rows, lines, of_rows, of_lines)
    assert observed(tuple(rows), of_rows).present.tolist() == [k != 3 for k in range(FEW)]


def test_labels_that_are_words_are_those_of_whole_numbers(path):
    pq.write_table(pa.table({"plain": [1.0] * FEW, "label": [2**53 + k % 2 for k in range(FEW)]}), path)
    label = {"column": "label", "positive": str(2**53 + 1), "negative": str(2**53)}
    schema = SchemaSettings.model_validate({"features": {"plain": "number"}, "label": label})
    rows, lines, of_rows, of_lines = both(path, schema)
    assert_the_same(rows, lines, of_rows, of_lines)
    assert observed(tuple(rows), of_rows).labels.tolist() == [2 * (k % 2) - 1 for k in range(FEW)]


def test_rows_of_several_batches_keep_their_order(path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS", 5)
    table = {"plain": [float(k) for k in range(40)], "categories": list("ab") * 20, "label": list(range(40))}
    pq.write_table(pa.table(table), path)
    features = {name: FEATURES[name] for name in ("plain", "categories")}
    schema = SchemaSettings.model_validate({"features": features, "label": LABELS["number"]})
    rows, lines, of_rows, of_lines = both(path, schema)
    order = np.random.Generator(np.random.Philox(1)).permutation(40)
    assert_the_same([rows[k] for k in order], [lines[k] for k in order], of_rows, of_lines)
    assert observed(tuple(rows[k] for k in order), of_rows).labels.tolist() == order.tolist()


def test_a_row_that_nobody_knows_is_a_bad_record(path):
    schema = SchemaSettings.model_validate({"features": {"plain": "number"}, "label": LABELS["number"]})
    pq.write_table(pa.table({"plain": [1.0], "label": [1.0]}), path)
    (row,) = parquet_row_values(path, parquet_columns(path), schema)
    assert isinstance(row, Row)
    assert SchemaDecoder(schema, json_fields).decode(row) is None


def test_sources_and_held_out_records_are_read_by_columns(tmp_path, monkeypatch):
    rows = [str(k) for k in range(40)]
    for own in ({}, {"take": {"every": 3, "offset": 1}}, {"shuffle": True}):
        slots = {"slots": {"by": "count", "size": 12}}
        sources = [
            open_source(mesh_of(tmp_path, monkeypatch, kind, rows=rows, mesh=slots, **own), "b", 5)
            for kind in ("json-lines", "parquet")
        ]
        records = [tuple(record.value for record in source.records) for source in sources]
        assert all(isinstance(value, Row) for value in records[1])
        labels = [
            observed(values, source.decoder).labels for values, source in zip(records, sources, strict=True)
        ]
        assert labels[0].tolist() == labels[1].tolist()


def test_small_slots_have_lines(tmp_path, monkeypatch):
    file = mesh_of(tmp_path, monkeypatch, "parquet", rows=["1", "2"])
    values = [record.value for record in open_source(file, "b", 5).records]
    assert [isinstance(value, Row) for value in values] == [False, False]
