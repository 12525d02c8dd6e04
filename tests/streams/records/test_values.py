"""What a text is worth, in every format and kind of column: decided here, before any reader is asked."""

import itertools
import json
import math

import numpy as np
import pytest

from nodes.losses.evaluation import slot_gradients
from nodes.losses.losses import Squared
from nodes.privacy.clipping import clip
from streams.mesh.settings.node import DialectSettings
from streams.mesh.settings.schema import SchemaSettings
from streams.mesh.settings.sparse import LibsvmSettings
from streams.records.decoder import CsvFields, SchemaDecoder, json_fields
from streams.records.observed import observed
from streams.records.sparse import LibsvmDecoder
from tests.streams.records.test_at_once import same

EVERYWHERE = {
    "0": 0.0,
    "-0": -0.0,
    "1": 1.0,
    "-1": -1.0,
    "-1.5": -1.5,
    "7": 7.0,
    "10": 10.0,
    "90": 90.0,
    "120": 120.0,
    "0.0": 0.0,
    "-0.0": -0.0,
    "1.0": 1.0,
    "1.50": 1.5,
    "0.1": 0.1,
    "-2.5": -2.5,
    "100.25": 100.25,
    "1e3": 1e3,
    "1E3": 1e3,
    "1e+3": 1e3,
    "1e-3": 1e-3,
    "-1.5E-2": -0.015,
    "0e0": 0.0,
    "1.0e00": 1.0,
    "9007199254740993": 2.0**53,
    "9223372036854775808": 2.0**63,
    "18446744073709551616": 2.0**64,
    "1e308": 1e308,
    "1.7976931348623157e308": 1.7976931348623157e308,
    "1e-400": 0.0,
    "5e-324": 5e-324,
    "0." + "1" * 200: 0.1111111111111111,
    "1" + "0" * 300: 1e300,
    "1e0000000000000001": 10.0,
}
"""Numbers of JSON: they are numbers in every format, as text too."""
FILES = {
    "+1": 1.0,
    "+0.5": 0.5,
    "01": 1.0,
    "007": 7.0,
    "-007": -7.0,
    "00": 0.0,
    "00.5": 0.5,
    "1.": 1.0,
    ".5": 0.5,
    "-.5": -0.5,
    "+.5e1": 5.0,
    "1.e2": 100.0,
    "000e1": 0.0,
    "0000000000000000000000012": 12.0,
}
"""Numbers of a file that are none of JSON's."""
SPACED = {" 7": 7.0, "7 ": 7.0, "  7  ": 7.0, "\t7": 7.0, "7\t": 7.0, " -1.5 ": -1.5}
"""Numbers of a CSV file alone, where a space behind the comma is no part of the value."""
NOT_FINITE = (
    *("nan", "NaN", "NAN", "-nan", "+nan", "inf", "Inf", "INF", "-inf", "+inf", "infinity", "-Infinity"),
    *("1e309", "-1e309", "1e400", "1e999999999", "9" * 400, "1.8e308", "-1.7976931348623159e308"),
)
NO_NUMBERS = (
    *("1_0", "1_1", "1_000_000", "_1", "1_", "1_0.5", "1.5_0", "1e1_0", "0_0", "-1_0", "+1_0", " 1_0 "),
    *(
        "\u0661",
        "\u0661\u0660",
        "\uff11",
        "\u0967",
        "\u06f1",
        "\u09e7",
        "1\u0660",
        "\uff0b1",
        "\u22121",
        "1\uff0e5",
    ),
    *("\u00b2", "\u00bd", "\u2460", "\u2164", "\U0001d7cf", "1\u2009000", "1\u00a0000", "\u00a07", "7\u00a0"),
    *(
        "\u20037",
        "\ufeff7",
        "\u200b7",
        "7\u200b",
        "7\x00",
        "\x007",
        "7\x1c",
        "\x1f7",
        "\x0b7",
        "\x0c7",
        "\x857",
    ),
    *("0x10", "0X1F", "0b1", "0o7", "1h", "0x1p3", "1f", "1d", "1L", "1j", "1e", "e1", "1e+", "1e1.5", "E"),
    *(
        "1,5",
        "1.234,5",
        "1,234",
        "1,234.56",
        "1'234",
        "1 000",
        "1 2",
        "1. 5",
        "- 1",
        "1 e3",
        "(1)",
        "$1",
        "1%",
    ),
    *(
        "--1",
        "++1",
        "+-1",
        "1-",
        "1+",
        "1.2.3",
        "1..2",
        ".",
        "-",
        "+",
        "-.",
        "..",
        "+.e1",
        "1e--1",
        "e",
        "#1",
    ),
    *(
        "one",
        "zero",
        "true",
        "false",
        "True",
        "yes",
        "no",
        "null",
        "None",
        "NA",
        "N/A",
        "?",
        "infin",
        "nanny",
    ),
    *("1:1", "1;2", "1/2", "2026-01-31", "12:30", '"', "''", "'7'", "1\\n", "\\u0031", "[]", "[7]", "{}"),
)
NO_NUMBERS += (
    *("7abcde+7", "7=7", "=7", "7!", "~7", "7~", "7|", "|7", "7^2", "7*1", "2**3", "1e3e3", "7_", "7__0"),
    *("7\u0660", "7\u00b9", "\u06600"),
)
IN_CSV = EVERYWHERE | FILES | SPACED
WITHOUT_POINT = {text: number for text, number in IN_CSV.items() if "." not in text}
DIALECTS = {
    "decimal comma": (DialectSettings(decimal=","), WITHOUT_POINT | {"1,5": 1.5, "1,234": 1.234}),
    "commas between groups": (
        DialectSettings(thousands=","),
        IN_CSV | {"1,234": 1234.0, "1,234.56": 1234.56},
    ),
    "points between groups": (
        DialectSettings(decimal=",", thousands="."),
        WITHOUT_POINT | {"1,5": 1.5, "1.234,5": 1234.5, "1,234": 1.234},
    ),
    "spaces between groups": (DialectSettings(thousands=" "), IN_CSV | {"1 000": 1000.0}),
    "apostrophes between groups": (DialectSettings(thousands="'"), IN_CSV | {"1'234": 1234.0}),
}
"""What else is a number in CSV of a dialect, and what is none there."""
EMPTY = ("", " ", "  ", "\t", " \t ", "\u00a0", "\u2003")
ALL = [*EVERYWHERE, *FILES, *SPACED, *NOT_FINITE, *NO_NUMBERS, *EMPTY]
FEATURES = {
    "plain": "number",
    "bounds": {"bounds": [-1e9, 1e9]},
    "log": {"log": [0.01, 1e6]},
    "buckets": {"buckets": [-1, 0, 2.5]},
    "categories": {"categories": ["1", "7", "90", "a"]},
    "hashed": {"hashed": 5},
    "gaps": {"bounds": [-10, 10], "missing": {"as": "indicator", "texts": ["NA", "7"]}},
    "other": {"categories": ["1", "yes"], "missing": {"as": "category"}},
}
COLUMNS = (*FEATURES, "label")
USUAL = dict.fromkeys(FEATURES, "1") | {"label": "1"}


