"""The integer clip in L2: ||k||_2 <= K on a public grid, for any input.

As with `nodes.privacy.clipping` for L1, a float clip comes first, and no proof rests on it. The sensitivity
of a sum of such vectors is 2K in L2.

| vector | becomes |
|---|---|
| norm at most the bound | its nearest grid point |
| 0 | 0 |
| norm above K | scaled to the radius, rounded towards 0: K - 3 is reached |
| contains NaN or infinity | some point within the radius (the float clip before it gives 0) |
"""

import math

import numpy as np

from nodes.privacy.clipping import Grid, Totals, along_rows
from nodes.values import FloatArray, IntArray

_BITS = 30


def l2_grid(bound: float, dimension: int, bits: int = _BITS) -> Grid:
    """Return the grid for vectors (d,) of L2 norm at most `bound`; its radius K is the L2 clip's.

    The step is the power of two for which bound/step is in [2^(b-1), 2^b), with b = `bits`, or less where
    d K^2 would leave 63 bits. Rounding moves a vector by at most sqrt(d)/2 steps, so with
    K = ceil(bound/step + sqrt(d)/2) the integer clip leaves vectors within the bound unchanged. Raises
    ValueError unless 1e-100 <= bound <= 1e100 and 1 <= d <= 2^24.
    """
    finest = Grid.of(bound, dimension).step  # 30 bits, and both ranges checked
    kept = min(bits, (62 - dimension.bit_length()) // 2)
    step = math.ldexp(finest, _BITS - kept)
    return Grid(step, math.ceil(bound / step + math.sqrt(dimension) / 2))


def to_l2_grid(vectors: FloatArray, grid: Grid, totals: Totals = along_rows) -> IntArray:
    """Return grid points k, shape (..., d), with ||k||_2 <= grid.radius for any input, NaN and infinity too.

    Coordinates are first limited to K (`fmax`, `fmin`: NaN as well), so ||k||^2 <= d K^2 < 2^63 is exact.
    Where ||k||_2 is above K, k_i = sign_i floor(|k_i| K/r) with r >= ||k||_2: then ||k||_2 K/r <= K.
    `totals`: as for `to_grid`.
    """
    limit = grid.radius * grid.step
    held = np.fmin(np.fmax(vectors, -limit), limit)
    points = np.rint(held / grid.step).astype(np.int64)
    squares = totals(points * points)
    roots = np.sqrt(squares).astype(np.int64) + 2  # the float root errs by far less than 1
    sizes = np.where(squares > grid.radius**2, roots, grid.radius)
    bounded: IntArray = np.sign(points) * (np.abs(points) * grid.radius // sizes)
    return bounded
