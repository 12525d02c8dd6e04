"""Motion models: the public matrix F by which a state moves from one round to the next.

| model | state | F |
|---|---|---|
| constant velocity | position, velocity | [[I, p I], [0, I]] |
| constant acceleration | position, velocity, acceleration | [[I, p I, p^2/2 I], [0, I, p I], [0, 0, I]] |

I has as many rows as the position has coordinates, and p is the period of a round.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nodes.checks import at_least_one, finite_array, positive
from nodes.values import FloatArray

LARGEST_RADIUS = 1.0 + 1e-9
"""The largest spectral radius of F with which a state moves no faster than the model's polynomial."""

_LARGEST = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Dynamics:
    """F, shape (d, d), as a map of states. ValueError unless F is square and finite.

    Sums run in a fixed order, without BLAS: one state gives the same bits alone or among others. `by_time`: a
    round is a period of the clock, so F is also applied for unplanned rounds.
    """

    matrix: FloatArray
    by_time: bool = False

    def __post_init__(self) -> None:
        matrix = finite_array("matrix", self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(f"matrix has shape {matrix.shape}: must be (d, d), d >= 1")
        object.__setattr__(self, "matrix", matrix)

    @property
    def dimension(self) -> int:
        """The dimension d of a state."""
        return len(self.matrix)

    @np.errstate(all="ignore")  # of an F that grows
    def moved(self, x: FloatArray, times: int = 1) -> FloatArray:
        """Return F^times x, shape (..., d), finite; `times` is at least 0."""
        if times == 0:
            return x
        image = _times(self.matrix if times == 1 else _power(self, times), x)
        if np.isfinite(image).all():
            return image
        return np.nan_to_num(image, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)  # Omega holds it

    def carried(self, difference: FloatArray, times: int) -> FloatArray:
        """Return what a difference of states (..., d) is after `times` rounds: F^times of it."""
        return self.moved(difference, times)

    def skipped(self, round: int, follows: int) -> int:
        """Return the number of unplanned rounds between `follows` (0: there was no plan before)
        and `round`.
        """
        return round - follows - 1 if self.by_time and follows else 0

    def spectral_radius(self) -> float:
        """Return the largest modulus of an eigenvalue: above 1, states grow geometrically."""
        return float(np.abs(np.linalg.eigvals(self.matrix)).max())


def _times(matrix: FloatArray, x: FloatArray) -> FloatArray:
    product: FloatArray = (matrix * x[..., None, :]).sum(-1)
    return product


@lru_cache(maxsize=64)
def _power(dynamics: Dynamics, times: int) -> FloatArray:
    """Return F^times by squaring, shape (d, d), as a whole day of rounds may be skipped."""
    power, square = None, dynamics.matrix
    while times > 1:
        if times % 2:
            power = square if power is None else _product(power, square)
        square, times = _product(square, square), times // 2
    return square if power is None else _product(power, square)


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    return _times(np.ascontiguousarray(right.T), left)


def motion(orders: int, dimensions: int, period: float, *, by_time: bool = False) -> Dynamics:
    """Return constant velocity (`orders` 2) or constant acceleration (3) in `dimensions` coordinates.

    Entry (i, j) of its blocks is period^(j - i)/(j - i)!, Taylor's, above the diagonal.
    """
    at_least_one("dimensions", dimensions)
    positive("period", period)
    blocks = np.zeros((orders, orders))
    for i in range(orders):
        term = 1.0
        for j in range(i, orders):
            blocks[i, j] = term
            term = term * period / (j - i + 1)
    return Dynamics(_each(blocks, dimensions), by_time)


def gain_metric(gains: tuple[float, ...], dimensions: int) -> tuple[FloatArray, FloatArray]:
    """Return Q and Q^-1 (d, d) of a state whose steps from the position's gradient are the gains.

    Q^-1 has the blocks k_1 I, k_2 I, ... in its first row and column, and k_i k_j/k_1 I elsewhere, twice
    that where i = j: [[k1, k2], [k2, 2 k2^2/k1]], and for acceleration
    [[k1, k2, k3], [k2, 2 k2^2/k1, k2 k3/k1], [k3, k2 k3/k1, 2 k3^2/k1]]. It is k k'/k_1 and a positive
    diagonal but in the first place, so positive definite. ValueError unless all gains are above 0.
    """
    for number, gain in enumerate(gains, 1):
        positive(f"k{number}", gain)
    first, k = gains[0], np.array(gains)
    inverse = k[:, None] * k / first
    inverse[0] = inverse[:, 0] = k
    metric = np.zeros_like(inverse)
    metric[0] = metric[:, 0] = -1.0 / k
    metric[0, 0] = len(k) / first
    for i in range(1, len(k)):
        inverse[i, i] *= 2.0
        metric[i, i] = first / k[i] / k[i]
    return _each(metric, dimensions), _each(inverse, dimensions)


def _each(blocks: FloatArray, dimensions: int) -> FloatArray:
    """Return the matrix that has b_ij I in block (i, j)."""
    return np.kron(blocks, np.eye(dimensions)).astype(np.float64)
