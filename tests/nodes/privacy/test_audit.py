"""Audits stay under what is claimed, near it, and above it where there is 1.2x too little noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from nodes.algorithms import InverseSqrt
from nodes.audit import (
    Audit,
    audit,
    epsilon_lower_bound,
    lattice_holds,
    mu_lower_bound,
    proportion_bounds,
)
from nodes.geometry.constraints import L1Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.mechanism import Privatised
from nodes.privacy.reveal import opened
from nodes.values import Release
from topology.keyed import generator

EXACT = ExactSampler()


class TooLittle(ExactSampler):
    """The fault: 1.2x too little noise, in every form."""

    def laplace(self, round, values, scale):
        return super().laplace(round, values, scale / 1.2)

    def gaussian(self, round, values, scale):
        return super().gaussian(round, values, scale / 1.2)

    def randomised(self, round, bits, epsilon):
        kept = 1 / (1 + math.exp(-1.2 * epsilon))
        turned = generator("audit", int(bits.sum()), bits.size).random(bits.shape) >= kept
        return bits ^ turned


def laplace(sampler=EXACT, batch=1, dimension=1):
    return LaplaceGradient(0.5, Fraction(1), batch, dimension, sampler)


def parameters(sampler=EXACT, dimension=1):
    sets, steps = L1Ball(dimension, 3.0), InverseSqrt(0.1)
    return LaplaceParameters(0.5, "l2", Fraction(1), Euclidean(), sets, steps, sampler)


def gaussian(sampler=EXACT, batch=1, dimension=1, calibration="analytic", epsilon=8):
    return GaussianGradient(0.5, Fraction(epsilon), 1e-6, batch, dimension, sampler, calibration)


def sphere(sampler=EXACT, batch=1, dimension=1):
    return L2Sphere(0.5, Fraction(1), batch, dimension, sampler)


ALL = [laplace, parameters, gaussian, sphere]


# ------------------------------------------------------------------------------------------- statistics


@pytest.mark.parametrize("successes", [0, 1, 30, 500, 999, 1000])
def test_the_bounds_of_a_proportion_hold_clopper_and_pearsons(successes: int) -> None:
    """Theirs are the tightest that hold for every proportion, so ours must contain them; not by much."""
    low, high = proportion_bounds(successes, 1000, 0.025)
    exact = stats.binomtest(successes, 1000).proportion_ci(0.95)
    rounding = 1e-14  # theirs, another from one scipy to the next
    assert low - rounding <= exact.low <= exact.high <= high + rounding
    assert high - low < 2 * (exact.high - exact.low)


def test_bounds_of_epsilon_hold_at_their_confidence() -> None:
    """Randomised response of epsilon = 1, 200 audits: at most 5 % may be above; the slack keeps it below."""
    random = generator("audit test")
    kept = 1 / (1 + math.exp(-1.0))
    bounds = []
    for _ in range(200):
        first, second = (random.random(400) < kept, random.random(400) >= kept)
        bounds.append(epsilon_lower_bound(first.astype(float), second.astype(float)))
    assert sum(bound > 1 for bound in bounds) <= 10
    assert np.median(bounds) > 0.5


def test_bounds_of_mu_are_near_and_below() -> None:
    random = generator("audit test")
    first, second = random.normal(size=20_000), random.normal(size=20_000) + 1.5
    assert 1.35 < mu_lower_bound(first, second) <= 1.5
    assert 1.35 < mu_lower_bound(-first, -second) <= 1.5


def test_delta_weakens_the_bound() -> None:
    random = generator("audit test")
    first, second = random.laplace(size=20_000), random.laplace(size=20_000) + 1
    bounds = [epsilon_lower_bound(first, second, delta=delta) for delta in (0.0, 0.05, 0.5)]
    assert bounds[0] > bounds[1] > bounds[2] == 0


def test_the_search_for_an_event_is_not_paid_for_with_confidence() -> None:
    """Equal inputs: chosen and judged on one sample, the best of 396 events would be above 0 in 70 %."""
    random = generator("audit test")
    bounds = [epsilon_lower_bound(*random.normal(size=(2, 100)), confidence=0.3) for _ in range(60)]
    assert sum(bound > 0 for bound in bounds) <= 12


def test_an_event_is_not_chosen_for_its_luck() -> None:
    """The best of 396 at the level of the judgement is, once in these 30, one whose bound is below 0.5."""
    bounds = []
    for run in range(30):
        random = generator("luck", run)
        bounds.append(epsilon_lower_bound(random.laplace(size=10_000), random.laplace(size=10_000) + 1))
    assert min(bounds) > 0.7
    assert max(bounds) <= 1


def test_the_same_input_twice_shows_nothing() -> None:
    random = generator("audit test")
    assert epsilon_lower_bound(random.normal(size=2_000), random.normal(size=2_000)) < 0.1
    assert mu_lower_bound(np.zeros(100), np.zeros(100)) == 0


def test_no_noise_at_all_is_a_large_bound() -> None:
    assert epsilon_lower_bound(np.zeros(10_000), np.ones(10_000)) > 7
    assert mu_lower_bound(np.zeros(10_000), np.ones(10_000)) > 6


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_a_confidence_that_is_none_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence is"):
        epsilon_lower_bound(np.zeros(9), np.ones(9), confidence)


def test_an_audit_needs_draws() -> None:
    with pytest.raises(ValueError, match="at least two draws"):
        mu_lower_bound(np.zeros(1), np.ones(9))


# ------------------------------------------------------------------------------------------- mechanisms


@pytest.mark.parametrize("mechanism", ALL)
def test_the_audit_stays_under_the_claim_and_near_it(mechanism) -> None:
    found = audit(mechanism(), draws=20_000, confidence=0.9999)  # at 0.95 one run in 20 may refute the truth
    assert 0.7 * found.claimed < found.lower_bound <= found.claimed
    assert not found.refuted


@pytest.mark.parametrize("mechanism", ALL)
def test_the_audit_refutes_noise_that_is_too_little_by_1_2(mechanism) -> None:
    assert audit(mechanism(TooLittle()), draws=60_000).refuted


def test_an_audit_of_slots_of_several_records_in_several_dimensions() -> None:
    for mechanism in (
        laplace(batch=3, dimension=3),
        gaussian(batch=3, dimension=3),
        sphere(batch=3, dimension=3),
    ):
        assert 0 < audit(mechanism, draws=4_000).lower_bound <= float(mechanism.epsilon)


def test_classic_noise_is_held_to_what_it_gives() -> None:
    found = audit(gaussian(calibration="classic", epsilon=1), draws=2_000)
    assert found.claimed == pytest.approx(0.771, abs=0.01)  # the analytic epsilon of that scale


def test_an_audit_says_what_it_is_worth() -> None:
    assert audit(laplace(), draws=100, confidence=0.5)[1:] == (1.0, 0.5, 100)
    assert Audit(1.01, 1.0, 0.95, 10).refuted


def test_simulated_noise_is_not_audited() -> None:
    with pytest.raises(ValueError, match="simulated"):
        audit(laplace(SimulatedSampler(0, "a")))


# ------------------------------------------------------------------------------------------- lattice


@pytest.mark.parametrize(
    "mechanism",
    [
        laplace(batch=3, dimension=3),
        parameters(dimension=3),
        gaussian(batch=3, dimension=3),
        sphere(batch=3, dimension=3),
    ],
)
def test_the_lattice_holds(mechanism) -> None:
    assert lattice_holds(mechanism)


class Floats(ExactSampler):
    """The fault: numpy's noise, added in floats."""

    def laplace(self, round, values, scale):
        return values + scale * generator("fault", round).laplace(size=values.shape)

    def gaussian(self, round, values, scale):
        return values + scale * generator("fault", round).normal(size=values.shape)


