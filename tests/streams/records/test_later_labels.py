"""Labels that come later: which one counts, how a message is read, and that keys are nowhere as they are."""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.slots import ClosedSlot
from nodes.privacy.reveal import opened
from nodes.values import Observations
from streams.bus.bus import Unreachable
from streams.bus.registry import Definition
from streams.mesh.settings.node import FileSettings
from streams.records import later_labels
from streams.records.decoder import CsvFields, SchemaDecoder, json_fields
from streams.records.later_labels import NONE, KeyHash, Label, LabelMessages, LabelTable, Wanted
from streams.simulation.labels import LabelEntry, LabelLog, LabelsInTurn
from tests.support.brokers import avro
from tests.support.brokers.registry import stub_registry

ENTRIES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 9), st.sampled_from([1.0, 2.0, NONE])),
    max_size=40,
)
REQUESTS = st.lists(st.builds(Wanted, st.integers(0, 4), st.integers(0, 9), st.integers(0, 9)), max_size=9)


def counted(entries, key, first, last):
    """The label that counts, looked for one by one."""
    fit = [
        (time, part, number, label)
        for number, (part, entry_key, time, label) in enumerate(entries)
        if entry_key == key and first <= time <= last
    ]
    return max(fit, key=lambda entry: entry[:3])[3] if fit else NONE


def same(first, second):
    return np.array_equal(np.array(first), np.array(second), equal_nan=True)


@given(ENTRIES, st.integers(0, 40), REQUESTS, st.sampled_from([1, 4, 1 << 16]))
def test_the_newest_label_of_a_key_counts_however_many_are_sorted(entries, before, requests, least):
    table = LabelTable()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(later_labels, "_LEAST", least)
        for place, (part, key, time, label) in enumerate(entries):
            if place == before:  # a look in between changes nothing
                table.find(requests)
            table.add(part, key, time, label)
        expected = [counted(entries, *request) for request in requests]
        assert same(table.find(requests), expected)
        assert same(table.find(requests), expected)  # a label is never used up
    assert len(table) == len(entries)
    assert table.bytes == 25 * len(entries)


@given(
    ENTRIES, REQUESTS, st.integers(0, 40), st.sampled_from(["added", "removed", "changed"]), st.integers(0, 3)
)
def test_a_label_changes_nothing_of_records_with_another_key(entries, requests, place, change, key):
    other = list(entries)
    place = min(place, len(other))
    if change == "added":
        other.insert(place, (0, key, 5, 1.0))
    elif place < len(other):
        key = other[place][1]
        other[place : place + 1] = [] if change == "removed" else [(1, key, 7, NONE)]
    found = []
    for stream in (entries, other):
        table = LabelTable()
        for entry in stream:
            table.add(*entry)
        found.append(table.find([request for request in requests if request.key != key]))
    assert same(*found)


@given(ENTRIES, REQUESTS, st.integers(0, 9), st.integers(0, 9))
def test_labels_end_by_their_own_age_alone(entries, requests, time, since):
    table = LabelTable()
    for entry in entries:
        table.add(*entry)
    table.find(requests)
    had = {
        (key, at)
        for key, first, last in requests
        for _, k, at, _ in entries
        if k == key and first <= at <= last
    }
    unused = sum(since <= at < time and (key, at) not in had for _, key, at, _ in entries)
    assert table.forget(time, since) == unused
    remaining = [entry for entry in entries if entry[2] >= time]
    assert same(table.find(requests), [counted(remaining, *request) for request in requests])


@pytest.mark.parametrize("sorted_in", [0, 1, 2, 3])
@pytest.mark.parametrize("least", [1, 1 << 16])
def test_of_equal_times_the_latest_in_the_log_counts_and_then_the_higher_partition(
    sorted_in, least, monkeypatch
):
    monkeypatch.setattr(later_labels, "_LEAST", least)
    table, entries = LabelTable(), [(1, 5, 3, 1.0), (1, 5, 3, 2.0), (2, 5, 3, 4.0), (1, 5, 3, 3.0)]
    for number, entry in enumerate(entries):
        table.add(*entry)
        if number == sorted_in:
            table.find([])
    assert table.find([Wanted(5, 0, 9)]).tolist() == [4.0]
    table = LabelTable()
    for number, entry in enumerate(entries):
        if entry[0] == 1:
            table.add(*entry)
        if number == sorted_in:
            table.find([])
    assert table.find([Wanted(5, 0, 9)]).tolist() == [3.0]


