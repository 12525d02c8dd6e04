"""Trials: losses that are what a run by hand gives."""

import math

import numpy as np
import pytest
import yaml

from nodes.learner import Engine
from nodes.losses.losses import Hinge, RangeLoss
from nodes.privacy.exact import SimulatedSampler
from nodes.values import Observations
from streams.mesh.file import load
from streams.mesh.mesh import Mesh
from streams.tools.tuning.pilot import MovingTargets, Resampled, made_up, made_up_like
from streams.tools.tuning.trials import (
    MOST,
    Candidate,
    Measured,
    Search,
    Setting,
    Trials,
    best,
    block,
    even_sizes,
    search,
    settled,
    walk,
    with_mechanism,
)
from tests.support.meshes.files import changed, loaded, written


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


@pytest.mark.parametrize("records", [9, 10])
def test_fewer_records_than_a_slot_holds_are_one_slot(tmp_path, records):
    mesh = loaded(tmp_path, changed(loss="hinge") | {"nodes": {}}).mesh
    pilot = Resampled(np.ones((4, 2)), np.ones(4))
    assert Trials(mesh, pilot, records, 1, 0).loss(Setting(1.0, 1.0, 10)) == Hinge().value(
        np.zeros(2), Observations(np.ones((1, 2)), np.ones(1), np.ones(1, np.bool_))
    )


def test_the_last_slot_of_a_trial_has_the_records_that_are_left(tmp_path):
    mesh = loaded(tmp_path, changed(loss="hinge", privacy={"mechanism": "none"}) | {"nodes": {}}).mesh
    pilot, setting = made_up(2, "signs", 4, 500), Setting(1.0, 1.0, 5)
    found = Trials(mesh, pilot, 11, 1, 3).measure(setting)
    *full, last = pilot.slots(3, 4, 5, 1, 3)
    slots = [*full, Observations(last.features[:, :1], last.labels[:, :1], last.present[:, :1])]
    made = Mesh(setting.applied(mesh).model_copy(update={"seed": 3}))
    names = tuple(f"000000-{name}" for name in "abcd")
    engine = Engine(made.node("a").learner_with(SimulatedSampler(3, names)), made.schedule)
    losses, guess = [], []
    for step, slot in zip(engine.steps(slots), slots, strict=True):
        looked = [array[:, :4].reshape(1, -1, *array.shape[2:]) for array in slot]
        for decision in step.decision:
            losses.append(Hinge().value(decision, Observations(*looked)).mean())
            guess.append(Hinge().value(np.zeros(2), Observations(*looked)).mean())
    assert found.loss == pytest.approx(np.mean(losses), rel=1e-12)
    assert found.guess == pytest.approx((np.mean(guess),), rel=1e-12)


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


# The walk: to less loss by factors of two, never more trials than allowed, and no drift where it is flat.

START = Setting(1.0, 1.0, 4)


def quiet(done):
    """Forget it."""


def walked(start, loss, *, sizes=None, report=quiet, tilts=False):
    """The walk where a result is a number that does not spread."""
    return walk(start, lambda setting: Measured(loss(setting)), sizes=sizes, report=report, tilts=tilts)


def any_size(size):
    """Try it."""
    return size


def valley(bound, step, size=4):
    """A loss that is least there, and grows with the distance in factors of two."""

    def loss(setting):
        away = (setting.gradient_bound / bound, setting.step / step, setting.size / size)
        return 1 + sum(math.log2(one) ** 2 for one in away)

    return loss


@pytest.mark.parametrize(("bound", "step"), [(1 / 64, 32), (8, 1 / 8), (1, 1), (1 / 2, 16)])
def test_it_finds_the_bottom_from_afar(bound, step):
    tried = walked(START, valley(bound, step))
    assert best(tried) == Setting(bound, step, 4)
    assert {setting.size for setting in tried} == {4}


def test_sizes_are_tried_where_asked_and_stay_whole():
    tried = walked(START, valley(1, 1, 64), sizes=any_size)
    assert best(tried).size == 64
    smallest = walked(Setting(1.0, 1.0, 1), valley(1, 1, 1), sizes=any_size)
    assert min(setting.size for setting in smallest) == 1


def test_a_flat_ridge_ends_the_walk_at_the_largest_clip():
    def flat(setting):
        return 1 + math.log2(setting.gradient_bound * setting.step) ** 2 + setting.gradient_bound * 1e-3

    tried = walked(START, flat)
    assert best(tried) == max(setting for setting in tried if flat(setting) <= min(map(flat, tried)) / 0.98)
    assert len(tried) < MOST / 2


