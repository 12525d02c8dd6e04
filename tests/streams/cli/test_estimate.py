"""`plan --estimate`: what a mesh would reach on made-up records; nobody's own are read."""

import re

import numpy as np
import pytest
import yaml
from scipy.stats import mannwhitneyu

from nodes.alone import logistic
from streams.cli.plan import guess_in_words
from streams.mesh.file import load
from streams.tools.tuning import signals
from streams.tools.tuning.signals import (
    SIGNALS,
    by_signal,
    chances_of,
    made_up_by_signal,
    no_better,
    records_needed,
)
from tests.support.meshes.classes import CORRELATED, MOMENTS, SUMS, tree_of
from tests.support.meshes.files import changed, written

SCHEMA = {
    "features": {"age": {"bounds": [17, 90]}, "job": {"categories": ["clerk", "farmer"]}, "debt": "number"},
    "intercept": True,
    "norm": 1,
    "label": {"column": "income", "positive": ["high"]},
}

NOTHING = "no run surely beats guessing at these settings: even where a line reaches an AUC of 0.90"


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
    for signal, best in SIGNALS.items():
        line = r"AUC 0\.\d\d to 0\.\d\d for a SIGNAL signal, 0\.\d\d without privacy; a line reaches "
        assert re.search(line.replace("SIGNAL", signal) + f"{best:.2f}", done.out), signal
    assert "the next run on such records is in the range of their signal in 90 % (20 runs each)" in done.out
    assert "half of the made-up records are positive; where yours are fewer, say --positive SHARE" in done.out
    assert "made by runs on made-up records with the features of node a's schema; no promise" in done.out
    assert not [
        line for line in done.out.splitlines() if line.startswith(":")
    ]  # a fact goes on without a name
    assert "4 nodes, 40 rounds, 2,000 records a node, laplace on the gradient" in done.out
    assert "may be no better than guessing" not in done.out
    assert "is not known" not in done.out
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
        assert (NOTHING in done.out) is is_a_guess


