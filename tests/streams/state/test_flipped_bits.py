"""One flipped bit of a journal at rest: the journal is refused, or nothing that it holds has changed."""

import re
import sqlite3
import struct
from contextlib import closing

import numpy as np
import pytest

from nodes.collaboration.messages import Answer, QueryRecord, RecordSet, ResponseRecord
from nodes.machine.journal import GivenUp, JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.privacy.private import Private
from nodes.values import Average
from streams.collaboration.journals import LearnerJournal, OwnerJournal, RunParty
from streams.state.folder import JournalError
from streams.state.journal import SqliteJournal
from streams.state.journal_file import JournalReader
from streams.state.secret import wipe

LIFE = {"run": "r", "node": "a", "digest": bytes(4), "instance": "5a" * 4, "horizon": 2, "agreed": '{"x":1}'}
PARTY = RunParty("m", "r", "a", bytes(4), '{"x":1}')
SET = RecordSet('{"s":1}', (("bytes", 81),), 120)
FREE = bytes(24)  # so many zero bytes are no part of a row


def record(number):
    return JournalRecord(
        round=number,
        stepped=number - 1,
        release=np.array([0.5 * number]),
        exact=number == 1,
        charged=number,
        epsilon_spent=0.25 * number,
        data_position=((0, 48 + number),),
        topology_position=number,
        edge_positions=(("b", 3),),
        given_up=(GivenUp("b", number, "cc" * 4),),
        corrected=(),
        distrusted=(("b", "cc"),),
        average=Average(number, np.array([0.75])),
        pardoned=(("b", "dd", 9),),
    )


def node_journal(path):
    with SqliteJournal(path, **LIFE) as journal:
        for number in (1, 2, 3):
            draws = np.arange(number, 0, -1, dtype=np.int64)[:2, None]
            journal.append(record(number), Secret("band", Private(draws)))


def owner_journal(path):
    with OwnerJournal.opened(path, PARTY, "5a" * 4) as journal:
        for number in (1, 2, 3):
            journal.append(ResponseRecord(number, b"asked", np.array([0.5]), number, 0.25, SET))


def learner_journal(path):
    with LearnerJournal.opened(path, PARTY, "5a" * 4) as journal:
        for number in (1, 2, 3):
            answers = (
                Answer("b", "cc" * 4, 0.5, np.array([1.5])),
                Answer("c", "dd" * 4, 1.0, np.array([2.5])),
            )
            journal.append(QueryRecord(number, np.array([0.5]), np.array([0.1]), answers, ("d",)))


KINDS = {
    "node": (node_journal, JournalReader),
    "owner": (owner_journal, OwnerJournal.read),
    "learner": (learner_journal, LearnerJournal.read),
}
TABLES = {
    "node": ("records", "life", "agreed", "average", "secret_draws"),
    "owner": ("responses", "life", "agreed", "record_set"),
    "learner": ("queries", "life", "agreed", "answers"),
}


