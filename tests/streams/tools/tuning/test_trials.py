"""Trials: pilots of the right shape, and losses that are what a run by hand gives."""

import math
import tracemalloc

import numpy as np
import pytest

from nodes.engine import Engine
from nodes.losses.losses import Hinge, RangeLoss
from nodes.privacy.exact import SimulatedSampler
from nodes.values import Observations
from streams.mesh.mesh import Mesh
from streams.mesh.settings.schema import SchemaSettings
from streams.tools.tuning.pilot import MovingTargets, Resampled, made_up, made_up_by
from streams.tools.tuning.trials import Setting, Trials
from tests.support.meshes.files import changed, loaded


def test_made_up_rows_are_of_length_one_with_labels_of_the_kind():
    signs, numbers = made_up(5, "signs", 1, 2_000), made_up(5, "numbers", 1, 2_000)
    assert (signs.features**2).sum(-1) == pytest.approx(np.ones(2_000))
    assert set(np.unique(signs.labels)) == {-1.0, 1.0}
    assert np.unique(numbers.labels).size > 1_000
    assert made_up(5, "signs", 1).features.shape == (20_000, 5)
    assert made_up(12_000, "signs", 1, 1_500).features.shape == (1_000, 12_000)
    assert signs.features.tobytes() != made_up(5, "signs", 2, 2_000).features.tobytes()


def test_made_up_rows_follow_a_schema():
    columns = {
        "age": {"bounds": [17, 90]},
        "job": {"categories": ["clerk", "farmer"]},
        "town": {"hashed": 3},
        "member": {"categories": ["yes"]},
        "debt": "number",
    }
    tree = {"features": columns, "intercept": True, "label": {"column": "income", "positive": ["high"]}}
    schema = SchemaSettings.model_validate(tree)
    pilot = made_up_by(schema, "signs", 1, 3_000)
    age, job, town, member = np.split(pilot.features[:, :7], [1, 3, 6], axis=1)
    debt, one = pilot.features[:, 7:].T
    assert (age.min() >= 0, age.max() <= 1, age.std() > 0.25) == (True, True, True)
    assert set(job.sum(1)) == {0.0, 1.0}  # no category at all is a case
    assert set(town.sum(1)) == {1.0}
    assert member.mean() == pytest.approx(0.5, abs=0.05)
    assert (debt.std(), set(one)) == (pytest.approx(1, abs=0.1), {1.0})
    assert (pilot.labels > 0).mean() == pytest.approx(0.5, abs=0.05)
    short = made_up_by(SchemaSettings.model_validate(tree | {"norm": 0.5}), "numbers", 1, 3_000)
    assert np.sqrt((short.features**2).sum(1)).max() == pytest.approx(0.5)
    assert np.unique(short.labels).size == 3_000


def test_made_up_rows_need_no_more_memory_than_they_hold():
    columns = {"town": {"hashed": 4_000}}
    schema = SchemaSettings.model_validate({"features": columns, "label": {"column": "y", "positive": ["1"]}})
    tracemalloc.start()
    try:
        pilot = made_up_by(schema, "signs", 1, 500)
        assert tracemalloc.get_traced_memory()[1] < 4 * pilot.features.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pilot", [MovingTargets(), made_up(2, "signs", 0)], ids=["targets", "resampled"])
def test_slots_are_of_all_nodes_of_all_runs_and_repeat_by_seed(pilot):
    first, again, other = (list(pilot.slots(7, 4, 3, 2, seed)) for seed in (0, 0, 1))
    assert len(first) == 7
    assert all(slot.features.shape == (8, 3, 2) for slot in first)
    assert all(slot.labels.shape == slot.present.shape == (8, 3) for slot in first)
    assert all(one.labels.tobytes() == two.labels.tobytes() for one, two in zip(first, again, strict=True))
    assert first[0].labels.tobytes() != other[0].labels.tobytes()


