"""`gaussian-bisr`, round after round: noise, what pairs of releases show, audit, edges (privacy.md 7)."""

import math
from fractions import Fraction

import numpy as np
import pytest

from nodes.audit import audit, lattice_holds
from nodes.privacy.bisr import FINER, GaussianBisr
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.mechanism import Secret
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.values import FloatArray
from tests.support.oracles.gaussian_noise import Floats, Little, Much, Scaled, Shifted, Silent, has_scale

THETA, DELTA = 0.5, 1e-6


class TooLittle(Scaled):
    factor = 0.7


class Tilted(Shifted):
    """The fault: noise with a mean of a fifth of its scale."""

    part = 5


class OwnGrid(ExactSampler):
    """Half of the fault below: draws in whole steps of the gradients' grid."""

    def gaussian(self, round, values, scale):
        drawn = super().gaussian(round, np.zeros_like(values), scale)
        return values + ((drawn >> FINER) << FINER)


class Unrounded(GaussianBisr):
    """The fault: the naive version, whose sum is not rounded; with draws in steps of the gradients' grid."""

    def _rounded(self, noisy, band):
        return (noisy + self.matrix.mixed(band)) / (1 << FINER)


class OneGrid(GaussianBisr):
    """No fault: draws are of the gradients' grid, and rounding is what hides their parity."""

    def _rounded(self, noisy, band):
        return (noisy >> FINER) + self.matrix.mixed(band >> FINER)


class Forgets(GaussianBisr):
    """The fault: every round begins a new band."""

    def privatise(self, round, gradients, update, secret=None):
        return super().privatise(round, gradients, update)


class KeepsAll(GaussianBisr):
    """The fault: a release takes back all of the draw before, not half of it."""

    def _rounded(self, noisy, band):
        return super()._rounded(noisy - (band[0] >> 1 if len(band) else 0), band)


def made(sampler=None, cls=GaussianBisr, **changes) -> GaussianBisr:
    options = {"epsilon": Fraction(1), "delta": DELTA, "batch_size": 1, "dimension": 2, "bands": 4}
    return cls(**{"theta": THETA} | options | {"sampler": sampler or ExactSampler()} | changes)


def stream(mechanism: GaussianBisr, slots, first: int = 1) -> list[FloatArray]:
    """Return the releases of slots (..., n, d), round after round."""
    secret, releases = None, []
    for round, slot in enumerate(slots, first):
        private = mechanism.privatise(round, Private(np.asarray(slot)), lambda gradient: gradient, secret)
        secret = private.secret
        releases.append(private.release)
    return releases


# ---------------------------------------------------------------------------------- noise, bias, lattice


def noise(sampler, cls=GaussianBisr, rounds: int = 10) -> tuple[FloatArray, GaussianBisr]:
    """Return the noise (rounds, n, d) of runs on a constant gradient."""
    mechanism = made(sampler, cls)
    gradients = np.tile([[0.1, -0.2]], (3_000, 1, 1))
    drawn = np.stack(stream(mechanism, [gradients] * rounds)) - stream(made(Silent()), [gradients[:1]])[0]
    return drawn, mechanism


def scales_hold(sampler, cls=GaussianBisr) -> list[bool]:
    """Whether the first release, a later one and the sum over rounds have the noise that the formulas say."""
    drawn, mechanism = noise(sampler, cls)
    unit = mechanism.scale * 2.0**-FINER * mechanism.grid.step
    r = np.append(1.0, -mechanism.matrix.weights / 2**30)
    partial = np.array([r[: t + 1].sum() for t in range(len(drawn))])
    return [
        has_scale(drawn[0], unit),
        has_scale(drawn[-1], mechanism.noise_scale(1)),
        has_scale(drawn.sum(0), unit * math.sqrt((partial**2).sum())),
    ]


def test_the_right_scale_passes_in_one_round_and_summed_up() -> None:
    assert scales_hold(ExactSampler()) == [True, True, True]


@pytest.mark.parametrize("fault", [Little, Much])
def test_wrong_scales_fail(fault) -> None:
    assert scales_hold(fault()) == [False, False, False]


def test_a_band_that_is_forgotten_or_wrong_shows_in_the_sum_over_rounds() -> None:
    assert not scales_hold(ExactSampler(), Forgets)[2]
    assert not scales_hold(ExactSampler(), KeepsAll)[2]


