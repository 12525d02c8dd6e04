"""Discrete noise: its law, and each step of the proof at the top of `nodes.privacy.exact`."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodes.privacy import exact
from nodes.privacy.exact import MOST, entropy, gaussian, laplace
from tests.support.oracles.samplers import (
    Planted,
    opendp_gaussian,
    opendp_laplace,
    probabilities,
    summed,
    unlikely,
)

DRAW = {"laplace": laplace, "gaussian": gaussian}
OPENDP = {"laplace": opendp_laplace, "gaussian": opendp_gaussian}
WORDS = st.one_of(
    st.integers(0, 2**64 - 1), st.integers(0, 200), st.integers(1, 200).map(lambda k: 2**64 - k)
)
SCALES = st.floats(1e-5, 2.0**32, exclude_max=True)


def counted(drawn: np.ndarray, most: int) -> np.ndarray:
    assert np.abs(drawn).max() <= most
    return np.bincount(drawn + most, minlength=2 * most + 1)


# ------------------------------------------------------------------------------------------- the laws


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.3, 0.7, 3.7, 1000.0])
@pytest.mark.parametrize(("size", "count"), [(1_000_000, 1_000_000), (4, 20_000)])
def test_draws_have_their_law(kind: str, scale: float, size: int, count: int) -> None:
    drawn = summed(kind, size, count, scale)
    most = math.ceil(60 * scale) + 10
    assert abs(unlikely(counted(drawn, most), count * probabilities(kind, scale, most))) < 6


@pytest.mark.parametrize("scale", [2.0**31, 2.0**40, 2.0**47.6, 2.0**56])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize(("size", "count"), [(1_000_000, 1_000_000), (4, 20_000)])
def test_large_draws_have_their_law(kind: str, scale: float, size: int, count: int) -> None:
    drawn = summed(kind, size, count, scale)
    shares = np.arange(1, 200) / 200
    if kind == "laplace":
        edges = np.sign(shares - 0.5) * -np.log1p(-np.abs(2 * shares - 1)) * scale
    else:
        edges = np.array([NormalDist().inv_cdf(share) for share in shares]) * scale
    counts = np.histogram(drawn.astype(float), [-np.inf, *edges, np.inf])[0]
    assert abs(unlikely(counts, np.full(200, count / 200))) < 6
    low = np.bincount(drawn & 63, minlength=64)  # the lowest bits are even, too
    assert abs(unlikely(low, np.full(64, count / 64))) < 6


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.7, 3.7])
def test_opendp_draws_the_same(kind: str, scale: float) -> None:
    count, most = 20_000, 250
    theirs = counted(np.array(OPENDP[kind](scale)([0] * count)), most)
    ours = counted(DRAW[kind](count, scale, entropy), most)
    often = theirs + ours >= 20
    spread = ((theirs - ours) ** 2 / np.maximum(theirs + ours, 1))[often].sum()
    assert abs(spread - often.sum()) / math.sqrt(2 * often.sum()) < 6


# ---------------------------------------------------------------------------- floats decide as integers


@pytest.fixture
def wide(monkeypatch):
    """Nothing is decided by floats."""
    monkeypatch.setattr(exact, "_LOG_BAND", 1.0)
    monkeypatch.setattr(exact, "_KEPT_BAND", 2.0)


def in_integers(word: int, scale: float) -> int:
    """Return floor(-scale ln U) for the middle of the word's cell, without a float."""
    number = exact.EndlessNumber((word >> 1 << 1) + 1, 64, Planted(1))
    return exact._settled(number, Fraction(scale), 0, math.ceil(64 * Fraction(scale)))


@given(WORDS.filter(lambda word: word > 1), SCALES)
@example(2**64 - 1, 2.0**31)
@example(2, 1e-5)
def test_a_magnitude_is_that_of_integers_alone(word: int, scale: float) -> None:
    band = scale * 4 / (word | 1)  # as far as the bits that are not drawn may move it
    drawn = exact._geometric(word, scale, Planted(2))
    assert abs(drawn - in_integers(word, scale)) <= math.ceil(band)


