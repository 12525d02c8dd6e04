"""The journal and other processes: the lock, and kill -9 at any moment."""

import subprocess
import sys

import numpy as np
import pytest

from streams.state.journal import SqliteJournal
from streams.state.journal_file import JournalLocked, JournalReader

OPEN = """
import sys
from pathlib import Path
import numpy as np
from nodes.values import Average
from nodes.machine.journal import JournalRecord
from streams.state.journal import SqliteJournal

owner = {"run": "r", "node": "a", "digest": bytes(16), "instance": "ab" * 16, "horizon": 4}
journal = SqliteJournal(Path(sys.argv[1]), **owner)
last = max((kept.round for kept in journal.records()), default=0)
print("open", flush=True)
"""
WAIT = OPEN + "sys.stdin.read()"
WRITE = (
    OPEN
    + """
while True:
    last += 1
    release = np.array([float(last), 0.5])
    average = Average(last, release / 2)
    positions = ((0, last),), last, (), (), (), ()
    journal.append(JournalRecord(last, last - 1, release, False, last, 1.0, *positions, average))
    print(last, flush=True)
"""
)


def start(program, path):
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def opened(path):
    return SqliteJournal(path, run="r", node="a", digest=bytes(16), instance="ab" * 16, horizon=4)


def test_another_process_is_turned_away_and_a_dead_one_is_not_in_the_way(tmp_path):
    with start(WAIT, tmp_path / "j") as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(JournalLocked, match="another process"):
            opened(tmp_path / "j")
        JournalReader(tmp_path / "j").close()
        other.kill()
    opened(tmp_path / "j").close()


def test_what_was_acknowledged_outlives_kill_9(tmp_path):
    acknowledged = 0
    for kill_after in (1, 3, 17, 40, 41):
        with start(WRITE, tmp_path / "j") as writer:
            assert writer.stdout.readline() == "open\n"
            lines = [writer.stdout.readline() for _ in range(kill_after)]
            writer.kill()
            lines += writer.stdout.readlines()
        acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith("\n"))])
        with JournalReader(tmp_path / "j") as reader:
            last = reader.records()[-1]
            # one more may be durable than was said
            assert acknowledged <= last.round <= acknowledged + 1
        with opened(tmp_path / "j") as journal:
            kept = journal.records()
            assert [one.round for one in kept] == list(range(max(1, last.round - 4), last.round + 1))
            assert all(np.array_equal(one.release, [one.round, 0.5]) for one in kept)
            assert journal.charged == last.round
            assert kept[-1].average.rounds == last.round
            assert np.array_equal(kept[-1].average.mean, last.release / 2)
