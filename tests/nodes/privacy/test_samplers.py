import math
import os
import traceback

import numpy as np
import pytest

from nodes.decimals import decimal
from nodes.privacy.exact import ExactSampler, SamplerError, _laplace_measure
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.opendp_calls import invoked
from nodes.privacy.simulated import SimulatedSampler
from tests.support.resident import resident
from tests.support.samplers import narrow

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
    theirs = _laplace_measure(mechanism.scale).map(2 * mechanism.grid.radius)  # rounded up by an ulp at most
    assert theirs <= math.nextafter(float(epsilon), math.inf)
    assert theirs == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize("value", [2**62, -(2**62), 2**63 - 1])
def test_no_error_of_the_sampler_shows_the_private_value(value: int) -> None:
    with pytest.raises(SamplerError) as caught:
        ExactSampler().laplace(1, np.array([0, value]), SCALE)
    assert str(value) not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_an_error_of_opendp_does_not_get_out() -> None:
    values = np.array([2**60])
    with pytest.raises(ValueError, match=str(2**60)):
        narrow(SCALE)(values.tolist())
    with pytest.raises(SamplerError) as caught:
        ExactSampler()._noisy(narrow, values, SCALE)
    assert str(2**60) not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("size", [0, 1, 1000])
@pytest.mark.parametrize("value", [0, 2**61, -(2**61)])
def test_calls_in_c_draw_of_what_was_given_in_order(size: int, value: int) -> None:
    values = value + np.arange(size)
    drawn = invoked(_laplace_measure(1e-3), values)  # the noise is 0 but for a chance of e^-1000
    assert drawn is not None
    assert drawn.dtype == np.int64
    assert drawn.tolist() == values.tolist()


def test_values_with_gaps_between_them_are_those_that_are_drawn_of() -> None:
    drawn = invoked(_laplace_measure(1e-3), np.arange(10)[::3])
    assert drawn is not None
    assert drawn.tolist() == [0, 3, 6, 9]


def test_calls_in_c_leave_no_memory_behind() -> None:
    measure, values = _laplace_measure(1e-3), np.zeros(4_000, dtype=np.int64)
    used = []
    for _ in range(25):
        assert invoked(measure, values) is not None
        used.append(resident(os.getpid()))
    assert used[-1] - used[4] < 5 * values.nbytes  # one object a draw would be 20 times


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale is"):
        ExactSampler().laplace(1, np.zeros(1, dtype=np.int64), scale)


def test_the_sampler_keeps_no_draw() -> None:
    sampler = ExactSampler()
    drawn = sampler.laplace(1, np.zeros(2, dtype=np.int64), SCALE)
    assert all(str(value) not in repr(sampler) for value in drawn.tolist())