@given(st.lists(WORDS, min_size=1, max_size=20), SCALES)
def test_many_at_once_are_those_one_by_one(words: list[int], scale: float) -> None:
    many = exact._geometrics(np.array(words, dtype=np.uint64), scale, Planted(3))
    settled = Planted(3)
    assert many.tolist() == [exact._geometric(word, scale, settled) for word in words]


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.7, 3.7, 2.0**40])
def test_integers_alone_draw_the_same_law(kind: str, scale: float) -> None:
    count = 500 if scale > 100 else 2_000
    drawn = DRAW[kind](count, scale, entropy)
    if scale > 100:
        deviation = math.sqrt(2) * scale if kind == "laplace" else scale
        assert drawn.std() == pytest.approx(deviation, rel=0.3)
        assert abs(drawn.mean()) < 5 * deviation / math.sqrt(count)
    else:
        most = math.ceil(60 * scale)
        assert abs(unlikely(counted(drawn, most), count * probabilities(kind, scale, most))) < 6


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.7, 2.0**31, 2.0**45])
@pytest.mark.parametrize("size", [3, 500])
def test_a_wide_band_changes_no_draw(kind: str, scale: float, size: int, monkeypatch) -> None:
    """Where the bits that are drawn decide, integers say what floats say."""
    narrow = DRAW[kind](size, scale, Planted(11))
    monkeypatch.setattr(exact, "_LOG_BAND", 2.0**-45)
    monkeypatch.setattr(exact, "_KEPT_BAND", 2.0**-4)
    assert DRAW[kind](size, scale, Planted(11)).tolist() == narrow.tolist()


@given(st.integers(0, 2**63 - 1).map(lambda w: 2 * w + 1))
@example(1)
@example(3)
@example(2**64 - 1)
@example(2**63 + 1)
def test_the_logarithm_is_within_its_bound(v: int) -> None:
    """With scale 1, the middle of both ends is y, and y is L^."""
    mantissa, exponent = np.frexp(float(v))
    if mantissa < exact._ROOT:
        mantissa, exponent = 2 * mantissa, exponent - 1
    least, most = exact._enclosed(math.inf, float(mantissa), float(exponent), 1.0)
    with localcontext() as context:
        context.prec = 60
        exactly = 64 * Decimal(2).ln() - Decimal(v).ln()
        middle = (Decimal(least) + Decimal(most)) / 2
        assert abs(middle - exactly) <= Decimal(2) ** -51 * (1 + exactly) + Decimal(2) ** -53 * exactly


@given(st.floats(0, 64))
def test_the_exponential_is_within_its_bound(x: float) -> None:
    halvings = round(x / exact._LN_2)
    found = math.ldexp(exact._polynomial(exact._EXPONENTIAL, x - halvings * exact._LN_2), -halvings)
    with localcontext() as context:
        context.prec = 60
        assert abs(Decimal(found) - (-Decimal(x)).exp()) <= Decimal(2) ** -45


# ------------------------------------------------------------------------------------------- the edges


@pytest.mark.parametrize("scale", [0.7, 3.7])
def test_the_lowest_cell_has_no_end_and_the_law_beyond_it(scale: float) -> None:
    """Given 63 zero bits, P(Y >= k) is e^(-k/S) 2^63 where that is below 1."""
    least = math.floor(63 * math.log(2) * scale)
    words = Planted(13)
    drawn = np.array([exact._geometric(0, scale, words) for _ in range(1_500)]) - least
    assert drawn.min() >= 0
    beyond = np.minimum(1, np.exp(63 * math.log(2) - (least + np.arange(200)) / scale))
    law = beyond[:-1] - beyond[1:]
    assert abs(unlikely(np.bincount(drawn, minlength=199)[:199], 1_500 * law)) < 6
    assert drawn.max() > 3 * scale


def test_the_lowest_cell_is_never_decided_by_its_middle() -> None:
    """Here floats say 0, and 0.8 % of the cell's draws are 1."""
    words = Planted(13)
    assert sum(exact._geometric(0, 0.0206, words) for _ in range(1_500)) > 0


def test_the_highest_cell_is_zero() -> None:
    assert exact._geometric(2**64 - 1, 2.0**31, Planted()) == 0
    assert laplace(5, 2.0**31, Planted(0, [2**64 - 2] * 5)).tolist() == [0] * 5


@pytest.mark.parametrize("size", [1, 10])
def test_a_magnitude_saturates(size: int) -> None:
    words = Planted(0, [0] * (4 * size))
    assert abs(int(laplace(size, 2.0**56, words)[0])) <= MOST
    assert exact._settled(exact.EndlessNumber(0, 63, Planted(0, [0, 0, 0])), Fraction(2**60), 0, 1) == MOST


@pytest.mark.parametrize("size", [1, 3, 700])
@pytest.mark.parametrize("scale", [0.3, 2.0**31, 2.0**50])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_every_word_is_overwritten(kind: str, scale: float, size: int) -> None:
    words = Planted(17)
    assert DRAW[kind](size, scale, words).shape == (size,)
    assert words.given
    assert not any(given.any() for given in words.given)


@pytest.mark.usefixtures("wide")
def test_those_of_integers_are_overwritten_too() -> None:
    words = Planted(17)
    gaussian(20, 2.0**50, words)
    assert not any(given.any() for given in words.given)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_no_draw_is_a_draw(kind: str) -> None:
    assert DRAW[kind](0, 1.0, Planted()).size == 0
