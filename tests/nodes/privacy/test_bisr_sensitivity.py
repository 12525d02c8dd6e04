"""`gaussian-bisr`: how far the draws of two neighbouring streams are apart where all releases are the same.

Every release of one stream, with its draws, is met by exactly one choice of draws for the other. That choice
is made here in integers, round after round, by the mechanism's own code; its distance from the first one's
draws, over all rounds, is the sensitivity.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.privacy.bisr import FINER, GaussianBisr
from nodes.privacy.clipping import clip
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.values import FloatArray, IntArray

THETA = 0.5


class Given:
    """Answers what it is told to."""

    simulated = True

    def gaussian(self, round, values, scale):
        self.scale = scale
        return self.answer(values)


class NoClip(GaussianBisr):
    """The fault: gradients are rounded and summed as they are."""

    def bounded_sum(self, gradients):
        rows = np.where(np.isfinite(gradients) & (np.abs(gradients) < 1e3), gradients, 0.0)
        return np.rint(rows / self.grid.step).sum(-2).astype(np.int64), 0, 0


class FloatClip(GaussianBisr):
    """The fault: the float clip alone, and it errs by one part in 20."""

    def bounded_sum(self, gradients):
        held, clipped, broken = clip(gradients, self.theta * 1.05, "l2")
        return np.rint(held / self.grid.step).sum(-2).astype(np.int64), clipped, broken


class DividesByCount(GaussianBisr):
    """The fault: the mean over the records that are there, times h."""

    def bounded_sum(self, gradients):
        total, clipped, broken = super().bounded_sum(gradients)
        return total * self.batch_size // max(1, gradients.shape[-2]), clipped, broken


class ForgetsNorm(GaussianBisr):
    """The fault: the scale is made for one release, as `gaussian`'s is."""

    @property
    def sensitivity(self):
        return 2 * self.grid.radius << FINER


def made(cls=GaussianBisr, **changes) -> GaussianBisr:
    options = {"epsilon": Fraction(1), "delta": 1e-6, "batch_size": 1, "dimension": 2, "bands": 4}
    return cls(**{"theta": THETA, "sampler": Given()} | options | changes)


def distance(mechanism: GaussianBisr, ones: list[FloatArray], others: list[FloatArray], seed: int) -> float:
    """Return the distance between the draws of two streams (rounds of (n, d)) that release the same."""
    drawing = SimulatedSampler(seed, "a")
    sampler, secrets, moved = mechanism.sampler, [None, None], []
    for round, slots in enumerate(zip(ones, others, strict=True), 1):
        total: IntArray | None = None
        released, draws = [], []
        for k, rows in enumerate(slots):
            mixed = mechanism.matrix.mixed(band(mechanism, secrets[k]))

            def answer(values, mixed=mixed, total=total):
                noisy = drawing.gaussian(round, values, sampler.scale)  # noqa: B023 # called at once
                return noisy if total is None else total - mixed

            sampler.answer = answer
            private = mechanism.privatise(round, Private(rows), lambda gradient: gradient, secrets[k])
            points = mechanism.bounded_sum(rows)[0] << FINER
            secrets[k] = private.secret
            draw = opened(private.secret.draws)[0]
            total = draw + points + mixed
            released.append(private.release.tobytes())
            draws.append(draw)
        assert released[0] == released[1]
        moved += [int(a) - int(b) for a, b in zip(*draws, strict=True)]
    return math.sqrt(sum(m * m for m in moved))


def band(mechanism: GaussianBisr, secret) -> IntArray:
    return np.empty((0, mechanism.dimension), np.int64) if secret is None else opened(secret.draws)


def slot(random: np.random.Generator, records: int, dimension: int, theta: float) -> FloatArray:
    """Return gradients of any size: dense, sparse, huge, broken."""
    rows = random.normal(size=(records, dimension)) * random.choice([0.0, 1.0], size=(records, dimension))
    rows *= theta * 10.0 ** random.uniform(-4, 3, size=(records, 1))
    rows[random.random(records) < 0.15, random.integers(dimension)] = random.choice(
        [math.nan, math.inf, 1e308]
    )
    return rows


def neighbour(random: np.random.Generator, rows: FloatArray, theta: float) -> FloatArray:
    """Return the slot with one record replaced, removed, or displaced by a new one at the front."""
    other = slot(random, 1, rows.shape[1], theta)
    kept = np.delete(rows, random.integers(len(rows)), axis=0)
    return [np.concatenate([kept, other]), kept, np.concatenate([other, rows[:-1]])][random.integers(3)]


def worst(mechanism: GaussianBisr, seed: int, pairs: int, rounds: int = 12) -> float:
    """Return the largest distance over the claimed sensitivity of streams that differ in one record."""
    random = np.random.default_rng(seed)
    found = 0.0
    for _ in range(pairs):
        ones = [
            slot(
                random,
                int(random.integers(1, mechanism.batch_size + 1)),
                mechanism.dimension,
                mechanism.theta,
            )
            for _ in range(rounds)
        ]
        others, where = list(ones), int(random.integers(rounds))
        others[where] = neighbour(random, ones[where], mechanism.theta)
        found = max(found, distance(mechanism, ones, others, seed) / mechanism.sensitivity)
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.floats(1e-6, 1e6),
    st.integers(1, 4),
    st.integers(1, 8),
    st.sampled_from([2, 3, 16]),
)
def test_no_streams_are_further_apart_than_the_sensitivity(seed, theta, batch, dimension, bands) -> None:
    mechanism = made(theta=theta, batch_size=batch, dimension=dimension, bands=bands)
    assert worst(mechanism, seed, pairs=2) <= 1


@pytest.mark.parametrize(("bands", "dimension"), [(2, 1), (4, 2), (16, 10)])
def test_the_sensitivity_is_reached_and_scaled_for(bands: int, dimension: int) -> None:
    mechanism = made(bands=bands, dimension=dimension)
    far = np.full((1, dimension), 1e9)
    rest = [np.zeros((1, dimension))] * (12 * bands)
    assert 1 - 1e-4 < distance(mechanism, [far, *rest], [-far, *rest], 1) / mechanism.sensitivity <= 1
    assert mechanism.sampler.scale == mechanism.scale


@pytest.mark.parametrize("fault", [NoClip, FloatClip, DividesByCount, ForgetsNorm])
def test_faults_of_clip_and_norm_are_found(fault) -> None:
    assert worst(made(fault, batch_size=4), seed=1, pairs=60) > 1
