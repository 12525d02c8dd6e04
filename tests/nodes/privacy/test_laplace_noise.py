"""What leaves a mechanism has the noise that is claimed: scale, bias, lattice, audit (privacy.md 7).

Every test runs both forms of `laplace`, and fails on a fault planted in the sampler.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from nodes.privacy.exact import ExactSampler
from nodes.values import FloatArray
from topology.keyed import generator

THETA = 0.5


class Scaled:
    """The fault: noise of `factor` times the scale."""

    simulated = False

    def __init__(self, factor: float) -> None:
        self.factor, self.inner = factor, ExactSampler()

    def laplace(self, round, values, scale):
        return self.inner.laplace(round, values, scale * self.factor)


class Shifted(ExactSampler):
    """The fault: noise with a mean of a tenth of its scale."""

    def laplace(self, round, values, scale):
        return super().laplace(round, values, scale) + round_half(scale / 10)


class Floats:
    """The fault: numpy's noise, added in floats."""

    simulated = False

    def laplace(self, round, values, scale):
        return values + scale * generator("fault").laplace(size=values.shape)


class Coarse(ExactSampler):
    """The fault: noise on a grid twice as coarse as the values': their parity shows."""

    def laplace(self, round, values, scale):
        return values + 2 * super().laplace(round, np.zeros_like(values), scale / 2)


class Gaussian:
    """The fault: noise of the right mean size and the wrong shape."""

    simulated = False

    def laplace(self, round, values, scale):
        normal = generator("fault").normal(scale=scale * math.sqrt(math.pi / 2), size=values.shape)
        return values + np.rint(normal).astype(np.int64)


def round_half(value: float) -> int:
    return math.floor(value + 0.5)


# ------------------------------------------------------------------------------------ two-sided scale


def has_scale(noise: FloatArray, scale: float) -> bool:
    """Whether the sample is from a Laplace distribution of that scale (Kolmogorov-Smirnov distance < 0.02).

    With 20,000 values the right scale fails once in 10^7 runs, and 0.8x or 1.25x, 0.041 away, pass as seldom.
    """
    return bool(stats.kstest(noise.ravel(), stats.laplace(scale=scale).cdf).statistic < 0.02)


def noise(laplace: Callable, sampler: object, silent: object, epsilon: Fraction) -> tuple[FloatArray, float]:
    gradients = np.tile([[0.1, -0.2]], (10_000, 1, 1))
    case = laplace(sampler, epsilon)
    return case.release(gradients) - laplace(silent, epsilon).release(gradients), case.scale


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 1000), Fraction(50)])
def test_the_right_scale_passes(laplace, silent, epsilon) -> None:
    assert has_scale(*noise(laplace, ExactSampler(), silent, epsilon))


@pytest.mark.parametrize("fault", [Scaled(0.8), Scaled(1.25), Gaussian()])
def test_wrong_scales_and_shapes_fail(laplace, silent, fault) -> None:
    assert not has_scale(*noise(laplace, fault, silent, Fraction(1)))


def test_the_scale_that_is_said_is_that_of_the_formulas(laplace, silent) -> None:
    case = laplace(silent)
    assert case.mechanism.noise_scale(3) == pytest.approx(case.scale, rel=1e-8)
    assert case.mechanism.noise_scale(3) >= case.scale


# --------------------------------------------------------------------------------------------- bias


def is_unbiased(laplace: Callable, sampler: object, silent: object) -> bool:
    """Whether the mean of 20,000 releases is that of the un-noised value within five standard errors."""
    gradients = np.tile([[0.1, -0.2]], (20_000, 1, 1))
    case = laplace(sampler)
    errors = case.release(gradients) - laplace(silent).release(gradients)
    allowed = 5 * math.sqrt(2) * case.scale / math.sqrt(len(gradients))
    return bool((np.abs(errors.mean(0)) < allowed).all())


def test_the_noise_has_no_bias(laplace, silent) -> None:
    assert is_unbiased(laplace, ExactSampler(), silent)


def test_a_biased_noise_fails(laplace, silent) -> None:
    assert not is_unbiased(laplace, Shifted(), silent)