@pytest.mark.parametrize("bands", [16, 64])
def test_over_many_rounds_noise_adds_up_as_the_draws_that_are_not_taken_back(bands: int) -> None:
    names = tuple(f"node-{k}" for k in range(100))
    zeros = np.zeros((len(names), 1, 5))
    summed = np.sum(stream(made(SimulatedSampler(1, names), bands=bands, dimension=5), [zeros] * 400), 0)
    partial = np.cumsum(np.append(1.0, -made(bands=bands).matrix.weights / 2**30))
    share = math.sqrt((partial**2).sum() + (400 - bands) * partial[-1] ** 2)
    gaussian = GaussianGradient(THETA, Fraction(1), DELTA, 1, 5, ExactSampler())
    expected = gaussian.noise_scale(1) * made(bands=bands).matrix.norm * share
    assert summed.std() == pytest.approx(expected, rel=0.1)  # three standard errors of 500 values
    assert expected < 0.3 * gaussian.noise_scale(1) * math.sqrt(400)


def is_unbiased(sampler) -> bool:
    """Whether the noise's mean over 3,000 runs of two rounds is 0 within five standard errors."""
    drawn, mechanism = noise(sampler, rounds=2)
    return bool((np.abs(drawn.mean(1)) < 5 * mechanism.noise_scale(1) / math.sqrt(3_000)).all())


def test_the_noise_has_no_bias() -> None:
    assert is_unbiased(ExactSampler())


def test_a_biased_noise_fails() -> None:
    assert not is_unbiased(Tilted())


def test_within_the_bound_the_clip_changes_nothing() -> None:
    slots = np.array([[[0.3, -0.4]], [[0.0, 0.0]], [[-0.3, 0.2]]])
    mechanism = made(Silent())
    np.testing.assert_allclose(stream(mechanism, slots), slots[:, 0], rtol=0, atol=mechanism.grid.step)


@pytest.mark.parametrize("gradient", [[0.0, 0.0], [0.1, -0.2], [0.5, 1e300]])
def test_releases_stand_on_a_public_lattice(gradient) -> None:
    mechanism = made()
    for released in stream(mechanism, [np.tile(gradient, (100, 1, 1))] * 3):
        assert np.array_equal(np.rint(released / mechanism.grid.step) * mechanism.grid.step, released)


@pytest.mark.parametrize(
    "changes", [{}, {"bands": 1}, {"bands": 64, "batch_size": 3}, {"epsilon": Fraction(50)}]
)
def test_every_pair_of_successive_releases_is_a_pair_of_the_neighbours_too(changes) -> None:
    assert lattice_holds(made(**changes), pairs=40)


@pytest.mark.parametrize(
    ("sampler", "cls"), [(OwnGrid(), Unrounded), (ExactSampler(), Unrounded), (Floats(), GaussianBisr)]
)
def test_the_lattice_of_faults_does_not_hold(sampler, cls) -> None:
    assert not lattice_holds(made(sampler, cls), pairs=40)


def parities_told(sampler, cls) -> float:
    """Return how often two releases tell whether the first round's integer is even: 1/2 is chance.

    r_1 = -1/2: a half in the second release says that the draw of the first was odd.
    """
    mechanism = made(sampler, cls, dimension=1, bands=2)
    random = np.random.default_rng(5)
    steps = random.integers(-1000, 1000, (2_000, 1, 1))
    one, two = stream(mechanism, [steps * mechanism.grid.step, np.zeros((2_000, 1, 1))])
    odd_draw = np.rint(2 * two / mechanism.grid.step).astype(np.int64) % 2
    told = (np.rint(one / mechanism.grid.step).astype(np.int64) - odd_draw) % 2
    return float((told == steps[:, 0] % 2).mean())


@pytest.mark.parametrize("cls", [GaussianBisr, OneGrid])
def test_two_releases_do_not_tell_the_parity_of_a_gradient(cls) -> None:
    sampler = OwnGrid() if cls is OneGrid else ExactSampler()
    assert abs(parities_told(sampler, cls) - 0.5) < 5 * 0.5 / math.sqrt(2_000)


def test_the_naive_version_tells_the_parity_every_time() -> None:
    assert parities_told(OwnGrid(), Unrounded) == 1.0


# ----------------------------------------------------------------------------------------------- audit


def steep(sampler=None, cls=GaussianBisr) -> GaussianBisr:
    return made(sampler, cls, dimension=1, epsilon=Fraction(10))


def test_the_audit_stays_under_the_claim_and_comes_near_it() -> None:
    found = audit(steep(), 4_000)
    assert not found.refuted
    assert found.claimed == pytest.approx(10, rel=1e-6)
    assert found.lower_bound > 6.5


@pytest.mark.slow
def test_the_audit_refutes_too_little_noise_and_a_band_that_takes_back_too_much() -> None:
    assert audit(steep(TooLittle()), 4_000).refuted
    # noise that is never taken back is more than is needed; taken back too fast, it is too little
    assert not audit(steep(cls=Forgets), 4_000).refuted
    assert audit(steep(cls=TakesBackAll), 4_000).refuted