def at_rest(path, kind):
    """Make the journal, all of it in one file."""
    write, _ = KINDS[kind]
    write(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return path.read_bytes()


def content(path, kind):
    """What the tables of a journal hold, with types. It is read here as the product does not."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return [
            [(value, type(value)) for row in connection.execute(f"SELECT * FROM {table}") for value in row]  # noqa: S608 # names of ours
            for table in TABLES[kind]
        ]


def used(whole):
    """The offsets of bytes that are not in free space."""
    free, at = set(), whole.find(FREE)
    while at >= 0:
        end = next((place for place in range(at, len(whole)) if whole[place]), len(whole))
        free |= set(range(at, end))
        at = whole.find(FREE, end)
    return [place for place in range(len(whole)) if place not in free]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_anywhere_in_the_file_is_refused_or_changes_nothing(tmp_path, kind):
    path, (_, read) = tmp_path / "a.journal", KINDS[kind]
    whole = at_rest(path, kind)
    before = content(path, kind)
    refused = []
    with path.open("r+b", buffering=0) as file:
        for place in used(whole):
            for bit in range(8):
                file.seek(place)
                file.write(bytes([whole[place] ^ 1 << bit]))
                try:
                    read(path).close()
                except JournalError as error:
                    refused.append(str(error))
                else:
                    assert content(path, kind) == before, (place, bit)
            file.seek(place)
            file.write(whole[place : place + 1])
    assert len(refused) > 8 * sum(map(len, before))  # at least every bit of a value of one byte
    assert not [text for text in refused if len(text.splitlines()) > 1]
    read(path).close()


ROWS = {
    ("node", "records"): "the record of round ",
    ("node", "average"): "the average of round ",
    ("node", "secret_draws"): "the secret draw of charge ",
    ("owner", "responses"): "the answer to query ",
    ("owner", "record_set"): "what was read (record_set)",
    ("learner", "queries"): "query ",
    ("learner", "answers"): "query ",
    **{(kind, "life"): "whose it is (life)" for kind in KINDS},
    **{(kind, "agreed"): "its settings (agreed)" for kind in KINDS},
}


def flipped(value):
    """The value with its lowest bit flipped, stored as the same type."""
    match value:
        case int():
            return value ^ 1
        case float():
            (bits,) = struct.unpack("<q", struct.pack("<d", value))
            return struct.unpack("<d", struct.pack("<q", bits ^ 1))[0]
        case str():
            return value[:-1] + chr(ord(value[-1]) ^ 1) if value else "1"
        case _:
            return value[:-1] + bytes([value[-1] ^ 1]) if value else b"1"


@pytest.mark.parametrize(("kind", "table"), ROWS)
def test_a_flip_in_any_column_names_its_row_to_readers_and_to_the_next_process(tmp_path, kind, table):
    path, (write, read), words = tmp_path / "a.journal", KINDS[kind], ROWS[kind, table]
    whole = at_rest(path, kind)
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        rows = connection.execute(f"SELECT rowid, * FROM {table}").fetchall()  # noqa: S608 # names of ours
    for rowid, *values in rows:
        for column, value in zip(columns, values, strict=True):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("PRAGMA ignore_check_constraints = ON")
                damage = f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid = ?"  # noqa: S608 # names of ours
                connection.execute(damage, (flipped(value), rowid))
            for opener in (read, write):
                with pytest.raises(JournalError, match=re.escape(f"it is damaged: {words}")):
                    opener(path)
            path.write_bytes(whole)


@pytest.mark.parametrize(
    ("kind", "number", "words"),
    [
        ("node", "round", "the record of round 3 does not follow the one stored before it"),
        ("owner", "query", "the answer to query 3 does not follow the one stored before it"),
        ("learner", "number", "query 3 does not follow the one stored before it"),
    ],
)
def test_a_row_that_is_taken_out_of_the_middle_is_missed(tmp_path, kind, number, words):
    path, (write, read) = tmp_path / "a.journal", KINDS[kind]
    write(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DELETE FROM {TABLES[kind][0]} WHERE {number} = 2")  # noqa: S608 # names of ours
    with pytest.raises(JournalError, match=words):
        read(path)


LOST = [
    ("node", "DELETE FROM records WHERE round = 1", "the record of round 2 does not follow"),
    ("node", "DELETE FROM average", "its average is not that of round 3"),
    ("node", "DELETE FROM secret_draws", "its secret draws are not those of its last round"),
    (
        "node",
        "DELETE FROM secret_draws WHERE charged = 2",
        "its secret draws are not those of its last round",
    ),
    (
        "node",
        "DELETE FROM secret_draws WHERE charged = 3",
        "its secret draws are not those of its last round",
    ),
    ("node", "DELETE FROM records WHERE round = 3", "its average is not that of round 2"),
    ("owner", "DELETE FROM responses WHERE query = 1", "the answer to query 2 does not follow"),
    ("learner", "DELETE FROM queries WHERE number = 1", "query 2 does not follow"),
    ("owner", "INSERT INTO record_set SELECT * FROM record_set", "it says more than once what was read"),
    *((kind, "INSERT INTO life SELECT * FROM life", "it says more than once whose it is") for kind in KINDS),
    *((kind, "INSERT INTO agreed SELECT * FROM agreed", "it says more than once its set") for kind in KINDS),
    (
        "node",
        "UPDATE records SET positions = CAST(X'ff' AS TEXT) WHERE round = 2",
        "the record of round 2 is",
    ),
    ("learner", "UPDATE answers SET owner = CAST(X'62ff' AS TEXT) WHERE number = 2", "query 2 is not as it"),
    *((kind, "UPDATE life SET run = CAST(X'72ff' AS TEXT)", "whose it is (life) is not") for kind in KINDS),
]
"""What is lost, doubled or no text any more, and what is said of it."""


@pytest.mark.parametrize(("kind", "damage", "words"), LOST)
def test_rows_that_are_lost_or_doubled_and_texts_that_are_none_are_named(tmp_path, kind, damage, words):
    path, (write, read) = tmp_path / "a.journal", KINDS[kind]
    at_rest(path, kind)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    before = content(path, kind)
    for opener in (read, write):
        with pytest.raises(JournalError, match=re.escape(f"it is damaged: {words}")):
            opener(path)
    assert content(path, kind) == before  # nothing is mended, moved or forgotten by itself


def test_a_journal_of_which_no_draws_are_left_by_its_own_process_is_whole(tmp_path):
    """At the end of a run, and when a later run puts it aside."""
    for end in ("forgotten", "wiped"):
        path = tmp_path / f"{end}.journal"
        node_journal(path)
        if end == "wiped":
            wipe(path)
        else:
            with SqliteJournal(path, **LIFE) as journal:
                journal.forget_secret()
                journal.append(record(4))
        with JournalReader(path) as reader, SqliteJournal(path, **LIFE) as journal:
            assert reader.records() == journal.records()
            assert journal.secret() is None


def test_what_is_pardoned_pruned_or_begun_anew_is_whole(tmp_path):
    path = tmp_path / "a.journal"
    for number in range(1, 9):  # rows are pruned, and each process goes on from another's
        with SqliteJournal(path, **LIFE) as journal:
            journal.append(record(number))
            if number % 2:
                assert journal.pardon("b") == ("cc",)
                assert journal.pardon("b") == ()
    with SqliteJournal(path, **LIFE) as journal:
        assert [one.round for one in journal.records()] == [6, 7, 8]
        journal.renew("6b" * 4)
        journal.append(record(9))
    with JournalReader(path) as reader:
        assert [one.round for one in reader.records()] == [9]


def test_no_checksum_of_a_draw_outlives_it(tmp_path):
    """Nor of an average: whoever gets the file could test a guess of what it was made of."""
    path = tmp_path / "a.journal"
    node_journal(path)
    with closing(sqlite3.connect(path)) as connection:
        draws = connection.execute("SELECT checksum FROM secret_draws").fetchall()
        averages = connection.execute("SELECT checksum FROM average").fetchall()
    with SqliteJournal(path, **LIFE) as journal:
        for number in (4, 5, 6):
            journal.append(record(number), None)
    for (gone,) in (*draws, *averages):
        assert [one.name for one in tmp_path.iterdir() if gone.to_bytes(4) in one.read_bytes()] == []
