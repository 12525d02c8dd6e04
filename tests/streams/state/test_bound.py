"""The bound of a journal that is not synced each round: when it is written, and what a cut makes of it."""

import numpy as np
import pytest

from nodes.machine.journal import Bounds, JournalRecord
from nodes.values import Average, Release
from streams.simulation.disk import SimulatedDisk, has_disks, on_disks
from streams.state import folder as state_folder
from streams.state.folder import JournalError
from streams.state.journal import SqliteJournal
from streams.state.journal_file import JournalReader
from streams.state.rows import read_bound
from tests.support.nodes.machines import learner

HORIZON, SIZE = 4, 3
BOUNDS = Bounds(HORIZON, SIZE, learner(private=True).ledger)
OWNER = {"run": "r", "node": "a", "digest": bytes(16), "horizon": HORIZON}
disks = pytest.mark.skipif(not has_disks(), reason="SQLite's functions have no names here")


@pytest.fixture(autouse=True)
def boot(tmp_path, monkeypatch):
    """The machine's boot id: a file."""
    path = tmp_path / "boot_id"
    path.write_text("one\n")
    monkeypatch.setattr(state_folder, "BOOT_ID", path)
    return path


def record(number):
    """The record of a step of one charge, of `SIZE` records."""
    read = ((0, SIZE * (number - 1)),)
    return JournalRecord(
        number,
        number - 1,
        Release(np.array([0.5 * number, 1.0])),
        number == 1,
        number - 1,
        float(number - 1),
        read if number > 1 else (),
        number,
        (),
        (),
        (),
        average=Average(number, np.array([1.0, number])) if number > 1 else None,
        read=read if number > 1 else (),
    )


def opened(folder, life="a", bounds=BOUNDS):
    return SqliteJournal(folder / "a.journal", instance=life * 32, bounds=bounds, **OWNER)


def bound_of(journal):
    return read_bound(journal._connection)[0]


def test_a_bound_is_written_by_the_step_beyond_the_last_one(tmp_path):
    with opened(tmp_path) as journal:
        rounds = []
        for number in range(1, 13):
            journal.append(record(number))
            rounds.append(bound_of(journal).round)
    assert rounds == [1, 6, 6, 6, 6, 6, 11, 11, 11, 11, 11, 16]


def test_after_a_kill_the_same_life_goes_on_with_all_that_was_appended(tmp_path):
    with opened(tmp_path) as journal:
        for number in range(1, 5):
            journal.append(record(number))
    with opened(tmp_path, "b") as journal:
        assert (journal.instance, journal.charged, journal.was_cut) == ("a" * 32, 3, False)
        assert journal.floor == ()


def test_after_another_boot_a_new_life_begins_at_the_bound(tmp_path, boot):
    with opened(tmp_path) as journal:
        for number in range(1, 5):
            journal.append(record(number))
    boot.write_text("two\n")
    with JournalReader(tmp_path / "a.journal") as reader:  # as `budget` sees it before the node starts
        assert (reader.charged, reader.spend.charged, reader.spend.stream_epsilon) == (5, 5, 5.0)
        assert reader.spend.spans[0].end == SIZE * (1 + HORIZON)
    with opened(tmp_path, "b") as journal:
        (kept,) = journal.records()
        assert (journal.instance, journal.was_cut, journal.inherited) == ("b" * 32, True, 4)
        assert (kept.charged, journal.carried, journal.spend.charged) == (5, 5, 0)
        assert journal.floor == kept.data_position == ((0, SIZE * (1 + HORIZON)),)
        assert kept.release.tobytes() == record(4).release.tobytes()
        assert kept.average.rounds == 4
        assert bound_of(journal) is None
    with opened(tmp_path, "c") as journal:  # nothing was appended since: nothing can be lost
        assert (journal.instance, journal.was_cut) == ("b" * 32, False)


def test_before_the_first_step_nothing_can_be_lost(tmp_path, boot):
    with opened(tmp_path) as journal:
        journal.append(record(1))
    boot.write_text("two\n")
    with opened(tmp_path, "b") as journal:
        assert (journal.instance, journal.was_cut) == ("a" * 32, False)


def test_after_an_orderly_end_another_boot_costs_nothing(tmp_path, boot):
    with opened(tmp_path) as journal:
        for number in range(1, 5):
            journal.append(record(number))
        journal.settle()
    boot.write_text("two\n")
    with opened(tmp_path, "b") as journal:
        assert (journal.instance, journal.charged, journal.was_cut) == ("a" * 32, 3, False)


def test_with_durability_machine_the_next_process_needs_no_bound_and_a_cut_still_counts(tmp_path, boot):
    with opened(tmp_path) as journal:
        for number in range(1, 5):
            journal.append(record(number))
    with opened(tmp_path, "b", bounds=None) as journal:
        assert (journal.instance, bound_of(journal)) == ("a" * 32, None)
    with opened(tmp_path, "b") as journal:
        journal.append(record(5))
    boot.write_text("two\n")
    with opened(tmp_path, "b", bounds=None) as journal:
        assert (journal.was_cut, journal.charged) == (True, 8)


def test_a_topic_made_anew_is_read_from_its_beginning_at_the_bounds_charges(tmp_path):
    with opened(tmp_path) as journal:
        for number in range(1, 5):
            journal.append(record(number))
        journal.renew("b" * 32, data_anew=True)
        assert (journal.records(), journal.charged, journal.floor) == ((), 5, ())


def test_a_machine_without_a_boot_id_has_another_one_at_each_start(tmp_path, boot):
    with opened(tmp_path) as journal:
        for number in range(1, 5):
            journal.append(record(number))
    boot.unlink()
    with opened(tmp_path, "b") as journal:
        assert journal.was_cut


def test_a_damaged_bound_is_named(tmp_path):
    with opened(tmp_path) as journal:
        journal.append(record(1))
        journal._connection.execute("UPDATE bound SET charged = 0, round = 3")
    with pytest.raises(JournalError, match="how far it may be behind"):
        opened(tmp_path)


@disks
def test_whatever_sectors_a_power_cut_takes_a_prefix_is_left_that_the_bound_covers(tmp_path, boot):
    """Journals alone, 300 cuts, between appends and in them: of any length up to those of several bounds."""
    chance = np.random.Generator(np.random.Philox(5))
    lost = cuts = 0
    for number in range(300):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        disk, last = SimulatedDisk(folder), int(chance.integers(2, 16))
        boot.write_text("one\n")
        with on_disks():
            journal = opened(folder)
            appended = 0
            try:
                for step in range(1, last + 1):
                    if step == last and chance.random() < 0.5:
                        disk.operations = int(chance.integers(6))
                    journal.append(record(step))
                    appended = step
            except JournalError:
                cuts += 1
            disk.off = True
            try:
                journal.close()
            finally:
                disk.lose(chance)
            boot.write_text("two\n")
            with opened(folder, "b") as after:
                newest = after.records()[-1]
                assert newest.release.tobytes() == record(newest.round).release.tobytes()
                assert after.charged >= appended - 1
                assert after.was_cut or newest.round >= appended
                lost += newest.round < appended
        disk.remove()
    assert lost > 50
    assert cuts > 50
