"""The band of `gaussian-bisr`: its numbers, and what a stream of releases costs (privacy.md 4)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.accounting.calibration import gaussian_epsilon
from nodes.accounting.releases import BandComposition
from nodes.privacy.bisr import FINER, GaussianBisr
from nodes.privacy.bisr_coefficients import band_matrix
from nodes.privacy.exact import ExactSampler

UNIT = 2**30


def series(bands: int) -> list[float]:
    """Return r_0 ... r_{w-1} by the paper's recursion."""
    r = [1.0]
    for k in range(1, bands):
        r.append(r[-1] * (k - 1.5) / k)
    return r


@pytest.mark.parametrize("bands", [1, 2, 3, 16, 64, 1024])
def test_the_weights_are_the_series_of_the_square_root(bands: int) -> None:
    matrix = band_matrix(bands)
    np.testing.assert_allclose(matrix.weights / UNIT, -np.array(series(bands)[1:]), rtol=0, atol=0.501 / UNIT)


@pytest.mark.parametrize("bands", [1, 2, 16, 64])
def test_the_column_is_that_of_the_inverse(bands: int) -> None:
    matrix = band_matrix(bands)
    product = np.convolve(matrix.column, np.append(1.0, -matrix.weights / UNIT))[: len(matrix.column)]
    np.testing.assert_allclose(product, np.eye(1, len(product))[0], rtol=0, atol=1e-12)
    assert (matrix.column >= 0).all()


@pytest.mark.parametrize("bands", [1, 2, 16, 64, 1024])
def test_the_norm_is_never_below_parsevals_and_not_above_it_by_much(bands: int) -> None:
    """Parseval: s^2 is the mean of 1/|R|^2 over the unit circle; the trapezoid rule is exact to rounding."""
    matrix = band_matrix(bands)
    on_circle = np.fft.rfft(np.append(1.0, -matrix.weights / UNIT), 1 << 17)
    inverse = 1 / np.abs(on_circle) ** 2
    mean = (2 * inverse.sum() - inverse[0] - inverse[-1]) / (1 << 17)
    assert 1 <= matrix.norm / math.sqrt(mean) < 1 + 3e-7
    assert 1 <= matrix.gain * on_circle[0].real <= 1 + 1e-9


@pytest.mark.parametrize(
    ("bands", "norm", "one", "summed", "stream"),
    [(16, 1.45, 2.7, 0.21, 4.7), (64, 1.60, 3.3, 0.11, 8.4)],
)
def test_the_figures_of_privacy_md(bands, norm, one, summed, stream) -> None:
    matrix = band_matrix(bands)
    assert matrix.norm == pytest.approx(norm, abs=0.005)
    assert (matrix.norm * matrix.row_norm) ** 2 == pytest.approx(one, abs=0.05)
    assert matrix.norm / matrix.gain == pytest.approx(summed, abs=0.005)
    assert matrix.stream_norm(1000) / matrix.norm / math.sqrt(1000) == pytest.approx(stream, abs=0.05)


def test_one_band_is_no_correlation() -> None:
    matrix = band_matrix(1)
    assert (matrix.norm, matrix.gain, matrix.row_norm) == (pytest.approx(1.0, rel=2e-7), 1.0, 1.0)
    assert matrix.mixed(np.empty((0, 3), dtype=np.int64)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("bands", [0, -1, 1025])
def test_other_numbers_of_bands_are_refused(bands: int) -> None:
    with pytest.raises(ValueError, match=rf"bands is {bands}: must be from 1 to 1,024"):
        band_matrix(bands)


FAR = 2**62 - 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-FAR, FAR) | st.sampled_from([FAR, -FAR, 0, 1, -1]), min_size=1, max_size=15))
def test_the_mixture_is_exact_and_rounded_once(draws: list[int]) -> None:
    matrix = band_matrix(16)
    band = np.array(draws, dtype=np.int64)[:, None]
    exact = -sum(int(w) * z for w, z in zip(matrix.weights, draws, strict=False))
    rounded = int(matrix.mixed(band)[0])
    assert abs(Fraction(exact, UNIT) - rounded) <= Fraction(1, 2)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_band_stays_within_64_bits(sign: int) -> None:
    matrix = band_matrix(1024)
    band = np.full((1023, 1), sign * FAR, dtype=np.int64)
    exact = Fraction(-sign * FAR * int(matrix.weights.sum()), UNIT)
    assert abs(exact - int(matrix.mixed(band)[0])) <= Fraction(1, 2)


# ------------------------------------------------------------------------------------------ composition


def composition(bands: int, batch: int = 1, delta: float = 1e-6) -> tuple[GaussianBisr, BandComposition]:
    made = GaussianBisr(0.5, Fraction(1), 1e-6, batch, 2, ExactSampler(), bands)
    moved = 2 * made.grid.radius * batch << FINER
    return made, BandComposition(made.matrix, moved, made.scale, 2, delta)


@pytest.mark.parametrize(("bands", "batch"), [(1, 1), (16, 1), (16, 4), (64, 1)])
def test_a_stream_costs_what_the_dense_matrix_says(bands: int, batch: int) -> None:
    made, spending = composition(bands, batch)
    rounds = 300
    inverse = np.eye(rounds)
    for k, weight in enumerate(made.matrix.weights[: rounds - 1], 1):
        inverse -= np.eye(rounds, k=-k) * weight / UNIT
    moved = np.linalg.solve(inverse, np.ones(rounds))
    mu = batch * 2 * made.grid.radius * 2.0**FINER * np.linalg.norm(moved) / made.scale
    assert spending.spent(rounds) == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-5)
    assert spending.spent(rounds) >= gaussian_epsilon(mu, 1e-6)


def test_one_release_of_a_stream_costs_less_than_its_record_may() -> None:
    _, spending = composition(16)
    assert spending.spent(0) == 0
    assert spending.spent(1) < 1  # the noise is for what later releases tell of it
    assert composition(1)[1].spent(1) == pytest.approx(1, rel=1e-6)


def test_more_releases_cost_more_and_what_is_affordable_is_within_the_budget() -> None:
    _, spending = composition(16)
    costs = [spending.spent(n) for n in (0, 1, 2, 10, 270, 271, 272, 300, 10_000, 10**9)]
    assert costs == sorted(set(costs))
    for budget in (Fraction(1), Fraction(20), Fraction(400)):
        most = spending.affordable(budget)
        assert spending.spent(most) <= budget < spending.spent(most + 1)
    assert spending.affordable(Fraction(1, 10)) == 0


def test_new_bands_never_cost_more_than_one_that_goes_on() -> None:
    matrix = band_matrix(16)
    for one, other in ((1, 1), (5, 20), (300, 300)):
        apart = math.hypot(matrix.stream_norm(one), matrix.stream_norm(other))
        assert apart <= matrix.stream_norm(one + other)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta is"):
        composition(2, delta=delta)
