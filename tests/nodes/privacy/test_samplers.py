import math
import traceback

import numpy as np
import opendp.prelude as dp
import pytest

from nodes.decimals import decimal
from nodes.privacy.exact import ExactSampler, SamplerError, _laplace_measure
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.simulated import SimulatedSampler

SCALE = 2.0**31


def noise(sampler: SimulatedSampler, rounds: range, dimension: int = 3) -> list[list[int]]:
    zeros = np.zeros(dimension, dtype=np.int64)
    return [sampler.laplace(round, zeros, SCALE).tolist() for round in rounds]


# ---------------------------------------------------------------------------------------- simulated


def test_simulated_noise_is_a_function_of_seed_node_and_round_alone() -> None:
    forward = noise(SimulatedSampler(7, "east"), range(1, 200))
    backward = noise(SimulatedSampler(7, "east"), range(199, 0, -1))
    assert forward == backward[::-1]
    assert noise(SimulatedSampler(7, "east"), range(150, 151)) == [forward[149]]


def test_simulated_noise_differs_by_seed_node_round_and_coordinate() -> None:
    samplers = [SimulatedSampler(seed, node) for seed in (1, 2) for node in ("a", "b")]
    values = [value for sampler in samplers for row in noise(sampler, range(1, 130)) for value in row]
    assert len(set(values)) == len(values)


def test_simulated_noise_is_added_and_has_the_scale() -> None:
    sampler = SimulatedSampler(7, "east")
    values = np.arange(20_000, dtype=np.int64)
    drawn = sampler.laplace(1, values, SCALE) - values
    assert drawn.dtype == np.int64
    assert np.abs(drawn).mean() == pytest.approx(SCALE, rel=0.05)
    assert values.tolist() == list(range(20_000))


def test_simulated_noise_is_that_of_one_node() -> None:
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        SimulatedSampler(0, "a").laplace(1, np.zeros((2, 3), dtype=np.int64), 1.0)


def test_simulated_says_so() -> None:
    assert SimulatedSampler(0, "a").simulated
    assert not ExactSampler().simulated


# -------------------------------------------------------------------------------------------- exact


def test_exact_noise_never_repeats_and_keeps_the_shape() -> None:
    sampler = ExactSampler()
    values = np.zeros((2, 50, 3), dtype=np.int64)
    drawn = [sampler.laplace(1, values, 2.0**45) for _ in range(2)]
    assert drawn[0].shape == values.shape
    assert np.unique(drawn).size == 600


def test_a_new_scale_is_a_new_scale() -> None:
    sampler = ExactSampler()
    values = np.full(2_000, 5, dtype=np.int64)
    for scale in (SCALE, 10.0, SCALE):
        assert np.abs(sampler.laplace(1, values, scale) - 5).mean() == pytest.approx(scale, rel=0.2)


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3", "1000"])
@pytest.mark.parametrize("theta", [0.3, 0.5])
def test_opendp_says_the_same_epsilon(epsilon: str, theta: float) -> None:
    mechanism = LaplaceGradient(theta, decimal(epsilon), 1, 2, ExactSampler())
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measure = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=mechanism.scale)
    theirs = measure.map(2 * mechanism.grid.radius)  # rounded up by an ulp at most
    assert theirs <= math.nextafter(float(epsilon), math.inf)
    assert theirs == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize("value", [2**62, -(2**62), 2**63 - 1])
def test_no_error_of_the_sampler_shows_the_private_value(value: int) -> None:
    with pytest.raises(SamplerError) as caught:
        ExactSampler().laplace(1, np.array([0, value]), SCALE)
    assert str(value) not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_an_error_of_opendp_that_prints_the_value_does_not_get_out() -> None:
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measure = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=SCALE)
    sampler = ExactSampler()
    sampler._made_for, sampler._measure = (
        (_laplace_measure, SCALE),
        lambda values: measure([2**63 + values[0]]),
    )
    with pytest.raises(ValueError, match="9223372036854788153"):
        measure([2**63 + 12345])
    with pytest.raises(SamplerError) as caught:
        sampler.laplace(1, np.array([12345]), SCALE)
    assert "9223372036854788153" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale is"):
        ExactSampler().laplace(1, np.zeros(1, dtype=np.int64), scale)


def test_the_sampler_keeps_no_draw() -> None:
    sampler = ExactSampler()
    drawn = sampler.laplace(1, np.zeros(2, dtype=np.int64), SCALE)
    assert all(str(value) not in repr(sampler) for value in drawn.tolist())
