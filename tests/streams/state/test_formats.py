"""The format of a journal's file: one of any other is refused in one line, and stays as it is."""

import sqlite3
from contextlib import closing

import pytest

from streams.state.folder import JournalError
from streams.state.journal import SqliteJournal
from streams.state.journal_file import SCHEMA
from streams.state.journal_reader import JournalReader
from streams.state.learner_journal import LearnerJournal
from streams.state.owner_journal import OwnerJournal
from streams.state.party_journal import RunParty

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
