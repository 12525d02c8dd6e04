"""The price of a unit: against brute force, and against dp-accounting, which shares no code with it."""

import math
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from nodes.accounting.guarantee import Unit
from nodes.accounting.releases import GrowingEpsilon
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.bisr_coefficients import band_matrix
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient


def matrix(bands, rounds):
    """Return C, (rounds, rounds), by inverting the matrix of the coefficients r."""
    inverse, r = np.eye(rounds), 1.0
    for lag in range(1, min(bands, rounds)):
        r *= (lag - 1.5) / lag
        inverse += r * np.eye(rounds, k=-lag)
    return np.linalg.inv(inverse)


def worst(columns, releases, apart):
    """Return the largest norm of a sum of so many columns, `apart` or more, by trying all."""
    rounds = columns.shape[1]
    patterns = [
        pattern
        for count in range(1, releases + 1)
        for pattern in combinations(range(rounds), count)
        if all(later - earlier >= apart for earlier, later in pairwise(pattern))
    ]
    return max(float(np.linalg.norm(columns[:, pattern].sum(1))) for pattern in patterns)


@pytest.mark.parametrize("bands", [1, 2, 3, 4, 8])
def test_correlated_noise_is_bounded_for_every_pattern_of_rounds(bands):
    rounds = 12
    columns = matrix(bands, rounds)
    for releases in range(1, 5):
        for apart in range(1, 9):
            bound, most = band_matrix(bands).unit_norm(releases, apart), worst(columns, releases, apart)
            assert most <= bound
            if (releases - 1) * apart <= rounds // 2:  # so many fit in so short a run
                assert bound <= 1.2 * most


@pytest.mark.parametrize("bands", [2, 16])
@pytest.mark.parametrize(("releases", "apart"), [(2, 1), (5, 4), (20, 50), (3, 10_000)])
def test_the_bound_is_reached_in_a_long_run_and_from_above(bands, releases, apart):
    rho = np.convolve(column := matrix(bands, 3000)[:, 0], column[::-1])[2999:]
    lags = [(releases - j) * rho[j * apart] for j in range(1, releases) if j * apart < 3000]
    exact = math.sqrt(releases * rho[0] + 2 * sum(lags))
    assert exact <= band_matrix(bands).unit_norm(releases, apart) <= exact * (1 + 1e-4)


SETTINGS = [
    (Fraction(epsilon), delta, k)
    for epsilon in ("0.2", "1", "4")
    for delta in (1e-5, 1e-8)
    for k in (1, 2, 5, 20, 100)
]


def delta_at(mu):
    """Return the function from epsilon to delta of Gaussian noise, by dp-accounting."""
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    return accounting.GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon


@pytest.mark.parametrize(("epsilon", "delta", "k"), SETTINGS)
def test_gaussian_noise_of_k_rounds_against_dp_accounting(epsilon, delta, k):
    made = GaussianGradient(1.0, epsilon, delta, 10, 4, SimulatedSampler(0, "a"), releases=k)
    delta_of = delta_at(math.sqrt(k) * made.distance / made.scale)
    assert delta_of(float(epsilon)) <= delta * (1 + 1e-9)
    assert delta_of(float(epsilon) * (1 - 1e-6)) >= delta


@pytest.mark.parametrize(("epsilon", "delta", "k"), SETTINGS)
def test_correlated_noise_of_k_rounds_against_dp_accounting(epsilon, delta, k):
    made = GaussianBisr(1.0, epsilon, delta, 10, 4, SimulatedSampler(0, "a"), 4, releases=k, apart=4)
    rho = np.convolve(column := matrix(4, 2000)[:, 0], column[::-1])[1999:]
    exact = math.sqrt(k * rho[0] + 2 * sum((k - j) * rho[4 * j] for j in range(1, k)))
    delta_of = delta_at(exact * (made.distance << made.finer) / made.scale)
    assert delta_of(float(epsilon)) <= delta
    assert delta_of(float(epsilon) * (1 - 5e-5)) >= delta  # the rounding of 2^40 steps


def test_the_dearest_rounds_of_a_growing_schedule_by_trying_all():
    for rounds, apart in ((7, 1), (10, 3), (12, 5)):
        growing = GrowingEpsilon(Fraction(5), rounds, 2)
        k = -(-rounds // apart)
        unit = Unit("who", k, apart, rounds=rounds)
        seats = [range(first, rounds + 1, apart) for first in range(1, apart + 1)]
        dearest = max(sum(map(growing.epsilon_at, rounds_of)) for rounds_of in seats)
        assert unit.dearest(growing) == dearest