def reader(fields, label=None):
    schema = {"features": FEATURES, "label": {"column": "label"} | (label or {}), "truth": ["right"]}
    return SchemaDecoder(SchemaSettings.model_validate(schema), fields)


def csv_line(**values):
    cells = (USUAL | values).values()
    return ",".join('"' + text.replace('"', '""') + '"' for text in cells).encode()


def json_line(**values):
    return json.dumps(USUAL | values).encode()


def value_of(decoder, line, place=0):
    pair = decoder.decode(line)
    return None if pair is None else float(pair[0][place])


def bits(number):
    return None if number is None else np.float64(number).tobytes()


def test_there_are_two_hundred_texts():
    assert len(set(ALL)) == len(ALL) >= 200


@pytest.mark.parametrize(
    ("line", "fields", "numbers"),
    [
        (csv_line, CsvFields(COLUMNS), IN_CSV),
        (json_line, json_fields, EVERYWHERE),
        *((csv_line, CsvFields(COLUMNS, dialect), numbers) for dialect, numbers in DIALECTS.values()),
    ],
    ids=["csv", "text in json", *DIALECTS],
)
def test_text_is_a_number_by_the_grammar_of_its_format(line, fields, numbers):
    decoder = reader(fields)
    for text in ALL:
        expected = numbers.get(text)
        assert bits(value_of(decoder, line(plain=text))) == bits(expected), ascii(text)
        for column in ("bounds", "log", "buckets"):
            assert (decoder.decode(line(**{column: text})) is None) == (expected is None), (column, text)
        pair = decoder.decode(line(label=text))
        assert bits(None if pair is None else pair[1]) == bits(expected), ascii(text)
        if expected is None:
            kind = decoder.fault(line(plain=text)).kind
            assert (kind == "empty") == (text in EMPTY), ascii(text)
            assert kind in {"empty", "not finite", "not a number", "a decimal comma"}
            assert text not in NOT_FINITE or kind == "not finite" or "." in text


