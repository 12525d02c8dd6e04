"""The secret beside the records: with its round or not at all, and gone when it has left the band."""

import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened as look
from streams.state import secret as module
from streams.state.folder import JournalError
from streams.state.journal import MemoryJournal, SqliteJournal
from streams.state.journal_file import JournalReader

HORIZON = 4
BANDS = 4


def opened(path, instance="aa" * 16, horizon=HORIZON):
    return SqliteJournal(path, run="r", node="a", digest=bytes(16), instance=instance, horizon=horizon)


def of_kind(kind, folder):
    """A journal in a file, or one in memory."""
    return opened(folder / "j") if kind == "file" else closing(MemoryJournal("aa" * 16, HORIZON))


def record(number, charged=None):
    release = np.array([float(number), 0.5])
    charged = number if charged is None else charged
    return JournalRecord(number, number - 1, release, False, charged, 1.0, (), number, (), (), ())


def draw(charged, dimension=3):
    """A draw that can be told in a file: 0x5ec2e7 and the number of its round."""
    return np.full(dimension, (0x5EC2E7 << 40) + (charged << 8) + 0x11, dtype=np.int64)


def band(charged, dimension=3, first=1):
    numbers = range(charged, max(first - 1, charged - BANDS + 1), -1)
    return Secret("four bands", Private(np.stack([draw(number, dimension) for number in numbers])))


def kept(journal):
    return None if journal.secret() is None else look(journal.secret().draws).tolist()


def found(folder, charged):
    """The files that hold a part of the draw."""
    return [path.name for path in folder.iterdir() if draw(charged).tobytes() in path.read_bytes()]


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_the_secret_is_that_of_the_last_record_after_a_reopening_too(tmp_path, kind):
    with of_kind(kind, tmp_path) as journal:
        assert journal.secret() is None
        for number in range(1, 12):
            journal.append(record(number), band(number))
            assert kept(journal) == look(band(number).draws).tolist()
        assert journal.secret().basis == "four bands"
    if kind == "file":
        with opened(tmp_path / "j") as journal:
            assert kept(journal) == look(band(11).draws).tolist()
            assert not look(journal.secret().draws).flags.writeable


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_round_that_was_not_charged_keeps_the_secret_and_the_same_again_changes_nothing(tmp_path, kind):
    with of_kind(kind, tmp_path) as journal:
        for number in (1, 2):
            journal.append(record(number), band(number))
        journal.append(record(7, charged=2), band(2))
        journal.append(record(2), band(1))
        assert kept(journal) == look(band(2).draws).tolist()
        journal.append(record(8, charged=3), band(3))
        assert kept(journal) == look(band(3).draws).tolist()


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_without_a_secret_or_in_a_new_life_there_is_none(tmp_path, kind):
    with of_kind(kind, tmp_path) as journal:
        journal.append(record(1), band(1))
        journal.append(record(2), None)
        assert journal.secret() is None
        journal.append(record(3), band(3, first=3))
        journal.renew("bb" * 16)
        assert journal.secret() is None
        journal.append(record(9), band(9, first=9))
        assert kept(journal) == [draw(9).tolist()]


@pytest.mark.parametrize("dimension", [3, 3000])  # 3000: a draw takes several pages
def test_a_draw_that_has_left_the_band_is_in_no_file_after_h_rounds(tmp_path, dimension):
    with opened(tmp_path / "j") as journal:
        for number in range(1, 30):
            journal.append(record(number), band(number, dimension))
            assert found(tmp_path, number)
            gone = number - (BANDS - 1) - HORIZON
            if gone > 0:
                assert not found(tmp_path, gone)


def test_what_is_wiped_is_gone_at_once(tmp_path):
    with opened(tmp_path / "j") as journal:
        journal.append(record(1), band(1))
        journal.append(record(2), None)
        assert not found(tmp_path, 1)
        journal.append(record(3), band(3, first=3))
        journal.renew("bb" * 16)
        assert not found(tmp_path, 3)


