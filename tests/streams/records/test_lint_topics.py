"""What `check` says of the first messages of a topic: counts and reasons, and never a value."""

import json
from typing import NamedTuple

import pytest

from streams.bus.existing_topic import Sample
from streams.records.lint import TopicLines, message_lines, topic_lines
from tests.support.brokers.avro import message, need_fastavro
from tests.support.brokers.avro import record as avro_record
from tests.support.brokers.registry import StubRegistry
from tests.support.meshes.files import changed, loaded
from tests.support.processes.in_process import Commands

CANARY = "81723"
SCHEMA = {"features": {"amount": "number"}, "label": {"column": "z"}}


class Message(NamedTuple):
    content: bytes | None
    name: bytes | None = b"k"
    more: list[tuple[str, bytes]] | None = None

    def value(self):
        return self.content

    def key(self):
        return self.name

    def headers(self):
        return self.more


def mesh(folder, source=None, **shared):
    tree = changed(nodes=["a", "b"], loss="squared", topology={"graph": "complete"}, dimension=1, **shared)
    broker = {"servers": "127.0.0.1:1"}
    tree["brokers"] = {"mesh": broker, "data": broker, "trust_broker": True}
    given = {"kind": "topic", "topic": "payments", "schema": SCHEMA} | (source or {})
    tree["nodes"] = {"a": {"source": given}}
    return loaded(folder, tree)


def record(op="c", amount=CANARY, **fields):
    return json.dumps({"op": op, "after": {"amount": amount, "z": "1"}, **fields}).encode()


def looked_at(file, messages, partitions=3):
    lines = TopicLines()
    message_lines(file, "a", file.existing_topic("a"), Sample(partitions, tuple(messages)), lines)
    assert CANARY not in " ".join([*lines.wrong, *lines.odd, *lines.looked_at])
    return lines


ENVELOPE = {"value": "after", "where": {"op": "c"}}


def test_messages_are_counted_by_what_they_are(tmp_path):
    messages = [Message(record(), b"%d" % k) for k in range(6)]
    messages += [Message(None), Message(record("u")), Message(b"{", b"x")]
    lines = looked_at(mesh(tmp_path, ENVELOPE), messages)
    assert lines.wrong == []
    assert lines.looked_at == [
        "payments: 3 partitions; of the first 9 messages 7 hold a record, 1 a tombstone, 1 left out by where"
    ]
    (odd,) = lines.odd
    assert odd.startswith("nodes.a.source: 1 of the first 7 records is malformed: not JSON")


def test_where_none_fits_the_schema_is_named(tmp_path):
    lines = looked_at(mesh(tmp_path, {"value": "after"}), [Message(b'{"after": {"amount": "x"}}')] * 3)
    assert "nodes.a.source.schema" in lines.wrong[0]
    assert "fits none of the first 3 records: amount: not a number (3)" in lines.wrong[0]


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (
            {"opp": "c"},
            'where.opp: ["c"]: no field of the first 2 messages: they have op, after (did you mean op?)',
        ),
        ({"after.zz": "c"}, "where.after.zz: "),
        ({"after.amount.deep": "c"}, "where.after.amount.deep: "),
    ],
)
def test_a_condition_on_a_field_that_no_message_has(tmp_path, where, line):
    lines = looked_at(mesh(tmp_path, {"value": "after", "where": where}), [Message(record())] * 2)
    assert len(lines.wrong) == 1
    assert line in lines.wrong[0]


def test_names_that_few_messages_have_are_not_shown(tmp_path):
    messages = [Message(record(**{f"n{CANARY}": 1})), Message(record()), Message(record())]
    lines = looked_at(mesh(tmp_path, {"value": "after", "where": {"opp": "c"}}), messages)
    assert "they have op, after" in lines.wrong[0]


def test_records_that_share_their_key_and_what_that_costs(tmp_path):
    messages = [Message(record(), key) for key in (b"a", b"a", b"b", b"b", b"b", b"c")]
    lines = looked_at(mesh(tmp_path, ENVELOPE), [*messages, Message(record("u"), b"a")])
    shared, cost = lines.looked_at[1].split(": what")
    assert shared == "payments: 5 of the first 6 records share their key with another, up to 3 a key"
    assert cost == " is in 3 records is protected at 3 epsilon"


TIME = {"slots": {"by": "time", "start": 0, "period": 1, "size": 3}}


@pytest.mark.parametrize(
    ("shared", "source", "partitions", "warned"),
    [
        ({}, {}, 3, True),
        ({}, {}, 1, False),
        (TIME, {}, 3, False),
        (TIME, {"partitions": [0, 1]}, 3, True),  # which records are there at all goes by partitions
    ],
)
def test_messages_without_a_key(tmp_path, shared, source, partitions, warned):
    file = mesh(tmp_path, ENVELOPE | source, **shared)
    lines = looked_at(file, [Message(record(), None), Message(record())], partitions)
    assert len(lines.odd) == warned
    assert (
        not warned or "source.topic: 1 of the first 2 messages has no key, so that producers" in lines.odd[0]
    )


AVRO = {"format": "avro", "registry": {"url": "http://127.0.0.1:1"}}


def test_of_avro_messages_the_keys_are_looked_at_while_the_registry_is_away(tmp_path):
    need_fastavro()
    messages = [Message(b"\0\0\0\0\7?", key) for key in (b"k", b"k", b"l", None)]
    lines = looked_at(mesh(tmp_path, AVRO), [*messages, Message(None, b"k")])
    unread, shared = lines.looked_at
    assert unread.startswith(
        "payments: its messages are Avro, and were not read: http://127.0.0.1:1: the schema"
    )
    assert shared.startswith("payments: 2 of the first 4 messages with a value share their key with another")
    assert "source.topic: 1 of the first 5 messages has no key, so that producers" in lines.odd[0]


