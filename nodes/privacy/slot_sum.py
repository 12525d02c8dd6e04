"""The sum of a slot's gradients, each clipped on its own, before the mechanism's noise.

Sparse gradients give the same integers as dense ones: a coordinate that is not stored is 0, and so is its
grid point. The sum is dense, and so is the noise on it: which coordinates were stored does not show.
"""

from typing import Protocol

import numpy as np

from nodes.privacy.clipping import Norm, Totals, along_rows, clip
from nodes.sparse import Rows, SparseRows
from nodes.sparse import dense as as_array
from nodes.values import FloatArray, IntArray


class ToPoints(Protocol):
    """Rounds to a public grid and clips again in integers: the clip that proofs rest on."""

    def __call__(self, vectors: FloatArray, *, totals: Totals = ...) -> IntArray:
        """Return the points; `totals` as for `nodes.privacy.clipping.to_grid`."""


def checked(gradients: Rows, batch_size: int, dimension: int) -> Rows:
    """Return the slot's gradients (..., n, d), contiguous rows or sparse; ValueError for other shapes."""
    shape = gradients.shape
    if len(shape) < 2 or shape[-1] != dimension or shape[-2] > batch_size:
        raise ValueError(f"gradients must be of shape (..., n <= {batch_size}, {dimension})")
    if isinstance(gradients, SparseRows):
        return gradients
    return np.ascontiguousarray(gradients, dtype=np.float64)


def dense(gradients: Rows, batch_size: int, dimension: int) -> FloatArray:
    """Return the gradients as `checked` does, as a dense array, for mechanisms that need whole rows."""
    return as_array(checked(gradients, batch_size, dimension))


def bounded_sum(gradients: Rows, theta: float, norm: Norm, to_points: ToPoints) -> tuple[IntArray, int, int]:
    """Return (sum (..., d) of the clipped gradients' grid points, number clipped, number broken)."""
    if isinstance(gradients, SparseRows):
        held, clipped, broken = clip(gradients, theta, norm)
        return held.counted(to_points(held.values, totals=held.totals)), clipped, broken
    rows, clipped, broken = clip(gradients, theta, norm)
    total: IntArray = np.add.reduce(to_points(rows, totals=along_rows), -2)
    return total, clipped, broken