FORMS = {
    "moments": MOMENTS,
    "class sums": SUMS,
    "correlated": CORRELATED,
    "gradients": {
        "algorithm": {
            "name": "dpdo-nc",
            "constraint": {"l2-ball": 20},
            "step_size": {"rule": "inverse-sqrt", "a": 10},
        },
        "privacy": {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 1},
    },
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_plan_says_where_nothing_beats_guessing(call, tmp_path, form):
    """No run is made, so no made-up record is learnt from; the words are those of the estimate."""
    for epsilon, guesses in ((100, ()), (0.01, tuple(SIGNALS))):
        path = written(
            tmp_path, tree_of(tmp_path, form | {"privacy": form["privacy"] | {"epsilon": epsilon}})
        )
        assert no_better(load(path)) == guesses
        done = call("plan", path)
        assert (done.code, done.err) == (0, "")
        assert len(re.findall(f"^warning: +{NOTHING}", done.out, re.MULTILINE)) == bool(guesses)
        assert "guessing: " not in done.out
        assert call("plan", path, "--estimate").out.count(NOTHING) == bool(guesses)


def test_a_plan_says_up_to_which_signal_a_run_may_be_a_guess(call, tmp_path):
    path = tmp_path / "mesh.yaml"
    assert call("init", path).code == 0
    tree = yaml.safe_load(path.read_text())
    del tree["mesh"]["privacy"]["delta"]
    words = "one run in twenty is no better than a guess; more records or a larger epsilon helps"
    said = {}
    for records in (10, 80, 2_000):
        tree["mesh"]["rule"]["records"] = records
        lines = call("plan", written(tmp_path, tree)).out.splitlines()
        said[records] = [line.split(None, 1)[1] for line in lines if words in line]
    assert said[10] == [f"{NOTHING}, {words}"]
    assert guess_in_words(("weak", "middling")) == f"where a line reaches an AUC of 0.75 at best, {words}"
    assert said[80] == [f"where a line reaches an AUC of 0.60 at best, {words}"]
    assert said[2_000] == []


def test_the_records_needed_follow_the_noise_and_are_said_with_the_guess(call, tmp_path):
    """Noise is 1/epsilon long. In one slot it is shared by its records, over rounds by their square root."""
    for rounds, power in ((1, 1), (40, 2)):
        needed = []
        for epsilon in (0.02, 0.002):
            tree = yaml.safe_load(classifying(tmp_path, epsilon=epsilon).read_text())
            tree["mesh"]["rounds"] = rounds
            tree["mesh"]["slots"]["size"] = 2_000 // rounds
            path = written(tmp_path, tree)
            needed.append(records_needed(load(path)))
        assert 10**power / 2 <= needed[1] / needed[0] <= 10**power * 2
        assert needed[0] % 2_000 == 0
        line = f"a middling signal needs at least about {needed[1]:,} records a node"
        assert line in call("plan", path).out
    enough = load(classifying(tmp_path, epsilon=10))
    assert records_needed(enough) == 2_000  # the run's own
    assert records_needed(load(written(tmp_path, changed()))) is None


def test_runs_with_the_records_that_are_needed_may_beat_guessing_and_with_a_quarter_may_not(tmp_path):
    tree = yaml.safe_load(classifying(tmp_path, epsilon=0.02).read_text())
    tree["mesh"] |= {"rounds": 1, "slots": {"by": "count", "size": 2_000}}
    needed = records_needed(load(written(tmp_path, tree)))
    lows = []
    for records in (needed // 4, 8 * needed):
        tree["mesh"]["slots"]["size"] = records
        lows.append(by_signal(load(written(tmp_path, tree))).rows[1].low)
    assert lows[0] < 0.5 < lows[1]


def test_more_records_are_needed_where_a_class_is_rare(tmp_path):
    file = load(written(tmp_path, tree_of(tmp_path, SUMS | {"privacy": SUMS["privacy"] | {"epsilon": 0.05}})))
    assert records_needed(file, positive=0.01) > 4 * records_needed(file)
    assert records_needed(load(classifying(tmp_path, epsilon=0.02)), positive=0.01) is None


@pytest.mark.parametrize(
    "change",
    [
        {"privacy": {"mechanism": "none", "gradient_bound": 1}},
        {"rounds": None},
        {
            "privacy": {
                "mechanism": "laplace",
                "on": "parameters",
                "epsilon": 1,
                "gradient_bound": 1,
                "norm": "l2",
            }
        },
        {"algorithm": {"x_1": [0.1] * 5}},
    ],
    ids=["no noise", "no end", "on parameters", "own start"],
)
def test_a_plan_says_nothing_of_guessing_where_it_is_not_known(call, tmp_path, change):
    assert no_better(load(written(tmp_path, changed()))) == ()  # no classes
    path = classifying(tmp_path, epsilon=0.005)
    assert no_better(load(path)) == tuple(SIGNALS)
    tree = yaml.safe_load(path.read_text())
    for key, value in change.items():
        keeps = key == "algorithm"
        tree["mesh"][key] = tree["mesh"][key] | value if keeps else value
    if change.get("privacy", {}).get("on"):
        tree["mesh"]["slots"]["size"] = 1
    assert no_better(load(written(tmp_path, tree))) == ()


def test_an_estimate_tells_a_useful_epsilon_from_a_useless_one(tmp_path):
    useful, useless = (by_signal(load(classifying(tmp_path, epsilon=one))) for one in (10, 0.005))
    assert useful.rows[2].low > 0.8
    assert [row.open for row in useful.rows] == [row.open for row in useless.rows]
    assert [row.is_a_guess for row in useful.rows] == [False] * 3
    assert [row.is_a_guess for row in useless.rows] == [True] * 3  # some runs rank well by luck
    for row in useless.rows:
        assert row.low < 0.5 < row.high
    assert useless.noise == pytest.approx(2_000 * useful.noise, rel=1e-3)
    assert by_signal(load(classifying(tmp_path, epsilon=10))) == useful  # the same seed


def area(labels, scores):
    """Return the AUC of scores (n,), by the statistic of Mann and Whitney."""
    above, below = scores[labels > 0], scores[labels <= 0]
    return mannwhitneyu(above, below).statistic / (above.size * below.size)


@pytest.mark.parametrize(("best", "positive"), [(0.6, 0.5), (0.75, 0.003), (0.9, 0.97)])
def test_made_up_records_have_the_signal_and_the_share_of_positives(best, positive):
    values = np.random.default_rng(1).normal(size=400_000)
    labels = np.random.default_rng(2).random(values.size) < chances_of(values, best, positive)
    assert labels.mean() == pytest.approx(positive, rel=0.05)
    assert area(labels, values) == pytest.approx(best, abs=0.015)


def test_the_records_that_score_have_the_signal_whatever_the_share(tmp_path):
    """A logistic regression on many records finds the direction of the made-up ones."""
    file = load(classifying(tmp_path))
    for positive in (0.5, 0.02):
        learnt, (features, labels) = made_up_by_signal(file, 3, 0.75, positive)
        assert (learnt.labels > 0).mean() == pytest.approx(positive, rel=0.1)
        assert (labels > 0).mean() == 0.5
        constant = np.ones((len(learnt.labels), 1))  # the schema's is scaled with its record
        model = logistic(np.hstack([learnt.features, constant]), learnt.labels, 1e-3)[:-1]
        assert area(labels, features @ model) == pytest.approx(0.75, abs=0.025)


def test_a_rare_class_is_harder_and_more_records_help(tmp_path):
    file = load(classifying(tmp_path, epsilon=1))
    half, rare = (by_signal(file, positive=positive).rows[1] for positive in (0.5, 0.01))
    assert rare.low < half.low
    few, many = (by_signal(file, records=records) for records in (100, 10_000))
    assert (few.rounds, few.records) == (2, 100)
    assert (many.rounds, many.records) == (40, 2_000)  # its rounds take no more
    assert few.rows[1].low < many.rows[1].low


def test_a_rule_says_how_many_records_there_are(call, tmp_path):
    path = tmp_path / "mesh.yaml"
    assert call("init", path).code == 0
    file = load(path)
    assert by_signal(file, rounds=3).records == file.mesh.rule.records
    assert by_signal(file, records=70).records == 70


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--records", 5], "--records: is for --estimate, which must be given too"),
        (["--positive", 0.1], "--positive: is for --estimate, which must be given too"),
        (["--estimate", "--positive", 0], "--positive 0: must be above 0 and below 1"),
        (["--estimate", "--positive", 1], "--positive 1: must be above 0 and below 1"),
        (["--estimate", "--positive", "nan"], "--positive nan: must be above 0 and below 1"),
    ],
)
def test_what_is_supposed_must_be_possible(call, tmp_path, options, said):
    assert call("plan", classifying(tmp_path), *options) == (2, "", f"{said}\n")


