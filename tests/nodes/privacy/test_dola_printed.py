"""DOLA's noise as printed: its scale by the paper's formula, where it stands, and what it protects."""

import math
from fractions import Fraction

import numpy as np
import pytest

from experiments.harness.dola_printed import PrintedGaussian, PrintedLaplace
from nodes.accounting.calibration import gaussian_delta
from nodes.algorithms import Inverse
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.private import Private

NODES = tuple(f"n-{k:02}" for k in range(40))
DIMENSION, ROUND = 50, 7
DRAWS = len(NODES) * DIMENSION


def laplace(batch_size):
    """Algorithm 1 or 4 at epsilon 1/2, alpha_t = 3/t."""
    sampler = SimulatedSampler(0, NODES)
    return PrintedLaplace(2.0, Fraction(1, 2), batch_size, DIMENSION, Inverse(3.0), sampler)


def gaussian():
    """Algorithm 2 at epsilon 1/2, delta 1e-4, over 100 rounds."""
    sampler = SimulatedSampler(0, NODES)
    return PrintedGaussian(2.0, Fraction(1, 2), 1e-4, 100, DIMENSION, Inverse(3.0), sampler)


def released(mechanism, gradients, update):
    """What leaves in the round."""
    return mechanism.privatise(ROUND, Private(gradients), update).release


@pytest.mark.parametrize("batch_size", [1, 10])
def test_laplace_noise_is_on_the_parameters_with_the_printed_scale(batch_size):
    mechanism = laplace(batch_size)
    printed = 2 * (3 / ROUND) * math.sqrt(DIMENSION) * 2.0 / (batch_size * 0.5)
    assert mechanism.noise_scale(ROUND) == pytest.approx(printed, rel=1e-12)
    gradients = np.ones((len(NODES), batch_size, DIMENSION))
    noise = released(mechanism, gradients, lambda mean: 0.0 * mean + 5.0) - 5.0
    # E|X| = scale, with standard deviation scale/sqrt(2,000): five of them
    assert np.abs(noise).mean() / printed == pytest.approx(1.0, abs=5 / math.sqrt(DRAWS))


def test_gaussian_noise_is_on_the_gradient_with_the_printed_scale():
    mechanism = gaussian()
    squared = 4 * (3 / ROUND) ** 2 * DIMENSION * 2.0**2 * 100 * math.log(100 / 1e-4) * math.log(1e4) / 0.25
    assert mechanism.noise_scale(ROUND) == pytest.approx(math.sqrt(squared), rel=1e-12)
    gradients = np.full((len(NODES), 1, DIMENSION), 3.0)
    noise = released(mechanism, gradients, lambda gradient: -gradient) + 3.0
    # the mean square of 2,000 draws varies by sqrt(2/2,000): five of them
    assert (noise * noise).mean() / squared == pytest.approx(1.0, abs=5 * math.sqrt(2 / DRAWS))


def test_the_true_privacy_of_the_printed_gaussian_is_far_from_what_it_states():
    mechanism = gaussian()
    mus = [mechanism.mu(round) for round in (1, 100)]
    assert mus[0] == pytest.approx(4.0 / mechanism.noise_scale(1))
    assert mus[1] == pytest.approx(100 * mus[0])
    assert gaussian_delta(0.5, mus[0]) < 1e-12


def test_the_mean_is_over_the_public_batch_size():
    mechanism = laplace(10)
    gradients = np.ones((len(NODES), 4, DIMENSION))
    seen = []
    released(mechanism, gradients, lambda mean: seen.append(mean) or mean)
    np.testing.assert_allclose(seen[0], 0.4)
