"""Targets that keep moving: their paths, the search for a setting, and the filter beside it."""

import numpy as np
import pytest

from experiments.harness.kalman import errors
from experiments.harness.meshes import seeded
from experiments.harness.moving_runs import (
    PILOT_RUNS,
    PILOT_SEED,
    Tuned,
    mesh_of,
    others,
    pilots,
    squares,
    together,
)
from experiments.harness.moving_targets import KINDS, WIDE, distances, path
from nodes.learner import Engine
from nodes.privacy.exact import SimulatedSampler
from topology.schedules import Copies


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_path_begins_at_0_goes_on_at_its_speed_and_stays_near(kind, seed):
    found = path(kind, seed, 0.01, 3_000)
    assert found[0].tolist() == [0.0, 0.0]
    steps = np.sqrt(((found[1:] - found[:-1]) ** 2).sum(-1))
    assert steps.mean() == pytest.approx(0.01, rel=0.02)
    assert 0.5 < np.sqrt((found**2).sum(-1)).max() < WIDE + 0.6
    assert found.tobytes() == path(kind, seed, 0.01, 3_000).tobytes()


def test_runs_are_on_other_paths_than_the_pilot_and_than_each_other():
    runs, (pilot, _) = others(0.01, 50, 7), pilots(0.01, 50)
    assert pilot[:, 0].tobytes() == pilot[:, 1].tobytes()
    together = [pilot[:, 0], *runs.swapaxes(0, 1)]
    for k, one in enumerate(together):
        assert all(np.abs(one - other).max() > 0.01 for other in together[:k])


PRIVATE = [
    {"mechanism": "none", "norm": "l2"},
    {"mechanism": "l2-sphere", "epsilon": 1},
    {"mechanism": "laplace", "epsilon": 1},
]


@pytest.mark.parametrize("velocity", [True, False])
@pytest.mark.parametrize("privacy", PRIVATE, ids=lambda privacy: privacy["mechanism"])
def test_settings_side_by_side_reach_what_each_reaches_alone(privacy, velocity):
    tried = [Tuned(1 / 64, 0.5, 0.01 * velocity), Tuned(1 / 32, 0.125, 0.005 * velocity)]  # the set is far
    targets, measured = pilots(0.01, 80)
    found = squares(together(privacy, tried), targets, measured, len(tried))
    for k, tuned in enumerate(tried):
        mesh = seeded(mesh_of(privacy, tuned), PILOT_SEED)
        schedule = Copies(mesh.schedule, PILOT_RUNS)
        noise = SimulatedSampler(PILOT_SEED, schedule.graph.nodes)
        engine = Engine(mesh.node("node-0000").learner_with(noise), schedule)
        alone = squares(engine, targets, measured, 1)
        assert found[k * PILOT_RUNS : (k + 1) * PILOT_RUNS] == pytest.approx(alone, rel=1e-4)
    assert not np.allclose(found[:PILOT_RUNS], found[PILOT_RUNS:], rtol=0.01)


def test_the_filter_finds_a_still_target_as_the_mean_of_all_distances_would():
    targets = np.zeros((400, 20, 2))
    found = errors(targets, distances(targets, 3), 1e-9)
    # six distances of deviation 0.01 leave 0.01 sqrt(2/3)/sqrt(rounds) in the plane, with a velocity twice
    assert 0.3 < np.median(found) / (0.01 * np.sqrt(2 / 3) / np.sqrt(300)) < 3


def test_the_filter_stays_closer_with_less_error_and_follows_with_more_freedom():
    targets = others(0.01, 400, 3)
    seen = distances(targets, 3)
    tight, right = errors(targets, seen, 1e-7).mean(), errors(targets, seen, 3e-4).mean()
    assert right < 0.01 < tight
