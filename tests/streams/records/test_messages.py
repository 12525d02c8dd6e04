"""Records in the messages of a topic that others write."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from streams.mesh.settings.node import TopicSettings
from streams.records.decoder import SchemaDecoder
from streams.records.faults import NotARecord
from streams.records.messages import Messages
from streams.records.observed import observed
from streams.records.record import WholeMessage

SCHEMA = {
    "features": {"amount": "number", "customer.country": {"categories": ["DE", "FR"]}},
    "label": {"column": "fraud", "positive": "yes"},
}
DEBEZIUM = {
    "value": "payload.after",
    "where": {"payload.op": ["c", "r"], "payload.after.status": "settled"},
}


def topic(**settings):
    return TopicSettings.model_validate({"kind": "topic", "topic": "payments", "schema": SCHEMA} | settings)


def decoder(settings):
    return SchemaDecoder(settings.record, Messages(settings))


def row(**fields):
    return {"amount": 2, "customer": {"country": "FR"}, "fraud": "no", "status": "settled"} | fields


def change(op="c", after=None):
    return json.dumps({"schema": {}, "payload": {"op": op, "before": None, "after": after}}).encode()


def test_a_message_may_be_the_record_with_fields_within_fields():
    features, label = decoder(topic()).decode(json.dumps(row()).encode())
    assert (features.tolist(), label) == ([2.0, 0.0, 1.0], -1.0)


def test_a_field_of_just_that_name_goes_before_one_within():
    message = json.dumps(row() | {"customer.country": "DE"}).encode()
    features, _ = decoder(topic()).decode(message)
    assert features.tolist() == [2.0, 1.0, 0.0]


def test_a_record_in_an_envelope():
    features, label = decoder(topic(**DEBEZIUM)).decode(change(after=row(fraud="yes")))
    assert (features.tolist(), label) == ([2.0, 0.0, 1.0], 1.0)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", NotARecord.TOMBSTONE),
        (change("u", row()), NotARecord.LEFT_OUT),
        (change("d"), NotARecord.LEFT_OUT),
        (change("c", row(status="pending")), NotARecord.LEFT_OUT),
        (change("c", row(status=None)), NotARecord.LEFT_OUT),
        (change("c", row(status=["settled"])), NotARecord.LEFT_OUT),
        (b"{}", NotARecord.LEFT_OUT),
        (b"[]", None),
        (b"{", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
        (change("c", row()), None),
        (change("c", row(amount="?")), None),
        (b'"' + b"c" * 20_000 + b'"', None),
    ],
)
def test_what_is_no_record_is_told_from_what_cannot_be_read(message, reason):
    of_topic = decoder(topic(**DEBEZIUM))
    assert of_topic.no_record(message) is reason
    if reason is not None:
        assert of_topic.decode(message) is None


@pytest.mark.parametrize("listed", [2.5, "2.50", "25e-1"])
@pytest.mark.parametrize(
    ("value", "passes"),
    [(2.5, True), ("2.50", True), ("25e-1", True), (25, False), ("2,5", False), (True, False), (None, False)],
)
def test_a_condition_compares_numbers_as_a_list_of_labels_does(listed, value, passes):
    message = change("c", row(rate=value))
    where = decoder(topic(value="payload.after", where={"payload.after.rate": listed}))
    assert (where.no_record(message) is None) == passes
    header = [] if value is None else [("rate", json.dumps(value).strip('"').encode())]
    whole = WholeMessage.of(change("c", row()), None, header)
    by_header = decoder(topic(value="payload.after", where_headers={"rate": listed}))
    assert (by_header.no_record(whole) is None) == passes


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (change("c", row(customer={})), "customer.country: missing"),
        (change("c", row(customer="FR")), "customer.country: missing"),
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
    ],
)
def test_a_fault_names_the_field(message, fault):
    assert str(decoder(topic(**DEBEZIUM)).fault(message)) == fault


def test_an_envelope_that_holds_no_object_is_a_fault():
    assert str(decoder(topic(value="payload.after")).fault(change())) == "no JSON object at payload.after"


def test_lines_of_csv_in_a_topic():
    schema = {"features": {"amount": "number"}, "label": {"column": "fraud", "positive": "yes"}}
    settings = topic(schema=schema, format="csv", columns=["amount", "fraud"])
    features, label = decoder(settings).decode(b"7,yes")
    assert (features.tolist(), label) == ([7.0], 1.0)
    assert decoder(settings).decode(b"7") is None


VALUES = st.sampled_from(["c", "d", None, 1, 2.5, {"country": "DE"}, {"country": "XX"}, [], "settled", "yes"])
ROWS = st.dictionaries(st.sampled_from(["amount", "customer", "customer.country", "fraud", "status"]), VALUES)
MESSAGES = st.one_of(
    st.binary(max_size=20),
    ROWS.map(lambda fields: json.dumps(fields).encode()),
    st.builds(change, VALUES, st.one_of(ROWS, st.none())),
    st.just(change("c", row())),
    st.just(json.dumps(row()).encode()),
)


SETTINGS = st.sampled_from([{}, DEBEZIUM, {"value": "payload.after"}])


@given(st.lists(MESSAGES, min_size=8, max_size=12), SETTINGS)
def test_a_slot_decoded_at_once_is_each_message_decoded_alone(messages, settings):
    of_topic = decoder(topic(**settings))
    slot = observed(tuple(messages), of_topic)
    pairs = [of_topic.decode(message) for message in messages]
    assert slot.present.tolist() == [pair is not None for pair in pairs]
    for k, pair in enumerate(pairs):
        if pair is not None:
            assert np.array_equal(slot.features[k], pair[0])
            assert slot.labels[k] == pair[1]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"topic": "a b"}, "must be the name of a topic"),
        ({"topic": ".."}, "must be the name of a topic"),
        ({"value": "payload..after"}, "must be names with dots between them"),
        ({"where": {}}, "at least 1"),
        ({"where": {"op": []}}, "at least 1"),
        ({"partitions": [0, 0]}, "0 is named twice"),
        ({"partitions": [-1]}, "must be numbers of partitions"),
        ({"format": "csv"}, "needs the names of the columns"),
        ({"columns": ["amount"]}, "goes with format csv"),
        ({"format": "csv", "columns": ["amount"], "where": {"op": "c"}}, "goes with format json"),
        ({"format": "csv", "columns": ["amount"], "framed": True}, "goes with format json"),
        ({"where_headers": {}}, "at least 1"),
    ],
)
def test_a_wrong_setting_says_what_is_allowed(settings, text):
    with pytest.raises(ValidationError, match=text):
        topic(**settings)


def test_ordinary_messages_that_are_left_out_are_no_records_in_a_whole_slot():
    schema = {"features": {"amount": "number"}, "label": {"column": "fraud", "positive": "yes"}}
    messages = [json.dumps({"amount": k, "fraud": "no", "status": "ab"[k % 2]}).encode() for k in range(16)]
    slot = observed(tuple(messages), decoder(topic(schema=schema, where={"status": "a"})))
    assert slot.present.tolist() == [True, False] * 8


def test_messages_of_csv_have_a_dialect():
    dialect = {"delimiter": ";", "decimal": ",", "encoding": "cp1252"}
    columns = ["amount", "customer.country", "fraud"]
    of_csv = decoder(topic(format="csv", columns=columns, dialect=dialect))
    message = '"1,5";Größe\n;yes'.replace("\n", "").encode("cp1252")
    assert of_csv.decode(message)[0].tolist() == [1.5, 0.0, 0.0]
    assert of_csv.decode('1,5;"a\nb";yes'.encode("cp1252")) is not None
    assert str(of_csv.fault(b"1,5;\x81;yes")) == "not cp1252"
    messages = (message, b"1,5;DE;no", b"1.5;DE;no", b"\x81") * 3
    assert observed(messages, of_csv).present.tolist() == [True, True, False, False] * 3
    for wrong in (
        {"dialect": dialect},
        {"format": "csv", "columns": columns, "dialect": {"line_breaks": True}},
    ):
        with pytest.raises(ValidationError, match=r"goes with format csv|a message is one record"):
            topic(**wrong)


def test_a_message_is_parsed_once_for_its_kind_its_time_and_its_record():
    settings = topic(**DEBEZIUM, schema=SCHEMA | {"timestamp": "at"})
    messages = Messages(settings)
    parsed, split = [], messages._split

    def counting(message):
        parsed.append(message)
        return split(message)

    messages._split = counting
    reader = SchemaDecoder(settings.record, messages)
    changes = [change(after=row(at=k, amount=k)) for k in range(3)] + [b"{"]
    for number, message in enumerate([*changes, *reversed(changes)]):
        assert reader.no_record(message) is None
        time, record = reader.timestamp(message), reader.decode(message)
        expected = min(number, 7 - number)
        assert (time, None if record is None else record[0][0]) == (
            (expected,) * 2 if expected < 3 else (None,) * 2
        )
    assert len(parsed) == 2 * len(changes) - 1  # the broken one came twice in a row
