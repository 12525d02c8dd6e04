"""`gaussian`, from the gradients to the release: noise, lattice, sensitivity, edges (privacy.md 7)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.accounting.calibration import discrete_delta
from nodes.privacy.clipping import clip
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.mechanism import Privatised
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.values import FloatArray, Release
from tests.support.oracles.gaussian_noise import Floats, Little, Much, Shifted, Silent, has_scale

THETA, DELTA = 0.5, 1e-6


class Coarse(ExactSampler):
    """The fault: noise on a grid twice as coarse as the values': their parity shows."""

    def gaussian(self, round, values, scale):
        return values + 2 * super().gaussian(round, np.zeros_like(values), scale / 2)


class Laplace(ExactSampler):
    """The fault: noise of the right variance and the wrong shape."""

    def gaussian(self, round, values, scale):
        return self.laplace(round, values, scale / math.sqrt(2))


def made(sampler=None, cls=GaussianGradient, **changes) -> GaussianGradient:
    options = {"theta": THETA, "epsilon": Fraction(1), "delta": DELTA, "batch_size": 1, "dimension": 2}
    return cls(**options | {"sampler": sampler or ExactSampler()} | changes)


def release(mechanism: GaussianGradient, gradients: FloatArray) -> FloatArray:
    return mechanism.privatise(3, Private(gradients), lambda gradient: gradient).release


# --------------------------------------------------------------------------------- noise, bias, lattice


def noise(sampler, epsilon: str = "1") -> tuple[FloatArray, float]:
    gradients = np.tile([[0.1, -0.2]], (5_000, 1, 1))
    mechanism = made(sampler, epsilon=Fraction(epsilon))
    drawn = release(mechanism, gradients) - release(made(Silent(), epsilon=Fraction(epsilon)), gradients)
    return drawn, mechanism.noise_scale(3)


@pytest.mark.parametrize("epsilon", ["1", "0.001", "50"])
def test_the_right_scale_passes(epsilon: str) -> None:
    assert has_scale(*noise(ExactSampler(), epsilon))


@pytest.mark.parametrize("fault", [Little, Much, Laplace])
def test_wrong_scales_and_shapes_fail(fault) -> None:
    assert not has_scale(*noise(fault()))


def test_the_scale_is_the_papers() -> None:
    assert made().noise_scale(1) == pytest.approx(4.22468 * 2 * THETA, rel=1e-5)
    assert made(batch_size=4).noise_scale(1) == pytest.approx(4.22468 * 2 * THETA / 4, rel=1e-5)
    classic = made(calibration="classic")
    assert classic.noise_scale(1) == pytest.approx(math.sqrt(2 * math.log(2e6)) * 2 * THETA, rel=1e-7)
    assert made().mu == pytest.approx(1 / 4.22468, rel=1e-5)
    assert made().mu * made().scale >= 2 * made().grid.radius


def is_unbiased(sampler) -> bool:
    """Whether the noise's mean over 5,000 releases is 0 within five standard errors."""
    drawn, scale = noise(sampler)
    return bool((np.abs(drawn.mean(0)) < 5 * scale / math.sqrt(len(drawn))).all())


def test_the_noise_has_no_bias() -> None:
    assert is_unbiased(ExactSampler())


def test_a_biased_noise_fails() -> None:
    assert not is_unbiased(Shifted())


def test_within_the_bound_the_clip_changes_nothing() -> None:
    gradients = np.array([[[0.3, -0.4]], [[0.0, 0.0]], [[-0.3, 0.2]]])
    mechanism = made(Silent())
    np.testing.assert_allclose(
        release(mechanism, gradients), gradients[:, 0], rtol=0, atol=mechanism.grid.step
    )


def on_lattice(mechanism: GaussianGradient, releases: FloatArray) -> bool:
    integers = np.rint(releases / mechanism.grid.step)
    return np.array_equal(integers * mechanism.grid.step, releases)


@pytest.mark.parametrize("gradient", [[0.0, 0.0], [0.1, -0.2], [0.5, 1e300]])
def test_releases_stand_on_a_public_lattice(gradient) -> None:
    assert on_lattice(made(), release(made(), np.tile(gradient, (500, 1, 1))))


def test_numpy_noise_leaves_the_lattice() -> None:
    assert not on_lattice(made(), release(made(Floats()), np.zeros((500, 1, 2))))


def reachable(sampler, shift: int) -> set[float]:
    """Return the releases seen within three steps of 0, with noise of two steps; the gradient has `shift`.

    Any is missed in 4,000 draws once in 10^90 runs.
    """
    mechanism = made(sampler, dimension=1)
    object.__setattr__(mechanism, "scale", 2.0)
    steps = release(mechanism, np.full((4_000, 1, 1), shift * mechanism.grid.step)) / mechanism.grid.step
    return {float(np.round(step, 4)) for step in steps.ravel() if abs(step) < 3.5}


def test_neighbours_reach_the_same_releases() -> None:
    assert reachable(ExactSampler(), 0) == reachable(ExactSampler(), 1) == {float(k) for k in range(-3, 4)}


@pytest.mark.parametrize("fault", [Floats, Coarse])
def test_noise_that_shows_the_value_reaches_other_releases(fault) -> None:
    assert reachable(fault(), 0) != reachable(fault(), 1)


# ----------------------------------------------------------------------------------------- sensitivity


