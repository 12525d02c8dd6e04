"""Columns from elsewhere in a message: a path, a header, the key; and messages in a registry's frame."""

import json

import pytest
from pydantic import ValidationError

from streams.records.faults import NotARecord
from streams.records.observed import observed
from streams.records.record import WholeMessage
from tests.streams.records.test_messages import decoder, row, topic

ENVELOPE = {"value": "payload.after", "where": {"payload.op": "c"}}


PLACES = {
    "features": {
        "country": {"categories": ["DE", "FR"], "from": "customer.address.country"},
        "region": {"categories": ["eu", "us"], "from": {"header": "region"}},
        "id": {"number": True, "from": {"key": "id"}},
    },
    "label": {"column": "fraud", "from": "outcome.fraud", "positive": "yes"},
}


def placed(country="FR", fraud="yes", **fields):
    customer = {"address": {"country": country}}
    return json.dumps({"customer": customer, "outcome": {"fraud": fraud}} | fields).encode()


def whole(value=None, key=b'{"id": 7}', headers=(("region", b"us"),)):
    return WholeMessage.of(placed() if value is None else value, key, headers)


def test_columns_come_from_paths_headers_and_the_key():
    features, label = decoder(topic(schema=PLACES)).decode(whole())
    assert (features.tolist(), label) == ([0.0, 1.0, 0.0, 1.0, 7.0], 1.0)


def test_of_headers_with_one_name_the_last_counts():
    message = whole(headers=[("region", b"eu"), ("other", None), ("region", b"us")])
    assert decoder(topic(schema=PLACES)).decode(message)[0].tolist()[2:4] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (whole(placed(fraud=None)), "fraud: empty"),
        (whole(b'{"country": "FR", "outcome": {"fraud": "no"}}'), "country: missing"),
        (whole(headers=()), "region: missing"),
        (whole(headers=[("region", None)]), "region: missing"),
        (whole(headers=[("region", b"\xff")]), "region: missing"),
        (whole(headers=[("region", b"eu"), ("region", None)]), "region: missing"),
        (whole(key=None), "id: missing"),
        (whole(key=b"7"), "id: missing"),
        (whole(key=b'{"id": 7, "id": 8}'), "id: missing"),
        (whole(key=b'{"id": "seven"}'), "id: not a number"),
        (placed(), "region: missing"),
    ],
)
def test_a_column_that_is_not_where_it_should_be_is_missing(message, fault):
    of_topic = decoder(topic(schema=PLACES))
    assert of_topic.decode(message) is None
    assert str(of_topic.fault(message)) == fault


def test_the_whole_key_is_text():
    schema = {"features": {"id": {"number": True, "from": {"key": "."}}}, "label": {"column": "y"}}
    for settings in ({}, {"format": "csv", "columns": ["y", "z"]}):
        value = b"1,2" if settings else b'{"y": 1}'
        of_topic = decoder(topic(schema=schema, **settings))
        assert of_topic.decode(whole(value, key=b"17"))[0].tolist() == [17.0]
        assert of_topic.decode(whole(value, key=b"seventeen")) is None
        assert of_topic.decode(whole(value, key=b"\xff")) is None


def test_a_time_may_be_in_a_header():
    schema = {"features": {"x": "number"}, "label": {"column": "y"}}
    schema["timestamp"] = {"column": "at", "from": {"header": "ce_time"}}
    of_topic = decoder(topic(schema=schema))
    message = whole(b'{"x": 1, "y": 2, "at": 9}', headers=[("ce_time", b"1970-01-01T00:01:00Z")])
    assert of_topic.timestamp(message) == 60.0


def test_headers_say_which_messages_hold_a_record():
    of_topic = decoder(topic(where_headers={"ce_type": ["payment", 1]}, where={"status": "settled"}))
    kept = [[("ce_type", b"payment")], [("ce_type", b"1.0")]]
    for headers in kept:
        message = whole(json.dumps(row()).encode(), headers=headers)
        assert of_topic.no_record(message) is None
        assert of_topic.decode(message) is not None
    for headers in [[], [("ce_type", None)], [("ce_type", b"refund")], [("ce_type", b"\xff")]]:
        message = whole(json.dumps(row()).encode(), headers=headers)
        assert of_topic.no_record(message) is NotARecord.LEFT_OUT
        assert of_topic.decode(message) is None
    settled = [[("ce_type", b"payment")], json.dumps(row(status="pending")).encode()]
    assert of_topic.no_record(whole(settled[1], headers=settled[0])) is NotARecord.LEFT_OUT


