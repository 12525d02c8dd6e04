"""Bounds what one observation can do: a float clip for use, an integer clip for proof (privacy.md 3).

The float clip keeps a vector's direction, and nothing is proved from it. Then the vector is rounded to a
public grid and clipped again in integers, where no rounding can hide anything: ||k||_1 <= K holds for any
input, and the sensitivity of a sum of such vectors is the diameter of that set, 2K.

| vector | becomes |
|---|---|
| norm at most the bound | its nearest grid point |
| 0 | 0 |
| norm above the bound, finite | scaled to the bound, rounded to the grid, towards 0 where the sum exceeds K |
| NaN or infinity inside, or a norm beyond the largest float | 0, counted as broken |
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nodes.checks import OutOfRange
from nodes.values import FloatArray, IntArray

Norm = Literal["l1", "l2", "linf"]

_BITS = 30
_LEAST, _LARGEST = 1e-100, 1e100
_MOST_DIMENSIONS = 1 << 24


@dataclass(frozen=True, slots=True)
class Grid:
    """A public grid: points are `step` times integers; `radius` is K, in steps, the L1 clip's."""

    step: float
    radius: int

    @classmethod
    def of(cls, bound: float, dimension: int) -> "Grid":
        """Return the grid for vectors (d,) of L1 norm at most `bound`.

        The step is the power of two for which bound/step is in [2^29, 2^30). Rounding moves a coordinate by
        half a step at most, so with K = ceil(bound/step + d/2) the integer clip does nothing to a vector
        within the bound. Raises OutOfRange unless 1e-100 <= bound <= 1e100 and 1 <= d <= 2^24.
        """
        if not _LEAST <= bound <= _LARGEST:
            raise OutOfRange("the clip's bound", bound, f"must be from {_LEAST:g} to {_LARGEST:g}")
        if not 1 <= dimension <= _MOST_DIMENSIONS:
            raise OutOfRange("dimension", dimension, f"must be from 1 to {_MOST_DIMENSIONS}")
        step = math.ldexp(1.0, math.frexp(bound)[1] - _BITS)
        return cls(step, math.ceil(bound / step + dimension / 2))


@np.errstate(all="ignore")
def clip(vectors: FloatArray, bound: float, norm: Norm) -> tuple[FloatArray, int, int]:
    """Return (clipped (..., d), how many the clip changed, how many were broken).

    Rows of a norm above `bound` are scaled to it (up to rounding); broken rows are 0. The same operations
    whatever the values are.
    """
    sizes = _norms(vectors, norm)
    whole = np.isfinite(sizes)
    scaled = vectors * (bound / np.maximum(sizes, bound))[..., None]
    clipped = np.where(whole[..., None], scaled, 0.0)
    changed = int(np.count_nonzero(whole & (sizes > bound)))
    return clipped, changed, whole.size - int(np.count_nonzero(whole))


def to_grid(vectors: FloatArray, grid: Grid) -> IntArray:
    """Return grid points k, shape (..., d), with ||k||_1 <= grid.radius for any input, NaN and infinity too.

    Coordinates are first held to 2K (`fmax`, `fmin`: NaN as well), so that all that follows is exact in 64
    bits: 2 K^2 < 2^62, 2 K d < 2^62. Then k_i = sign_i floor(|k_i| K / max(||k||_1, K)), whose sum is at
    most K.
    """
    limit = 2.0 * grid.radius * grid.step
    held = np.fmin(np.fmax(vectors, -limit), limit)
    points = np.rint(held / grid.step).astype(np.int64)
    magnitudes = np.abs(points)
    sizes = np.maximum(np.add.reduce(magnitudes, -1, keepdims=True), grid.radius)
    bounded: IntArray = np.sign(points) * (magnitudes * grid.radius // sizes)
    return bounded


def _norms(vectors: FloatArray, norm: Norm) -> FloatArray:
    sizes: FloatArray
    match norm:
        case "l1":
            sizes = np.add.reduce(np.abs(vectors), -1)
        case "l2":
            sizes = np.sqrt(np.add.reduce(vectors * vectors, -1))
        case "linf":
            sizes = np.maximum.reduce(np.abs(vectors), -1)
    return sizes
