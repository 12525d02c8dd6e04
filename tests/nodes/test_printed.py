"""DPDO-NC as printed: its noise, under both indices, and that without noise it is the engine's descent."""

import math

import numpy as np
import pytest

from experiments.harness.printed import Printed
from nodes.algorithms import InverseSqrt
from nodes.geometry.constraints import L1Ball
from nodes.geometry.mirror_maps import Euclidean, Mahalanobis
from nodes.geometry.mirror_step import mirror_step
from nodes.losses.losses import RangeLoss
from nodes.values import Observations
from topology.graph import ring
from topology.schedules import FixedSchedule

NAMES = ("a", "b", "c")


def printed(epsilon, index="printed", mirror_map=None, seed=0):
    """Three nodes on a ring, theta 3, step 1/(6 sqrt t)."""
    step = mirror_step(mirror_map or Euclidean(), L1Ball(2, 3.0))
    schedule = FixedSchedule(ring(NAMES))
    return Printed(step, InverseSqrt(1 / 6), RangeLoss(), schedule, 3.0, epsilon, seed, index)


def slots(rounds):
    """Three sensors that stand still."""
    features = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[-1.0, 0.0]]])
    return [Observations(features, np.full((3, 1), 1.5), np.ones((3, 1), np.bool_))] * rounds


def test_the_printed_scale_is_that_of_the_next_step():
    assert printed(2.0).noise_scale(4) == pytest.approx(2 * math.sqrt(2) * (1 / 12) * 3 / 2)
    assert printed(2.0, "made").noise_scale(5) == printed(2.0).noise_scale(4)
    assert printed(2.0, "made").noise_scale(1) == 0.0
    assert printed(None).noise_scale(4) == 0.0


def test_the_scale_grows_as_the_map_is_flatter():
    flat = printed(2.0, mirror_map=Mahalanobis(np.array([0.5, 4.0])))
    assert flat.noise_scale(4) == pytest.approx(2 * printed(2.0).noise_scale(4))


def test_releases_are_noisy_and_decisions_stay_in_the_set():
    steps = list(printed(0.1).steps(slots(30)))
    assert all((np.abs(step.decision).sum(-1) <= 3 + 1e-9).all() for step in steps)
    assert max(np.abs(step.releases).sum(-1).max() for step in steps) > 3


@pytest.mark.parametrize("index", ["printed", "made"])
def test_the_first_value_is_noisy_as_printed_alone(index):
    first = next(printed(1.0, index).steps(slots(1)))
    assert (first.releases != first.decision).any() == (index == "printed")


def test_without_noise_the_gradient_is_at_the_private_value():
    first, second = printed(None).steps(slots(2))
    assert not first.decision.any()
    sensors = slots(1)[0].features[:, 0]
    gradients = (1 - 1.5) * -sensors  # at 0, each sensor 1 away
    assert second.decision == pytest.approx(-gradients / 6)
