"""A journal of an earlier run is put aside by one process, and its secret draws are in no file afterwards."""

import shutil
import sqlite3
from functools import partial

import pytest

from streams.state import secret, spends
from streams.state.folder import JournalError, StateFolder
from streams.state.journal import SqliteJournal
from streams.state.journal_file import JournalLocked, JournalReader
from streams.state.spends import put_aside, read_spends
from tests.streams.state.test_secret import band, found, record

ROUNDS = 6


def opened(folder, run="r1"):
    return SqliteJournal(
        folder / "a.journal", run=run, node="a", digest=bytes(16), instance="aa" * 16, horizon=4
    )


def written(folder, dimension=3):
    """The open journal of a run whose band is still in it."""
    journal = opened(folder)
    for number in range(1, ROUNDS + 1):
        journal.append(record(number), band(number, dimension))
    return journal


def draws_in(folder):
    """The rounds whose draws stand in a file of the folder."""
    return [number for number in range(1, ROUNDS + 1) if found(folder, number)]


@pytest.mark.parametrize("dimension", [3, 3000])  # 3000: a draw takes several pages
@pytest.mark.parametrize("ended", ["in order", "by kill -9"])
def test_no_file_of_the_folder_holds_a_draw(tmp_path, ended, dimension):
    live, state = tmp_path / "live", tmp_path / "state"
    live.mkdir()
    with written(live, dimension):
        if ended == "by kill -9":
            shutil.copytree(live, state)  # the write-ahead log too, as it was at that moment
    if ended == "in order":
        shutil.copytree(live, state)
    assert draws_in(state)
    aside = put_aside(state, "a", "r2")
    assert draws_in(state) == []
    assert sorted(path.name for path in state.iterdir()) == ["a.journal.lock", "a.r1.journal", "a.spends"]
    with JournalReader(aside) as journal:  # and all that is public is there
        assert journal.charged == ROUNDS
    with opened(state, "r2") as journal:
        assert (journal.records(), journal.secret()) == ((), None)


def test_what_a_power_failure_interrupts_is_done_at_the_next_start(tmp_path):
    written(tmp_path).close()
    secret.wipe(tmp_path / "a.journal")
    assert put_aside(tmp_path, "a", "r2") == tmp_path / "a.r1.journal"
    assert [spend.charged for spend in read_spends(StateFolder(tmp_path).spends("a"))] == [ROUNDS]


def test_a_journal_that_another_process_writes_is_left_alone(tmp_path):
    with written(tmp_path) as journal:
        with pytest.raises(JournalLocked, match="another process"):
            put_aside(tmp_path, "a", "r2")
        journal.append(record(ROUNDS + 1), band(ROUNDS + 1))
        assert journal.secret() is not None
    assert not StateFolder(tmp_path).spends("a").exists()


def test_of_two_processes_one_puts_it_aside(tmp_path, monkeypatch):
    written(tmp_path).close()

    def meanwhile(path):
        with pytest.raises(JournalLocked, match="another process"):
            put_aside(tmp_path, "a", "r2")
        secret.wipe(path)

    monkeypatch.setattr(spends, "wipe", meanwhile)
    assert put_aside(tmp_path, "a", "r2") == tmp_path / "a.r1.journal"
    assert put_aside(tmp_path, "a", "r2") is None  # the other one, a moment later
    assert [spend.run for spend in read_spends(StateFolder(tmp_path).spends("a"))] == ["r1"]


def test_a_reader_in_the_way_is_told_and_nothing_is_renamed(tmp_path, monkeypatch):
    written(tmp_path).close()
    with JournalReader(tmp_path / "a.journal") as reader:
        reader._connection.execute("BEGIN")
        reader.records()
        monkeypatch.setattr(secret.sqlite3, "connect", partial(sqlite3.connect, timeout=0.05))
        with pytest.raises(JournalError, match="cannot be put aside"):
            put_aside(tmp_path, "a", "r2")
    assert (tmp_path / "a.journal").exists()
    assert put_aside(tmp_path, "a", "r2") == tmp_path / "a.r1.journal"
    assert draws_in(tmp_path) == []
