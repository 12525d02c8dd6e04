"""Decoders: what the schema says, and nothing but None for what is no record."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import CsvFields, SchemaDecoder, json_fields

COLUMNS = ("age", "job", "town", "pay", "at")
TREE = {
    "features": {
        "age": {"bounds": [0, 100]},
        "job": {"categories": ["cook", "clerk"]},
        "town": {"hashed": 3},
    },
    "label": {"column": "pay", "positive": ">50K", "negative": "<=50K"},
    "intercept": True,
    "timestamp": "at",
}


def schema(**changes):
    return SchemaSettings.model_validate(TREE | changes)


def csv_decoder(**changes):
    return SchemaDecoder(schema(**changes), CsvFields(COLUMNS))


def decoded(decoder, value):
    features, label = decoder.decode(value)
    return features.tolist(), label


def test_a_row_becomes_features_in_the_order_of_the_schema():
    features, label = decoded(csv_decoder(), b"25,clerk,Ulm,>50K,7")
    assert features[:3] == [0.25, 0.0, 1.0]
    assert sorted(features[3:6]) == [0.0, 0.0, 1.0]
    assert features[6] == 1.0
    assert label == 1.0


def test_a_class_is_its_place_and_one_never_declared_makes_the_record_unreadable():
    label = {"column": "pay", "classes": ["low", 7, "high"]}
    from_csv, from_json = csv_decoder(label=label), SchemaDecoder(schema(label=label), json_fields)
    assert [decoded(from_csv, b"25,clerk,Ulm,%b,7" % word)[1] for word in (b"low", b"7", b"high")] == [
        0,
        1,
        2,
    ]
    assert decoded(from_json, b'{"age": 25, "job": "cook", "town": 3, "pay": 7}')[1] == 1
    for word in (b"middle", b"", b"0", b"Low"):
        assert from_csv.decode(b"25,clerk,Ulm,%b,7" % word) is None
    assert from_json.decode(b'{"age": 25, "job": "cook", "town": 3, "pay": ["low"]}') is None


def test_json_and_csv_are_the_same_record():
    line = json.dumps({"age": 25, "job": "clerk", "town": "Ulm", "pay": ">50K", "at": 7, "more": []}).encode()
    decoder = SchemaDecoder(schema(), json_fields)
    assert decoded(decoder, line) == decoded(csv_decoder(), b"25,clerk,Ulm,>50K,7")


def test_numbers_are_cut_off_at_their_public_bounds():
    ages = [
        decoded(csv_decoder(), f"{age},cook,Ulm,>50K,7".encode())[0][0] for age in ("-5", "0", "150", "1e300")
    ]
    assert ages == [0.0, 0.0, 1.0, 1.0]


def test_an_unknown_category_sets_nothing():
    assert decoded(csv_decoder(), b"25,?,Ulm,>50K,7")[0][1:3] == [0.0, 0.0]


def test_buckets_are_the_same_in_every_process():
    towns = [
        decoded(csv_decoder(), f"25,cook,{town},>50K,7".encode())[0][3:6] for town in ("Ulm", "Rom", "Bonn")
    ]
    assert [town.index(1.0) for town in towns] == [0, 1, 0]


def test_labels_are_signs_numbers_or_one_against_the_rest():
    assert decoded(csv_decoder(), b"25,cook,Ulm,<=50K,7")[1] == -1.0
    assert csv_decoder().decode(b"25,cook,Ulm,50K,7") is None
    rest = csv_decoder(label={"column": "pay", "positive": [1, 2]})
    assert [decoded(rest, f"25,cook,Ulm,{pay},7".encode())[1] for pay in (1, 2, 3)] == [1.0, 1.0, -1.0]
    number = csv_decoder(label={"column": "pay"})
    assert decoded(number, b"25,cook,Ulm,-2.5,7")[1] == -2.5
    assert number.decode(b"25,cook,Ulm,much,7") is None


def test_a_long_row_is_scaled_to_the_norm_and_a_short_one_stays():
    short, long = csv_decoder(norm=10), csv_decoder(norm=1)
    line = b"100,cook,Ulm,>50K,7"
    assert decoded(short, line) == decoded(csv_decoder(), line)
    np.testing.assert_allclose(decoded(long, line)[0], np.array(decoded(short, line)[0]) / 2, rtol=1e-15)
    huge = SchemaDecoder(schema(features={"age": "number"}, intercept=False, norm=1), CsvFields(COLUMNS))
    assert decoded(huge, b"1e308,cook,Ulm,>50K,7")[0] == [1.0]
    assert decoded(huge, b"0,cook,Ulm,>50K,7")[0] == [0.0]


def test_an_intercept_outside_stands_beside_the_norm():
    line = b"100,cook,Ulm,>50K,7"
    outside = csv_decoder(norm=1, intercept="outside")
    *numbers, last = decoded(outside, line)[0]
    assert last == 1 / 3
    assert numbers == decoded(csv_decoder(norm=1, intercept=False), line)[0]
    assert math.hypot(*numbers) == pytest.approx(1)
    assert (outside.dimension, schema(intercept="outside").height) == (len(numbers) + 1, 1 / 3)
    assert (schema().height, schema(intercept=False).height) == (1.0, 0.0)


def test_timestamps_are_seconds_or_times_with_a_zone():
    decoder = csv_decoder()
    stamps = [decoder.timestamp(f"25,cook,Ulm,>50K,{at}".encode()) for at in ("7.5", "1970-01-01T00:00:09Z")]
    assert stamps == [7.5, 9.0]
    for at in ("", "noon", "1970-01-01T00:00:09", "nan", "inf", "9999-99-99"):
        assert decoder.timestamp(f"25,cook,Ulm,>50K,{at}".encode()) is None
    assert csv_decoder(timestamp=None).timestamp(b"25,cook,Ulm,>50K,7") is None


def test_the_truth_is_finite_numbers_whatever_the_rest_of_the_record_is():
    decoder = SchemaDecoder(schema(truth=["v", "u"]), CsvFields((*COLUMNS, "u", "v")))
    assert decoder.truth(b"25,cook,Ulm,>50K,7,1.5,-2").tolist() == [-2, 1.5]
    assert decoder.truth(b"?,?,?,?,?,1.5,-2").tolist() == [-2, 1.5]
    for said in (b"1.5,", b"1.5,x", b"nan,1", b"inf,1", b"1e999,1", b"1.5", b"1,2,3"):
        assert decoder.truth(b"25,cook,Ulm,>50K,7," + said) is None
    decoder = SchemaDecoder(schema(truth=["u", "v"]), json_fields)
    assert decoder.truth(b'{"u": 1, "v": "2"}').tolist() == [1, 2]
    for said in (
        b"",
        b"[]",
        b'{"u": 1}',
        b'{"u": 1, "v": null}',
        b'{"u": 1, "v": [2]}',
        b'{"u": true, "v": 1}',
    ):
        assert decoder.truth(said) is None


def test_where_no_truth_is_named_there_is_none():
    assert csv_decoder().truth(b"25,cook,Ulm,>50K,7") is None


def test_the_truth_changes_nothing_of_what_is_learnt():
    with_truth = SchemaDecoder(schema(truth=["u"], norm=1), CsvFields((*COLUMNS, "u")))
    assert decoded(with_truth, b"25,cook,Ulm,>50K,7,9") == decoded(csv_decoder(norm=1), b"25,cook,Ulm,>50K,7")
    assert decoded(with_truth, b"25,cook,Ulm,>50K,7,?") == decoded(with_truth, b"25,cook,Ulm,>50K,7,9")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"25,cook,Ulm,>50K",
        b"25,cook,Ulm,>50K,7,8",
        b",cook,Ulm,>50K,7",
        b"?,cook,Ulm,>50K,7",
        b"nan,cook,Ulm,>50K,7",
        b"-inf,cook,Ulm,>50K,7",
        b"1e999,cook,Ulm,>50K,7",
        b"25,cook,Ulm,,7",
        b'25,"cook,Ulm,>50K,7',
        b"25,co\rok,Ulm,>50K,7",
        b"25,cook,Ulm," + b"x" * 200_000 + b",7",
        b"9" * 5000 + b",cook,Ulm,>50K",
    ],
)
def test_a_malformed_csv_line_is_none(line):
    assert csv_decoder().decode(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"25",
        b"\xff",
        b"{}",
        b'{"age": 25, "job": "cook", "town": "Ulm"}',
        b'{"age": null, "job": "cook", "town": "Ulm", "pay": ">50K"}',
        b'{"age": true, "job": "cook", "town": "Ulm", "pay": ">50K"}',
        b'{"age": NaN, "job": "cook", "town": "Ulm", "pay": ">50K"}',
        b'{"age": [25], "job": "cook", "town": "Ulm", "pay": ">50K"}',
        b'{"age": 25, "job": "cook", "town": "Ulm", "pay": null}',
        b'{"age": 25, "job": "cook", "town": "Ulm", "pay": {}}',
        b'{"age": ' + b"9" * 400 + b', "job": "cook", "town": "Ulm", "pay": ">50K"}',
        b'{"age": ' + b"9" * 5000 + b', "job": "cook", "town": "Ulm", "pay": ">50K"}',
        b"[" * 100_000,
    ],
    ids=range(17),
)
def test_a_malformed_json_line_is_none(line):
    assert SchemaDecoder(schema(), json_fields).decode(line) is None


def test_half_a_character_is_hashed_like_any_other():
    line = b'{"age": 25, "job": "\\ud800", "town": "\\ud800", "pay": ">50K"}'
    assert SchemaDecoder(schema(), json_fields).decode(line) is not None


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.none(), max_size=1),
    st.sampled_from([">50K", "<=50K", "cook", "25"]),
)


@settings(max_examples=200, deadline=None)
@given(
    value=st.binary(max_size=40)
    | st.fixed_dictionaries(dict.fromkeys((*COLUMNS, "u"), CELLS)).map(lambda row: json.dumps(row).encode())
    | st.lists(st.text(max_size=4), max_size=6).map(lambda row: ",".join(row).encode())
)
def test_whatever_the_bytes_are_a_record_is_finite_or_none(value):
    for fields in (json_fields, CsvFields((*COLUMNS, "u"))):
        decoder = SchemaDecoder(schema(norm=1, truth=["u"]), fields)
        found = decoder.decode(value)
        said = decoder.truth(value)
        assert said is None or (said.shape == (1,) and np.isfinite(said).all())
        stamp = decoder.timestamp(value)
        assert stamp is None or math.isfinite(stamp)
        if found is not None:
            features, label = found
            assert features.shape == (decoder.dimension,)
            assert np.isfinite(features).all()
            assert (features**2).sum() <= 1 + 1e-12
            assert label in {-1.0, 1.0}
