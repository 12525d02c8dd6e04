"""A slot that is decoded at once has the bits that its records have alone, whatever they hold."""

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.mesh.file import load
from streams.mesh.settings.node import DialectSettings
from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import CsvFields, SchemaDecoder, json_fields
from streams.records.observed import observed
from streams.records.sources import decoder

MESHES = Path(__file__).parents[3] / "deploy" / "meshes"
FEATURES = {
    "plain": "number",
    "bounds": {"bounds": [0, 100]},
    "log": {"log": [0.01, 1e6]},
    "buckets": {"buckets": [-1, 0, 2.5]},
    "categories": {"categories": ["a", "1", "true", "", "1e+20", "100000000000000000000"]},
    "hashed": {"hashed": 5},
    "hour": {"hour": "Europe/Berlin"},
    "weekday": {"weekday": "America/New_York"},
}
LABELS = {
    "number": {"column": "label"},
    "signs": {"column": "label", "positive": ["3", "yes"], "negative": ["no", "1e+20"]},
    "open": {"column": "label", "positive": "yes"},
    "classes": {"column": "label", "classes": ["3", "yes", "no"]},
}
ORDINARY = {
    "plain": 1.5,
    "bounds": 30,
    "log": 12.25,
    "buckets": 2.5,
    "categories": "a",
    "hashed": "word",
    "hour": "2026-03-08T07:30:00Z",
    "weekday": 1772953200.5,
    "label": 3,
}
COLUMNS = tuple(ORDINARY)
VALUES = (
    *("0", "-0", "-0.0", "0.0", "5e-324", "-5e-324", "1e-400", "-1e-400", "1e400", "-1e400", "1e308"),
    *(
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "01",
        "1.",
        "+1",
    ),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "18446744073709551615"),
    *(
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "100000000000000000000",
        "1e20",
    ),
    *("9" * 300, "9" * 400, "9" * 5000, "0." + "1" * 2000, "0.1" + "0" * 400 + "1", "1e" + "9" * 300),
    *("1", "1.0", "true", "false", "null", "[]", "{}", "[1]", '{"plain": 1}', '[{"a": 1}]', '[["a"]]'),
    *(
        '""',
        '"1"',
        '"1.0"',
        '"1_0"',
        '" 7 "',
        '"nan"',
        '"inf"',
        '"0x1"',
        '"-0"',
        '"1e400"',
        '"\u0661"',
        '"true"',
    ),
    *('"a"', '"b"', '"yes"', '"no"', '"a\\"b"', '"\\u0022"', '"\\ud800"', '"\\ud83d\\ude00"', '"\U0001f600"'),
    *(
        '"a\\nb"',
        '"a\nb"',
        '"\\u0000"',
        '"\x00"',
        '"["',
        '"{"',
        '"}"',
        '"a,b"',
        '"\ufeff"',
        '"\u2028"',
        "a",
        "'a'",
    ),
    *(
        '"2026-03-08T07:30:00"',
        '"2026-03-08"',
        '"9999-12-31T23:59:59Z"',
        '"0001-01-01T00:00:00Z"',
        "253402300800",
    ),
    *("", " ", "\t1", "1 2", '"a" "b"', "1, 2", '1, "more": 2', '1, "more": "x"', '1, "more": {"plain": 2}'),
    *('1, "plain": 2', '1, "label": 4', '1, "pl\\u0061in": 2', '1, "more": 1, "more": 2', '1}, {"plain": 1'),
)
RECORDS = (
    *(
        b"",
        b" ",
        b"{",
        b"}",
        b"{}",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b'"{\\"plain\\": 1}"',
        b"\xff",
        b"\x00",
        b"\n",
    ),
    *(b'{"plain": 1', b'"bounds": 2}', b"[" * 2000, b"{" * 2000, b'{"plain":' * 995 + b"1" + b"}" * 995),
    *(
        b"x" * 20_000,
        b",".join([b"1"] * 9),
        b'"' * 8,
        b"\xed\xa0\x80",
        b"1,2,3,4,a,b,0,0,3\r",
        b"\r",
        b"a\rb",
    ),
)


def bits(array):
    return np.ascontiguousarray(array, dtype=np.float64).view(np.int64).tolist()


def alone(values, read):
    """The observations record by record."""
    features, labels, present = np.zeros((len(values), read.dimension)), np.zeros(len(values)), []
    for k, value in enumerate(values):
        pair = read.decode(value)
        present.append(pair is not None)
        if pair is not None:
            features[k], labels[k] = pair
    return bits(features), bits(labels), present