class Afterwards(LaplaceGradient):
    """The fault: a little of the gradients is added to what was noised."""

    def privatise(self, round, gradients, update, secret=None):
        made = super().privatise(round, gradients, update)
        leak = np.nan_to_num(opened(gradients)).sum(-2) * 1e-9
        return Privatised(Release(made.release + leak), made.clipped, made.broken)


class ByCount(GaussianGradient):
    """The fault: the mean over the records that are there."""

    def privatise(self, round, gradients, update, secret=None):
        made = super().privatise(round, gradients, update)
        return Privatised(Release(made.release / max(1, len(opened(gradients)))), made.clipped, made.broken)


class Length(L2Sphere):
    """The fault: a short gradient becomes a short vector."""

    def privatise(self, round, gradients, update, secret=None):
        size = 1 + np.nan_to_num(opened(gradients)).sum()
        return super().privatise(round, gradients, lambda estimate: update(estimate * size))


@pytest.mark.parametrize(
    "mechanism",
    [
        laplace(Floats(), 3, 3),
        gaussian(Floats(), 3, 3),
        Afterwards(0.5, Fraction(1), 3, 3, EXACT),
        ByCount(0.5, Fraction(1), 1e-6, 3, 3, EXACT),
        Length(0.5, Fraction(1), 3, 3, EXACT),
    ],
)
def test_the_lattice_test_finds_what_a_statistic_cannot_see(mechanism) -> None:
    assert not lattice_holds(mechanism)
