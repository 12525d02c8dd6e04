"""Missing values and dialects: what each is worth, record by record and all at once."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.mesh.settings.node import DialectSettings
from streams.mesh.settings.schema import ColumnSettings, SchemaSettings, word
from streams.records.decoder import CsvFields, SchemaDecoder, json_fields
from tests.streams.records.test_at_once import VALUES, same

KINDS = {
    "number": True,
    "bounds": [0, 10],
    "log": [1, 100],
    "buckets": [0, 5],
    "categories": ["a", "NA", "7"],
    "hashed": 5,
    "hour": "UTC",
    "weekday": "Europe/Berlin",
}
WIDTHS = {
    "number": 1,
    "bounds": 1,
    "log": 1,
    "buckets": 3,
    "categories": 3,
    "hashed": 5,
    "hour": 24,
    "weekday": 7,
}
NUMBERS = ("number", "bounds", "log", "buckets")
WORDS = ("categories", "hashed")


def reader(kind, missing=None, texts=None, fields=json_fields, label=None, **column):
    settings = {kind: KINDS[kind]} | ({} if missing is None else {"missing": missing}) | column
    schema = {"features": {"x": settings}, "label": {"column": "y"} | (label or {})}
    schema |= {} if texts is None else {"missing": texts}
    return SchemaDecoder(SchemaSettings.model_validate(schema), fields)


def features(decoder, value, there=True):
    pair = decoder.decode(json.dumps(({"x": value} if there else {}) | {"y": 1}).encode())
    return None if pair is None else pair[0].tolist()


def only(place, width):
    return [float(k == place) for k in range(width)]


USUAL = {"number": 7, "bounds": 7, "log": 7, "buckets": 7, "categories": "a", "hashed": "a"}
USUAL |= {"hour": "2026-01-31T12:30:00Z", "weekday": "2026-01-31T12:30:00Z"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_value_is_what_its_owner_says(kind):
    width, usual = WIDTHS[kind], features(reader(kind), USUAL[kind])
    assert len(usual) == width
    marked = reader(kind, {"as": "indicator"})
    assert marked.dimension == width + 1
    assert features(marked, USUAL[kind]) == [*usual, 0.0]
    for value in (None, "", "  ", math.nan, "N/A", "null", " NaN "):
        assert features(marked, value) == [0.0] * width + [1.0], value
    assert features(marked, None, there=False) == [0.0] * width + [1.0]
    for refusing in (reader(kind), reader(kind, "refuse"), reader(kind, {"as": "refuse", "texts": ["?"]})):
        assert refusing.dimension == width
        assert features(refusing, None) is None
        assert features(refusing, USUAL[kind]) == usual
    if kind in NUMBERS:
        for number in (0, 3.5, -1e9, 1e9):
            assert features(reader(kind, {"as": number}), None) == features(reader(kind), number)
    else:
        assert features(reader(kind, {"as": 0}), None) == [0.0] * width


def test_a_missing_word_may_be_a_category_of_its_own():
    listed = reader("categories", {"as": "category"})
    assert listed.dimension == 4
    assert features(listed, None) == only(3, 4)
    assert features(listed, "unknown") == [0.0] * 4
    assert features(listed, "NA") == only(1, 4)  # it is a category: it is not missing
    hashed = reader("hashed", {"as": "category"})
    assert hashed.dimension == 5
    assert sum(features(hashed, None)) == 1.0
    assert features(hashed, "null") == features(hashed, None) == features(hashed, "")


def test_which_texts_are_missing():
    usual, of_schema = reader("hashed", {"as": 0}), reader("hashed", {"as": 0}, texts=["?", -999])
    own = reader("hashed", {"as": 0, "texts": ["none"]}, texts=["?"])
    refused = reader("hashed", texts=["?"])
    for text, missing in {"NA": "u", "?": "s", " ? ": "s", "-999": "s", "-999.0": "s", "none": "o"}.items():
        for name, decoder in {"u": usual, "s": of_schema, "o": own}.items():
            assert (sum(features(decoder, text)) == 0.0) == (name == missing), (text, name)
    assert sum(features(of_schema, -999)) == sum(features(of_schema, -999.0)) == 0.0
    assert features(refused, "?") is None
    for nothing in (None, "", " ", math.nan):  # is missing whatever is listed
        assert sum(features(own, nothing)) == 0.0
        assert features(refused, nothing) is None
    assert sum(features(refused, "NA")) == 1.0  # no column says what it counts as, and it is a word
    assert str(refused.fault(b'{"x": "?", "y": 1}')) == "x: missing"
    assert str(reader("number").fault(b'{"y": 1}')) == "x: missing"


def test_a_label_that_is_listed_as_missing_is_none():
    for label, text in (({}, "-9"), ({"positive": ["1"]}, "-9"), ({"classes": ["1", "2"]}, "-9")):
        decoder = reader("number", texts=[-9], label=label)
        line = json.dumps({"x": 1, "y": text}).encode()
        assert decoder.decode(line) is None
        assert str(decoder.fault(line)) == "y: missing"
    kept = reader("number", texts=[-9], label={"positive": ["1"], "negative": [-9]})
    assert kept.decode(b'{"x": 1, "y": -9}')[1] == -1.0


def test_a_time_that_is_listed_as_missing_is_none():
    schema = {"features": {"x": "number"}, "label": {"column": "y"}, "timestamp": "at", "missing": [0]}
    decoder = SchemaDecoder(SchemaSettings.model_validate(schema), json_fields)
    assert decoder.timestamp(b'{"x": 1, "y": 1, "at": 0}') is None
    assert str(decoder.time_fault(b'{"x": 1, "y": 1, "at": "0"}')) == "at: missing"
    assert decoder.timestamp(b'{"x": 1, "y": 1, "at": 1}') == 1


REFUSED = [
    ({"number": True, "missing": {"as": "category"}}, "category goes with categories and hashed"),
    ({"categories": ["a"], "missing": {"as": 1}}, "must be 0, indicator or refuse"),
    ({"hour": "UTC", "missing": {"as": 12}}, "must be 0, indicator or refuse"),
    ({"number": True, "missing": {"as": "zero"}}, "must be a number, or one of refuse, indicator, category"),
    ({"number": True, "missing": {"as": True}}, "must be a number, or one of"),
    ({"number": True, "missing": {"as": 10**400}}, "must be a number, or one of"),
    ({"missing": {"as": 0}}, "must be one of number, "),
    ({"bounds": [0, 1], "log": [1, 2], "missing": {"as": 0}}, "must be one of number, "),
    ({"bounds": [0, 1], "zone": "UTC"}, "goes with hour and weekday"),
]


@pytest.mark.parametrize(("column", "allowed"), REFUSED)
def test_what_does_not_go_together_is_refused(column, allowed):
    with pytest.raises(ValueError, match=allowed):
        ColumnSettings.model_validate(column)


def test_the_settings_of_before_are_written_as_before():
    for tree in ("number", {"bounds": [0, 1]}):
        written = ColumnSettings.model_validate(tree).model_dump(mode="json", by_alias=True)
        assert not {"missing", "format", "zone", "unit"} & set(written)
    model = ColumnSettings.model_validate({"number": True, "missing": {"as": "indicator"}})
    again = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert again == {"number": True, "missing": {"as": "indicator"}}
    assert ColumnSettings.model_validate(again) == model


NUMBERS_OF = {
    (",", None): {"1,5": 1.5, "-0,25": -0.25, ",5": 0.5, "5,": 5.0, "1e3": 1e3, " 1,5 ": 1.5, "7": 7.0},
    (",", "."): {
        "1.234,56": 1234.56,
        "1.234": 1234.0,
        "1234,5": 1234.5,
        "-1.234.567": -1234567.0,
        "12": 12.0,
    },
    (".", ","): {"1,234.56": 1234.56, "1,234": 1234.0, "1,234,567.5e1": 12345675.0, "+12,345": 12345.0},
    (".", "'"): {"1'234.5": 1234.5},
    (",", " "): {"1 234,5": 1234.5, " 1 234 ": 1234.0},
    (",", "\u202f"): {"1\u202f234,5": 1234.5},
}
NONE_OF = {
    (",", None): ("1.5", "1,2,3", "1.234,5", ",", "1_0", "\u0661", "", "1 000", "nan", "1,5x"),
    (",", "."): ("1.5", "1.23", "12.34,5", "1234.567", "1.234.56", ".123", "1.234,567.8", "1..234", "1.2345"),
    (".", ","): ("1,23", "1234,567", ",123", "1,,234", "1,234,56", "1.5,0", "1.234,567", "12,34", "1,2345"),
    (".", "'"): ("1'23", "'123", "1'234'5"),
    (",", " "): ("1 23", "1  234", "1 2345", "1\u00a0234"),
    (",", "\u202f"): ("1 234", "1\u202f23"),
}


@pytest.mark.parametrize("marks", NUMBERS_OF)
def test_a_number_has_the_grammar_of_its_dialect(marks):
    decimal, thousands = marks
    dialect = DialectSettings(delimiter=";", decimal=decimal, thousands=thousands)
    decoder = reader("number", fields=CsvFields(("x", "y"), dialect))
    usual = [b'"1";2'] * 5
    for text, number in NUMBERS_OF[marks].items():
        line = f'"{text}";{text}'.encode()
        assert decoder.decode(line)[0].tolist() == [number], text
        assert decoder.decode(line)[1] == number, text
        assert same([*usual, line, *usual], decoder)
    for text in NONE_OF[marks]:
        line = f'"{text}";2'.encode()
        assert decoder.decode(line) is None, text
        assert decoder.fault(line).kind in {"not a number", "empty", "not finite"}
        assert not same([*usual, line, *usual], decoder)


SPELT = {
    # of a dialect, a listed word: the cells that are it, and those that are not
    (";,.", -999): (("-999", "-999,00", "-0999", "-9,99e2", " -999 "), ("-9,99", "999", "-999,01")),
    (";,.", 1): (("1", "1,0", "1,00", "1,", "01"), ("1.000", "0,1", "10", "1,000.0")),
    (";,.", 1.5): (("1,5", "1,50", "01,5"), ("15", "1,05")),
    (";,.", "1.234,5"): (("1.234,5", "1234,5", "1234,50"), ("1,2345",)),
    (";,.", "1.0.0"): (("1.0.0",), ("1", "100")),
    ("|.,", -1000): (("-1,000", "-1000", "-1000.", "-1e3", "-1,000.0"), ("-1.000", "-10,00")),
    (";.", -999): (("-999", "-0999", "-999.", "-9.99e2", "-999.0"), ("-9990", "-999,0")),
    (";.", "9007199254740993"): (("9007199254740993", "9007199254740993.0"), ("9007199254740992",)),
    (";,", "1.0"): (("1.0", "1"), ("1.00x", "10")),
}


@pytest.mark.parametrize("case", SPELT)
def test_a_listed_number_is_the_same_however_a_cell_spells_it(case):
    marks, listed = case
    dialect = DialectSettings(delimiter=marks[0], decimal=marks[1], thousands=marks[2:] or None)
    fields, missing = CsvFields(("x", "y"), dialect), {"as": "indicator"}
    of_column = reader("hashed", missing | {"texts": [listed]}, fields=fields)
    of_schema = reader("hashed", missing, [listed], fields=fields)
    category = reader("categories", fields=fields, categories=[listed, "other"])
    signs = reader("hashed", fields=fields, label={"positive": [listed]})
    both_signs = reader("hashed", fields=fields, label={"positive": [listed], "negative": ["no"]})
    classes = reader("hashed", fields=fields, label={"classes": ["no", listed]})
    usual = [dialect.delimiter.join(("other", "no")).encode()] * 8
    for cells, alike in zip(SPELT[case], (True, False), strict=True):
        for text in cells:
            cell = dialect.delimiter.join((text, "no")).encode()
            label = dialect.delimiter.join(("a", text)).encode()
            for decoder in (of_column, of_schema):
                assert decoder.decode(cell.replace(b"no", b"55"))[0][-1] == alike, text
            assert category.decode(cell.replace(b"no", b"55"))[0].tolist() == [alike, 0], text
            assert signs.decode(label)[1] == (1 if alike else -1), text
            for decoder, value in ((both_signs, 1.0), (classes, 1.0)):
                pair = decoder.decode(label)
                assert (None if pair is None else pair[1]) == (value if alike else None), text
                assert alike or decoder.fault(label).column == "y", text
            assert category.words(cell, ["x"]) == [word(listed)] or not alike
            for decoder in (signs, both_signs, classes):
                same([*usual, label], decoder)
            ones = [one.replace(b"no", b"55") for one in (*usual, cell)]
            for decoder in (of_column, of_schema, category):
                assert same(ones, decoder)


def test_a_word_that_is_spelt_alike_comes_before_an_equal_number():
    fields = CsvFields(("x", "y"), DialectSettings(delimiter=";"))
    codes = reader(
        "categories", fields=fields, categories=["7", "007", "0"], missing={"as": 0, "texts": ["00"]}
    )
    for text, features_of in {
        "007": [0, 1, 0],
        "7": [1, 0, 0],
        "07": [1, 0, 0],
        "0": [0, 0, 1],
        "00": [0] * 3,
    }.items():
        assert codes.decode(f"{text};1".encode())[0].tolist() == features_of


COLUMNS = ("x", "n", "y")
DIALECTS = [
    None,
    {"delimiter": ";", "decimal": ","},
    {"delimiter": ";", "decimal": ",", "thousands": "."},
    {"delimiter": "\t", "quote": "'", "thousands": ","},
    {"delimiter": "|", "quote": "none", "thousands": " "},
    {"delimiter": ";", "encoding": "cp1252"},
    {"delimiter": ";", "encoding": "utf-16"},
]
TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "NA",
            "?",
            "-999",
            "-999.0",
            "-0999",
            "-999,00",
            "7,0",
            "07",
            "1.000",
            "1,000",
            "1,5",
            "1.5",
            "1.234,5",
            "1,234.5",
            "1 234",
            "7",
            "a",
        ]
    ),
    st.sampled_from(
        ["31.01.2026 02:30", "2026-01-31T12:00:00Z", '"', "'", '"a;b"', "'a\nb'", "a\nb", "é", "\ufeff"]
    ),
    st.sampled_from(VALUES),
    st.text(max_size=4),
)


@given(
    st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=8, max_size=12),
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(
        [None, {"as": 0}, {"as": "indicator"}, {"as": "indicator", "texts": ["?", "7"]}, "refuse"]
    ),
    st.sampled_from([None, ["?", "-999", ""]]),
    st.sampled_from(DIALECTS),
    st.sampled_from([{}, {"format": "%d.%m.%Y %H:%M", "zone": "Europe/Berlin"}, {"zone": "Europe/Berlin"}]),
    st.sampled_from([{}, {"positive": ["1", "7"]}, {"classes": ["a", "7"]}]),
)
def test_slots_of_any_records_with_any_of_these_settings(rows, kind, missing, texts, dialect, times, label):
    column = {kind: KINDS[kind]} | ({} if missing is None else {"missing": missing})
    column |= times if kind in {"hour", "weekday"} else {}
    schema = {
        "features": {"n": {"bounds": [0, 9], "missing": {"as": 3}}, "x": column},
        "label": {"column": "y"} | label,
        "norm": 2,
    } | ({} if texts is None else {"missing": texts})
    settings = SchemaSettings.model_validate(schema)
    assert settings.width == 1 + WIDTHS[kind] + ("indicator" in str(missing))
    spelling = DialectSettings.model_validate(dialect or {})
    encoding = "utf-8-sig" if spelling.encoding == "utf-8" else spelling.encoding
    of_csv = SchemaDecoder(settings, CsvFields(COLUMNS, spelling, encoding))
    code = "utf-8" if encoding == "utf-8-sig" else encoding
    lines = [spelling.delimiter.join(row).encode(code, "replace") for row in rows]
    same(lines, of_csv)
    usual = spelling.delimiter.join(("7", "7", "7")).encode(code)
    same([*[usual] * 8, lines[0]], of_csv)
    of_json = SchemaDecoder(settings, json_fields)
    objects = [json.dumps(dict(zip(COLUMNS, row, strict=True))).encode() for row in rows]
    same(objects, of_json)
    raw = [
        "{" + ", ".join(f'"{name}": {text}' for name, text in zip(COLUMNS, row, strict=True)) + "}"
        for row in rows
    ]
    same([one.encode(errors="surrogatepass") for one in raw], of_json)


def test_records_that_make_one_row_together_are_none():
    decoder = reader("number", fields=CsvFields(("x", "y"), DialectSettings(line_breaks=True)))
    assert not same([b'"1', *[b"2"] * 6, b'3",1'], decoder)
    assert decoder.at_once([b'"1', *[b"2"] * 6, b'3",1']) is None


def test_slots_with_missing_values_are_decoded_at_once():
    dialect = DialectSettings(delimiter=";", decimal=",", thousands=".")
    fields = CsvFields(("x", "y"), dialect)
    for kind in NUMBERS:
        decoder = reader(kind, {"as": "indicator"}, fields=fields)
        lines = [f"{text};1".encode() for text in ("1,5", "", "NA", "1.234,5", "7", "0", "-3", "", "12")]
        assert same(lines, decoder)
        assert same([b";1"] * 9, decoder)
    decoder = reader(
        "hashed", {"as": "category"}, fields=CsvFields(("x", "y"), DialectSettings(line_breaks=True))
    )
    assert same([b'"a\nb",1', *[b"a,1"] * 8], decoder)
    assert np.isfinite(decoder.at_once([b'"a\nb",1', *[b"a,1"] * 8])[0]).all()