def same(values, read):
    """Assert equal arrays and counts; return whether the slot was decoded at once."""
    seen = observed(tuple(values), read)
    assert (bits(seen.features), bits(seen.labels), seen.present.tolist()) == alone(values, read)
    assert [None if pair is None else bits([*pair[0], pair[1]]) for pair in read.decode_each(values)] == [
        None if pair is None else bits([*pair[0], pair[1]]) for pair in map(read.decode, values)
    ]
    arrays = read.at_once(values)
    if arrays is not None and arrays[1] is None:
        assert [label for _, label in map(read.parts, values)] == [None] * len(values)
    parts, pairs = read.parts_of(values), [read.parts(value) for value in values]
    rows = [(features, label) for features, label in pairs if features is not None]
    assert parts.readable.tolist() == [features is not None for features, _ in pairs]
    assert [bits(features) for features in parts.features] == [bits(features) for features, _ in rows]
    assert [None if np.isnan(label) else label for label in parts.labels.tolist()] == [
        label for _, label in rows
    ]
    for column in ("hashed", "plain"):
        assert read.texts(values, column) == [read.text(value, column) for value in values]
    return arrays is not None and arrays[1] is not None


def readers(label, *, features=FEATURES, **more):
    schema = SchemaSettings.model_validate({"features": features, "label": label} | more)
    return SchemaDecoder(schema, json_fields), SchemaDecoder(schema, CsvFields(COLUMNS))


def as_json(fields):
    return json.dumps(fields).encode()


def as_csv(fields):
    return ",".join(str(fields[name]) for name in COLUMNS).encode()


def object_of(texts):
    return ("{" + ", ".join(f'"{name}": {text}' for name, text in texts.items()) + "}").encode(
        errors="surrogatepass"
    )


ORDINARY_TEXTS = {name: json.dumps(value) for name, value in ORDINARY.items()}
USUAL = [as_json(ORDINARY | {"plain": k}) for k in range(9)]
USUAL_LINES = [as_csv(ORDINARY | {"plain": k}) for k in range(9)]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("norm", [None, 1, 1e-300, 1e300])
@pytest.mark.parametrize("intercept", [True, False, "outside"])
def test_a_slot_of_ordinary_records_is_decoded_at_once(label, norm, intercept):
    chance = np.random.Generator(np.random.Philox(5))
    of_json, of_csv = readers(LABELS[label], norm=norm, intercept=intercept)
    rows = [
        ORDINARY
        | {
            "plain": float(chance.normal() * 10.0 ** chance.integers(-300, 300)),
            "bounds": float(chance.normal() * 100),
            "log": float(chance.normal() * 100),
            "buckets": int(chance.integers(-3, 5)),
            "categories": chance.choice(["a", "1", "true", "", "other"]).item(),
            "hashed": str(chance.integers(9)),
            "weekday": float(chance.integers(2**31)),
            "label": {"number": -2.5, "signs": "no", "open": "x", "classes": "yes"}[label],
        }
        for _ in range(300)
    ]
    assert same([as_json(row) for row in rows], of_json)
    assert same([as_json(row | {"more": "text", "none": None}) for row in rows], of_json)
    assert same([as_csv(row) for row in rows], of_csv)
    assert same([as_csv(row | {"hashed": '"a, ""b"""'}) for row in rows], of_csv)


def test_records_of_adult_are_decoded_at_once():
    read = decoder(load(MESHES / "income.yaml"), "bank-1")
    with gzip.open(MESHES / "adult" / "adult_train.csv.gz") as file:
        lines = file.read().splitlines()[1:8001]
    for first in range(0, len(lines), 1000):
        assert same(lines[first : first + 1000], read)


@pytest.mark.parametrize(
    ("column", "label"), [*((name, "number") for name in COLUMNS), *(("label", kind) for kind in LABELS)]
)
def test_one_odd_value_in_any_column(column, label):
    of_json, of_csv = readers(LABELS[label], norm=2)
    at_once = 0
    for text in VALUES:
        value = object_of(ORDINARY_TEXTS | {column: text})
        at_once += same([*USUAL[:4], value, *USUAL[4:]], of_json)
        at_once += same([value] * 9, of_json)
        line = as_csv(ORDINARY | {column: text.strip('"')}), as_csv(ORDINARY | {column: text})
        for one_line in line:
            raw = one_line.replace(b"\\ud800", b"\xed\xa0\x80")
            at_once += same([*USUAL_LINES[:4], raw, *USUAL_LINES[4:]], of_csv)
    assert at_once > 0


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_that_some_or_all_records_lack(column):
    of_json, _ = readers(LABELS["number"])
    short = [as_json({name: value for name, value in ORDINARY.items() if name != column})] * 9
    same(short, of_json)
    same([*USUAL, short[0]], of_json)
    same([short[0], *USUAL], of_json)
    schema = SchemaSettings.model_validate({"features": FEATURES, "label": LABELS["number"]})
    columns = tuple(name for name in COLUMNS if name != column)
    without = SchemaDecoder(schema, CsvFields(columns))
    lines = [",".join(str(ORDINARY[name]) for name in columns).encode()] * 9
    same(lines, without)