PAYMENT = avro_record("payment", op="string", amount="double", z="int")


@pytest.fixture
def avro():
    """A registry with a schema of payments, and how a payment is written."""
    need_fastavro()
    registry = StubRegistry()
    registry.schemas[7] = PAYMENT

    def payment(op="c", number=7):
        return message(number, PAYMENT, {"op": op, "amount": float(CANARY), "z": 1})

    yield {"format": "avro", "registry": {"url": registry.url}}, payment
    registry.stop()


def test_avro_messages_are_read_by_the_registry(tmp_path, avro):
    settings, payment = avro
    file = mesh(tmp_path, settings | {"where": {"op": "c"}})
    messages = [Message(value) for value in (payment(), payment(), payment("u"), payment(number=8), None)]
    lines = looked_at(file, [Message(value, f"{k}".encode()) for k, (value, *_) in enumerate(messages)])
    assert lines.wrong == []
    held = "of the first 5 messages 3 hold a record, 1 left out by where, 1 a tombstone"
    assert lines.looked_at == [f"payments: 3 partitions; {held}"]
    reason = "of a schema that the registry denies (1)"
    assert lines.odd == [f"nodes.a.source: 1 of the first 3 records is malformed: {reason}"]


def test_a_schema_that_fits_no_avro_message_and_a_condition_on_no_field_are_named(tmp_path, avro):
    settings, payment = avro
    wrong = {"schema": {"features": {"sum": "number"}, "label": {"column": "z"}}}
    lines = looked_at(mesh(tmp_path, settings | wrong), [Message(payment())])
    assert lines.wrong[0].endswith("nodes.a.source.schema: fits none of the first 1 record: sum: missing (1)")
    lines = looked_at(mesh(tmp_path, settings | {"where": {"kind": "c"}}), [Message(payment())])
    assert lines.wrong[0].endswith('nodes.a.source.where.kind: ["c"]: no field of the first 1 messages')


def test_a_condition_on_a_header_that_no_message_has(tmp_path):
    headers = [("kind", b"paid"), ("trace", CANARY.encode())]
    messages = [Message(record(), more=headers), Message(record(), more=headers[:1])]
    source = ENVELOPE | {"where_headers": {"kin": ["paid"]}}
    lines = looked_at(mesh(tmp_path, source), messages)
    text = (
        'where_headers.kin: ["paid"]: no header of the first 2 messages: they have kind (did you mean kind?)'
    )
    assert lines.wrong[0].endswith(f"nodes.a.source.{text}")
    assert len(lines.wrong) == 1


@pytest.mark.parametrize(
    ("conditions", "keys"),
    [
        ({"where": {"op": "x"}}, "where leave"),
        ({"where_headers": {"kind": "x"}}, "where_headers leave"),
        ({"where": {"op": "c"}, "where_headers": {"kind": "x"}}, "where and where_headers leave"),
    ],
)
def test_conditions_that_leave_no_record_are_named(tmp_path, conditions, keys):
    messages = [Message(record(), more=[("kind", b"paid")])] * 2
    lines = looked_at(mesh(tmp_path, {"value": "after"} | conditions), [*messages, Message(None)])
    assert lines.wrong == []
    assert lines.odd == [f"nodes.a.source: {keys} no record of the first 3 messages"]


def test_headers_of_a_name_that_is_no_text_are_none(tmp_path):
    class Odd(Message):
        def headers(self):
            return b"\xff".decode()

    lines = looked_at(mesh(tmp_path, ENVELOPE), [Odd(record()), Message(record(), more=[("h", b"x")])])
    assert "of the first 2 messages 2 hold a record" in lines.looked_at[0]


def test_columns_in_headers_and_keys_and_conditions_on_headers_are_read(tmp_path):
    features = {"amount": {"bounds": [0, 99999], "from": {"header": "sum"}}}
    schema = SCHEMA | {"features": features, "label": {"column": "z", "from": {"key": "."}}}
    file = mesh(tmp_path, {"schema": schema, "where_headers": {"kind": ["paid"]}})
    headers = [("sum", CANARY.encode()), ("kind", b"paid")]
    messages = [Message(b"{}", b"1", headers), Message(b"{}", b"1", [("kind", b"other")])]
    lines = looked_at(file, messages, 1)
    assert (lines.wrong, lines.odd) == ([], [])
    assert lines.looked_at == [
        "payments: 1 partition; of the first 2 messages 1 hold a record, 1 left out by where"
    ]


def test_a_topic_without_a_message_is_right(tmp_path):
    assert looked_at(mesh(tmp_path), []) == TopicLines(looked_at=["payments: 3 partitions; no message yet"])


def test_a_broker_that_does_not_answer_is_no_mistake(tmp_path, capsys):
    file = mesh(tmp_path)
    (line,) = topic_lines(file).looked_at
    assert line.startswith("payments was not looked at: 127.0.0.1:1: ")
    outcome = Commands(capsys)("check", file.path)
    assert outcome.code == 0
    assert line in outcome.out


def test_an_id_that_repeats_is_named_by_a_public_word(tmp_path):
    messages = [Message(record(customer={"personId": f"{CANARY}{k % 10}"}), b"%d" % k) for k in range(40)]
    (odd,) = looked_at(
        mesh(tmp_path),
        [Message(m.content.replace(b'"after"', b'"amount": 1, "z": 1, "after"'), m.name) for m in messages],
    ).odd
    assert "the first 40 records seem to have an id of a person, which repeats" in odd
