"""Neighbouring slots, through the real code up to the noise: never further apart than epsilon scales."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.algorithms import InverseSqrt, MirrorDescent
from nodes.geometry.constraints import Box, Constraint, L1Ball, L2Ball, LinfBall, Simplex
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis, MirrorMap
from nodes.geometry.mirror_step import mirror_step
from nodes.privacy.clipping import Norm, clip
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters, step_radius
from nodes.privacy.mechanism import Privatised
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.values import Consensus, FloatArray, Release

EPSILONS = [Fraction("0.1"), Fraction(1), Fraction(7, 3), Fraction(1000)]


class Silent:
    """No noise, and a memory of what was to be noised."""

    simulated = True

    def laplace(self, round, values, scale):
        self.values, self.scale = values, scale
        return values


def identity(gradient: FloatArray) -> FloatArray:
    return gradient


def slot(random: np.random.Generator, records: int, dimension: int, theta: float) -> FloatArray:
    """Return gradients of any size: dense, sparse, at the corners, huge, broken."""
    rows = random.normal(size=(records, dimension)) * random.choice([0.0, 1.0], size=(records, dimension))
    rows *= theta * 10.0 ** random.uniform(-4, 6, size=(records, 1))
    for row in rows:
        kind = random.integers(6)
        if kind == 0:
            row[:] = 0.0
            row[random.integers(dimension)] = theta * random.choice([-1.0, 1.0])
        elif kind == 1:
            row[random.integers(dimension)] = random.choice([math.nan, math.inf, -math.inf, 1.7e308])
        elif kind == 2:
            row[:] = theta / math.sqrt(dimension) * random.choice([-1.0, 1.0], size=dimension)
    return rows


def neighbour(random: np.random.Generator, rows: FloatArray, theta: float) -> FloatArray:
    """Return the slot with one record replaced, removed, or displaced by a new one at the front."""
    other = slot(random, 1, rows.shape[1], theta)
    kept = np.delete(rows, random.integers(len(rows)), axis=0)
    return [np.concatenate([kept, other]), kept, np.concatenate([other, rows[:-1]])][random.integers(3)]


def loss_of(mechanism, first: FloatArray, second: FloatArray, update=identity) -> tuple[Fraction, float]:
    """Return the privacy loss of a pair: from the integers before the noise, and from the releases."""
    silent = mechanism.sampler
    releases, integers = [], []
    for rows in (first, second):
        releases.append(mechanism.privatise(1, Private(rows), update).release)
        integers.append([int(value) for value in silent.values])
    apart = sum(abs(one - two) for one, two in zip(*integers, strict=True))
    distance = float(np.abs(releases[0] - releases[1]).sum())
    return apart / Fraction(silent.scale), distance / mechanism.noise_scale(1)


def worst(mechanism, seed: int, pairs: int = 30, update=identity) -> float:
    random = np.random.default_rng(seed)
    batch, dimension = getattr(mechanism, "batch_size", 1), dimension_of(mechanism)
    found = 0.0
    for _ in range(pairs):
        rows = slot(random, int(random.integers(1, batch + 1)), dimension, mechanism.theta)
        exact, seen = loss_of(mechanism, rows, neighbour(random, rows, mechanism.theta), update)
        found = max(found, float(exact), seen * (1 - 1e-12))
    return found


def dimension_of(mechanism) -> int:
    constraint = getattr(mechanism, "constraint", mechanism)
    return constraint.dimension


# -------------------------------------------------------------------------------------- on gradients


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.floats(1e-6, 1e6),
    st.sampled_from(EPSILONS),
    st.integers(1, 8),
    st.integers(1, 30),
)
def test_on_gradients_no_pair_is_further_apart_than_epsilon(seed, theta, epsilon, batch, dimension) -> None:
    mechanism = LaplaceGradient(theta, epsilon, batch, dimension, Silent())
    assert worst(mechanism, seed, pairs=8) <= epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dimension", [1, 2, 100])
def test_on_gradients_the_bound_is_reached(epsilon: Fraction, dimension: int) -> None:
    mechanism = LaplaceGradient(0.3, epsilon, 4, dimension, Silent())
    corner = np.zeros((1, dimension))
    corner[0, 0] = 1e9
    exact, seen = loss_of(mechanism, corner, -corner)
    assert exact <= epsilon
    assert min(float(exact), seen) >= float(epsilon) * (1 - 1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("theta", [0.3, 0.5, 7.0])
def test_2k_over_the_scale_is_epsilon_exactly_or_below_by_one_ulp(theta: float, epsilon: Fraction) -> None:
    mechanism = LaplaceGradient(theta, epsilon, 1, 3, Silent())
    sensitivity = 2 * mechanism.grid.radius
    assert sensitivity / Fraction(mechanism.scale) <= epsilon
    assert sensitivity / Fraction(math.nextafter(mechanism.scale, 0.0)) > epsilon


class NoClip(LaplaceGradient):
    """The fault: gradients are rounded and summed as they are."""

    def bounded_sum(self, gradients):
        rows = np.where(np.isfinite(gradients) & (np.abs(gradients) < 1e9), gradients, 0.0)
        return np.rint(rows / self.grid.step).sum(-2).astype(np.int64), 0, 0


class FloatClip(LaplaceGradient):
    """The fault: the float clip alone: rounding to the grid may add half a step a coordinate, unproved."""

    def bounded_sum(self, gradients):
        held, clipped, broken = clip(gradients, self.theta * 1.0001, "l1")
        return np.rint(held / self.grid.step).sum(-2).astype(np.int64), clipped, broken


class DividesByCount(LaplaceGradient):
    """The fault: the mean over the records that are there, noise and all."""

    def privatise(self, round, gradients, update, secret=None):
        made = super().privatise(round, gradients, update)
        count = max(1, len(opened(gradients)))
        return Privatised(Release(made.release * self.batch_size / count), made.clipped, made.broken)


@pytest.mark.parametrize("fault", [NoClip, FloatClip, DividesByCount])
def test_on_gradients_faults_are_found(fault: type[LaplaceGradient]) -> None:
    assert worst(fault(0.5, Fraction(1), 4, 2, Silent()), seed=1, pairs=300) > 1


# ------------------------------------------------------------------------------------- on parameters

STEP_SIZE = InverseSqrt(0.3)
SKEW = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.7]])
BOX = Box(np.array([-0.1, -1.0, 0.0]), np.array([0.2, 1.0, 5.0]))
Q = np.array([0.5, 1.0, 4.0])


@dataclass
class Combination:
    mirror_map: MirrorMap
    constraint: Constraint
    norm: Norm

    def mechanism(self, theta: float = 0.5, epsilon: Fraction = Fraction(1)) -> LaplaceParameters:
        return LaplaceParameters(
            theta, self.norm, epsilon, self.mirror_map, self.constraint, STEP_SIZE, Silent()
        )

    def update(self, consensus: FloatArray, regulariser: float = 0.0):
        algorithm = MirrorDescent(mirror_step(self.mirror_map, self.constraint), STEP_SIZE, regulariser)
        return partial(algorithm.update, 1, Consensus(consensus))


COMBINATIONS = [
    Combination(Euclidean(), L1Ball(3, 1.0), "l2"),
    Combination(Euclidean(), L2Ball(3, 1.0), "l2"),
    Combination(Euclidean(), LinfBall(3, 0.5), "l2"),
    Combination(Euclidean(), LinfBall(3, 0.5), "l1"),
    Combination(Euclidean(), BOX, "l2"),
    Combination(Euclidean(), BOX, "l1"),
    Combination(Euclidean(), Simplex(3), "l2"),
    Combination(Mahalanobis(Q), L1Ball(3, 1.0), "l2"),
    Combination(Mahalanobis(Q), L2Ball(3, 1.0), "l2"),
    Combination(Mahalanobis(Q), LinfBall(3, 0.5), "l2"),
    Combination(Mahalanobis(Q), BOX, "l2"),
    Combination(Mahalanobis(SKEW), L1Ball(3, 1.0), "l2"),
    Combination(Entropy(), Simplex(3), "linf"),
]


@pytest.mark.parametrize("combination", COMBINATIONS)
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.floats(1e-3, 1e3), st.sampled_from(EPSILONS))
def test_on_parameters_no_pair_is_further_apart_than_epsilon(combination, seed, theta, epsilon) -> None:
    consensus = np.random.default_rng(seed).normal(size=3)
    update = combination.update(consensus, regulariser=0.1)
    assert worst(combination.mechanism(theta, epsilon), seed, 4, update) <= epsilon


@pytest.mark.parametrize("combination", COMBINATIONS)
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.floats(1e-2, 1e2))
def test_on_parameters_the_radius_is_never_needed(combination, seed, theta) -> None:
    """The table of radii: the clip does nothing to a real step, so the papers' x comes out, on the grid."""
    random = np.random.default_rng(seed)
    update = combination.update(random.normal(size=3))
    mechanism = combination.mechanism(theta)
    rows = random.normal(size=(1, 3)) * theta * 10.0 ** random.uniform(-2, 2)
    released = mechanism.privatise(1, Private(rows), update).release
    wanted = update(clip(rows, theta, combination.norm)[0][0])
    alpha = STEP_SIZE(1)
    radius = step_radius(combination.mirror_map, combination.constraint, combination.norm, alpha, theta)
    np.testing.assert_allclose(released, wanted, rtol=0, atol=2 * radius / 2**30 + 1e-12)
    assert np.abs(wanted - update(np.zeros(3))).sum() <= radius * (1 + 1e-9) + 1e-12