def test_a_number_of_json_has_json_s_grammar():
    decoder = reader(json_fields)
    for text in ALL:
        line = json_line(plain="*").replace(b'"*"', text.encode())
        spelling = text.strip(" \t")  # JSON lets spaces stand around a token; -0 is a whole number there
        expected = 0.0 if spelling == "-0" else EVERYWHERE.get(spelling)
        assert bits(value_of(decoder, line)) == bits(expected), ascii(text)


def test_a_number_of_libsvm_has_a_file_s_grammar():
    decoder, numbers = LibsvmDecoder(LibsvmSettings(kind="libsvm"), 3), EVERYWHERE | FILES
    for text in ALL:
        if text.split() != [text] or ":" in text or text.startswith("#"):
            continue  # more than one word of a line, or a comment
        for line, part in ((f"1 2:{text}", 0), (f"{text} 2:1", 1)):
            pair = decoder.decode(line.encode())
            seen = None if pair is None else (pair[0].values[0], pair[1])[part]
            assert bits(seen) == bits(numbers.get(text)), ascii(line)


SLOTS = [
    *itertools.product(
        ["csv", "text in json", "json"],
        COLUMNS,
        [None, {"positive": "1"}, {"positive": "1", "negative": ["0", "no"]}],
    ),
    *itertools.product(DIALECTS, ["plain"], [None]),
]


@pytest.mark.parametrize(("kind", "column", "label"), SLOTS)
def test_whole_slots_are_worth_what_their_records_are(kind, column, label):
    of_csv = kind == "csv" or kind in DIALECTS
    dialect = DIALECTS[kind][0] if kind in DIALECTS else None
    decoder = reader(CsvFields(COLUMNS, dialect) if of_csv else json_fields, label)
    usual = [csv_line() if of_csv else json_line()] * 4
    for text in ALL:
        if kind == "json":
            line = json_line(**{column: "*"}).replace(b'"*"', text.encode())
        else:
            line = (csv_line if of_csv else json_line)(**{column: text})
        same([*usual, line, *usual], decoder)
        same([line] * 9, decoder)


WORDS = {
    "1": "1",
    "1.0": "1",
    "1.00": "1",
    "7.0": "7",
    "90.000": "90",
    "-1.0": "-1",
    "-0.0": "0",
    "0.0": "0",
    "1.5": "1.5",
    "1.50": "1.50",
    "01": "01",
    "007": "007",
    "01.0": "01.0",
    "+1.0": "+1.0",
    "1.": "1.",
    "a": "a",
    "a.0": "a.0",
    " 1": " 1",
    "1.0.0": "1.0.0",
    ".0": ".0",
    "1_0.0": "1_0.0",
    "v1.0": "v1.0",
}