def test_only_two_classes_have_a_share_of_positives(call, tmp_path):
    said = "--positive: is for losses of two classes, not for range\n"
    done = call("plan", written(tmp_path, changed()), "--estimate", "--rounds", 20, "--positive", 0.1)
    assert done == (2, "", said)
    done = call("plan", written(tmp_path, changed()), "--estimate", "--rounds", 20, "--records", 7)
    assert "4 nodes, 7 rounds, 7 records a node" in done.out


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
    found = by_signal(load(written(tmp_path, tree)))
    assert all(0.2 < row.low <= row.high < 1 for row in found.rows)
    assert (found.noise is None) == (privacy["mechanism"] == "none")
    assert found.noise is None or found.noise > 0


def test_a_mesh_of_public_places_has_no_estimate(call, tmp_path):
    path = tmp_path / "uwb.yaml"
    assert call("init", "--example", "uwb", path).code == 0
    refused = call("plan", path, "--estimate")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "mesh.algorithm.curvature: trials run algorithms with a step of their own" in refused.err


def test_a_moving_target_is_estimated_by_its_loss(call, tmp_path):
    done = call("plan", written(tmp_path, changed()), "--estimate", "--rounds", 20)
    assert done.code == 0, done.err
    assert re.search(
        r"^estimate: +mean loss [\d.e-]+ to [\d.e-]+ \(19 runs\), [\d.e-]+ without", done.out, re.MULTILINE
    )
    assert "4 nodes, 20 rounds, 20 records a node" in done.out


def test_a_long_run_is_estimated_from_its_beginning(call, tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "MOST_ROUNDS", 10)
    done = call("plan", classifying(tmp_path), "--estimate", "--rounds", 5_000)
    assert "4 nodes, 10 rounds (the first of 5,000), 500 records a node" in done.out
    assert "so much after 10 rounds: the whole run of 5,000 may be better" in done.out


def test_a_cut_estimate_calls_no_run_useless(call, tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "MOST_ROUNDS", 2)
    done = call("plan", classifying(tmp_path, epsilon=0.005), "--estimate")
    assert "so much after 2 rounds: the whole run of 40 may be better" in done.out
    assert NOTHING not in done.out


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