def test_messages_that_headers_leave_out_are_no_records_in_a_whole_slot():
    schema = {"features": {"amount": "number"}, "label": {"column": "fraud", "positive": "yes"}}
    kinds = [[("ce_type", b"ab"[k % 2 : k % 2 + 1])] for k in range(16)]
    messages = [whole(b'{"amount": 2, "fraud": "no"}', headers=kind) for kind in kinds]
    slot = observed(tuple(messages), decoder(topic(schema=schema, where_headers={"ce_type": "a"})))
    assert slot.present.tolist() == [True, False] * 8


FRAME = b"\0\0\0\0\7"


@pytest.mark.parametrize("settings", [{}, ENVELOPE])
def test_a_frame_is_passed_over(settings):
    of_topic = decoder(topic(framed=True, **settings))
    value = (
        json.dumps({"payload": {"op": "c", "after": row()}}).encode()
        if settings
        else json.dumps(row()).encode()
    )
    features, label = of_topic.decode(FRAME + value)
    assert (features.tolist(), label) == ([2.0, 0.0, 1.0], -1.0)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (json.dumps(row()).encode(), "without a schema registry's frame"),
        (b"\1\0\0\0\7" + json.dumps(row()).encode(), "without a schema registry's frame"),
        (FRAME, "without a schema registry's frame"),
        (FRAME[:4], "without a schema registry's frame"),
        (FRAME + b"{", "not JSON"),
        (FRAME + b"[]", "not a JSON object"),
    ],
)
def test_a_message_without_the_frame_is_unreadable(value, fault):
    of_topic = decoder(topic(framed=True))
    assert of_topic.decode(value) is None
    assert str(of_topic.fault(value)) == fault


def test_a_key_has_the_frame_of_its_value():
    of_topic = decoder(topic(schema=PLACES, framed=True))
    assert of_topic.decode(whole(FRAME + placed(), key=FRAME + b'{"id": 7}')) is not None
    assert str(of_topic.fault(whole(FRAME + placed()))) == "id: missing"


def test_framed_messages_are_decoded_at_once():
    schema = {"features": {"amount": "number"}, "label": {"column": "fraud", "positive": "yes"}}
    of_topic = decoder(topic(schema=schema, framed=True))
    values = [FRAME + json.dumps({"amount": k, "fraud": "no"}).encode() for k in range(16)]
    features, labels = of_topic.at_once(values)
    assert features.ravel().tolist() == list(range(16))
    assert set(labels.tolist()) == {-1.0}
    assert of_topic.at_once([*values[1:], values[0][5:]]) is None


@pytest.mark.parametrize("origin", [{"key": "id"}, "customer.id"])
def test_a_line_of_csv_has_no_fields_within_fields(origin):
    schema = {"features": {"id": {"number": True, "from": origin}}, "label": {"column": "y"}}
    with pytest.raises(ValidationError, match="goes with format json"):
        topic(schema=schema, format="csv", columns=["y"])


def test_a_time_that_is_a_feature_too_says_once_where_it_is():
    feature = {"at": {"hour": "UTC", "from": {"header": "at"}}}
    timestamp = {"column": "at", "from": {"header": "ce_time"}}
    schema = {"features": feature, "label": {"column": "y"}, "timestamp": timestamp}
    with pytest.raises(ValidationError, match="at is a feature too: must be given there"):
        topic(schema=schema)
    of_topic = decoder(topic(schema=schema | {"timestamp": "at"}))
    message = whole(b'{"y": 2}', headers=[("at", b"1970-01-01T01:00:00Z")])
    assert of_topic.timestamp(message) == 3_600.0
    assert of_topic.decode(message)[0].tolist() == [0.0, 1.0] + 22 * [0.0]
