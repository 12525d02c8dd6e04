"""Where `up` keeps a mesh, and that what it has spent in one folder counts in all."""

from fractions import Fraction

import pytest
import typer

from nodes.accounting.spends import Reuse, Span, Spend, total
from streams.cli.up import up
from streams.state.folder import JournalError, StateFolder
from streams.state.spends import all_spends, keep_spend
from streams.tools.up.folders import bring_spends, default_folder, other_folders
from tests.support.accounts import journal, record
from tests.support.brokers import free_port
from tests.support.meshes import changed, loaded, written

NODES = ["a", "b"]
OLD = Spend("run-1", 9, Fraction(1), 0.0, 9.0, 0.0, (Span("0", 0, 9),))


@pytest.fixture
def parent(tmp_path, monkeypatch):
    """The folder of all folders, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mirrormesh-state").mkdir()
    return tmp_path / "mirrormesh-state"


def file_of(folder, run):
    tree = changed(run=run, nodes=NODES, privacy={"noise": "exact"})
    tree["nodes"] = {name: tree["nodes"][name] for name in NODES}
    return loaded(folder, tree)


def test_all_runs_of_a_mesh_are_kept_in_one_folder(tmp_path, parent):
    one, two = (default_folder(file_of(tmp_path, run), parent) for run in ("run-1", "run-2"))
    assert one == two == parent / "tracking"
    assert other_folders(file_of(tmp_path, "run-1"), one) == ()


def test_a_run_that_was_begun_in_a_folder_of_its_own_goes_on_there(tmp_path, parent):
    for name in ("tracking.run-1", "tracking.run-3", "tracking", "tracking-2.run-1", "trackin"):
        (parent / name).mkdir()
    file = file_of(tmp_path, "run-1")
    assert default_folder(file, parent) == parent / "tracking.run-1"
    found = other_folders(file, parent / "tracking.run-1")
    assert found == (parent / "tracking", parent / "tracking.run-3")


def test_spends_are_brought_and_counted_once(tmp_path, parent):
    file, here = file_of(tmp_path, "run-2"), parent / "tracking"
    older, empty = parent / "tracking.run-1", parent / "tracking.run-0"
    for folder in (here, older, empty):
        folder.mkdir()
    keep_spend(StateFolder(older).spends("a"), OLD)
    for _ in range(2):
        assert bring_spends(file, here, (empty, older)) == [older]
    (brought,) = all_spends(here, "a")
    assert (brought.run, brought.charged, brought.epsilon, brought.spans) == ("run-1", 9, 1, ())
    own = Spend("run-2", 5, Fraction(1), 0.0, 5.0, 0.0, (Span("0", 50, 60),))
    assert total((brought, own)).epsilon == 2  # whatever the offsets: the topics may be others
    assert "epsilon = 2" in Reuse((brought,), own).sentence()
    assert all_spends(here, "b") == ()


def test_an_older_journal_counts_too_and_one_that_cannot_be_read_is_not_passed_over(tmp_path, parent):
    file, here, older = file_of(tmp_path, "run-2"), parent / "tracking", parent / "tracking.run-1"
    for folder in (here, older):
        folder.mkdir()
    journal(older, file_of(tmp_path, "run-1"), "a", record(7))
    bring_spends(file, here, (older,))
    (brought,) = all_spends(here, "a")
    assert (brought.run, brought.charged) == ("run-1", 7)
    (older / "b.journal").write_bytes(b"no journal")
    with pytest.raises(JournalError, match=r"b\.journal"):
        bring_spends(file, here, (older,))


def test_a_new_run_finds_the_older_ones_before_anything_is_started(tmp_path, parent, capsys):
    older = parent / "tracking.run-1"
    older.mkdir()
    keep_spend(StateFolder(older).spends("a"), OLD)
    servers = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    tree = changed(run="run-2", nodes=NODES)
    tree["nodes"] = {name: tree["nodes"][name] for name in NODES}
    tree["brokers"] = {side: {"servers": servers} for side in ("mesh", "data")} | {"trust_broker": True}
    with pytest.raises(typer.Exit):  # no broker answers, and none can be started there
        up(written(tmp_path, tree))
    assert (
        "earlier    mirrormesh-state/tracking.run-1: what its runs have spent counts"
        in capsys.readouterr().out
    )
    assert [spend.run for spend in all_spends(parent / "tracking", "a")] == ["run-1"]
