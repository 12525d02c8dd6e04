"""The page about the state folder names every file that is found in one."""

import sqlite3
from contextlib import closing

import pytest

from docs.regions.state_folder import is_listed, learner_journal, owner_journal
from streams.collaboration.journals import LearnerJournal, OwnerJournal
from tests.support.collaborations.folders import write
from tests.support.processes.in_process import MESH, Commands


def test_every_file_that_runs_leave_is_on_the_page(tmp_path, capsys):
    command, state = Commands(capsys), tmp_path / "state"
    for run in ("run-1", "run-2"):
        (tmp_path / "mesh.yaml").write_text(MESH.replace("run-1", run))
        assert command("run", tmp_path / "mesh.yaml", "--rounds", 5, "--state", state).code == 0
    names = {path.name for path in state.iterdir()}
    assert {"a.journal", "a.run-1.journal", "a.spends"} <= names
    assert {name for name in names if not is_listed(name)} == set()


def test_every_file_that_a_collaboration_leaves_is_on_the_page(tmp_path, capsys):
    command, state = Commands(capsys), tmp_path / "state"
    for run in ("first", "second"):
        assert command("run", write(tmp_path, run=run), "--state", state).code == 0
    names = {path.name for path in state.iterdir()}
    assert {"a.journal", "a.first.journal", "a.spends", "l.journal", "l.first.journal"} <= names
    assert {name for name in names if not is_listed(name)} == set()


def columns(statements):
    """The columns of each table that these statements make: {table: [(name, type, ...)]}."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript("".join(statements))
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE sql NOT NULL")]
        return {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in names}


@pytest.mark.parametrize(
    ("region", "kind"), [(owner_journal, OwnerJournal), (learner_journal, LearnerJournal)]
)
def test_the_tables_of_a_party_s_journal_are_told_as_sqlite_takes_them(region, kind):
    told = columns([region().removeprefix("```sql").removesuffix("```")])
    assert told == columns(f"CREATE TABLE {table};" for table in kind.form.tables)
    assert len(told) == 2


@pytest.mark.parametrize("name", ["a.txt", "a.b.c.journal", "journal", "A.journal"])
def test_another_file_is_not(name):
    assert not is_listed(name)