@pytest.mark.parametrize("fault", ["secure_delete", "wal_checkpoint(TRUNCATE)"])
def test_without_either_guard_draws_stay_in_the_files(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(module.SecretTable, "cut_log", cut_log if "wal" not in fault else lambda self: None)
    with opened(tmp_path / "j") as journal:
        if fault == "secure_delete":
            journal._connection.execute("PRAGMA secure_delete = OFF")
        for number in range(1, 30):
            journal.append(record(number), band(number, 3000))
        assert any(found(tmp_path, number) for number in range(1, 20))


cut_log = module.SecretTable.cut_log


def test_a_reader_in_the_way_delays_the_cut_and_no_round(tmp_path):
    with opened(tmp_path / "j") as journal:
        journal.append(record(1), band(1))
        with JournalReader(tmp_path / "j") as reader:
            reader._connection.execute("BEGIN")
            reader.records()
            for number in range(2, 20):
                journal.append(record(number), band(number))
            assert found(tmp_path, 2)
        journal.append(record(20), band(20))
        assert not found(tmp_path, 2)


def test_a_copy_of_the_journal_has_no_secret(tmp_path):
    with opened(tmp_path / "j") as journal:
        journal.append(record(1), band(1))
    (tmp_path / "copy").write_bytes((tmp_path / "j").read_bytes())
    with opened(tmp_path / "copy", instance="bb" * 16) as journal:
        assert journal.copied
        assert journal.secret() is None


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM secret_draws WHERE charged = 3",
        "DELETE FROM secret_draws WHERE charged = 4",
        "UPDATE secret_draws SET draw = x'00' WHERE charged = 3",
        "UPDATE secret_draws SET draw = x'00'",
        "UPDATE secret_draws SET basis = 'other' WHERE charged = 3",
    ],
)
def test_a_secret_that_is_not_that_of_the_last_round_is_an_error(tmp_path, damage):
    with opened(tmp_path / "j") as journal:
        for number in range(1, 5):
            journal.append(record(number), band(number))
        journal._connection.execute(damage)
        with pytest.raises(JournalError, match="secret state") as caught:
            journal.secret()
        assert str(draw(4)[0]) not in str(caught.value)


WRITE = """
import sys
from pathlib import Path
import numpy as np
from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.privacy.private import Private
from streams.state.journal import SqliteJournal

owner = {"run": "r", "node": "a", "digest": bytes(16), "instance": "ab" * 16, "horizon": 4}
journal = SqliteJournal(Path(sys.argv[1]), **owner)
last = max((kept.round for kept in journal.records()), default=0)
print("open", flush=True)
while True:
    last += 1
    release = np.array([float(last), 0.5])
    draws = np.array([[n, -n] for n in range(last, max(0, last - 3), -1)], dtype=np.int64)
    band = Secret("b", Private(draws))
    journal.append(JournalRecord(last, last - 1, release, False, last, 1.0, (), last, (), (), ()), band)
    print(last, flush=True)
"""


def test_record_and_secret_outlive_kill_9_together(tmp_path):
    for kill_after in (1, 6, 13):
        command = [sys.executable, "-c", WRITE, str(tmp_path / "j")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "open\n"
            for _ in range(kill_after):
                writer.stdout.readline()
            writer.kill()
        with opened(tmp_path / "j") as journal:
            last = journal.records()[-1].round
            assert kept(journal) == [[n, -n] for n in range(last, max(0, last - 3), -1)]


def test_a_run_that_is_over_leaves_no_draw_behind(tmp_path):
    with opened(tmp_path / "j") as journal:
        for number in range(1, 4):
            journal.append(record(number), band(number))
        assert found(tmp_path, 3)
        journal.forget_secret()
        assert kept(journal) is None
        assert journal.charged == 3
        assert [found(tmp_path, number) for number in range(1, 4)] == [[], [], []]
    with opened(tmp_path / "j") as journal:
        assert journal.secret() is None