def test_what_is_better_by_luck_is_not_proposed():
    """Eighty results of the same mean: the least of them is far below, and the start stays."""
    random = np.random.RandomState(1)

    def noisy(setting):
        runs = tuple((1 + 0.2 * random.standard_normal(8)).tolist())
        return Measured(float(np.mean(runs)), None, runs)

    class Noisy:
        def confirm(self, setting):
            return noisy(setting)

    begun = Candidate("laplace", START)
    lower, stayed = 0, 0
    for _ in range(20):
        tried = walk(START, noisy, sizes=any_size, report=quiet, tilts=True)
        chosen = min(tried, key=lambda setting: tried[setting].loss)
        lower += tried[chosen].loss < 0.95 * tried[START].loss
        found = Search({}, (), Candidate("laplace", chosen), ())
        stayed += settled(found, begun, lambda _: Noisy())[0].proposed == begun
    assert lower > 15
    assert stayed >= 17
    paired = [Measured(1.0, None, (0.0, 2.0)), Measured(0.9, None, (-0.1, 1.9))]
    assert paired[1].clearly_below(paired[0])  # each run is better, though runs differ more
    assert not Measured(0.9, None, (-1.1, 2.9)).clearly_below(paired[0])


def test_a_proposal_is_confirmed_in_other_runs(tmp_path):
    mesh = loaded(tmp_path, changed(loss="hinge", privacy={"mechanism": "none"}) | {"nodes": {}}).mesh
    trials = Trials(mesh, made_up(2, "signs", 4, 500), 200, 8, 0)
    chosen, fresh = trials.measure(Setting.of(mesh)), trials.confirm(Setting.of(mesh))
    assert (len(chosen.runs), len(fresh.runs)) == (8, 16)
    assert not set(chosen.runs) & set(fresh.runs)
    assert fresh.better_than_guessing
    wrong = Measured(1.0, None, (0.9, 1.1), (1.0, 1.0))
    assert not wrong.better_than_guessing


