"""Checks of settings: each error names the field, the value and what is allowed."""

import math

import numpy as np

from nodes.values import FloatArray


def positive(name: str, value: float) -> None:
    """Raise ValueError unless `value` is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value!r}: must be finite and above 0")


def not_negative(name: str, value: float) -> None:
    """Raise ValueError unless `value` is finite and at least 0."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} is {value!r}: must be finite and at least 0")


def at_least_one(name: str, value: int) -> None:
    """Raise ValueError unless `value` is an integer of at least 1."""
    if value < 1 or value != int(value):
        raise ValueError(f"{name} is {value!r}: must be a whole number of at least 1")


def finite_array(name: str, value: FloatArray) -> FloatArray:
    """Return a read-only C-contiguous float64 copy of a public array; ValueError unless all is finite."""
    array = np.array(value, dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds a value that is not finite: must be finite numbers")
    array.flags.writeable = False
    return array