def test_records_that_are_none_each_of_them_and_each_two_in_a_row():
    of_json, of_csv = readers(LABELS["number"])
    encoded = [USUAL[0].decode().encode(code) for code in ("utf-8-sig", "utf-16", "utf-32", "utf-16-le")]
    encoded += [USUAL_LINES[0].decode().encode(code) for code in ("utf-8-sig", "utf-16")]
    cut = [(USUAL[0][:k], USUAL[0][k:]) for k in range(0, len(USUAL[0]), 7)]
    cut += [
        ("é".encode()[:1], "é".encode()[1:]),
        (b"1,2,3,4,a\n", b"b,0,0,3"),
        (b'1,"2', b'3",4'),
        (b'1,2,3,4,"a\r', b'",b,0,0,3'),
    ]
    for first, second in (*cut, *itertools.product(RECORDS, RECORDS), *zip(encoded, encoded, strict=True)):
        same([*USUAL[:4], first, second, *USUAL[4:]], of_json)
        same([*USUAL_LINES[:4], first, second, *USUAL_LINES[4:]], of_csv)


def test_lines_that_make_up_for_each_other():
    """Nine rows, of two records in one value, and one record in two."""
    of_csv = readers(LABELS["number"])[1]
    usual = USUAL_LINES[0].decode()
    first, second = usual.replace("word", '"wo|rd"').split("|")
    lines = [*USUAL_LINES[:6], f"{usual}\n{usual}".encode(), first.encode(), second.encode()]
    assert not same(lines, of_csv)


def test_a_value_more_in_one_line_and_one_less_in_another_are_two_odd_lines():
    of_csv = readers(LABELS["number"])[1]
    more, less = USUAL_LINES[0] + b",4", USUAL_LINES[1].rpartition(b",")[0]
    assert not same([*USUAL_LINES[:7], more, less], of_csv)
    assert not same([*USUAL_LINES[:7], less, more], of_csv)


@pytest.mark.parametrize(
    "dialect", [{"delimiter": ";"}, {"delimiter": "\t", "quote": "none"}, {"quote": "'"}]
)
@pytest.mark.parametrize("mark", ["", "\r", "\0", '"', "'", '"wo"rd', "'wo'rd"])
def test_lines_of_a_dialect_with_a_mark_in_a_word(dialect, mark):
    schema = SchemaSettings.model_validate({"features": FEATURES, "label": LABELS["number"]})
    settings = DialectSettings.model_validate(dialect)
    read = SchemaDecoder(schema, CsvFields(COLUMNS, settings))
    usual = [line.decode().replace(",", settings.delimiter) for line in USUAL_LINES]
    for word in (f"wo{mark}rd", f"{mark}word", f"word{mark}", f"{mark}word{mark}"):
        at_once = same([line.replace("word", word).encode() for line in usual], read)
        assert at_once or mark
    same([line.encode() for line in usual[:8]] + [usual[8].replace("word", f"wo{mark}rd").encode()], read)


def test_a_byte_order_mark_is_no_part_of_a_category():
    schema = SchemaSettings.model_validate(
        {"features": {"a": {"categories": ["b"]}}, "label": {"column": "y"}}
    )
    assert not same(["\ufeffb,1".encode()] * 9, SchemaDecoder(schema, CsvFields(("a", "y"))))


@pytest.mark.parametrize(
    "more",
    [
        '"plain": 1',
        '"more": 1, "more": 2',
        '"more": "\\""',
        '"more": {}',
        '"more": ' + "[" * 1010 + "]" * 1010,
    ],
)
def test_a_key_twice_an_escaped_quote_and_values_within_values_are_looked_at_alone(more):
    read = readers(LABELS["number"])[0]
    odd = USUAL[0].removesuffix(b"}") + b", " + more.encode() + b"}"
    assert same(USUAL, read)
    assert not same([*USUAL, odd], read)
    assert not same([odd, *USUAL], read)


TEXTS = st.one_of(
    st.sampled_from(VALUES),
    st.floats().map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.text(max_size=5).map(json.dumps),
    st.text(max_size=5),
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
CHANGES = st.dictionaries(st.sampled_from((*COLUMNS, "more", "plain ", "Label")), TEXTS, max_size=3)


@given(
    st.lists(CHANGES, min_size=8, max_size=12),
    st.sampled_from(sorted(LABELS)),
    st.sampled_from([None, 1.0]),
    st.lists(st.sampled_from(RECORDS) | st.binary(max_size=8), max_size=1),
)
def test_slots_of_any_records(changes, label, norm, others):
    of_json, of_csv = readers(LABELS[label], norm=norm)
    same([*(object_of(ORDINARY_TEXTS | change) for change in changes), *others], of_json)
    lines = [
        ",".join(change.get(name, str(ORDINARY[name])) for name in COLUMNS).encode(errors="surrogatepass")
        for change in changes
    ]
    same([*lines, *others], of_csv)


NUMBERS = {"plain": "number", "bounds": {"bounds": [0, 1]}, "buckets": {"buckets": [0, 1e300]}}


@given(
    st.lists(
        st.tuples(
            *[st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**64), 2**64)] * 4,
        ),
        min_size=8,
        max_size=40,
    ),
    st.sampled_from([None, 1e-3, 1.0, 1e200]),
)
def test_numbers_keep_their_bits(rows, norm):
    of_json, _ = readers(LABELS["number"], features=NUMBERS, norm=norm)
    names = (*NUMBERS, "label")
    assert same([as_json(dict(zip(names, row, strict=True))) for row in rows], of_json)
