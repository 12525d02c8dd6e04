"""Journals on simulated disks: what SQLite promises of them holds, and what a journal must do is checked."""

import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from streams.mesh.file import load
from streams.simulation.disk import SimulatedDisk, on_disks
from streams.simulation.faults import ON_DISKS, FaultKind
from streams.simulation.history import Reached
from streams.simulation.search import MeshStage, run, shrunk
from streams.simulation.stage import ON_DISKS as SHARE
from streams.state import journal, rows
from topology.keyed import generator

MESH = Path(__file__).parent / "mesh.yaml"
MANY = 500
"""Histories, of which a tenth is on disks, in which a planted bug is found."""
ROWS = 20
MOST_OPERATIONS = 40


@pytest.fixture(scope="module")
def stage():
    return MeshStage(load(MESH))


def seeds(of=range(MANY)):
    """The seeds of histories on disks."""
    return [seed for seed in of if generator("disks", seed).random() < SHARE]


# ------------------------------------------------------------------------------------------------ a disk


@pytest.fixture
def disk(tmp_path):
    disk = SimulatedDisk(tmp_path)
    yield disk
    disk.remove()


def connected(disk):
    with on_disks():
        connection = sqlite3.connect(disk.folder / "x.journal", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY, text TEXT)")
    return connection


def add(connection, number):
    return connection.execute("INSERT INTO numbers VALUES (?, ?)", (number, "text" * 300)).rowcount == 1


def numbers(connection):
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY number")]


@pytest.mark.parametrize("seed", range(40))
def test_what_was_committed_outlives_a_power_failure_at_any_write(disk, seed):
    """Of the row that was being written there is all or nothing."""
    chance = np.random.default_rng(seed)
    connection = connected(disk)
    added = list(range(int(chance.integers(ROWS))))
    for number in added:
        add(connection, number)
    disk.operations = int(chance.integers(MOST_OPERATIONS))
    number = 100
    with suppress(sqlite3.Error):
        while add(connection, number):
            added.append(number)
            number += 1
    connection.close()
    disk.lose(chance)
    again = connected(disk)
    assert numbers(again) in (added, [*added, number])
    again.close()


def test_without_syncs_a_power_failure_takes_what_was_committed(disk):
    connection = connected(disk)
    connection.execute("PRAGMA synchronous = OFF")
    for number in range(ROWS):
        add(connection, number)
    disk.off = True
    connection.close()
    disk.lose(np.random.default_rng(0))
    again = connected(disk)
    assert len(numbers(again)) < ROWS
    again.close()


def test_a_killed_process_loses_nothing(disk):
    connection = connected(disk)
    connection.execute("PRAGMA synchronous = OFF")
    add(connection, 1)
    disk.off = True
    connection.close()
    disk.killed()
    again = connected(disk)
    assert numbers(again) == [1]
    again.close()


def test_on_a_full_disk_nothing_more_is_committed_and_what_is_there_stays(disk):
    connection = connected(disk)
    add(connection, 1)
    disk.full = True
    number = 2
    with suppress(sqlite3.OperationalError):
        while add(connection, number):
            number += 1
    assert numbers(connection) == list(range(1, number))
    with pytest.raises(sqlite3.OperationalError, match="full"):
        add(connection, number)
    disk.full = False
    add(connection, number)
    connection.close()


def test_an_older_content_is_put_back_in_the_same_file(disk):
    connection = connected(disk)
    add(connection, 1)
    image, place = disk.image(), (disk.folder / "x.journal").stat().st_ino
    add(connection, 2)
    connection.close()
    disk.restore(image)
    again = connected(disk)
    assert numbers(again) == [1]
    assert (disk.folder / "x.journal").stat().st_ino == place
    again.close()


# ------------------------------------------------------------------------------------------- histories


def test_a_tenth_of_the_histories_is_on_disks_and_every_fault_of_disks_strikes(stage):
    assert 70 < len(seeds(range(1000))) < 130
    outcomes = [run(stage, seed) for seed in seeds(range(600))]
    assert all(stage.scene(outcome.seed).setting.on_disks for outcome in outcomes[:5])
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    lines = {line.what for outcome in outcomes for line in outcome.history.lines if line.who == "adversary"}
    journals = {FaultKind.FULL_DISK, FaultKind.OLD_JOURNAL, FaultKind.TORN_JOURNAL, FaultKind.CLONE}
    assert lines >= ON_DISKS | journals
    reached = set().union(*(outcome.history.reached for outcome in outcomes))
    assert reached >= {Reached.CUT_OFF, Reached.DAMAGED}


def test_no_file_is_left_and_a_seed_is_one_history(stage, monkeypatch, tmp_path):
    monkeypatch.setattr("streams.simulation.world.MEMORY", tmp_path)
    for seed in seeds()[:4]:
        assert run(stage, seed).history.digest() == run(stage, seed).history.digest()
    assert list(tmp_path.iterdir()) == []


def journal_without_syncs(patch):
    synced(patch, "OFF")


def journal_synced_at_checkpoints_alone(patch):
    synced(patch, "NORMAL")


def synced(patch, how):
    """Let SQLite sync journals so, and no more."""
    open_to_write = journal.open_to_write

    def opened(*given):
        connection = open_to_write(*given)
        connection.execute(f"PRAGMA synchronous = {how}")
        return connection

    patch.setattr(journal, "open_to_write", opened)


def checksums_of_rows_not_checked(patch):
    patch.setattr(rows, "check_row", lambda row, name: None)


@pytest.mark.parametrize(
    ("bug", "words", "histories"),
    [
        (journal_without_syncs, "its journal had", range(MANY)),
        (journal_synced_at_checkpoints_alone, "its journal had", range(MANY)),
        # a bit in thousands is one that no other check sees: one history in a thousand meets it
        (checksums_of_rows_not_checked, "other records than its journal was given", range(1260, 1280)),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_a_planted_bug_is_found_and_shrunk(stage, monkeypatch, bug, words, histories):
    bug(monkeypatch)
    outcomes = (run(stage, seed) for seed in seeds(histories))
    failed = next(outcome for outcome in outcomes if outcome.violation)
    assert words in failed.violation
    smaller = shrunk(stage, failed)
    assert 0 < len(smaller.keep) <= 3
    monkeypatch.undo()
    assert run(stage, smaller.seed, smaller.keep).violation is None
