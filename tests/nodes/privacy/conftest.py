"""`laplace` in both forms, ready to run: a mechanism, and the update that it calls."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from nodes.algorithms import InverseSqrt, MirrorDescent
from nodes.geometry.constraints import L1Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.privacy.clipping import Grid
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters, step_radius
from nodes.privacy.mechanism import Mechanism, Sampler, Update
from nodes.privacy.private import Private
from nodes.values import Consensus, FloatArray

THETA = 0.5
STEP_SIZE = InverseSqrt(0.1)


class Silent:
    """No noise, and a memory of what was to be noised."""

    simulated = True

    def __init__(self) -> None:
        self.values = np.zeros(0, dtype=np.int64)
        self.scale = 0.0

    def laplace(self, round, values, scale):
        self.values, self.scale = values, scale
        return values


@dataclass
class Case:
    """A mechanism with its update in round 3, and what the formulas of privacy.md say of it."""

    mechanism: Mechanism
    update: Update
    scale: float  # of one coordinate's noise, from the formulas
    step: float  # of the grid of what is released
    offset: FloatArray  # the release that no noise and no gradient would give

    def release(self, gradients: FloatArray) -> FloatArray:
        """Return the releases of slots (..., n, d) in round 3."""
        return self.mechanism.privatise(3, Private(gradients), self.update).release


@pytest.fixture(params=["gradient", "parameters"])
def laplace(request: pytest.FixtureRequest) -> Callable[..., Case]:
    """Return a function (sampler, epsilon, d) -> Case, theta = 0.5, one observation a slot."""

    def on_gradient(sampler: Sampler, epsilon: Fraction = Fraction(1), dimension: int = 2) -> Case:
        mechanism = LaplaceGradient(THETA, epsilon, 1, dimension, sampler)
        scale = 2 * THETA / float(epsilon)
        return Case(mechanism, lambda gradient: gradient, scale, mechanism.grid.step, np.zeros(dimension))

    def on_parameters(sampler: Sampler, epsilon: Fraction = Fraction(1), dimension: int = 2) -> Case:
        euclidean, ball = Euclidean(), L1Ball(dimension, 3.0)
        algorithm = MirrorDescent(mirror_step(euclidean, ball), STEP_SIZE)
        mechanism = LaplaceParameters(THETA, "l2", epsilon, euclidean, ball, STEP_SIZE, sampler)
        consensus = Consensus(np.linspace(-0.3, 0.4, dimension))
        scale = 2 * np.sqrt(dimension) * STEP_SIZE(3) * THETA / float(epsilon)
        update = partial(algorithm.update, 3, consensus)
        radius = step_radius(euclidean, ball, "l2", STEP_SIZE(3), THETA)
        return Case(mechanism, update, scale, Grid.of(radius, dimension).step, consensus)

    return on_gradient if request.param == "gradient" else on_parameters


@pytest.fixture
def silent() -> Silent:
    return Silent()
