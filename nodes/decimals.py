"""Exact numbers for claims: decimals as fractions, and floats that never round down."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction


def decimal(value: float | str) -> Fraction:
    """Return the number exactly as it is written: 0.1 (or "0.1") is 1/10, not the nearest double.

    Raises ValueError unless `value` is finite.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    try:
        return Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{value!r} is not a number") from None


def rounded_up(value: Fraction) -> float:
    """Return the smallest float that is at least `value`."""
    return quotient_up(value.numerator, value.denominator)


def quotient_up(numerator: int, denominator: int) -> float:
    """Return the smallest float that is at least numerator/denominator; denominator above 0."""
    nearest = numerator / denominator
    top, bottom = nearest.as_integer_ratio()
    return nearest if top * denominator >= numerator * bottom else math.nextafter(nearest, math.inf)


_DIGITS = 6
_ROUNDED_OFF = 1e-12


def up_to_digits(value: float) -> float:
    """Return `value`, at least 0, rounded up to six digits, so that spending is never shown as less.

    A relative 1e-12 is ignored, so that 0.30000000000000004, itself rounded up, is shown as 0.3.
    """
    return _to_digits(value * (1 - _ROUNDED_OFF), ROUND_CEILING)


def down_to_digits(value: float) -> float:
    """Return `value`, at least 0, rounded down to six digits, so that the rest is never shown as more."""
    return _to_digits(value * (1 + _ROUNDED_OFF), ROUND_FLOOR)


def _to_digits(value: float, rounding: str) -> float:
    if not math.isfinite(value):
        return value
    return float(Context(prec=_DIGITS, rounding=rounding).create_decimal(value))


def as_text(value: Fraction) -> str:
    """Return `value` as a decimal if that is exact (0.1, 10), otherwise as a fraction (1/3)."""
    text = f"{float(value)!r}".removesuffix(".0")
    return text if Fraction(text) == value else str(value)