def test_within_the_bound_the_clip_changes_nothing(laplace, silent) -> None:
    gradients = np.array([[[0.1, -0.2]], [[0.0, 0.0]], [[-0.3, 0.2]]])
    case = laplace(silent)
    np.testing.assert_allclose(case.release(gradients), case.update(gradients[:, 0]), rtol=0, atol=case.step)


# ------------------------------------------------------------------------------------------ lattice


def on_lattice(case: object, releases: FloatArray) -> bool:
    """Whether every release is one that integers alone could have made, bit for bit."""
    integers = np.rint((releases - case.offset) / case.step)
    return np.array_equal(case.offset + integers * case.step, releases)


def reachable(laplace: Callable, sampler: object, shift: int) -> set[int | float]:
    """Return the releases seen within three steps of the offset, in steps, with noise of about two steps.

    The gradient moves the value by `shift` steps. Any step is missed in 4,000 draws once in 10^57 runs.
    """
    least = laplace(sampler, Fraction(2**29), dimension=1)
    slope = float(least.update(np.ones(1) * THETA)[0] - least.offset[0]) / THETA
    gradients = np.full((4_000, 1, 1), shift * least.step / slope)
    steps = (least.release(gradients) - least.offset).ravel() / least.step
    return {float(np.round(step, 4)) for step in steps if abs(step) < 3.5}


@pytest.mark.parametrize("gradient", [[0.0, 0.0], [0.1, -0.2], [0.5, 1e300]])
def test_releases_stand_on_a_public_lattice(laplace, gradient) -> None:
    case = laplace(ExactSampler())
    assert on_lattice(case, case.release(np.tile(gradient, (500, 1, 1))))


def test_numpy_noise_leaves_the_lattice(laplace) -> None:
    case = laplace(Floats())
    assert not on_lattice(case, case.release(np.zeros((500, 1, 2))))


def test_neighbours_reach_the_same_releases(laplace) -> None:
    ours = [reachable(laplace, ExactSampler(), shift) for shift in (0, 1)]
    assert ours[0] == ours[1] == {float(step) for step in range(-3, 4)}


@pytest.mark.parametrize("fault", [Floats(), Coarse()])
def test_noise_that_shows_the_value_reaches_other_releases(laplace, fault) -> None:
    assert reachable(laplace, fault, 0) != reachable(laplace, fault, 1)


# -------------------------------------------------------------------------------------------- audit


def epsilon_lower_bound(first: FloatArray, second: FloatArray, confidence: float = 0.95) -> float:
    """Return a lower bound on epsilon from samples of the releases on two neighbouring inputs.

    For 20 thresholds, and both tails: ln of (least probability under `first`)/(largest under `second`), each
    Clopper-Pearson, Bonferroni over the 40 events and their two sides.
    """
    thresholds = np.quantile(np.concatenate([first, second]), np.linspace(0.02, 0.98, 20))
    error = (1 - confidence) / 80
    bounds = []
    for sign in (1, -1):
        ones = (sign * first[:, None] > sign * thresholds).sum(0)
        twos = (sign * second[:, None] > sign * thresholds).sum(0)
        low = stats.beta.ppf(error, np.maximum(ones, 1), first.size - ones + 1) * (ones > 0)
        high = stats.beta.ppf(1 - error, twos + 1, np.maximum(second.size - twos, 1))
        bounds.append(np.log(np.maximum(low, 1e-300) / high))
    return float(np.max(bounds))


def audited(laplace: Callable, sampler: object) -> float:
    case = laplace(sampler, dimension=1)
    first, second = (case.release(np.full((40_000, 1, 1), sign * THETA)).ravel() for sign in (-1.0, 1.0))
    return max(epsilon_lower_bound(first, second), epsilon_lower_bound(second, first))


def test_the_audit_stays_under_the_claim_and_near_it(laplace) -> None:
    assert 0.9 < audited(laplace, ExactSampler()) <= 1.0


def test_the_audit_rejects_noise_that_is_too_little_by_1_2(laplace) -> None:
    assert audited(laplace, Scaled(1 / 1.2)) > 1.0
