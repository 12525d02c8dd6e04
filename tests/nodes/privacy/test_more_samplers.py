"""Gaussian noise, directions and coins: exact, and simulated."""

import math
import traceback
from fractions import Fraction

import numpy as np
import pytest

from nodes.checks import rounded_up
from nodes.privacy.exact import ExactSampler, SamplerError, SimulatedSampler
from nodes.privacy.l2_sphere import directions
from tests.support.oracles.samplers import opendp_laplace

SCALE = 2.0**31
ZEROS = np.zeros(3, dtype=np.int64)
EPSILONS = [Fraction(1, 10), Fraction(1), Fraction(3)]


def draws(sampler, round: int) -> dict[str, bytes]:
    """Return one round's draws of every kind."""
    vectors, fractions = sampler.sphere(round, (4, 3))
    coins = sampler.randomised(round, np.ones(40, dtype=bool), Fraction(1, 10))
    return {
        "laplace": sampler.laplace(round, ZEROS, SCALE).tobytes(),
        "gaussian": sampler.gaussian(round, ZEROS, SCALE).tobytes(),
        "sphere": vectors.tobytes(),
        "fractions": fractions.tobytes(),
        "coins": coins.tobytes(),
    }


# ------------------------------------------------------------------------------------------- simulated


def test_simulated_draws_are_functions_of_seed_node_and_round_alone() -> None:
    forward = {round: draws(SimulatedSampler(7, "east"), round) for round in (1, 63, 64, 150)}
    one = SimulatedSampler(7, "east")
    assert {round: draws(one, round) for round in (150, 64, 63, 1)} == forward


@pytest.mark.parametrize("kind", ["laplace", "gaussian", "sphere", "fractions", "coins"])
def test_simulated_draws_differ_by_seed_node_and_round(kind: str) -> None:
    samplers = [SimulatedSampler(seed, node) for seed in (1, 2) for node in ("a", "b")]
    seen = [draws(sampler, round)[kind] for sampler in samplers for round in (1, 2, 64, 65)]
    assert len(set(seen)) == len(seen)


def test_the_noises_of_one_node_are_not_made_of_the_same_numbers() -> None:
    sampler = SimulatedSampler(1, "a")
    one, two = sampler.laplace(1, ZEROS, SCALE), sampler.gaussian(1, ZEROS, SCALE)
    assert (np.sign(one) != np.sign(two)).any() or abs(np.corrcoef(one, two)[0, 1]) < 0.99
    fractions = sampler.sphere(1, (1000, 1))[1]
    coins = sampler.randomised(1, np.ones(1000, dtype=bool), Fraction(1))
    assert abs(np.corrcoef(fractions, coins)[0, 1]) < 0.2


def test_an_array_over_nodes_draws_what_each_draws_alone() -> None:
    names = ("a", "b", "c")
    many, ones = SimulatedSampler(7, names), [SimulatedSampler(7, name) for name in names]
    zeros = np.zeros((3, 5), dtype=np.int64)
    bits = np.arange(12).reshape(3, 4) % 2 == 0
    for round in (1, 64, 65):
        for kind in ("laplace", "gaussian"):
            rows = [getattr(one, kind)(round, zeros[0], SCALE) for one in ones]
            np.testing.assert_array_equal(getattr(many, kind)(round, zeros, SCALE), rows)
        for k, values in enumerate(many.sphere(round, (3, 4, 5))):
            np.testing.assert_array_equal(values, [one.sphere(round, (4, 5))[k] for one in ones])
        coins = [one.randomised(round, row, Fraction(1)) for one, row in zip(ones, bits, strict=True)]
        np.testing.assert_array_equal(many.randomised(round, bits, Fraction(1)), coins)


def test_a_wide_round_is_drawn_alone_and_is_the_same_again() -> None:
    wide = np.zeros(1 << 17, dtype=np.int64)
    one = SimulatedSampler(7, "a")
    first = one.gaussian(5, wide, SCALE)
    one.gaussian(6, wide, SCALE)
    np.testing.assert_array_equal(one.gaussian(5, wide, SCALE), first)
    assert one._kept["gaussian"][2].shape == (1, 1 << 17)


