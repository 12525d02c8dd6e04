"""Bounds the effect of one observation, by a clip in floats and then by a clip in integers.

The float clip keeps a vector's direction, and no proof rests on it. The vector is then rounded to a public
grid and clipped again in integers, where no rounding error can occur. ||k||_1 <= K (`to_grid`) or ||k||_2 <=
K (`to_l2_grid`) holds for any input. The sensitivity of a sum of such vectors is the diameter of that set,
which is 2K in that norm.

| vector | becomes |
|---|---|
| norm at most the bound | its nearest grid point |
| 0 | 0 |
| norm above the bound, finite | scaled to the bound, rounded to the grid, towards 0 where the sum exceeds K |
| contains NaN or infinity, or its norm is beyond the largest float | 0, counted as broken |

| vector, in the integer clip in L2 alone | becomes |
|---|---|
| norm above K | scaled to the radius, rounded towards 0: K - 3 is reached |
| contains NaN or infinity | some point within the radius (the float clip before it gives 0) |
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, overload

import numpy as np

from nodes.checks import OutOfRange
from nodes.sparse import Rows, SparseRows
from nodes.values import FloatArray, IntArray

Norm = Literal["l1", "l2", "linf"]

_BITS = 30
_LEAST, _LARGEST = 1e-100, 1e100
_MOST_DIMENSIONS = 1 << 24


@dataclass(frozen=True, slots=True)
class Grid:
    """A public grid: points are `step` times integers; `radius` is K of the L1 clip, in steps."""

    step: float
    radius: int

    @classmethod
    def of(cls, bound: float, dimension: int) -> "Grid":
        """Return the grid for vectors (d,) of L1 norm at most `bound`.

        The step is the power of two for which bound/step is in [2^29, 2^30). Rounding moves a coordinate by
        at most half a step, so with K = ceil(bound/step + d/2) the integer clip leaves vectors within the
        bound unchanged. Raises OutOfRange unless 1e-100 <= bound <= 1e100 and 1 <= d <= 2^24.
        """
        if not _LEAST <= bound <= _LARGEST:
            raise OutOfRange("the clip's bound", bound, f"must be from {_LEAST:g} to {_LARGEST:g}")
        if not 1 <= dimension <= _MOST_DIMENSIONS:
            raise OutOfRange("dimension", dimension, f"must be from 1 to {_MOST_DIMENSIONS}")
        step = math.ldexp(1.0, math.frexp(bound)[1] - _BITS)
        return cls(step, math.ceil(bound / step + dimension / 2))


class Totals(Protocol):
    """Returns for each integer the exact sum of its vector's integers."""

    def __call__(self, integers: IntArray, /) -> IntArray:
        """Return the sums, in a shape that broadcasts to the integers'."""


def along_rows(integers: IntArray, /) -> IntArray:
    """Return the sum of each row of integers (..., d), shape (..., 1)."""
    sums: IntArray = np.add.reduce(integers, -1, keepdims=True)
    return sums


@overload
def clip(vectors: FloatArray, bound: float, norm: Norm) -> tuple[FloatArray, int, int]: ...
@overload
def clip(vectors: SparseRows, bound: float, norm: Norm) -> tuple[SparseRows, int, int]: ...
@np.errstate(all="ignore")
def clip(vectors: Rows, bound: float, norm: Norm) -> tuple[Rows, int, int]:
    """Return (clipped rows (..., d), number of rows that the clip changed, number of broken rows).

    Rows with a norm above `bound` are scaled to it (up to rounding); broken rows become 0. The operations are
    the same for all values.
    """
    sizes = _norms(vectors, norm)
    finite = np.isfinite(sizes)
    factors = bound / np.maximum(sizes, bound)
    changed = int(np.count_nonzero(finite & (sizes > bound)))
    broken = finite.size - int(np.count_nonzero(finite))
    if isinstance(vectors, SparseRows):
        clipped = np.where(finite[vectors.rows], vectors.values * factors[vectors.rows], 0.0)
        return vectors.with_values(clipped), changed, broken
    return np.where(finite[..., None], vectors * factors[..., None], 0.0), changed, broken


