"""Numbers with endless bits, and integers around e^-x."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.privacy.exact import EndlessNumber, exp_minus
from tests.support.oracles.samplers import Planted, unlikely


def exactly(x: Fraction) -> Decimal:
    """e^-x to 200 digits."""
    with localcontext() as context:
        context.prec = 200
        return (-(Decimal(x.numerator) / Decimal(x.denominator))).exp()


@given(st.fractions(0, 60, max_denominator=10**12), st.integers(1, 300))
def test_two_integers_enclose_e_to_minus_x_closely(x: Fraction, bits: int) -> None:
    least, most = exp_minus(x, bits)
    with localcontext() as context:
        context.prec = 200
        assert least <= exactly(x) * 2**bits <= most
    assert most - least <= 2


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(10**6), Fraction(1, 2**80)])
def test_at_the_edges_too(x: Fraction) -> None:
    least, most = exp_minus(x, 100)
    with localcontext() as context:
        context.prec = 200
        assert least <= exactly(x) * 2**100 <= most


def test_bits_are_drawn_only_where_they_are_needed() -> None:
    words = Planted()
    assert EndlessNumber(1, 2, words).below(Fraction(1, 2))  # 1/4..1/2 < 0.607
    assert not EndlessNumber(3, 2, words).below(Fraction(1, 2))
    assert words.given == []
    EndlessNumber(2, 2, words).below(Fraction(1, 2))  # 1/2..3/4
    assert len(words.given) == 1
    assert not words.given[0].any()  # it is overwritten


def test_a_number_stays_the_same_number() -> None:
    number = EndlessNumber(0, 0, Planted(5))
    xs = [Fraction(k, 64) for k in range(1, 200)]
    first = [number.below(x) for x in xs]
    assert [number.below(x) for x in xs] == first
    assert first == sorted(first, reverse=True)  # e^-x falls


@pytest.mark.parametrize("x", [Fraction(1, 100), Fraction(1), Fraction(4)])
def test_it_is_below_with_the_probability_that_is_asked(x: Fraction) -> None:
    words = Planted(7)
    below = sum(EndlessNumber(0, 0, words).below(x) for _ in range(4000))
    share = float(exactly(x))
    assert abs(unlikely([below, 4000 - below], [4000 * share, 4000 * (1 - share)])) < 5
    assert np.all([not given.any() for given in words.given])
