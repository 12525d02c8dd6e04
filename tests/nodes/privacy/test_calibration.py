"""The Gaussian scale: against published numbers, an integral, and sums over the lattice itself."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from nodes.accounting.calibration import (
    analytic_scale,
    classic_scale,
    discrete_delta,
    gaussian_delta,
    gaussian_epsilon,
)

DELTA = 2**31
LARGEST = 2.0**56


def reference_delta(epsilon: float, mu: float) -> float:
    """G as the integral of mu e^(-mu r) P[Z > epsilon/mu - mu/2 + r] over r, in which nothing cancels."""
    near = epsilon / mu - mu / 2
    first = stats.norm.logsf(near)
    unit = 1 / (1 + mu + max(near, 0.0))

    def weight(x: float) -> float:
        return math.exp(-mu * x * unit + stats.norm.logsf(near + x * unit) - first)

    reach = 50 + max(-near, 0.0) / unit
    parts = (integrate.quad(weight, a, b, epsrel=1e-11)[0] for a, b in ((0, 5), (5, 50), (50, reach + 50)))
    return mu * unit * math.exp(first) * sum(parts)


def true_delta(epsilon: float, shift: tuple[int, ...], scale: float) -> float:
    """The delta of discrete Gaussian noise between 0 and `shift`, summed over the lattice."""
    reach = np.arange(-int(12 * scale) - 20, int(12 * scale) + 21)
    here, there = np.ones(1), np.ones(1)
    total = np.exp(-(reach.astype(float) ** 2) / (2 * scale**2)).sum()
    for k in shift:
        here = np.multiply.outer(here, np.exp(-(reach.astype(float) ** 2) / (2 * scale**2)) / total)
        there = np.multiply.outer(there, np.exp(-((reach - k).astype(float) ** 2) / (2 * scale**2)) / total)
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


# ------------------------------------------------------------------------------------------- formula


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 7.0, 100.0, 1e5])
@pytest.mark.parametrize("near", [-4.0, 0.0, 2.0, 4.5, 8.0, 20.0])
def test_delta_is_that_of_the_integral_and_not_below(epsilon: float, near: float) -> None:
    mu = 2 * epsilon / (near + math.sqrt(near * near + 2 * epsilon))  # epsilon/mu - mu/2 = near
    ours, theirs = gaussian_delta(epsilon, mu), reference_delta(epsilon, mu)
    assert theirs * (1 - 1e-9) <= ours <= theirs * (1 + 1e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "expected"),
    [("1", 1e-6, 4.2247), ("1", 1e-5, 3.73063), ("0.1", 1e-6, 36.305), ("10", 1e-6, 0.54109)],
)
def test_the_analytic_scale_is_the_published_one(epsilon: str, delta: float, expected: float) -> None:
    scale = analytic_scale(Fraction(epsilon), delta, DELTA, 10, LARGEST)
    assert scale / DELTA == pytest.approx(expected, rel=2e-5)


@pytest.mark.parametrize("epsilon", ["0.00001", "0.3", "1", "4", "1000", "100000"])
@pytest.mark.parametrize("delta", [1e-30, 1e-6, 0.5, 0.999])
def test_the_analytic_scale_gives_delta_and_no_less_noise_does(epsilon: str, delta: float) -> None:
    exact = Fraction(epsilon)
    scale = analytic_scale(exact, delta, DELTA, 10, LARGEST)
    assert reference_delta(float(exact), DELTA / scale) <= delta * (1 + 1e-10)
    assert reference_delta(float(exact), DELTA / scale * (1 + 1e-6)) > delta


def test_the_classic_scale_is_the_formula_and_holds() -> None:
    scale = classic_scale(Fraction(1), 1e-6, DELTA, 2, LARGEST)
    assert scale / DELTA == pytest.approx(math.sqrt(2 * math.log(2e6)), rel=1e-9)
    assert gaussian_delta(1.0, DELTA / scale) < 1e-6


def test_classic_is_refused_above_epsilon_1_where_it_fails() -> None:
    with pytest.raises(ValueError, match=r"epsilon is 1\.01: must be at most 1 with calibration classic"):
        classic_scale(Fraction("1.01"), 1e-6, DELTA, 2, LARGEST)
    assert gaussian_delta(20.0, 20.0 / math.sqrt(2 * math.log(2e6))) > 1e-6  # what is kept from the user


@pytest.mark.parametrize("scale_of", [analytic_scale, classic_scale])
def test_noise_that_leaves_64_bits_is_refused(scale_of) -> None:
    with pytest.raises(ValueError, match="epsilon is 1e-08: with delta 1e-30 so much noise leaves 64 bits"):
        scale_of(Fraction("1e-8"), 1e-30, DELTA, 2, 2.0**50)


def test_noise_below_the_grid_is_refused() -> None:
    with pytest.raises(ValueError, match=r"epsilon is 100000: with delta 0\.5 so little noise falls below"):
        analytic_scale(Fraction(100_000), 0.5, 100, 2, LARGEST)


@given(st.floats(0.01, 20.0), st.floats(1e-12, 0.3))
def test_epsilon_of_mu_is_the_inverse(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert epsilon == 0 or gaussian_delta(epsilon * (1 - 1e-6), mu) > delta * (1 - 1e-9)


# ------------------------------------------------------------------------------------ discretisation


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.7, 6.0),
    st.lists(st.integers(-4, 4), min_size=1, max_size=2).filter(any),
    st.floats(0.0, 4.0),
)
def test_the_bound_holds_for_the_discrete_noise_itself(
    scale: float, shift: list[int], epsilon: float
) -> None:
    """At scales this small discretisation matters: the bound must be above the sum over the lattice."""
    bound = discrete_delta(epsilon, math.hypot(*shift), scale, len(shift))
    assert true_delta(epsilon, tuple(shift), scale) <= bound * (1 + 1e-9) + 1e-13


def test_without_its_two_terms_the_bound_would_not_hold() -> None:
    scale, shift = 0.7, (1,)
    found = [
        true_delta(epsilon, shift, scale) > gaussian_delta(epsilon, 1 / scale)
        for epsilon in np.linspace(0, 3, 50)
    ]
    assert any(found)


def test_at_real_scales_discretisation_costs_next_to_nothing() -> None:
    scale = 4.2247 * DELTA
    discrete, continuous = discrete_delta(1.0, DELTA, scale, 1000), gaussian_delta(1.0, DELTA / scale)
    assert continuous < discrete < continuous * (1 + 1e-7)
