"""Exact numbers for claims, and checks of settings: an error names the field, its value, what is allowed."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction

import numpy as np

from nodes.values import FloatArray

# Exact numbers for claims: decimals as fractions, and floats that never round down.


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


# Checks of settings: each error names the field, the value and what is allowed.


class OutOfRange(ValueError):
    """The setting `name` has a wrong `value`; `allowed` says what it must be."""

    def __init__(self, name: str, value: float | Fraction, allowed: str) -> None:
        text = as_text(value) if isinstance(value, Fraction) else repr(value)
        super().__init__(f"{name} is {text}: {allowed}")
        self.name, self.value, self.allowed = name, value, allowed


def positive(name: str, value: float) -> None:
    """Raise OutOfRange unless `value` is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise OutOfRange(name, value, "must be finite and above 0")


def not_negative(name: str, value: float) -> None:
    """Raise ValueError unless `value` is finite and at least 0."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} is {value!r}: must be finite and at least 0")


def at_least_one(name: str, value: int) -> None:
    """Raise OutOfRange unless `value` is an integer of at least 1."""
    if value < 1 or value != int(value):
        raise OutOfRange(name, value, "must be a whole number of at least 1")


def finite_array(name: str, value: FloatArray) -> FloatArray:
    """Return a read-only C-contiguous float64 copy of a public array; ValueError unless all is finite."""
    array = np.array(value, dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds a value that is not finite: must be finite numbers")
    array.flags.writeable = False
    return array


# Ranges of settings: epsilons where formulas are safe, draws that fit 64 bits, rows that fit memory.

_LEAST, _LARGEST = Fraction(1, 10**8), Fraction(10**5)
RANGE = 1 << 62
"""Bound on noised values and their noise: sums saturate here, so that they fit 64 bits."""
TAIL = 64
"""Number of noise scales that must fit: an exact draw exceeds them once in e^64."""
_MOST_NUMBERS = 1 << 26


def in_range(epsilon: Fraction) -> None:
    """Raise OutOfRange unless 1e-8 < epsilon <= 1e5, where every formula here is safe in floats."""
    if not _LEAST < epsilon <= _LARGEST:
        allowed = f"above {float(_LEAST):g} and at most {as_text(_LARGEST)}"
        raise OutOfRange("epsilon", epsilon, f"must be {allowed}")


def room_for_noise(radius: int, batch_size: int) -> int:
    """Return the room that sums of h values of up to `radius` leave to noise: at least half of the range.

    Raises OutOfRange if they leave less.
    """
    room = RANGE - radius * batch_size
    if room <= RANGE // 2:
        raise OutOfRange("batch_size", batch_size, f"must be at most {RANGE // 2 // radius}")
    return room


def fits_memory(name: str, rows: int, dimension: int) -> None:
    """Raise OutOfRange if the rows hold more than 2^26 numbers: half a GiB in every step."""
    if rows * dimension > _MOST_NUMBERS:
        allowed = f"must be at most {_MOST_NUMBERS // dimension} where the dimension is {dimension}"
        raise OutOfRange(name, rows, allowed)
