"""State folders of every format from 6 on: read, gone on with, and refused where they are too new."""

import json
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from streams.mesh.file import load
from streams.public.standings import journal_standing
from streams.state.folder import JournalError, StateFolder
from streams.state.journal import Journal
from streams.state.journal_file import SCHEMA
from streams.state.learner_journal import LearnerJournal
from streams.state.leaving import read_wish
from streams.state.owner_journal import OwnerJournal
from streams.state.run_spends import begin_spend
from streams.state.spend_file import read_spends
from streams.state.spends import all_spends
from tests.support.kept_formats import ANSWER, ASKED, FORMATS, LEARNER, LEAVE_FROM, LIFE, PARTY, STEPPED

OF_VERSIONS = [at for at in sorted(FORMATS.glob("format_*")) if (at / "parties").is_dir()]
every = pytest.mark.parametrize("kept", OF_VERSIONS, ids=lambda folder: folder.name)
EPSILON = {"ended": 50, "killed": 50, "band": 1}


def at_home(kept, tmp_path, name):
    """A copy of a state folder that looks as the folder itself, not as a copy."""
    state = tmp_path / name
    shutil.copytree(kept / name, state)
    for path in state.glob("*.journal"):
        found = path.stat()
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE life SET place = ?", (f"{found.st_dev}:{found.st_ino}",))
    return state


def opened(state, file, node="a"):
    """The journal, as a process of today opens it."""
    return Journal(
        StateFolder(state).journal(node),
        run=file.mesh.run,
        node=node,
        digest=file.digest(),
        instance="cc" * 16,
        horizon=file.mesh.horizon,
        mesh=file.mesh.name,
        price=file.resolved.node(node).price,
        agreed=file.mesh.agreed_text,
    )


def test_there_are_files_of_this_format():
    assert (FORMATS / f"format_{SCHEMA}").is_dir(), "make them: python -m tests.support.kept_formats"


@every
@pytest.mark.parametrize("name", EPSILON)
def test_a_run_goes_on_from_its_journal(kept, tmp_path, name):
    state = at_home(kept, tmp_path, name)
    file = load(state / "mesh.yaml", {})
    (spend,) = all_spends(state, "a")
    (line,) = read_spends(StateFolder(state).spends("a"))
    assert (spend.charged, spend.epsilon, spend.open) == (STEPPED, EPSILON[name], False)
    assert line.open == (name != "ended")
    assert journal_standing(state, file, "a").charged == STEPPED
    with opened(state, file) as journal:
        records = journal.records()
        assert (journal.copied, journal.charged, journal.price) == (
            False,
            STEPPED,
            file.resolved.node("a").price,
        )
        assert [record.stepped for record in records] == list(range(STEPPED + 1))
        assert (journal.secret() is not None) == (name == "band")
        journal.append(records[-1]._replace(round=STEPPED + 2, stepped=STEPPED + 1), journal.secret())
        begin_spend(state, file.resolved, "a", journal.records()[-1], ())
    assert (read_wish(state, "a", "run-1") == LEAVE_FROM) == (name == "ended")


@every
def test_the_journals_of_a_collaboration_go_on(kept, tmp_path):
    state = at_home(kept, tmp_path, "parties")
    with OwnerJournal.opened(StateFolder(state).journal("bank-a"), PARTY, "cc" * 16) as owner:
        (answer,) = owner.records
        assert (owner.instance, answer.charged, answer.set) == (LIFE, ANSWER.charged, ANSWER.set)
        np.testing.assert_array_equal(answer.response, ANSWER.response)
    with LearnerJournal.opened(StateFolder(state).journal("analyst"), LEARNER, "cc" * 16) as learner:
        (asked,) = learner.records()
        assert (asked.number, asked.missing, len(asked.answers)) == (ASKED.number, ASKED.missing, 1)
        np.testing.assert_array_equal(asked.parameters, ASKED.parameters)


def test_a_newer_journal_is_refused_in_one_line(tmp_path):
    state = at_home(OF_VERSIONS[-1], tmp_path, "ended")
    path = StateFolder(state).journal("a")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    before = path.read_bytes()
    with pytest.raises(JournalError) as refused:
        opened(state, load(state / "mesh.yaml", {}))
    assert str(refused.value) == (
        f"the journal {path} cannot be used: it has version {SCHEMA + 1}, of a newer mirrormesh: "
        f"this one reads up to {SCHEMA}"
    )
    assert path.read_bytes() == before


def test_newer_spends_are_refused_in_one_line(tmp_path):
    state = at_home(OF_VERSIONS[-1], tmp_path, "ended")
    path = StateFolder(state).spends("a")
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"yet_to_come": 7}) + "\n")
    with pytest.raises(JournalError) as refused:
        read_spends(path)
    assert str(refused.value) == f"{path}: yet_to_come is not known here: a newer mirrormesh has written it"