@pytest.mark.parametrize("nodes", ["a", ("a", "b")])
def test_other_shapes_are_refused(nodes) -> None:
    sampler = SimulatedSampler(0, nodes)
    for shape in ((3, 5), (2, 3, 5)):
        with pytest.raises(ValueError, match="simulated noise is that of"):
            sampler.gaussian(1, np.zeros(shape, dtype=np.int64), 1.0)
    with pytest.raises(ValueError, match="simulated noise is that of"):
        sampler.sphere(1, (5,))


# ------------------------------------------------------------------------------------------------ both


@pytest.mark.parametrize("sampler", [ExactSampler(), SimulatedSampler(3, "a")])
def test_gaussian_noise_is_added_and_has_the_scale(sampler) -> None:
    values = np.arange(20_000, dtype=np.int64)
    drawn = sampler.gaussian(1, values, SCALE) - values
    assert drawn.dtype == np.int64
    assert drawn.std() == pytest.approx(SCALE, rel=0.04)
    assert abs(drawn.mean()) < 0.05 * SCALE
    assert values.tolist() == list(range(20_000))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("sampler", [ExactSampler(), SimulatedSampler(3, "a")])
def test_coins_keep_a_bit_with_the_probability_that_epsilon_says(sampler, epsilon: Fraction) -> None:
    kept = 1 / (1 + math.exp(-epsilon))
    for bit in (False, True):
        bits = np.full(20_000, bit)
        share = (sampler.randomised(1, bits, epsilon) == bits).mean()
        assert abs(share - kept) < 5 * math.sqrt(kept * (1 - kept) / 20_000)
        assert (bits == bit).all()


@pytest.mark.parametrize("sampler", [ExactSampler(), SimulatedSampler(3, "a")])
def test_directions_are_uniform_on_the_sphere(sampler) -> None:
    vectors, fractions = sampler.sphere(1, (5_000, 3))
    np.testing.assert_allclose((vectors**2).sum(-1), 1.0, rtol=1e-12)
    assert np.abs(vectors.mean(0)).max() < 5 / math.sqrt(3 * 5_000)
    np.testing.assert_allclose(vectors.T @ vectors / 5_000, np.eye(3) / 3, atol=0.03)
    assert np.quantile(fractions, [0.1, 0.5, 0.9]) == pytest.approx([0.1, 0.5, 0.9], abs=0.04)
    assert abs(np.corrcoef(fractions, vectors[:, 0])[0, 1]) < 0.08


def test_a_direction_of_nothing_is_the_first_axis() -> None:
    assert directions(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist() == [[1.0, 0.0], [0.6, 0.8]]


# ----------------------------------------------------------------------------------------------- exact


def test_exact_draws_never_repeat_and_keep_the_shape() -> None:
    sampler = ExactSampler()
    drawn = [sampler.gaussian(1, np.zeros((2, 50, 3), dtype=np.int64), 2.0**45) for _ in range(2)]
    assert drawn[0].shape == (2, 50, 3)
    assert np.unique(drawn).size == 600
    assert np.unique([sampler.sphere(1, (2, 5, 3))[0] for _ in range(2)]).size == 60


def test_laplace_and_gaussian_of_one_scale_are_told_apart() -> None:
    sampler, zeros = ExactSampler(), np.zeros(5_000, dtype=np.int64)
    for kind, share in (("laplace", math.exp(-2)), ("gaussian", 0.0455), ("laplace", math.exp(-2))):
        drawn = getattr(sampler, kind)(1, zeros, SCALE)
        assert (np.abs(drawn) > 2 * SCALE).mean() == pytest.approx(share, abs=0.025)


@pytest.mark.parametrize("epsilon", [*EPSILONS, Fraction(1, 3), Fraction(7, 3), Fraction(100_000)])
def test_the_coins_ratio_is_never_above_epsilon(epsilon: Fraction) -> None:
    scale = rounded_up(1 / epsilon)
    assert 1 / Fraction(scale) <= epsilon
    theirs = opendp_laplace(scale).map(1)
    assert theirs == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize("value", [2**62, -(2**62), 2**63 - 1])
def test_no_error_of_the_sampler_shows_the_private_value(value: int) -> None:
    with pytest.raises(SamplerError) as caught:
        ExactSampler().gaussian(1, np.array([0, value]), SCALE)
    assert str(value) not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale is"):
        ExactSampler().gaussian(1, ZEROS, scale)