P = 1 / (1 + math.exp(0.3 * 0.5))
TIGHT = [
    (Combination(Euclidean(), L1Ball(3, 9.0), "l2"), np.zeros(3), np.ones(3)),
    (Combination(Euclidean(), LinfBall(3, 9.0), "l1"), np.zeros(3), np.array([1.0, 0.0, 0.0])),
    (Combination(Mahalanobis(Q), LinfBall(3, 9.0), "l2"), np.zeros(3), 1 / Q),
    (Combination(Entropy(), Simplex(2), "linf"), np.array([P, 1 - P]), np.array([-1.0, 1.0])),
]


@pytest.mark.parametrize(("combination", "consensus", "direction"), TIGHT)
def test_on_parameters_the_tight_rows_are_tight(combination, consensus, direction) -> None:
    mechanism, update = combination.mechanism(), combination.update(consensus)
    moved, _ = loss_of(mechanism, direction[None] * 1e9, np.zeros((1, direction.size)), update)
    assert 0.5 * (1 - 1e-6) <= moved <= 0.5  # half the diameter, from the zero-gradient step
    exact, seen = loss_of(mechanism, direction[None] * 1e9, -direction[None] * 1e9, update)
    least = 0.95 if combination.norm == "linf" else 1 - 1e-6
    assert least <= min(exact, seen) <= max(exact, seen * (1 - 1e-12)) <= 1