class NoClip(GaussianGradient):
    """The fault: gradients are rounded and summed as they are."""

    def bounded_sum(self, gradients):
        rows = np.where(np.isfinite(gradients) & (np.abs(gradients) < 1e9), gradients, 0.0)
        return np.rint(rows / self.grid.step).sum(-2).astype(np.int64), 0, 0


class FloatClip(GaussianGradient):
    """The fault: the float clip alone, and it errs by one part in 10,000."""

    def bounded_sum(self, gradients):
        held, clipped, broken = clip(gradients, self.theta * 1.0001, "l2")
        return np.rint(held / self.grid.step).sum(-2).astype(np.int64), clipped, broken


class DividesByCount(GaussianGradient):
    """The fault: the mean over the records that are there, noise and all."""

    def privatise(self, round, gradients, update, secret=None):
        private = super().privatise(round, gradients, update)
        count = max(1, len(opened(gradients)))
        return Privatised(Release(private.release * self.batch_size / count), Private(0), Private(0))


def slot(random: np.random.Generator, records: int, dimension: int, theta: float) -> FloatArray:
    """Return gradients of any size: dense, sparse, huge, broken."""
    rows = random.normal(size=(records, dimension)) * random.choice([0.0, 1.0], size=(records, dimension))
    rows *= theta * 10.0 ** random.uniform(-4, 6, size=(records, 1))
    rows[random.random(records) < 0.15, random.integers(dimension)] = random.choice(
        [math.nan, math.inf, 1e308]
    )
    return rows


def neighbour(random: np.random.Generator, rows: FloatArray, theta: float) -> FloatArray:
    """Return the slot with one record replaced, removed, or displaced by a new one at the front."""
    other = slot(random, 1, rows.shape[1], theta)
    kept = np.delete(rows, random.integers(len(rows)), axis=0)
    return [np.concatenate([kept, other]), kept, np.concatenate([other, rows[:-1]])][random.integers(3)]


def apart(mechanism: GaussianGradient, first: FloatArray, second: FloatArray) -> float:
    """Return how far two slots are apart over the claimed sensitivity: before the noise, and as released."""
    integers, releases = [], []
    for rows in (first, second):
        releases.append(release(mechanism, rows))
        integers.append([int(k) for k in mechanism.sampler.values])
    moved = math.sqrt(sum((one - two) ** 2 for one, two in zip(*integers, strict=True)))
    seen = math.dist(*(r.tolist() for r in releases)) / (mechanism.noise_scale(1) * mechanism.mu)
    return max(moved / (2 * mechanism.grid.radius), seen * (1 - 1e-9))


def worst(mechanism: GaussianGradient, seed: int, pairs: int) -> float:
    random = np.random.default_rng(seed)
    found = 0.0
    for _ in range(pairs):
        rows = slot(
            random, int(random.integers(1, mechanism.batch_size + 1)), mechanism.dimension, mechanism.theta
        )
        found = max(found, apart(mechanism, rows, neighbour(random, rows, mechanism.theta)))
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.floats(1e-6, 1e6), st.integers(1, 8), st.integers(1, 30))
def test_no_pair_is_further_apart_than_the_sensitivity(seed, theta, batch, dimension) -> None:
    mechanism = made(Silent(), theta=theta, batch_size=batch, dimension=dimension)
    assert worst(mechanism, seed, pairs=8) <= 1


@pytest.mark.parametrize("dimension", [1, 2, 100])
def test_the_sensitivity_is_reached_and_scaled_for(dimension: int) -> None:
    mechanism = made(Silent(), batch_size=4, dimension=dimension)
    far = np.full((1, dimension), 1e9)
    assert 1 - 1e-4 < apart(mechanism, far, -far) <= 1
    assert discrete_delta(1.0, 2 * mechanism.grid.radius, mechanism.sampler.scale, dimension) <= DELTA


@pytest.mark.parametrize("fault", [NoClip, FloatClip, DividesByCount])
def test_faults_of_the_clip_are_found(fault) -> None:
    assert worst(made(Silent(), cls=fault, batch_size=4), seed=1, pairs=200) > 1


# ----------------------------------------------------------------------------------------------- edges


def test_a_partial_slot_is_divided_by_h_all_the_same() -> None:
    mechanism = made(Silent(), batch_size=4)
    assert release(mechanism, np.array([[0.25, 0.125]])).tolist() == [0.0625, 0.03125]
    assert not release(mechanism, np.empty((0, 2))).any()


@pytest.mark.parametrize("epsilon", ["0.0000001", "0.001", "1000", "100000"])
@pytest.mark.parametrize("dimension", [1, 1000])
def test_small_and_large_epsilon_give_finite_releases(epsilon: str, dimension: int) -> None:
    mechanism = made(SimulatedSampler(0, "a"), epsilon=Fraction(epsilon), dimension=dimension)
    assert np.isfinite(release(mechanism, np.ones((1, dimension)))).all()
    assert mechanism.grid.radius + 64 * mechanism.scale < 2**62


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"calibration": "classic", "epsilon": Fraction(2)},
            "epsilon is 2: must be at most 1 with calibration",
        ),
        ({"batch_size": 2**33}, "batch_size is 8589934592: must be at most"),
        ({"epsilon": Fraction("1e-7"), "delta": 1e-300}, "so much noise leaves 64 bits"),
    ],
)
def test_settings_out_of_range_are_refused(changes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        made(**changes)
