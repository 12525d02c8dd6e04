"""Checks of settings: each error names the field, the value and what is allowed."""

import math
from fractions import Fraction

import numpy as np

from nodes.decimals import as_text
from nodes.values import FloatArray


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
