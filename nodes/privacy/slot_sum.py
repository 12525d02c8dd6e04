"""The sum of a slot's gradients, each bounded on its own: what mechanisms add their noise to."""

from collections.abc import Callable

import numpy as np

from nodes.privacy.clipping import Norm, clip
from nodes.values import FloatArray, IntArray


def checked(gradients: FloatArray, batch_size: int, dimension: int) -> FloatArray:
    """Return the slot's gradients (..., n, d) with contiguous rows; ValueError for any other shape."""
    if gradients.ndim < 2 or gradients.shape[-1] != dimension or gradients.shape[-2] > batch_size:
        raise ValueError(f"gradients must be of shape (..., n <= {batch_size}, {dimension})")
    return np.ascontiguousarray(gradients, dtype=np.float64)


def bounded_sum(
    gradients: FloatArray, theta: float, norm: Norm, to_points: Callable[[FloatArray], IntArray]
) -> tuple[IntArray, int, int]:
    """Return (the sum (..., d) of the clipped gradients' grid points, how many were clipped, and broken).

    `to_points` rounds to a public grid, and clips again in integers: that is what is proved from.
    """
    held, clipped, broken = clip(gradients, theta, norm)
    total: IntArray = np.add.reduce(to_points(held), -2)
    return total, clipped, broken
