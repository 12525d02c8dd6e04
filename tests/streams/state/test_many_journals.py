"""What a host asks of a folder with many journals: each is read once, until it changes."""

import os

import numpy as np

from nodes.machine.journal import JournalRecord
from streams.state import spends
from streams.state.folder import StateFolder, write_ahead_log
from streams.state.journal import SqliteJournal
from streams.state.spends import all_spends, spends_beside

NODES = tuple(f"n-{k}" for k in range(12))
DIGEST = bytes(range(16))


def record(number):
    return JournalRecord(
        round=number,
        stepped=number - 1,
        release=np.zeros(2),
        exact=False,
        charged=number,
        epsilon_spent=1.0,
        data_position=((0, number),),
        topology_position=0,
        edge_positions=(),
        given_up=(),
        corrected=(),
    )


def opened(folder, node):
    return SqliteJournal(
        folder / f"{node}.journal", run="run-1", node=node, digest=DIGEST, instance="aa" * 16, horizon=4
    )


def aged(folder):
    """Let all files be older than a clock's tick."""
    for path in folder.iterdir():
        os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 10 * spends._TICK))


def test_each_is_read_once_and_again_when_it_has_changed(tmp_path, monkeypatch):
    journals = {node: opened(tmp_path, node) for node in NODES}
    for journal in journals.values():
        journal.append(record(1))
    aged(tmp_path)
    read, looks = [], []
    lives_in, glob = spends._lives_in, type(tmp_path).glob
    monkeypatch.setattr(spends, "_lives_in", lambda path, name: read.append(name) or lives_in(path, name))
    monkeypatch.setattr(
        type(tmp_path), "glob", lambda self, pattern: looks.append(pattern) or glob(self, pattern)
    )
    for node in NODES:
        assert [life.charged for life in spends_beside(tmp_path, [node])] == [1] * (len(NODES) - 1)
    assert sorted(read) == sorted(NODES)
    assert len(looks) <= 4 * len(NODES)  # none of them is for one journal
    read.clear()
    journals["n-3"].append(record(2))
    assert write_ahead_log(tmp_path / "n-3.journal").exists()
    for _ in range(2):  # it is young: it may change again with the same time
        assert {life.charged for life in spends_beside(tmp_path, NODES[:3])} == {1, 2}
    assert read == ["n-3", "n-3"]
    for journal in journals.values():
        journal.close()


def test_one_look_finds_what_a_look_for_each_finds(tmp_path):
    for name in ("a", "a.run-1", "a.run-1.2", "b.run-0", "c"):
        (tmp_path / f"{name}.journal").touch()
        (tmp_path / f"{name}.journal-wal").touch()
    folder = StateFolder(tmp_path)
    assert folder.all_journals() == {node: list(folder.journals(node)) for node in "abc"}
    assert [path.name for path in folder.all_journals()["a"]] == [
        "a.run-1.2.journal",
        "a.run-1.journal",
        "a.journal",
    ]


def test_known_journals_give_what_a_look_gives(tmp_path):
    with opened(tmp_path, "a") as journal:
        journal.append(record(1))
    journals = StateFolder(tmp_path).all_journals()["a"]
    assert all_spends(tmp_path, "a", journals) == all_spends(tmp_path, "a")