def to_grid(vectors: FloatArray, grid: Grid, totals: Totals = along_rows) -> IntArray:
    """Return grid points k, shape (..., d), with ||k||_1 <= grid.radius for any input, NaN and infinity too.

    Coordinates are first limited to 2K (`fmax`, `fmin`: NaN as well), so that all that follows is exact in 64
    bits: 2 K^2 < 2^62, 2 K d < 2^62. Then k_i = sign_i floor(|k_i| K / max(||k||_1, K)), so their magnitudes
    sum to at most K. `totals` sums the entries of each vector; stored entries of sparse rows, (stored,), need
    their own.
    """
    limit = 2.0 * grid.radius * grid.step
    points = _rounded(vectors, limit, grid.step)
    magnitudes = np.abs(points)
    sizes = np.maximum(totals(magnitudes), grid.radius)
    return _scaled(points, magnitudes, grid.radius, sizes)


def _norms(vectors: Rows, norm: Norm) -> FloatArray:
    if isinstance(vectors, SparseRows):
        values, reduced = vectors.values, vectors.reduced
    else:
        values, reduced = vectors, _reduced
    sizes: FloatArray
    match norm:
        case "l1":
            sizes = reduced(np.add, np.abs(values))
        case "l2":
            sizes = np.sqrt(reduced(np.add, values * values))
        case "linf":
            sizes = reduced(np.maximum, np.abs(values))
    return sizes


def _reduced(operation: np.ufunc, values: FloatArray) -> FloatArray:
    reduced: FloatArray = operation.reduce(values, -1)
    return reduced


def l2_grid(bound: float, dimension: int, bits: int = _BITS) -> Grid:
    """Return the grid for vectors (d,) of L2 norm at most `bound`; its radius K is the L2 clip's.

    The step is the power of two for which bound/step is in [2^(b-1), 2^b), with b = `bits`, or less where
    d K^2 would leave 63 bits. Rounding moves a vector by at most sqrt(d)/2 steps, so with
    K = ceil(bound/step + sqrt(d)/2) the integer clip leaves vectors within the bound unchanged. Raises
    ValueError unless 1e-100 <= bound <= 1e100 and 1 <= d <= 2^24.
    """
    finest = Grid.of(bound, dimension).step  # 30 bits, and both ranges checked
    bits_left = min(bits, (62 - dimension.bit_length()) // 2)
    step = math.ldexp(finest, _BITS - bits_left)
    return Grid(step, math.ceil(bound / step + math.sqrt(dimension) / 2))


def to_l2_grid(vectors: FloatArray, grid: Grid, totals: Totals = along_rows) -> IntArray:
    """Return grid points k, shape (..., d), with ||k||_2 <= grid.radius for any input, NaN and infinity too.

    Coordinates are first limited to K (`fmax`, `fmin`: NaN as well), so ||k||^2 <= d K^2 < 2^63 is exact.
    Where ||k||_2 is above K, k_i = sign_i floor(|k_i| K/r) with r >= ||k||_2: then ||k||_2 K/r <= K.
    `totals`: as for `to_grid`.
    """
    limit = grid.radius * grid.step
    points = _rounded(vectors, limit, grid.step)
    squares = totals(points * points)
    roots = np.sqrt(squares).astype(np.int64) + 2  # the float root errs by far less than 1
    sizes = np.where(squares > grid.radius**2, roots, grid.radius)
    return _scaled(points, np.abs(points), grid.radius, sizes)


def _rounded(vectors: FloatArray, limit: float, step: float) -> IntArray:
    """Return the vectors in steps, rounded, each coordinate first limited to `limit` (NaN as well)."""
    clipped = np.fmax(vectors, -limit)
    np.fmin(clipped, limit, out=clipped)
    np.divide(clipped, step, out=clipped)
    return np.rint(clipped, out=clipped).astype(np.int64)


def _scaled(points: IntArray, magnitudes: IntArray, radius: int, sizes: IntArray) -> IntArray:
    """Return sign_i floor(|k_i| radius/sizes), `magnitudes` |k_i|. Overwrites both arrays."""
    np.multiply(magnitudes, radius, out=magnitudes)
    np.floor_divide(magnitudes, sizes, out=magnitudes)
    np.sign(points, out=points)
    return np.multiply(points, magnitudes, out=points)
