import math
import multiprocessing
import traceback

import numpy as np
import pytest

from nodes.checks import RANGE, decimal
from nodes.privacy.exact import MOST, ExactSampler, SamplerError, SimulatedSampler, entropy
from nodes.privacy.laplace import LaplaceGradient
from tests.support.oracles.samplers import opendp_laplace

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
    theirs = opendp_laplace(mechanism.scale).map(2 * mechanism.grid.radius)  # rounded up by an ulp at most
    assert theirs <= math.nextafter(float(epsilon), math.inf)
    assert theirs == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize("value", [2**62, -(2**62), 2**63 - 1])
def test_no_error_of_the_sampler_shows_the_private_value(value: int) -> None:
    with pytest.raises(SamplerError) as caught:
        ExactSampler().laplace(1, np.array([0, value]), SCALE)
    assert str(value) not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("value", [0, 2**61 - 1001, 1001 - 2**61])
def test_noise_is_added_to_what_was_given_in_order(size: int, value: int) -> None:
    values = value + np.arange(size)
    for kind in ("laplace", "gaussian"):
        drawn = getattr(ExactSampler(), kind)(1, values, 1e-3)  # the noise is 0 but for a chance of e^-1000
        assert drawn.dtype == np.int64
        assert drawn.tolist() == values.tolist()


@pytest.mark.parametrize("value", [2**61 - 1, 0, 1 - 2**61])
@pytest.mark.parametrize("noise", [MOST, MOST - 1, -MOST, 0])
def test_a_sum_saturates_as_a_function_of_the_sum(value: int, noise: int, monkeypatch) -> None:
    monkeypatch.setattr("nodes.privacy.exact.laplace", lambda count, *_: np.full(count, noise))
    (drawn,) = ExactSampler().laplace(1, np.array([value]), SCALE).tolist()
    assert drawn == max(-RANGE, min(RANGE, value + noise))
    if abs(noise) >= MOST:
        assert abs(drawn) == RANGE  # whatever was beyond it


def test_entropy_is_read_at_each_draw_and_is_never_the_same() -> None:
    assert np.unique(np.concatenate([entropy(100) for _ in range(100)])).size == 10_000
    assert entropy(0).size == 0


def draw_in_child(queue) -> None:
    queue.put(ExactSampler().laplace(1, np.zeros(4, dtype=np.int64), 2.0**45).tolist())


def test_forks_draw_apart() -> None:
    context = multiprocessing.get_context("fork")
    sampler = ExactSampler()
    sampler.laplace(1, np.zeros(4, dtype=np.int64), SCALE)
    queues = [context.SimpleQueue() for _ in range(3)]
    forks = [context.Process(target=draw_in_child, args=(queue,)) for queue in queues]
    for fork in forks:
        fork.start()
    drawn = [value for queue in queues for value in queue.get()]
    for fork in forks:
        fork.join()
    drawn += sampler.laplace(1, np.zeros(4, dtype=np.int64), 2.0**45).tolist()
    assert len(set(drawn)) == 16


@pytest.mark.parametrize("scale", [0.0, -1.0, 9e-6, 2.0**57, math.inf, math.nan])
def test_a_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale is"):
        ExactSampler().laplace(1, np.zeros(1, dtype=np.int64), scale)


def test_the_sampler_keeps_no_draw() -> None:
    sampler = ExactSampler()
    drawn = sampler.laplace(1, np.zeros(2, dtype=np.int64), SCALE)
    assert all(str(value) not in repr(sampler) for value in drawn.tolist())
