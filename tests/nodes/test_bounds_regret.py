"""The bounds' formulas: by hand, monotone, and with sums that are never too small."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.algorithms import Constant, Inverse, InverseSqrt, ShiftedInverse
from nodes.bounds import (
    Geometry,
    Network,
    growth,
    of_any_decisions,
    total,
    with_noise_on_gradients,
    with_noise_on_parameters,
)

STEPS = [Constant(0.3), InverseSqrt(0.5), Inverse(2.0), ShiftedInverse(2.0, 5.0)]
SMALL = Network(
    nodes=4,
    rounds=2,
    geometry=Geometry(diameter=10.0, modulus=2.0, smoothness=8.0, divergence=16.0),
    step_size=Constant(0.5),
    gradient=3.0,
    slope=5.0,
    noise=lambda _: 4.0,
    left=0.25,
)


def test_noise_on_gradients_by_hand():
    # G = 5; D/alpha = 32; alpha G^2/(2 omega) = 3.125 a round; K sqrt(N) S alpha G/omega = 3.125 a round
    assert with_noise_on_gradients(SMALL) == pytest.approx(4 * (32 + 2 * 3.125 + 2 * 3.125))


def test_a_lasso_step_adds_its_shift():
    shifted = replace(SMALL, shift=0.7)
    more = with_noise_on_gradients(shifted) - with_noise_on_gradients(SMALL)
    assert more == pytest.approx(4 * 5 * 0.7 * 0.5 * 2)


def test_noise_on_parameters_by_hand():
    # kappa = 2; only q_2 has noise: 4. M/2 16/alpha = 128; K kappa 4 = 40
    # theta^2 alpha/(2 omega) = 1.125 a round; apart: K kappa sqrt(N) S (0.75 + 0.75 + 3 * 4) = 67.5
    assert with_noise_on_parameters(SMALL) == pytest.approx(4 * (32 + 2.25 + 128 + 40 + 67.5))


def test_the_distance_between_nodes_is_at_most_the_diameter():
    # 3/4 of 10 in each of two rounds
    apart = 4 * 5 * 0.75 * 10 * 2
    never = replace(SMALL, left=math.inf)
    for bound in (with_noise_on_gradients, with_noise_on_parameters):
        own = bound(replace(SMALL, left=0.0))
        assert bound(never) == pytest.approx(own + apart)


def test_one_node_has_nobody_to_differ_from():
    alone = replace(SMALL, nodes=1)
    for bound in (with_noise_on_gradients, with_noise_on_parameters):
        assert bound(alone) == bound(replace(alone, left=1e9))


def test_the_entropy_has_no_bound_with_noise_on_parameters():
    edge = replace(SMALL, geometry=SMALL.geometry._replace(smoothness=math.inf))
    assert with_noise_on_parameters(edge) == math.inf
    assert with_noise_on_gradients(edge) == with_noise_on_gradients(SMALL)


def test_any_decisions():
    assert of_any_decisions(SMALL) == 4 * 2 * 3 * 10


@pytest.mark.parametrize("bound", [with_noise_on_gradients, with_noise_on_parameters])
@given(
    steps=st.sampled_from(STEPS),
    rounds=st.integers(1, 3000),
    noise=st.floats(0, 100),
    gradient=st.floats(0.01, 100),
    left=st.floats(0, 100),
)
def test_bounds_grow_with_all_that_is_bad(bound, steps, rounds, noise, gradient, left):
    here = replace(
        SMALL, step_size=steps, rounds=rounds, gradient=gradient, noise=lambda t: noise * steps(t), left=left
    )
    worse = [
        replace(here, rounds=rounds + 1),
        replace(here, gradient=2 * gradient),
        replace(here, noise=lambda t: 2 * noise * steps(t)),
        replace(here, left=left + 1),
        replace(here, slope=2 * here.slope),
        replace(here, geometry=here.geometry._replace(divergence=17.0)),
    ]
    assert all(bound(one) >= bound(here) * (1 - 1e-12) for one in worse)


@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: type(steps).__name__)
@pytest.mark.parametrize("strong", [0.0, 0.1, 0.4, 0.5, 3.0])
@pytest.mark.parametrize("rounds", [1, 2, 3, 50, 777])
def test_the_growth_of_inverse_steps_is_the_sum_of_what_is_left(steps, strong, rounds):
    inverses = [0.0, *(1 / steps(t) for t in range(1, rounds + 1))]
    expected = math.fsum(max(0.0, after - before - strong) for before, after in pairwise(inverses))
    assert growth(steps, rounds, strong) == pytest.approx(expected, abs=1e-9)


def test_strong_convexity_takes_inverse_steps_for_nothing():
    assert growth(Inverse(2.0), 10_000, 0.5) == 0.0
    assert growth(Inverse(2.0), 10_000, 0.4) == pytest.approx(0.1 * 10_000)


@given(st.floats(0, 3), st.integers(1, 40_000))
def test_sums_are_never_too_small_nor_far_off(power, rounds):
    exact = math.fsum(t**-power for t in range(1, rounds + 1))
    assert exact * (1 - 1e-12) <= total(lambda t: t**-power, rounds) <= exact * 1.016


def test_no_rounds_and_very_many():
    assert total(lambda t: 1.0 / t, 0) == 0.0
    calls = []
    found = total(lambda t: calls.append(t) or t**-0.5, 10**9)
    assert 2 * math.sqrt(10**9) < found * 1.0001
    assert found < 2.02 * math.sqrt(10**9)
    assert len(calls) < 3000