def test_a_whole_number_is_one_word_in_every_format_and_in_the_schema():
    for text, word in WORDS.items():
        label = {"positive": [text], "negative": ["other"]}
        for line, fields in ((csv_line, CsvFields(COLUMNS)), (json_line, json_fields)):
            decoder = reader(fields, label)
            assert decoder.decode(line(label=word))[1] == 1.0
            assert decoder.decode(line(label=text))[1] == 1.0
            assert decoder.decode(line(label="other"))[1] == -1.0
            assert (
                decoder.decode(line(hashed=text, label="other"))[0].tolist()
                == decoder.decode(line(hashed=word, label="other"))[0].tolist()
            )
    numbers = reader(json_fields, {"positive": [1, "20000000000000000"], "negative": [0]})
    for token, sign in {
        b"1": 1,
        b"1.0": 1,
        b"1e0": 1,
        b"0": -1,
        b"-0.0": -1,
        b"2e16": 1,
        b"1.5": None,
    }.items():
        pair = numbers.decode(json_line(label="*").replace(b'"*"', token))
        assert (None if pair is None else pair[1]) == sign, token


MISSING = (
    None,
    math.nan,
    "",
    " ",
    "\t",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "<NA>",
    "NaN",
    "nan",
    "null",
    "NULL",
    "None",
)


def test_a_text_is_missing_where_its_column_says_so():
    """The last five features are those of the two columns that say what a missing value counts as."""
    for line, fields, numbers in (
        (csv_line, CsvFields(COLUMNS), IN_CSV),
        (json_line, json_fields, EVERYWHERE),
    ):
        decoder = reader(fields)
        for text in ALL:
            pair = decoder.decode(line(gaps=text))
            gone = text in EMPTY or text.strip() in {"NA", "7"} or numbers.get(text) == 7
            expected = [0.0, 1.0] if gone else None
            if not gone and text in numbers:
                expected = [(min(max(numbers[text], -10), 10) + 10) / 20, 0.0]
            assert (None if pair is None else pair[0][-5:-3].tolist()) == expected, ascii(text)
            gone = text in EMPTY or text.strip() in {"NA", "N/A", "nan", "NaN", "-nan", "NAN", "null", "None"}
            words = [numbers.get(text) == 1, text == "yes", gone]
            assert decoder.decode(line(other=text))[0][-3:].tolist() == words, ascii(text)


def test_a_missing_label_is_never_the_negative_class():
    for value in MISSING:
        for fields in (json_fields, CsvFields(COLUMNS)):
            decoder = reader(fields, {"positive": "1"})
            if fields is json_fields:
                line = json_line(label=value)
            elif isinstance(value, str):
                line = csv_line(label=value)
            else:
                continue
            assert decoder.decode(line) is None, value
            assert str(decoder.fault(line)) in {"label: empty", "label: missing"}
    listed = reader(CsvFields(COLUMNS), {"positive": ["None"], "negative": ["NA", ""]})
    assert [listed.decode(csv_line(label=text))[1] for text in ("None", "NA", "")] == [1, -1, -1]
    usual = reader(CsvFields(COLUMNS), {"positive": "1"})
    assert [usual.decode(csv_line(label=text))[1] for text in ("0", "none", "no", "-")] == [-1] * 4


