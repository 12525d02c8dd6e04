import json
import sqlite3
from contextlib import closing

import pytest

from streams.collaboration.journals import LearnerJournal, OwnerJournal, RunParty
from streams.state.folder import JournalError
from streams.state.journal import SqliteJournal
from streams.state.journal_file import SCHEMA, JournalReader, differing

AGREED_LIFE = {"run": "run-1", "node": "a", "instance": "1" * 32, "horizon": 32}


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ({"privacy": {"epsilon": "1"}}, {"privacy": {"epsilon": "2"}}, "privacy.epsilon is 1, not 2"),
        ({"horizon": 32}, {"horizon": 16, "x": None}, "horizon is 32, not 16"),
        ({}, {"class_weights": [1, 2]}, "class_weights is none, not [1, 2]"),
        ({"x": [0] * 9_999}, {"x": None}, f"x is [{'0, ' * 13}...{', 0' * 13}], not none"),
        ({"x": {}}, {"x": {"kind": "ball"}}, "x is {}, not none, x.kind is none, not ball"),
        (
            dict.fromkeys("abcde", 1),
            dict.fromkeys("abcde", 2),
            "a is 1, not 2, b is 1, not 2, c is 1, not 2, and 2 more differ",
        ),
    ],
)
def test_the_keys_that_differ_are_named(was, now, said):
    assert differing(json.dumps(was), json.dumps(now)) == said


def test_a_journal_names_which_of_its_settings_differ(tmp_path):
    path = tmp_path / "a.journal"
    mine, others = bytes(16), b"x" * 16
    for _ in range(2):
        with SqliteJournal(path, digest=mine, agreed='{"horizon": 32}', **AGREED_LIFE):
            pass
    with pytest.raises(JournalError, match=r"its digest is 0{32}, not (78){16}: other settings"):
        SqliteJournal(path, digest=others, **AGREED_LIFE)
    with pytest.raises(
        JournalError, match="its horizon is 32, not 16: other settings of the mesh need a new run"
    ):
        SqliteJournal(path, digest=others, agreed='{"horizon": 16}', **AGREED_LIFE)


# The format of a journal's file: one of any other is refused in one line, and stays as it is


INSTANCE = "1" * 32
LIFE = {"run": "run-1", "node": "a", "digest": bytes(16), "instance": INSTANCE, "horizon": 4}
PARTY = RunParty("mesh", "run-1", "a", bytes(16))
OPENERS = {
    "a node's journal": (lambda path: SqliteJournal(path, **LIFE), JournalReader),
    "the journal of a collaboration's owner": (
        lambda path: OwnerJournal.opened(path, PARTY, INSTANCE),
        OwnerJournal.read,
    ),
    "the journal of a collaboration's learner": (
        lambda path: LearnerJournal.opened(path, PARTY, INSTANCE),
        LearnerJournal.read,
    ),
}
OLDER_IDS = (b"mmsh", b"mmso", b"mmsl")


@pytest.mark.parametrize("kind", OPENERS)
@pytest.mark.parametrize("older", OLDER_IDS)
@pytest.mark.parametrize("version", [1, 5, 6, SCHEMA])
def test_a_file_of_an_older_id_is_refused_in_one_line(tmp_path, kind, older, version):
    path, (write, read) = tmp_path / "a.journal", OPENERS[kind]
    write(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {int.from_bytes(older)}")
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    for opener in (write, read):
        with pytest.raises(JournalError) as refused:
            opener(path)
        reason = f"it is not {kind}, but a file of another program, version or command"
        assert str(refused.value) == f"the journal {path} cannot be used: {reason}"
    assert path.read_bytes() == before
