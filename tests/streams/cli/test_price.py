"""`run --state` and `budget`: the price of what was released is what it was then."""

import json
import shutil

import pytest

from nodes.accounting.reuse import total
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from streams.state.folder import JournalError
from streams.state.journal import SqliteJournal
from streams.state.journal_file import JournalReader
from streams.state.spends import all_spends
from tests.streams.cli.test_run_state import going_on, tree_of
from tests.support.meshes.files import changed, written


@pytest.fixture
def tree(tmp_path):
    return tree_of(tmp_path)


def told(call, folder, tree, node="a"):
    """What `budget --json` says of a node."""
    outcome = call("budget", written(folder, tree), node, "--state", "state", "--json")
    return json.loads(outcome.out)["nodes"][0]


CHANGES = [
    ({"epsilon": 50}, {}, "its epsilon is 50, not 1: a node's own privacy settings need a new run"),
    ({"mechanism": "none"}, {}, "its mechanism is none, not laplace"),
    ({}, {"epsilon": 0.25}, "its epsilon is 1, not 0.25"),
    ({}, {"gradient_bound": 0.1}, "its gradient_bound is 0.5, not 0.1"),
    # as the run of a version in which no epsilon changed a clip
    ({"epsilon": 0.25, "gradient_bound": 0.5}, {"epsilon": 0.25}, "its gradient_bound is 0.5, not 0.125"),
    ({}, {"mechanism": "l2-sphere"}, "its mechanism is laplace, not l2-sphere"),
    (
        {"mechanism": "gaussian", "delta": 1e-6},
        {"mechanism": "gaussian", "delta": 1e-5},
        "its delta is 1e-06, not",
    ),
    (
        {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4, "gradient_bound": 0.5},
        {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 2, "gradient_bound": 0.5},
        "its bands is 4, not 2",
    ),
    ({"epsilon": {"total": 20, "rounds": 20}}, {}, 'its epsilon is {"rounds": 20'),
]


@pytest.mark.parametrize(("was", "now", "words"), CHANGES)
def test_a_node_that_has_charged_keeps_its_price(call, tmp_path, tree, was, now, words):
    """H2: three rounds at epsilon 50, and then the override is taken away."""
    tree["mesh"] |= {"nodes": {"a": was, "b": {}}}
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    before = told(call, tmp_path, tree)
    outcome = going_on(call, tmp_path, tree, nodes={"a": now, "b": {}})
    assert outcome.code != 0
    assert words in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    outcome = call("budget", written(tmp_path, tree), "a", "--state", "state")  # by the changed file
    assert outcome.code != 0
    assert "by this file its account is not known" in outcome.err
    assert told(call, tmp_path, tree, "b")["charged"] == 4  # as in the first run: nothing was half done
    assert going_on(call, tmp_path, tree, 6, nodes={"a": was, "b": {}}).code == 0
    after = told(call, tmp_path, tree)
    assert (before["charged"], after["charged"]) == (4, 6)


def test_a_budget_that_is_spent_is_not_stretched_by_a_smaller_epsilon(call, tmp_path, tree):
    tree["mesh"]["privacy"] |= {"budget": 3}
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    assert (told(call, tmp_path, tree)["spent"], told(call, tmp_path, tree)["relaying"]) == (3.0, True)
    outcome = going_on(call, tmp_path, tree, nodes={"a": {"epsilon": 0.25}, "b": {}})
    assert outcome.code != 0
    assert "its epsilon is 1, not 0.25" in outcome.err
    with JournalReader(tmp_path / "state" / "a.journal") as journal:
        assert journal.charged == 3


def test_before_the_first_charge_settings_may_change(call, tmp_path, tree):
    """And the price is that of the file by which the first round is charged."""
    tree["mesh"] |= {"nodes": {"a": {"epsilon": 50}, "b": {}}}
    path = written(tmp_path, tree)
    (tmp_path / "state").mkdir()
    mesh = MeshSettings.model_validate(tree["mesh"])
    owner = {"run": mesh.run, "node": "a", "digest": mesh.digest(), "horizon": mesh.horizon}
    price = Mesh(mesh).node("a").price
    SqliteJournal(tmp_path / "state/a.journal", **owner, instance="aa" * 16, price=price).close()
    tree["mesh"] |= {"nodes": {"a": {}, "b": {}}}
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0, path
    assert told(call, tmp_path, tree)["spent"] == 4.0


@pytest.mark.parametrize(
    "privacy",
    [
        {},
        {"budget": {"epsilon": 9, "delta": 1e-6}},
        {"mechanism": "gaussian", "delta": 1e-6, "norm": "l2"},
        {"mechanism": "gaussian-bisr", "delta": 1e-6, "norm": "l2", "budget": {"epsilon": 9, "delta": 1e-5}},
        {"mechanism": "l2-sphere", "norm": "l2"},
        {"epsilon": {"total": 10, "rounds": 10, "schedule": "growing"}},
        {"mechanism": "none"},
        {"noise": "simulated"},
    ],
)
def test_the_price_is_what_the_ledger_and_the_guarantee_say(tmp_path, privacy):
    mesh = MeshSettings.model_validate(changed(privacy={"noise": "exact"} | privacy)["mesh"])
    price, ledger, promise = (
        Mesh(mesh).node("a").price,
        Mesh(mesh).node("a").ledger,
        Mesh(mesh).node("a").guarantee,
    )
    assert price.epsilon == (promise.epsilon if promise.protects else None)
    assert price.delta == promise.delta
    if promise.protects:
        assert price.stream_delta == ledger.delta
    assert {"mechanism", "gradient_bound", "norm", "size"} <= dict(price.settings).keys()


def test_a_copied_folder_starts_at_what_was_charged(call, tmp_path, tree):
    """H4: with the budget spent, a copy learns from nothing."""
    tree["mesh"]["privacy"] |= {"budget": 3}
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    outcome = call("run", written(tmp_path, tree), "--state", "copy")
    assert outcome.code == 0, outcome.err
    with JournalReader(tmp_path / "copy/a.journal") as journal:
        assert journal.charged == 3
    lives = all_spends(tmp_path / "copy", "a")
    assert [life.charged for life in lives] == [3, 0]
    assert total(lives).stream_epsilon == 3


def test_a_run_of_a_band_leaves_no_draw_behind(call, tmp_path, tree):
    tree["mesh"] |= {"nodes": {"a": {"mechanism": "gaussian-bisr", "delta": 1e-6}, "b": {}}}
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    with JournalReader(tmp_path / "state/a.journal") as journal:
        found = journal._connection.execute("SELECT count(*) FROM secret_draws").fetchone()
    assert found == (0,)
    assert going_on(call, tmp_path, tree).code == 0  # with a new band


def test_a_refused_journal_is_let_go_of(call, tmp_path, tree):
    tree["mesh"] |= {"nodes": {"a": {"epsilon": 50}, "b": {}}}
    assert call("run", written(tmp_path, tree), "--state", "state").code == 0
    assert going_on(call, tmp_path, tree, nodes={"a": {}, "b": {}}).code != 0
    mesh = MeshSettings.model_validate(tree["mesh"])
    owner = {"run": mesh.run, "node": "a", "digest": mesh.digest(), "horizon": mesh.horizon}
    with pytest.raises(JournalError, match="its mesh is tracking, not other"):
        SqliteJournal(tmp_path / "state/a.journal", **owner, instance="aa" * 16, mesh="other")
