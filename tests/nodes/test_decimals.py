import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.checks import as_text, decimal, down_to_digits, rounded_up, up_to_digits


def test_a_decimal_is_what_is_written_not_the_nearest_double() -> None:
    assert decimal(0.1) == decimal("0.1") == Fraction(1, 10) != Fraction(0.1)
    assert decimal(1e-9) == Fraction(1, 10**9)
    assert decimal(3) == 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "x", "", "1/0", "nan"])
def test_what_is_no_finite_number_is_refused(value: float | str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        decimal(value)


@settings(max_examples=100)
@given(st.fractions(min_value=0, max_value=10**12))
def test_rounding_up_gives_the_smallest_float_that_is_enough(value: Fraction) -> None:
    up = rounded_up(value)
    assert Fraction(up) >= value
    assert Fraction(math.nextafter(up, -math.inf)) < value


def test_rounding_up_moves_where_the_nearest_float_is_below() -> None:
    assert Fraction(1 / 3) < Fraction(1, 3)
    assert rounded_up(Fraction(1, 3)) == math.nextafter(1 / 3, 1.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [("0.1", "0.1"), ("10", "10"), ("1/3", "1/3"), ("1e-09", "1e-09"), ("2.50", "2.5")],
)
def test_texts_say_the_number_itself(value: str, text: str) -> None:
    assert as_text(Fraction(value)) == text


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (3.5247099772, 3.52471, 3.5247),
        (0.41055471007, 0.410555, 0.410554),
        (1234567.0, 1234570.0, 1234560.0),
        (2.0000000001e-6, 2.00001e-6, 2e-6),
        (0.1 + 0.2, 0.3, 0.3),  # rounded up already
        (math.nextafter(5.0, 0.0), 5.0, 5.0),
        (0.0, 0.0, 0.0),
        (math.inf, math.inf, math.inf),
    ],
)
def test_what_is_shown_in_six_digits_is_not_less_than_is_spent_nor_more_than_is_left(
    value: float, up: float, down: float
) -> None:
    assert (up_to_digits(value), down_to_digits(value)) == (up, down)