def test_a_label_that_is_not_sorted_in_with_most_of_them_is_later_than_those(monkeypatch):
    monkeypatch.setattr(later_labels, "_LEAST", 1)
    table = LabelTable()
    for key in (*range(40), 5):
        table.add(0, key, 3, 1.0)
    table.find([])
    table.add(0, 5, 3, 2.0)
    assert table.find([Wanted(5, 0, 9)]).tolist() == [2.0]


def test_each_process_hashes_with_a_key_of_its_own():
    first, second = KeyHash(), KeyHash()
    assert first("payment-1") == first("payment-1") != first("payment-2")
    assert first("payment-1") != second("payment-1")
    assert 0 <= first("\ud800") < 2**64


def settings(label=None, kind="json-lines", **changes):
    labels = {"topic": "chargebacks", "join": "payment_id", "after": "45d", "value": {"constant": "fraud"}}
    labels |= {"otherwise": "legitimate"} | changes
    schema = {"features": {"amount": "number"}, "label": label or {"column": "outcome", "positive": "fraud"}}
    return FileSettings.model_validate({"kind": kind, "schema": schema, "labels": labels})


def messages(label=None, **changes):
    source = settings(label, **changes)
    return LabelMessages(source.labels, source.record)


@pytest.mark.parametrize(
    ("value", "key", "label"),
    [
        (b'{"payment_id": "p"}', None, ("p", 1.0)),
        (b'{"payment_id": 7.0}', None, ("7", 1.0)),
        (b'{"payment_id": 9007199254740993}', None, ("9007199254740993", 1.0)),
        (b"{}", b"p", ("p", 1.0)),
        (b"{}", b'{"payment_id": 7}', ("7", 1.0)),
        (b'{"payment_id": "a"}', b"b", ("a", 1.0)),
        (b"{}", None, None),
        (b"{}", b"\xff", None),
        (b"{}", b"", None),
        (b'{"payment_id": {}}', None, None),
        (b"[", b"p", None),
        (b'{"payment_id": 1, "payment_id": 2}', None, None),
    ],
)
def test_a_message_names_its_records_by_its_field_or_its_key(value, key, label):
    assert messages()(value, key) == (None if label is None else Label(*label))


def test_a_message_without_a_value_takes_a_label_back():
    for value in (None, b""):
        key, label = messages()(value, b"p")
        assert key == "p"
        assert math.isnan(label)
    assert messages()(None, None) is None


@pytest.mark.parametrize(
    ("label", "otherwise", "value", "number"),
    [
        ({"column": "y", "positive": "fraud"}, "fine", "fraud", 1.0),
        ({"column": "y", "positive": "fraud"}, "fine", "anything", -1.0),
        ({"column": "y", "positive": "fraud"}, "fine", None, None),
        ({"column": "y", "positive": "1", "negative": "0"}, "0", 1.0, 1.0),
        ({"column": "y", "positive": "1", "negative": "0"}, "0", 2, None),
        ({"column": "y", "classes": ["a", "b"]}, "a", "b", 1.0),
        ({"column": "y"}, 0, 2.5, 2.5),
        ({"column": "y"}, 0, "x", None),
    ],
)
def test_a_label_in_a_field_is_read_as_the_schema_says(label, otherwise, value, number):
    read = messages(label, value={"column": "said.outcome"}, otherwise=otherwise)
    message = json.dumps({"payment_id": "p", "said": {"outcome": value}}).encode()
    assert read(message, None) == (None if number is None else Label("p", number))


def test_a_record_has_no_label_of_its_own_and_needs_its_key():
    decoder = SchemaDecoder(settings().record, json_fields)
    assert decoder.key(b'{"amount": 1, "payment_id": 7.0, "outcome": "fraud"}') == "7"
    features, label = decoder.decode(b'{"amount": 1, "payment_id": "a", "outcome": "fraud"}')
    assert (features.tolist(), label) == ([1.0], 0.0)
    for key in ("null", '""', "[]"):
        value = f'{{"amount": 1, "payment_id": {key}}}'.encode()
        assert decoder.decode(value) is None
        assert decoder.key(value) is None
        assert decoder.fault(value).column == "payment_id"
    odd = [b'{"amount": 1, "payment_id": "a"}'] * 9 + [b'{"amount": 1, "payment_id": null}']
    assert [pair is not None for pair in decoder.decode_each(odd)] == [True] * 9 + [False]
    assert [pair[1] for pair in decoder.decode_each(odd[:9])] == [0.0] * 9


