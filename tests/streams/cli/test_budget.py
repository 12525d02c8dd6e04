import json
from fractions import Fraction
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nodes.accounting.spends import Span, Spend
from streams.cli.budget import budget
from streams.mesh.errors import MeshFileError, UsageError
from streams.state.folder import JournalError, StateFolder
from streams.state.spends import keep_spends
from streams.status.account import ChargeCount, account
from streams.terminal.text import account_facts
from tests.support.nodes.accounts import journal, mesh_file, record

ALL = "abcd"


def called(*arguments):
    """What `mirrormesh budget` prints."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(budget)
    outcome = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    assert outcome.exit_code == 0
    return outcome.stdout


@pytest.fixture
def file(tmp_path):
    """A mesh with a budget, and the journals of its nodes."""
    file = mesh_file(
        tmp_path, privacy={"budget": {"epsilon": 9, "delta": 1e-6}, "noise": "exact", "epsilon": 0.25}
    )
    for number, node in enumerate(ALL):
        journal(tmp_path, file, node, record(number))
    return file


def test_all_nodes_are_told_by_their_journals_here(file):
    out = " ".join(called(file.path, "--state", file.path.parent).split())
    assert "a: 0 rounds charged, 0 stepped" in out
    assert "d: 3 rounds charged, 3 stepped" in out
    assert "epsilon 0.25 of one record (event level)" in out
    assert "at delta = 1e-06 of the whole stream (stream level, tight composition of Laplace noise" in out
    assert "of the budget of 9: " in out
    assert "Each record of node d's stream is protected with epsilon = 0.25 (pure)" in out


def test_json_is_for_programs(file):
    found = json.loads(called(file.path, "c", "--state", file.path.parent, "--json"))
    assert (found["mesh"], found["run"]) == ("tracking", "run-1")
    (node,) = found["nodes"]
    assert (node["node"], node["source"], node["charged"], node["epsilon"]) == ("c", "journal", 2, 0.25)
    assert node["spent"] == 0.5
    assert node["left"] == 8.5
    assert node["rounds_left"] == node["last_learning_round"] - 2 > 36  # more than the sum would pay for
    assert node["adjacency"] == {
        "epsilon": "event: one record of the node",
        "spent": "stream: all records of the node",
    }


def test_earlier_runs_are_told(file):
    folder = file.path.parent
    keep_spends(
        StateFolder(folder).spends("a"),
        Spend("old", 7, 2, 0.0, 14.0, 0.0, (Span("0", 0, 7),), open=True, node="a"),
    )
    out = " ".join(called(file.path, "a", "--state", folder).split())
    assert "run old: at least 7 rounds charged; epsilon 2 of a record, at least 14 of the stream" in out


def test_all_runs_are_added_up_rounded_up(file):
    folder = file.path.parent
    old = Spend("old", 7, Fraction(1, 3), 0.0, 7 / 3, 0.0, (Span("0", 0, 7),), node="d")
    for spend in (old, old._replace(run="run-1", charged=3, stream_epsilon=0.75, life="aa" * 16)):
        keep_spends(StateFolder(folder).spends("d"), spend)
    out = " ".join(called(file.path, "d", "--state", folder).split())
    assert "run old: 7 rounds charged; epsilon 0.333334 of a record, 2.33334 of the stream" in out
    assert "Run old learnt from some of the same records: over all runs each record is protected with" in out
    assert "Together they cost epsilon 5.33334 at delta = 1e-06 of the whole stream." in out  # 3 of this run
    (found,) = json.loads(called(file.path, "d", "--state", folder, "--json"))["nodes"]
    assert found["all_runs"] == {
        "epsilon": pytest.approx(2 / 3),
        "delta": 0.0,
        "stream_epsilon": pytest.approx(3 + 7 / 3),
        "stream_delta": 1e-6,
    }


@pytest.mark.parametrize(("reuse", "known"), [(None, True), ("end", True), ("reused", False)])
def test_json_is_null_where_the_sentence_says_that_more_is_added(file, reuse, known):
    folder = file.path.parent
    own = Spend("run-1", 3, Fraction(1, 4), 0.0, 0.75, 1e-6, (Span("0", 0, 7),), life="aa" * 16)._replace(
        node="d", mesh="tracking"
    )
    keep_spends(StateFolder(folder).spends("d"), own._replace(before=2, reuse=reuse) if reuse else own)
    out = called(file.path, "d", "--state", folder)
    (found,) = json.loads(called(file.path, "d", "--state", folder, "--json"))["nodes"]
    assert ("adds to its epsilon" in " ".join(out.split())) is not known
    assert found["all_runs"]["epsilon"] == (0.25 if known else None)
    assert found["all_runs"]["delta"] == (0.0 if known else None)


def test_json_is_null_where_a_run_was_never_ended_and_its_journal_is_gone(file):
    folder = file.path.parent
    old = Spend("old", 0, Fraction(1, 4), 0.0, 0.0, 0.0, (Span("0", 0),), open=True, life="bb" * 16, node="d")
    keep_spends(StateFolder(folder).spends("d"), old)
    (found,) = json.loads(called(file.path, "d", "--state", folder, "--json"))["nodes"]
    assert (found["all_runs"]["epsilon"], found["all_runs"]["stream_epsilon"]) == (0.5, None)
    out = " ".join(called(file.path, "d", "--state", folder).split())
    assert "Together they cost more of the whole stream than is known" in out


def test_after_the_budget_it_learns_from_nothing(tmp_path):
    file = mesh_file(tmp_path, privacy={"budget": 3, "noise": "exact"})
    journal(tmp_path, file, "a", record(3, stepped=20))
    out = " ".join(called(file.path, "a", "--state", tmp_path).split())
    assert "0 of the budget of 3: it learns no more since round 3" in out


def test_what_protects_nothing_says_so(tmp_path):
    file = mesh_file(tmp_path)  # simulated noise
    journal(tmp_path, file, "a", record(3))
    assert "everything: nothing is protected" in called(file.path, "a", "--state", tmp_path)


def test_mistakes_are_one_clear_line(file, tmp_path):
    with pytest.raises(UsageError, match="z: not a node of the mesh: must be one of a, b, c, d"):
        called(file.path, "z")
    with pytest.raises(MeshFileError, match="brokers: missing: must be given to use a broker"):
        called(file.path, "a")
    words = r"elsewhere holds no journal of a in run run-1, and the mesh file names no broker to ask"
    with pytest.raises(JournalError, match=words):
        called(file.path, "a", "--state", tmp_path / "elsewhere")
    Path(tmp_path / "a.journal").write_bytes(b"no journal")
    with pytest.raises(JournalError, match=r"a\.journal"):
        called(file.path, "a", "--state", tmp_path)


def test_what_plans_cannot_know_is_said(file):
    by_plans = dict(account_facts(account(file, "a", ChargeCount(4, 4, exactly=False))))
    assert by_plans["node"].startswith("a: 4 rounds charged in this run at most (by the plans")
    assert "if it was started with --spent, that many more" in by_plans["node"]
    assert "by this file's settings" in by_plans["node"]
    by_journal = dict(account_facts(account(file, "a", ChargeCount(4, 4, exactly=True))))
    assert by_journal["node"] == "a: 4 rounds charged, 4 stepped"


def test_a_stream_of_which_no_bound_is_known_still_protects_a_record(file):
    known = account(file, "a", ChargeCount(4, 4, exactly=True))
    said = dict(account_facts(known._replace(spent=None)))
    assert said["record"].startswith("epsilon 0.25 of one record")
    assert said["spent"].startswith("more of the whole stream than is known (stream level")