class NoClipAtAll(LaplaceParameters):
    """The fault: noise on whatever the step gave."""

    def privatise(self, round, gradients, update, secret=None):
        _, grid, scale = self._calibrated(round)
        rows = np.nan_to_num(opened(gradients), posinf=0.0, neginf=0.0)
        moved = update(rows.sum(-2)) - update(np.zeros(rows.shape[-1]))
        noisy = self.sampler.laplace(round, np.rint(moved / grid.step).astype(np.int64), scale)
        return Privatised(Release(noisy * grid.step), Private(0), Private(0))


def test_on_parameters_a_clip_left_out_is_found() -> None:
    good = COMBINATIONS[0].mechanism()
    fault = NoClipAtAll(0.5, "l2", Fraction(1), Euclidean(), L1Ball(3, 1.0), STEP_SIZE, Silent())
    update = COMBINATIONS[0].update(np.zeros(3))
    assert worst(good, 1, 50, update) <= 1
    assert worst(fault, 1, 50, update) > 1


@pytest.mark.parametrize("stretch", [3.0, 1e200])
def test_on_parameters_a_step_that_is_not_as_the_table_says_is_private_all_the_same(stretch: float) -> None:
    mechanism = COMBINATIONS[0].mechanism()
    assert worst(mechanism, 1, 50, lambda gradient: stretch * gradient) <= 1


@pytest.mark.parametrize(
    "combination",
    [
        Combination(Euclidean(), L1Ball(3, 1.0), "l1"),
        Combination(Euclidean(), Simplex(3), "linf"),
        Combination(Mahalanobis(Q), BOX, "l1"),
        Combination(Entropy(), Simplex(3), "l2"),
    ],
)
def test_norms_without_a_proved_radius_are_refused(combination) -> None:
    with pytest.raises(ValueError, match=f"norm {combination.norm} is not offered"):
        combination.mechanism()
