"""DOLA's measures: the loss that regret is made of, what is held out, the pilot, the paper's own noise."""

import csv

import numpy as np
import pytest

from experiments.harness import dola, sparse
from experiments.harness import texts as texts_module
from experiments.harness.dola import NOTHING, best, learned, records, together
from experiments.harness.dola_figures import (
    LAMBDAS,
    best_weight,
    chosen,
    excess,
    measured,
    printed,
    pure,
    tuned,
)
from experiments.harness.hindsight import best_fixed_decision
from experiments.harness.meshes import engine, slots
from experiments.harness.study import Study
from experiments.harness.svm import MeanHinge, RegularisedHinge, seen
from experiments.harness.texts import COMMON, texts
from nodes.geometry.constraints import L2Ball
from nodes.values import Observations
from tests.support.published.claims import RESULTS

STEP = {"rule": "inverse-sqrt", "a": 0.5}
SHARED = {"data": "unit-ball", "quick": True, "nodes": 4, "noise": NOTHING, "step": STEP}
ALGORITHM = {
    "name": "dola",
    "constraint": {"l2-ball": 10},
    "step_size": {"rule": "inverse", "a": 100.0},
    "regulariser": 0.01,
}

CERTIFICATE = 1e-3
"""The largest gap of a least, of the sets whose excess is published."""


def ends(seed, *, size, of):
    """A measure whose last number is `size`, and whose first is the other way round."""
    return {of: np.array([10.0 - size, size + 0.1 * seed])}


def mesh_of(nodes, dimension, batch, step):
    """The mesh that the measures below are of: Pegasos' ball for a weight of 0.01, and no noise."""
    return dola.hinge_mesh(nodes, dimension, 4.0, batch, NOTHING, ALGORITHM | {"step_size": step})


def steps(nodes, rounds, batch):
    """The decisions of an engine of its own, and the records of each round."""
    rows, _ = records("unit-ball", quick=True)
    taken = nodes * rounds * batch
    features = rows.features[:taken].reshape(rounds, nodes, batch, -1)
    labels = rows.labels[:taken].reshape(rounds, nodes, batch)
    mesh = mesh_of(nodes, 10, batch, STEP)
    found = [step.decision for step in engine(mesh, 0).steps(slots(features, labels))]
    return np.stack(found), features, labels