class TakesBackAll(GaussianBisr):
    """The fault: the first column of C is not what the noise was made for (r_1 = -1)."""

    def _rounded(self, noisy, band):
        band = band.copy()
        band[:1] *= 2
        return super()._rounded(noisy, band)


def test_simulated_noise_is_not_audited() -> None:
    with pytest.raises(ValueError, match="simulated"):
        audit(steep(SimulatedSampler(0, "a")), 10)


# -------------------------------------------------------------------------------------- state, simulated


def test_the_state_is_the_last_draws_the_newest_first_and_private() -> None:
    mechanism = made(SimulatedSampler(3, "a"))
    draws = [
        mechanism.sampler.gaussian(round, np.zeros(2, np.int64), mechanism.scale) for round in range(1, 7)
    ]
    secret = None
    for round in range(1, 7):
        private = mechanism.privatise(round, Private(np.ones((1, 2))), lambda gradient: gradient, secret)
        secret = private.secret
        assert isinstance(secret.draws, Private)
        kept = draws[max(0, round - 3) : round][::-1]
        np.testing.assert_array_equal(opened(secret.draws), kept)
        assert not opened(secret.draws).flags.writeable
    assert made(bands=1).privatise(1, Private(np.ones((1, 2))), lambda gradient: gradient).secret is None


@pytest.mark.parametrize(
    "changes", [{"bands": 5}, {"bands": 3}, {"epsilon": Fraction(2)}, {"theta": 0.7}, {"delta": 1e-5}]
)
def test_with_other_settings_a_new_band_begins(changes) -> None:
    slot = Private(np.ones((1, 2)))
    secret = made().privatise(1, slot, lambda gradient: gradient).secret
    again = made().privatise(2, slot, lambda gradient: gradient, secret).secret
    other = made(**changes).privatise(2, slot, lambda gradient: gradient, secret).secret
    assert (len(opened(again.draws)), len(opened(other.draws))) == (2, 1)


def test_an_array_over_nodes_releases_what_each_releases_alone() -> None:
    names = ("a", "b", "c")
    slots = np.random.default_rng(1).normal(size=(6, 3, 1, 2))
    sum_epsilons = stream(made(SimulatedSampler(7, names)), slots, first=62)
    for k, name in enumerate(names):
        alone = stream(made(SimulatedSampler(7, name)), slots[:, k], first=62)
        np.testing.assert_array_equal(np.array(sum_epsilons)[:, k], alone)


def test_one_band_is_gaussian() -> None:
    one, gaussian = made(bands=1), GaussianGradient(THETA, Fraction(1), DELTA, 1, 2, ExactSampler())
    assert one.noise_scale(1) == pytest.approx(gaussian.noise_scale(1), rel=1e-5)
    assert one.mu == pytest.approx(gaussian.mu, rel=1e-5)


# ----------------------------------------------------------------------------------------------- edges


def test_a_partial_slot_is_divided_by_h_all_the_same() -> None:
    mechanism = made(Silent(), batch_size=4)
    assert stream(mechanism, [[[0.25, 0.125]]])[0].tolist() == [0.0625, 0.03125]
    assert not stream(mechanism, [np.empty((0, 2))])[0].any()


@pytest.mark.parametrize("epsilon", ["0.002", "1", "1000", "100000"])
@pytest.mark.parametrize(("dimension", "bands"), [(1, 2), (200, 1024)])
def test_small_and_large_epsilon_give_finite_releases(epsilon: str, dimension: int, bands: int) -> None:
    mechanism = made(SimulatedSampler(0, "a"), epsilon=Fraction(epsilon), dimension=dimension, bands=bands)
    assert np.isfinite(stream(mechanism, [np.ones((1, dimension))] * 3)).all()
    assert (mechanism.grid.radius << FINER) + 64 * mechanism.scale <= 2**62


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"epsilon": Fraction("1e-4")}, "so much noise leaves 64 bits"),
        ({"bands": 0}, "bands is 0: must be from 1 to 1,024"),
        ({"bands": 1025}, "bands is 1025: must be from 1 to 1,024"),
        ({"batch_size": 2**20}, "batch_size is 1048576: must be at most"),
    ],
)
def test_settings_out_of_range_are_refused(changes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        made(**changes)


@pytest.mark.parametrize(
    "band", [np.zeros((4, 2), np.int64), np.zeros((1, 3), np.int64), np.zeros((1, 2)), np.zeros(2, np.int64)]
)
def test_a_band_that_is_none_of_ours_is_refused(band) -> None:
    with pytest.raises(ValueError, match="the secret state must be 3 draws or fewer"):
        made().privatise(
            1, Private(np.ones((1, 2))), lambda gradient: gradient, Secret(made().basis, Private(band))
        )