def test_keys_in_csv_are_compared_as_numbers_of_the_dialect():
    source = FileSettings.model_validate(
        {
            "kind": "csv",
            "columns": ["amount", "payment_id"],
            "dialect": {"delimiter": ";", "decimal": ",", "thousands": "."},
            "schema": {"features": {"amount": "number"}, "label": {"column": "y", "positive": "f"}},
            "labels": settings().labels.model_dump(mode="json")
            | {"otherwise": "l", "value": {"constant": "f"}},
        }
    )
    decoder = SchemaDecoder(source.record, CsvFields(source.columns, source.dialect))
    keys = {text: decoder.key(f"1;{text}".encode()) for text in ("7", "7,0", "007", "1.000", "p")}
    assert keys == {"7": "7", "7,0": "7", "007": "007", "1.000": "1000", "p": "p"}


# ------------------------------------------------------------------------------------------------ in Avro

AVRO = {"format": "avro", "registry": {"url": "http://nowhere"}}
STATE = avro.record("State", outcome="string")
OUTCOME = avro.record(payment_id=["null", "long"], state=STATE)
IDS = {1: OUTCOME, 2: avro.record("Key", payment_id="long"), 3: "string", 4: "long"}


def avro_messages(**changes):
    """What reads labels whose schemas are known."""
    avro.need_fastavro()
    reader = messages(**AVRO | changes)
    for number, schema in IDS.items():
        reader.schemas.learn(number, Definition("AVRO", json.dumps(schema)))
    return reader


def outcome(text, payment=7):
    return avro.message(1, OUTCOME, {"payment_id": payment, "state": {"outcome": text}})


@pytest.mark.parametrize(
    ("value", "key", "label"),
    [
        (("fraud", 7), None, Label("7", 1.0)),
        (("legitimate", 7), None, Label("7", -1.0)),
        (("fraud", None), None, None),
        (("fraud", None), b"8", Label("8", 1.0)),
        (("fraud", None), (2, {"payment_id": 9}), Label("9", 1.0)),
        (("fraud", None), (3, "ten"), Label("ten", 1.0)),
        (("fraud", None), (4, 11), Label("11", 1.0)),
        (None, (4, 11), Label("11", NONE)),
        (None, b"8", Label("8", NONE)),
        (b'{"payment_id": 7, "state": {"outcome": "fraud"}}', b"8", None),
        (b"\0\0\0\0\1\xff", b"8", None),
        (b"\0\0\0\0\x63\2", b"8", None),
    ],
)
def test_labels_in_avro_are_read_by_their_writers_schemas(value, key, label):
    value = outcome(*value) if isinstance(value, tuple) else value
    key = avro.message(key[0], IDS[key[0]], key[1]) if isinstance(key, tuple) else key
    found = avro_messages(value={"column": "state.outcome"})(value, key)
    assert str(found) == str(label)


def test_the_registry_decides_for_all_labels_whether_they_can_be_read():
    """Whether it answers counts, not which schemas messages name. Nothing of the log is lost meanwhile."""
    avro.need_fastavro()
    with stub_registry() as registry:
        registry.schemas = IDS
        source = settings(value={"column": "state.outcome"}, format="avro", registry={"url": registry.url})
        log = LabelLog(
            [
                LabelEntry(1, 0, 1, None, outcome("legitimate")),
                LabelEntry(2, 0, 2, "8", b"\0\0\0\0\x63\2"),  # an id that nobody has
                LabelEntry(4, 0, 4, None, outcome("fraud")),
            ]
        )
        log.now = 3
        labels = LabelsInTurn(source.labels, SchemaDecoder(source.record, json_fields), log)
        labels.ask(0.0)
        registry.answer = lambda path: 503
        for is_checked in (False, True):  # it is away before messages are read, or goes away behind that
            labels._checked = time.monotonic() if is_checked else -math.inf
            with pytest.raises(Unreachable):
                labels.turn(log)
            assert not labels.is_read
        registry.answer = lambda path: None
        labels.read()
        assert opened(labels.counts).unreadable == opened(labels.counts).came == 1
        log.now, registry.answer = 5, lambda path: 503
        labels._checked = -math.inf
        labels.ask(0.0)
        with pytest.raises(Unreachable):  # though all schemas that messages name are known
            labels.turn(log)
        registry.answer = lambda path: None
        labels.read()
    slot = ClosedSlot(1, (b'{"amount": 1, "payment_id": 7}',), (), times=(3.0,))
    filled = labels.fill(slot, Observations(np.zeros((1, 1)), np.zeros(1), np.ones(1, np.bool_)))
    assert filled.labels.tolist() == [1.0]