@pytest.mark.parametrize("records", [1, 250, 1_000, 7_733])
def test_sizes_fit_the_records(records):
    for size in (1, 3, 64, 500, 5_000, 20_000):
        even = even_sizes(records)(size)
        rounds = -(-records // even)
        assert 1 <= even <= records
        assert rounds * even - records < rounds  # the last slot lacks fewer than one a round
    assert even_sizes(1_000)(128) == 125
    assert even_sizes(250)(500) == 250


def test_there_is_an_end_to_trials():
    done = []
    tried = walked(START, lambda setting: 1 / setting.step, report=done.append)
    assert len(tried) == MOST == done[-1]


def test_a_setting_that_cannot_be_measured_is_never_the_best():
    tried = walked(START, lambda setting: 1.0 if setting == START else math.inf, sizes=any_size)
    assert best(tried) == START


def test_gains_are_tilted_where_there_are_any():
    def loss(setting):
        away = (setting.gradient_bound / 0.25, setting.step / 2, setting.tilt / 8)
        return 1 + sum(math.log2(one) ** 2 for one in away)

    assert best(walked(START, loss, sizes=any_size, tilts=True)) == Setting(0.25, 2.0, 4, 8.0)
    assert {setting.tilt for setting in walked(START, loss, sizes=any_size)} == {1.0}


# Mechanisms compared: each at the mesh's epsilon, and what is proposed can be pasted whole.

BISR = {"mechanism": "gaussian-bisr", "epsilon": 1, "delta": 1e-6, "bands": 4, "norm": "l2"}


def file_of(folder, privacy, **mesh):
    tree = changed(loss="hinge", algorithm={"name": "dola", "regulariser": 0.01}, rounds=40, **mesh)
    tree["mesh"]["privacy"] = privacy | {"gradient_bound": 100}
    tree["nodes"] = {}
    return load(written(folder, tree), {}), tree


@pytest.mark.parametrize(
    ("chosen", "privacy"),
    [
        ("gaussian-bisr", BISR),
        ("gaussian", {"mechanism": "gaussian", "epsilon": 1, "delta": 1e-6}),
        ("laplace", {"mechanism": "laplace", "epsilon": 1}),
    ],
)
def test_what_is_proposed_replaces_whole_blocks(tmp_path, chosen, privacy):
    file, tree = file_of(tmp_path, BISR)
    lines = yaml.safe_load(block(file, Candidate(chosen, Setting(0.1234567, 2.0, 4)), None, 40))
    assert lines["privacy"] == privacy | {"gradient_bound": 0.123457}
    assert lines["algorithm"] == tree["mesh"]["algorithm"] | {"step_size": {"rule": "inverse-sqrt", "a": 2}}
    assert (lines["slots"], lines["rounds"]) == ({"by": "count", "size": 4}, 10)
    tree["mesh"] |= lines
    pasted = load(written(tmp_path, tree), {}).mesh
    assert (pasted.privacy.mechanism, pasted.privacy.gradient_bound) == (chosen, 0.123457)


def test_a_delta_is_written_where_the_file_has_none(tmp_path):
    laplace = {"mechanism": "laplace", "on": "parameters", "norm": "l2", "epsilon": 1, "noise": "simulated"}
    file, _ = file_of(tmp_path, laplace)
    lines = yaml.safe_load(block(file, Candidate("gaussian", Setting(1.0, 0.5, 1)), 1e-5, 40))
    wanted = {"mechanism": "gaussian", "epsilon": 1, "delta": 1e-5, "noise": "simulated", "gradient_bound": 1}
    assert lines["privacy"] == wanted
    assert "rounds" not in lines


@pytest.mark.parametrize("name", ["gaussian", "gaussian-bisr", "l2-sphere"])
def test_another_mechanism_keeps_epsilon(tmp_path, name):
    mesh = loaded(tmp_path, changed(privacy={"epsilon": 0.25})).mesh
    privacy = with_mechanism(mesh, name, 1e-7).privacy
    assert (privacy.mechanism, float(privacy.epsilon), privacy.norm) == (name, 0.25, "l2")
    assert privacy.delta == (None if name == "l2-sphere" else 1e-7)
    assert with_mechanism(mesh, "laplace", 1e-7) is mesh


class Invented(Trials):
    """The loss by mechanism and clip."""

    def measure(self, setting):
        name = self.mesh.privacy.mechanism
        if name == "gaussian-bisr":
            raise ValueError("not with this mesh")
        least = {"laplace": 1.01, "l2-sphere": 1.0, "gaussian": 0.9}[name]
        return Measured(least + abs(setting.gradient_bound - 0.5))


def test_the_first_mechanism_that_gets_near_the_best_is_proposed(tmp_path):
    mesh = loaded(tmp_path, changed()).mesh

    def found(*names):
        return search(
            mesh, names, 1e-6, lambda one: Invented(one, None, 1, 1, 1), sizes=None, report=[].append
        )

    assert found("laplace", "l2-sphere").proposed.mechanism == "laplace"  # within 2 %
    made = found("laplace", "l2-sphere", "gaussian", "gaussian-bisr")
    assert made.proposed.mechanism == "gaussian"
    assert [one.mechanism for one in made.best] == ["laplace", "l2-sphere", "gaussian"]
    assert made.left_out == ("gaussian-bisr",)


def test_gains_are_sought_and_proposed_with_the_step(tmp_path):
    algorithm = {
        "dynamics": {"model": "constant-velocity", "dimensions": 2, "period": 1},
        "constraint": {"reach": {"position": 2, "speed": 0.05}},
        "step_size": {"rule": "constant", "a": 1},
        "gains": [0.5, 0.0005],
    }
    target = {"path": "figure-eight", "speed": 0.01}
    tree = changed(algorithm=algorithm, dimension=4, target=target, rounds=300) | {"nodes": {}}
    tree["mesh"]["privacy"] = {"mechanism": "l2-sphere", "epsilon": 4, "gradient_bound": 0.01}
    file = load(written(tmp_path, tree), {})
    pilot = made_up_like(file, 1, "--synthetic")

    def trials_of(mesh):
        return Trials(mesh, pilot, 300, 1, 1)

    found = search(file.mesh, ("l2-sphere",), None, trials_of, sizes=None, report=lambda _: None)
    start = Candidate("l2-sphere", Setting.of(file.mesh))
    assert found.tried[found.proposed].loss < 0.8 * found.tried[start].loss
    chosen = found.proposed.setting
    assert chosen.tilt > 1  # so small a gain of the velocity leaves it behind
    lines = yaml.safe_load(block(file, found.proposed, None, 300))["algorithm"]
    assert lines["gains"] == pytest.approx([0.5, 0.0005 * chosen.tilt], rel=1e-5)
    assert lines["step_size"]["a"] == pytest.approx(chosen.step, rel=1e-5)