def test_what_is_no_single_value_is_no_category():
    decoder = reader(json_fields)
    for column in ("categories", "hashed"):
        for value in ({}, {"a": 1}, [], ["a"], [[1]]):
            assert str(decoder.fault(json_line(**{column: value}))) == f"{column}: not a single value"
            assert decoder.decode(json_line(**{column: value})) is None
        for value in (None, math.nan, "", " "):
            assert str(decoder.fault(json_line(**{column: value}))) == f"{column}: empty"
            assert decoder.decode(json_line(**{column: value})) is None
    given = {"features": {"a": {"categories": ["", "b"]}}, "label": {"column": "y"}}
    listed = SchemaDecoder(SchemaSettings.model_validate(given), CsvFields(("a", "y")))
    assert listed.decode(b",1")[0].tolist() == [1, 0]


def test_a_key_that_stands_twice_makes_the_object_unreadable():
    decoder = reader(json_fields)
    for more, said in {
        b'"plain": 1': "plain: stands twice",
        b'"label": 1': "label: stands twice",
        b'"pl\\u0061in": 2': "plain: stands twice",
        b'"secret": 1, "secret": 1': "a key stands twice",
        b'"more": {"plain": 1, "plain": 1}': "a key stands twice",
        b'"more": [{"b": {}, "b": {}}]': "a key stands twice",
    }.items():
        line = json_line().removesuffix(b"}") + b", " + more + b"}"
        assert decoder.decode(line) is None
        assert str(decoder.fault(line)) == said
        assert decoder.truth(line) is None
        same([json_line()] * 8 + [line], decoder)


TIMES = {
    "1700000000": 1.7e9,
    "1700000000.5": 1700000000.5,
    "1.7e9": 1.7e9,
    "-1": -1.0,
    "0": 0.0,
    "2023-11-14T22:13:20Z": 1.7e9,
    "2023-11-14 22:13:20+00:00": 1.7e9,
    "20231114T231320+0100": 1.7e9,
    **dict.fromkeys(
        ("2023-11-14T22:13:20", "2023-11-14", "1_7", "\u0661", "noon", "", "nan", "1,5", "12:30")
    ),
    **dict.fromkeys(
        ("\u0662023-11-14T22:13:20Z", "2023-11-14\u260322:13:20Z", "2023-13-01T00:00:00Z", "0x1")
    ),
}


@pytest.mark.parametrize(("unit", "second"), [("s", 1), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)])
def test_a_time_is_a_number_of_the_unit_or_iso_8601(unit, second):
    schema = {"features": {"at": {"hour": "UTC"}}, "label": {"column": "y"}, "timestamp": "at"}
    schema |= {} if unit == "s" else {"timestamp": {"column": "at", "unit": unit}}
    settings = SchemaSettings.model_validate(schema)
    decoders = SchemaDecoder(settings, CsvFields(("at", "y"))), SchemaDecoder(settings, json_fields)
    for text, seconds in TIMES.items():
        number = seconds is not None and "T" not in text and ":" not in text
        expected = seconds / second if number else seconds
        for decoder, line in zip(decoders, (f'"{text}",1', json.dumps({"at": text, "y": 1})), strict=True):
            assert decoder.timestamp(line.encode()) == expected, (text, unit)
            assert (decoder.decode(line.encode()) is None) == (seconds is None)
            same([line.encode()] * 9, decoder)


def test_a_record_whose_numbers_overflow_counts_as_zero_and_is_not_clipped():
    """Its numbers are finite, so it is read; a norm beyond all numbers leaves no direction to keep."""
    settings = {"features": {"a": "number", "b": "number"}, "label": {"column": "y"}}
    decoder = SchemaDecoder(SchemaSettings.model_validate(settings), CsvFields(("a", "b", "y")))
    slot = observed((b"1e300,1,-1e300", b"1e200,1,1", b"1e20,0,-1", b"0.5,0,-1"), decoder)
    assert slot.present.all()
    with np.errstate(all="ignore"):
        gradients = slot_gradients(Squared(), np.zeros(2), slot)
    clipped, changed, broken = clip(gradients, 2.0, "l2")
    assert clipped.tolist() == [[0, 0], [0, 0], [2, 0], [0.5, 0]]
    assert (changed, broken) == (1, 2)