def test_each_run_has_a_target_of_its_own_which_distances_fit():
    slots = list(MovingTargets().slots(50, 6, 1, 3, 0))
    for run in range(3):
        part = slice(6 * run, 6 * run + 6)
        positions, distances = slots[0].features[part, 0], slots[0].labels[part, 0]
        # two circles' difference is linear in the target: solve for it
        matrix = 2 * (positions[1:] - positions[0])
        values = (positions[1:] ** 2).sum(-1) - (positions[0] ** 2).sum()
        values = values - distances[1:] ** 2 + distances[0] ** 2
        target = np.linalg.lstsq(matrix, values, rcond=None)[0]
        assert np.sqrt(((positions - target) ** 2).sum(-1)) == pytest.approx(distances, abs=0.005)
    assert len({slots[0].labels[6 * run, 0] for run in range(3)}) == 3


def test_a_trial_is_the_mean_loss_of_a_run_by_hand(tmp_path):
    mesh = loaded(tmp_path, changed(nodes=list("abcd"))).mesh
    setting = Setting(0.25, 2.0, 1)
    found = Trials(mesh, MovingTargets(), 20, 1, 3).loss(setting)
    slots = list(MovingTargets().slots(20, 4, 1, 1, 3))
    applied = setting.applied(mesh)
    names = tuple(f"000000-{name}" for name in "abcd")
    schedule = Mesh(mesh.model_copy(update={"nodes": dict.fromkeys(names), "seed": 3})).schedule
    engine = Engine(Mesh(applied).node("a").learner_with(SimulatedSampler(3, names)), schedule)
    losses = []
    for step, slot in zip(engine.steps(slots), slots, strict=True):
        for decision in step.decision:
            everyone = Observations(slot.features[:, 0], slot.labels[:, 0], slot.present[:, 0])
            losses.append(RangeLoss().value(decision, everyone).mean())
    assert found == pytest.approx(np.mean(losses), rel=1e-12)


def test_a_setting_changes_these_three_and_takes_nodes_alike(tmp_path):
    tree = changed(nodes={"a": {"gradient_bound": 3}, "b": None, "c": None, "d": None})
    mesh = loaded(tmp_path, tree).mesh
    applied = Setting(0.25, 2.0, 5).applied(mesh)
    assert applied.privacy_of("a").gradient_bound == 0.25
    assert applied.privacy.noise == "simulated"
    assert applied.algorithm.step_size.a == 2.0
    assert applied.slots.size == 5
    assert Setting.of(mesh) == Setting(0.5, 0.5, 1)


def test_too_few_records_for_a_slot_are_an_infinite_loss(tmp_path):
    mesh = loaded(tmp_path, changed(loss="hinge") | {"nodes": {}}).mesh
    pilot = Resampled(np.ones((4, 2)), np.ones(4))
    assert Trials(mesh, pilot, 9, 1, 0).loss(Setting(1.0, 1.0, 10)) == math.inf
    assert Trials(mesh, pilot, 10, 1, 0).loss(Setting(1.0, 1.0, 10)) == Hinge().value(
        np.zeros(2), Observations(np.ones((1, 2)), np.ones(1), np.ones(1, np.bool_))
    )


def test_by_auc_a_better_ranking_is_less(tmp_path):
    mesh = loaded(tmp_path, changed(loss="hinge", privacy={"mechanism": "none"}) | {"nodes": {}}).mesh
    pilot = made_up(2, "signs", 4, 500)
    rows = (pilot.features, pilot.labels)
    learnt = Trials(mesh, pilot, 200, 2, 0, rows).loss(Setting(1.0, 1.0, 1))
    assert learnt < 0.2
    assert Trials(mesh, Resampled(pilot.features, -pilot.labels), 200, 2, 0, rows).loss(
        Setting(1.0, 1.0, 1)
    ) == pytest.approx(1 - learnt, abs=0.05)
    one_sign = (pilot.features, np.ones(500))
    assert Trials(mesh, pilot, 20, 1, 0, one_sign).loss(Setting(1.0, 1.0, 1)) == math.inf
