"""The audit of a person: all rounds together show what one cannot, a unit bounds that."""

import math
from fractions import Fraction

import numpy as np
import pytest

from nodes.algorithms import InverseSqrt
from nodes.audit import audit_person, claimed_of_person, most_certified
from nodes.geometry.constraints import L1Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters

RUNS, K, APART, DELTA = 1_000, 5, 4, 1e-6
ONE = Fraction(1)


class Seeded:
    """Noise of a seed, which the audit takes for exact. `less`: how many times too little."""

    simulated = False

    def __init__(self, less=1.0):
        self._random, self._less = np.random.default_rng(7), less

    def laplace(self, round, values, scale):
        return values + np.rint(self._random.laplace(0, scale / self._less, values.shape)).astype(np.int64)

    def gaussian(self, round, values, scale):
        return values + np.rint(self._random.normal(0, scale / self._less, values.shape)).astype(np.int64)

    def sphere(self, round, shape):
        normals = self._random.normal(size=shape)
        return normals / np.linalg.norm(normals, axis=-1, keepdims=True), self._random.random(shape[:-1])

    def randomised(self, round, bits, epsilon):
        return bits ^ (self._random.random(bits.shape) >= 1 / (1 + math.exp(-float(epsilon))))


def parameters(epsilon, sampler):
    return LaplaceParameters(0.5, "l2", epsilon, Euclidean(), L1Ball(2, 3.0), InverseSqrt(0.1), sampler)


PURE = {
    "laplace": lambda epsilon, sampler: LaplaceGradient(1.0, epsilon, 10, 3, sampler),
    "l2-sphere": lambda epsilon, sampler: L2Sphere(1.0, epsilon, 1, 3, sampler),
    "parameters": parameters,
}
GAUSSIAN = {
    "gaussian": lambda k, b, sampler: GaussianGradient(1.0, ONE, DELTA, 10, 3, sampler, releases=k),
    "gaussian-bisr": lambda k, b, sampler: GaussianBisr(
        1.0, ONE, DELTA, 10, 3, sampler, 8, releases=k, apart=b
    ),
}


@pytest.mark.parametrize("name", PURE)
def test_a_person_without_a_unit_one_with_it_and_the_control(name):
    plain, bounded = PURE[name](ONE, Seeded()), PURE[name](ONE / K, Seeded())
    several = audit_person(plain, 100, 1, RUNS)
    assert 5 < several.lower_bound < most_certified(RUNS, 0.95) < 6
    assert several.claimed == 100
    of_unit, control = audit_person(bounded, K, APART, RUNS), audit_person(plain, 1, 1, RUNS)
    assert of_unit.lower_bound < of_unit.claimed == 1
    assert 0.2 < control.lower_bound < control.claimed == 1


@pytest.mark.parametrize("name", GAUSSIAN)
def test_the_same_with_gaussian_noise(name):
    plain, bounded = GAUSSIAN[name](1, 1, Seeded()), GAUSSIAN[name](K, APART, Seeded())
    several = audit_person(plain, 100, 1, RUNS)
    assert 5 < several.lower_bound < several.claimed
    of_unit = audit_person(bounded, K, APART, RUNS)
    assert of_unit.lower_bound < of_unit.claimed == pytest.approx(1, rel=1e-4)
    assert audit_person(plain, 1, 1, RUNS).lower_bound < 1


def test_a_unit_that_is_priced_as_one_record_is_refuted():
    assert audit_person(PURE["laplace"](ONE / K, Seeded(K)), K, APART, 2 * RUNS).refuted
    for made in GAUSSIAN.values():
        assert audit_person(made(K, APART, Seeded(K)), K, APART, 2 * RUNS).refuted


def test_gaussian_claims_grow_with_the_rounds_and_correlated_ones_faster_when_near():
    plain, correlated = (made(1, 1, Seeded()) for made in GAUSSIAN.values())
    assert claimed_of_person(plain, 4, 1) == claimed_of_person(plain, 4, 9)
    near, far = claimed_of_person(correlated, 4, 1), claimed_of_person(correlated, 4, 100)
    assert near > far > claimed_of_person(correlated, 1, 1)


def test_simulated_noise_is_refused():
    with pytest.raises(ValueError, match="simulated"):
        audit_person(PURE["laplace"](ONE, SimulatedSampler(0, "a")), 5)
