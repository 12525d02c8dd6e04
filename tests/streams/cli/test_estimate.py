"""`plan --estimate`: what a mesh would reach on made-up records; nobody's own are read."""

import re

import pytest
import yaml

from streams.mesh.file import load
from streams.tools.tuning import forecasting
from streams.tools.tuning.forecasting import estimate
from tests.support.meshes.classes import CORRELATED, MOMENTS, SUMS, tree_of
from tests.support.meshes.files import changed, written

SCHEMA = {
    "features": {"age": {"bounds": [17, 90]}, "job": {"categories": ["clerk", "farmer"]}, "debt": "number"},
    "intercept": True,
    "norm": 1,
    "label": {"column": "income", "positive": ["high"]},
}


def classifying(folder, loss="logistic", epsilon=1.0, **mesh):
    """A mesh whose records are not here."""
    tree = changed(
        loss=loss,
        dimension=5,
        rounds=40,
        slots={"by": "count", "size": 50},
        algorithm={"constraint": {"l2-ball": 20}, "step_size": {"rule": "inverse-sqrt", "a": 10}},
        privacy={"mechanism": "laplace", "epsilon": epsilon, "gradient_bound": 1},
        **mesh,
    )
    source = {"kind": "csv", "path": "nobody/has/it.csv", "schema": SCHEMA}
    tree["nodes"] = {name: {"source": source} for name in "abcd"}
    return written(folder, tree)


def test_an_estimate_says_that_it_is_one_and_how_it_was_made(call, tmp_path):
    done = call("plan", classifying(tmp_path), "--estimate")
    assert (done.code, done.err) == (0, "")
    auc = r"0\.\d\d"
    assert re.search(
        rf"^estimate: +AUC {auc}( to {auc})? \(6 runs\), {auc} without privacy$", done.out, re.MULTILINE
    )
    assert "made by runs on made-up records with the features of node a's schema; no promise" in done.out
    assert not [
        line for line in done.out.splitlines() if line.startswith(":")
    ]  # a fact goes on without a name
    assert "4 nodes, 40 rounds, 2,000 records a node, laplace on the gradient" in done.out
    assert re.search(
        rf"^ +AUC {auc} by the pilot alone: a plain model of the made-up", done.out, re.MULTILINE
    )
    assert "no better than guessing" not in done.out
    assert re.search(r"noise is [\d.]+ times as long as a slot's signal, the mean of the made-up", done.out)
    assert "estimate" not in call("plan", classifying(tmp_path)).out
    assert [path.name for path in tmp_path.iterdir()] == ["mesh.yaml"]


@pytest.mark.parametrize("form", [MOMENTS, SUMS, CORRELATED], ids=["moments", "class sums", "correlated"])
def test_sums_of_records_have_an_estimate_and_may_be_a_guess(call, tmp_path, form):
    """Nodes without settings of their own stay so: sums take no others."""
    for epsilon, is_a_guess in ((100, False), (0.01, True)):
        tree = tree_of(tmp_path, form | {"privacy": form["privacy"] | {"epsilon": epsilon}})
        done = call("plan", written(tmp_path, tree), "--estimate")
        assert (done.code, done.err) == (0, "")
        assert "AUC" in done.out
        assert ("no better than guessing in a run at least" in done.out) is is_a_guess


def test_an_estimate_tells_a_useful_epsilon_from_a_useless_one(tmp_path):
    useful, useless = (estimate(load(classifying(tmp_path, epsilon=one))) for one in (10, 0.005))
    assert useful.low > 0.8
    assert useful.open == useless.open > 0.8
    assert (useful.is_a_guess, useless.is_a_guess) == (False, True)
    assert useful.alone == useless.alone > 0.85
    assert useless.low < 0.5 < useful.low  # a random direction ranks some runs' records well, by luck
    assert useless.high - useless.low > 10 * (useful.high - useful.low)
    assert useless.noise == pytest.approx(2_000 * useful.noise, rel=1e-3)
    assert estimate(load(classifying(tmp_path, epsilon=10))) == useful  # the same seed


@pytest.mark.parametrize(
    "privacy",
    [
        {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4},
        {"mechanism": "l2-sphere"},
        {"mechanism": "laplace", "budget": 500},
        {"mechanism": "none"},
    ],
    ids=lambda privacy: privacy["mechanism"],
)
def test_every_mechanism_has_an_estimate(tmp_path, privacy):
    path = classifying(tmp_path, epsilon=1)
    tree = yaml.safe_load(path.read_text())
    tree["mesh"]["privacy"] = privacy | {"epsilon": 1, "gradient_bound": 1}
    found = estimate(load(written(tmp_path, tree)))
    assert 0.4 < found.low <= found.high < 1
    assert (found.noise is None) == (privacy["mechanism"] == "none")
    assert found.noise is None or found.noise > 0


def test_a_moving_target_is_estimated_by_its_loss(call, tmp_path):
    done = call("plan", written(tmp_path, changed()), "--estimate", "--rounds", 20)
    assert done.code == 0, done.err
    assert re.search(
        r"^estimate: +mean loss [\d.e-]+ to [\d.e-]+ \(6 runs\), [\d.e-]+ without", done.out, re.MULTILINE
    )
    assert "4 nodes, 20 rounds, 20 records a node" in done.out


def test_a_long_run_is_estimated_from_its_beginning(call, tmp_path, monkeypatch):
    monkeypatch.setattr(forecasting, "MOST_ROUNDS", 10)
    done = call("plan", classifying(tmp_path), "--estimate", "--rounds", 5_000)
    assert "4 nodes, 10 rounds (the first of 5,000), 500 records a node" in done.out


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        ({"dimension": 3}, "--estimate: there are no made-up records for loss range in 3 dimensions"),
        ({"dimension": 30_000, "loss": "hinge"}, "--estimate: dimension is 30,000: must be at most 20,000"),
    ],
    ids=["loss", "dimension"],
)
def test_what_has_no_made_up_records_has_no_estimate(call, tmp_path, mesh, said):
    done = call("plan", written(tmp_path, changed(**mesh) | {"nodes": {}}), "--estimate")
    assert (done.code, done.out, done.err) == (2, "", f"{said}\n")