@pytest.mark.parametrize("batch", [1, 5])
def test_the_loss_is_that_of_one_node_on_the_records_of_all(batch):
    found = learned(0, checkpoints=[10, 20], batch=batch, whole=True, **SHARED)
    decisions, features, labels = steps(4, 20 // batch, batch)
    terms = []
    for decision, rows, right in zip(decisions[:, 0], features, labels, strict=True):
        hinge = np.maximum(0.0, 1.0 - right * (rows * decision).sum(-1))
        terms.append(hinge.mean() + 0.005 * (decision * decision).sum())
    half = 10 // batch
    np.testing.assert_allclose(found["loss"], [np.mean(terms[:half]), np.mean(terms)])
    gaps = decisions[-1] - decisions[-1].mean(0)
    assert found["apart"][-1] == pytest.approx((gaps * gaps).sum())
    rows, _ = records("unit-ball", quick=True)
    scores = (rows.features * decisions[:, 0].mean(0)).sum(-1)
    average = (
        np.maximum(0.0, 1.0 - rows.labels * scores).mean() + 0.005 * (decisions[:, 0].mean(0) ** 2).sum()
    )
    assert found["average"][-1] == pytest.approx(average)


def test_the_best_decision_is_of_the_first_records_and_no_other_is_better():
    found = best(0, data="unit-ball", counts=[40, 80], quick=True)
    rows, _ = records("unit-ball", quick=True)
    random = np.random.default_rng(0)
    for place, count in enumerate((40, 80)):
        these = seen(rows, 0, count)
        direct = best_fixed_decision(RegularisedHinge(0.01), L2Ball(10, 10.0), these, 1e-4, 300)
        assert found["value"][place] == pytest.approx(direct.value, abs=1e-9)
        others = random.normal(size=(200, 10)) * random.uniform(0, 5, (200, 1))
        lowest = found["value"][place] - found["gap"][place]
        assert (RegularisedHinge(0.01).value(others, these).mean(-1) > lowest).all()
    assert (found["gap"] < 0.1).all()


def test_the_gradient_of_the_loss_is_its_slope():
    random = np.random.default_rng(0)
    seen = Observations(random.normal(size=(6, 3)), np.array([1.0, -1, 1, -1, 1, -1]), np.ones(6, np.bool_))
    loss, w, move = RegularisedHinge(0.5), random.normal(size=3), 1e-6 * random.normal(size=3)
    slope = (loss.value(w + move, seen) - loss.value(w - move, seen)) / 2
    np.testing.assert_allclose(slope, (loss.gradients(w, seen) * move).sum(-1), atol=1e-12)


def test_what_is_held_out_or_public_is_not_learnt_from():
    everything, nothing = records("adult", quick=True)
    assert len(nothing.labels) == 0
    rows, out = records("adult", quick=True, held_out=True)
    held_out = np.arange(len(everything.labels)) % 4 == 0
    train = everything.features[~held_out]
    public = np.arange(len(train)) % 20 == 0
    np.testing.assert_array_equal(rows.features, train[~public])
    np.testing.assert_array_equal(out.features, everything.features[held_out])
    drawn, scored = records("public adult", quick=True, held_out=True)
    np.testing.assert_array_equal(scored.features, train[public])
    assert drawn.features.shape == rows.features.shape
    assert {row.tobytes() for row in drawn.features} <= {row.tobytes() for row in train[public]}


def test_accuracy_and_auc_are_those_of_the_last_decisions_on_what_is_held_out():
    steep = {"rule": "inverse-sqrt", "a": 20.0}
    shared = SHARED | {"data": "adult-binary", "held_out": True, "step": steep}
    found = learned(0, checkpoints=[80], **shared)
    rows, out = records("adult-binary", quick=True, held_out=True)
    features, labels = rows.features[:320].reshape(80, 4, 1, -1), rows.labels[:320].reshape(80, 4, 1)
    mesh = mesh_of(4, features.shape[-1], 1, steep)
    *_, last = [step.decision for step in engine(mesh, 0).steps(slots(features, labels))]
    scores = [(out.features * decision).sum(-1) for decision in last]
    right = [((one > 0) == (out.labels > 0)).mean() for one in scores]
    assert (np.array(scores) > 0).any()  # else the accuracy says nothing
    assert found["accuracy"][0] == pytest.approx(np.mean(right))
    above = [one[out.labels > 0][:, None] > one[out.labels < 0] for one in scores]
    assert found["auc"][0] == pytest.approx(np.mean(above), abs=1e-3)  # but for equal scores


def test_the_pilot_chooses_the_least_loss_or_the_most_of_another_measure(tmp_path):
    study = Study(tmp_path, workers=1, kept=tmp_path / "kept")
    cases = {"a": {"size": 1.0}, "b": {"size": 3.0}, "c": {"size": 2.0}}
    assert chosen(study, ends, cases, {"of": "loss"}, by="loss") == {"size": 1.0}
    assert chosen(study, ends, cases, {"of": "auc"}, by="auc", runs=3) == {"size": 3.0}


def test_too_few_records_are_said():
    with pytest.raises(ValueError, match="unit-ball: 4000 records are too few for 2000 rounds of 4 nodes"):
        learned(0, checkpoints=[2_000], **SHARED)


def test_runs_side_by_side_are_as_one_alone_and_differ():
    shared = SHARED | {"nodes": 8, "degree": 2.0, "checkpoints": [20]}
    alone, three = learned(0, **shared), together(0, runs=3, **shared)
    for name, found in alone.items():
        np.testing.assert_allclose(three[name][0], found, rtol=1e-9)
    assert len(set(three["apart"][:, 0])) == 3
    one_node = together(0, runs=2, **shared | {"nodes": 1})
    assert one_node["loss"][0] == one_node["loss"][1]
    assert (one_node["apart"] == 0.0).all()


def test_no_edge_is_between_runs_and_neighbours_are_drawn_anew():
    mesh = dola.hinge_mesh(8, 10, 2.0, 1, NOTHING, ALGORITHM, seed=1, runs=3)
    schedule = engine(mesh, 1).schedule
    drawn = [schedule.weights(round, schedule.graph.nodes) for round in range(1, 9)]
    assert all((one.sources // 8 == one.targets // 8).all() for one in [*drawn, schedule.graph])
    assert len({one.sources.tobytes() for one in drawn}) > 4
    for block in range(3):
        alone = engine(dola.hinge_mesh(8, 10, 2.0, 1, NOTHING, ALGORITHM, seed=1 + block), 1).schedule.graph
        here = schedule.graph.sources // 8 == block
        np.testing.assert_array_equal(schedule.graph.sources[here] - 8 * block, alone.sources)
        np.testing.assert_array_equal(schedule.graph.targets[here] - 8 * block, alone.targets)


def test_the_point_of_the_step_is_before_the_noise():
    case = printed("laplace", 1.0, 0.01)
    shared = SHARED | {"checkpoints": [20]} | case
    made = dola.noisy_engine(dola.hinge_mesh(4, 10, 4.0, 1, case["noise"], ALGORITHM), case["noise"], 20, 0)
    rows, _ = records("unit-ball", quick=True)
    features, labels = rows.features[:80].reshape(20, 4, 1, 10), rows.labels[:80].reshape(20, 4, 1)
    w, terms = np.zeros(10), []
    for taught in made.steps(slots(features, labels)):
        these, right = features[taught.round - 1, :, 0], labels[taught.round - 1, :, 0]
        terms.append(np.maximum(0.0, 1.0 - right * (these * w).sum(-1)).mean())
        z = taught.consensus[0]
        slope = 0.01 * z - (right[0] * (z * these[0]).sum() < 1.0) * right[0] * these[0]
        w = L2Ball(10, 10.0).project(z - 100.0 / taught.round * slope)
    assert learned(0, **shared)["hinge"][0] == pytest.approx(np.mean(terms))
    assert learned(0, **shared | {"at": "decision"})["hinge"][0] != pytest.approx(np.mean(terms), rel=1e-3)


def test_the_mean_of_the_hinge_is_that_of_the_loss():
    rows, _ = records("unit-ball", quick=True)
    mean, loss, these = MeanHinge(0.5, rows, 50), RegularisedHinge(0.5), seen(rows, 0, 50)
    x = np.random.default_rng(0).normal(size=10)
    assert mean.value(x) == pytest.approx(loss.value(x, these).mean())
    np.testing.assert_allclose(mean.gradient(x), loss.gradients(x, these).mean(0))


def test_the_best_lambda_has_the_least_hinge(tmp_path):
    study = Study(tmp_path, quick=True, workers=1, kept=tmp_path / "kept")
    found = measured(study, {f"{one:g}": printed("laplace", 1.0, one) for one in LAMBDAS}, data="unit-ball")
    least = min(found, key=lambda name: found[name]["hinge"][:, -1].mean())
    assert best_weight(study, "laplace", 1.0, data="unit-ball") == float(least)


def test_an_excess_is_above_the_least_over_the_same_records(tmp_path):
    """A least over other records than F's shows itself where F at a point lies below it."""
    study = Study(tmp_path, quick=True, workers=1, kept=tmp_path / "kept")
    rows, _ = records("unit-ball", quick=True)
    loss = MeanHinge(0.01, rows, len(rows.labels))
    points = np.random.default_rng(0).normal(size=(20, 10))
    values = np.array([loss.value(10 * point / np.linalg.norm(point)) for point in points])
    assert (excess(study, "unit-ball", values) > 0).all()
    with pytest.raises(ValueError, match=r"unit-ball: F is -.* above its least"):
        excess(study, "unit-ball", values - values.min())


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("dola-average", ("mean", "p10", "p90")),
        ("dola-average-ours", ("mean", "p10", "p90")),
        ("dola-variance-ends", ("excess", "excess_p10", "excess_p90")),
    ],
)
def test_no_published_excess_is_below_its_certificate(table, columns):
    with (RESULTS / f"{table}.csv").open() as file:
        values = [float(row[name]) for row in csv.DictReader(file) for name in columns]
    assert values
    assert min(values) >= -CERTIFICATE


@pytest.mark.parametrize("form", ["laplace", "gaussian"])
def test_the_papers_noise_takes_the_place_of_the_mechanism(form):
    shared = SHARED | {"nodes": 8, "checkpoints": [20]}
    clean, noisy, again = (
        learned(0, **shared | printed(form, epsilon) | {"step": STEP})["apart"]
        for epsilon in (None, 1.0, 1.0)
    )
    assert noisy > 10 * clean > 0
    np.testing.assert_array_equal(noisy, again)


def test_the_pilot_reads_no_record_of_the_set(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(dola, "load", lambda name, **_: asked.append(name))
    records.cache_clear()
    study = Study(tmp_path, quick=True, workers=1, kept=tmp_path / "kept")
    found = tuned(study, pure(1.0), data="adult", nodes=4)
    records.cache_clear()
    assert not asked
    assert found["noise"] in pure(1.0)
    assert set(found) == {"noise", "step", "batch"}


def test_the_pilot_of_made_up_data_is_on_other_records():
    here, there = (records(name, quick=True)[0] for name in ("unit-ball", "like unit-ball"))
    assert here.features.shape == there.features.shape
    assert (here.features != there.features).any()


def test_sparse_texts_are_learnt_and_a_large_lasso_leaves_nothing():
    step = {"rule": "inverse-sqrt", "a": 10.0}
    shared = {"data": "reuters", "noise": NOTHING, "step": step, "nodes": 8, "quick": True}
    found = sparse.learned(0, lasso=0.0, **shared)
    assert found["auc"] > 0.8
    none = sparse.learned(0, lasso=1e6, **shared)
    assert none["zeros"] == 1.0
    assert none["auc"] == 0.5


def test_the_rounds_of_texts_hold_their_rows_and_labels():
    found = texts("reuters", quick=True)
    rounds = list(sparse._rounds(found, 5, 8, 4))
    features = np.concatenate([one.features.reshape(32, -1) for one in rounds])
    labels = np.concatenate([one.labels.reshape(32) for one in rounds])
    first = found.order[:160]
    np.testing.assert_array_equal(features, found.rows.dense()[first])
    np.testing.assert_array_equal(labels, found.labels[first])


def test_texts_to_learn_from_and_held_out_are_all_and_the_pilot_is_others():
    found, pilot = texts("reuters", quick=True), texts("like reuters", quick=True)
    assert sorted([*found.order, *found.held_out]) == list(range(len(found.labels)))
    assert found.rows.shape == pilot.rows.shape
    assert (found.rows.dense() != pilot.rows.dense()).any()


def test_the_commonest_words_are_kept(monkeypatch):
    rows = texts("reuters", quick=True).rows
    assert texts("reuters-common", quick=True).rows.dimension == min(rows.dimension, COMMON)
    monkeypatch.setattr(texts_module, "COMMON", 20)
    counts = np.array([(rows.indices == word).sum() for word in range(rows.dimension)])
    kept = np.sort(np.argsort(-counts, kind="stable")[:20])
    np.testing.assert_array_equal(texts_module._common(rows).dense(), rows.dense()[:, kept])


def test_rows_of_a_set_are_the_same_stored_as_sparse_ones():
    found = texts("adult-binary", quick=True)
    rows, out = records("adult-binary", quick=True, held_out=True)
    dense = found.rows.dense()
    np.testing.assert_array_equal(dense[found.order], rows.features)
    np.testing.assert_array_equal(dense[found.held_out], out.features)
    np.testing.assert_array_equal(found.labels[found.held_out], out.labels)
