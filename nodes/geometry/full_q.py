"""Projections in the metric of a diagonal or a full Q: argmin over the set of 1/2 (x - y)'Q(x - y).

For the L1 ball and a full Q see `nodes.geometry.active_set`. The functions of a full Q return a row of y
(..., d) unchanged if it is inside, and its bits do not depend on the other rows.
"""

from typing import NamedTuple

import numpy as np

from nodes.values import FloatArray


def project_diagonal_l1(q: FloatArray, radius: float, y: FloatArray) -> FloatArray:
    """Return the projection of y (..., d) onto the L1 ball; q (d,) > 0.

    x_k = sign(y_k) max(|y_k| - tau/q_k, 0), and tau is the largest of the weighted means
    (|y_1| + ... + |y_k| - radius)/(1/q_1 + ... + 1/q_k) in descending order of q|y| (`nodes.geometry.balls`).
    """
    magnitudes = np.abs(y)
    outside = np.add.reduce(magnitudes, -1, keepdims=True) > radius
    if not np.count_nonzero(outside):
        return y
    order = np.argsort(-q * magnitudes, axis=-1)
    sums = np.add.accumulate(np.take_along_axis(magnitudes, order, -1), -1) - radius
    means = sums / np.add.accumulate((1.0 / q)[order], -1)
    tau = np.where(outside, np.maximum(np.maximum.reduce(means, -1, keepdims=True), 0.0), 0.0)
    shrunk: FloatArray = np.copysign(np.maximum(magnitudes - tau / q, 0.0), y)
    return shrunk


def project_diagonal_l2(q: FloatArray, radius: float, y: FloatArray) -> FloatArray:
    """Return the projection of y (..., d) onto the L2 ball; q (d,) > 0.

    x = Qy/(Q + lambda) with ||x|| = radius. Newton's method on 1/||x|| - 1/radius, concave and increasing in
    lambda, climbs to the root from 0 (More, Sorensen 1983, section 3). A row stops once it no longer moves.
    """
    x, multiplier = y, np.zeros((*y.shape[:-1], 1))
    for _ in range(100):  # converges quadratically: a handful of turns for any row
        norm = np.sqrt(np.add.reduce(x * x, -1, keepdims=True))
        slope = np.add.reduce(x * x / (q + multiplier), -1, keepdims=True)
        step = norm / np.where(slope > 0.0, slope, 1.0) * norm * (norm / radius - 1.0)
        climbed = multiplier + np.maximum(step, 0.0)
        if np.array_equal(climbed, multiplier):
            break
        multiplier = climbed
        x = y * (q / (q + multiplier))
    return x


class Eigenbasis(NamedTuple):
    """Q = V diag(values) V', the columns of `vectors` (d, d) orthonormal; `rows` is V'."""

    values: FloatArray
    vectors: FloatArray
    rows: FloatArray

    @classmethod
    def of(cls, q: FloatArray) -> "Eigenbasis":
        """Return the eigenbasis of a symmetric positive definite q (d, d)."""
        values, vectors = np.linalg.eigh(q)
        return cls(values, np.ascontiguousarray(vectors), np.ascontiguousarray(vectors.T))


def project_full_l2(basis: Eigenbasis, radius: float, y: FloatArray) -> FloatArray:
    """Return the projection of y (..., d) onto the L2 ball, exact up to rounding.

    Solves the secular equation ||(Q + lambda)^-1 Qy|| = radius (More, Sorensen 1983) in Q's eigenbasis,
    where L2 norms are the same and Q is diagonal.
    """
    outside = np.sqrt(np.add.reduce(y * y, -1, keepdims=True)) > radius
    if not np.count_nonzero(outside):
        return y
    turned = (basis.rows * y[..., None, :]).sum(-1)
    x = (basis.vectors * project_diagonal_l2(basis.values, radius, turned)[..., None, :]).sum(-1)
    return np.where(outside, x, y)


def project_full_box(q: FloatArray, lower: FloatArray, upper: FloatArray, y: FloatArray) -> FloatArray:
    """Return the projection of y (..., d) onto lower <= x <= upper, exact up to rounding; q (d, d)."""
    outside = np.logical_or.reduce((y < lower) | (y > upper), -1)
    if not np.count_nonzero(outside):
        return y
    x = y.copy()
    for row in np.argwhere(outside):
        x[tuple(row)] = _Search(q, lower, upper, y[tuple(row)]).run()
    return x


class _Search:
    """Minimise 1/2 (x - y)'Q(x - y) over a box: bounded least squares (Stark, Parker 1995).

    Coordinates are `free`, or held at a bound. A turn frees the one that the gradient pulls off its bound
    most, and moves to the minimum over the free ones. Where a coordinate would leave the box it stops, holds
    that one at its bound, and goes on from there. The objective falls with every turn, and each set of held
    coordinates has one minimum, so none comes twice: it ends.
    """

    def __init__(self, q: FloatArray, lower: FloatArray, upper: FloatArray, y: FloatArray) -> None:
        self.q, self.lower, self.upper, self.y = q, lower, upper, y
        self.x = np.minimum(np.maximum(y, lower), upper)
        self.free = (lower < self.x) & (self.x < upper)
        self.rounding = 1e-14 * float(np.abs(q).max() * (np.abs(y).max() + np.abs(self.x).max()))

    def run(self) -> FloatArray:
        """Return the minimum, shape (d,)."""
        self._descend()
        for _ in range(100 + 10 * len(self.x)):  # a limit, in case rounding makes it cycle
            if not self._let_go():
                break
            self._descend()
        return self.x

    def _gradient(self) -> FloatArray:
        product: FloatArray = (self.q * (self.x - self.y)).sum(-1)
        return product

    def _let_go(self) -> bool:
        """Free the coordinate at a bound that the gradient pulls inwards most; false at the minimum."""
        gradient = self._gradient()
        pulled = np.where(self.x < self.upper, -gradient, 0.0)
        pulled = np.where(self.x > self.lower, np.maximum(pulled, gradient), pulled)
        pulled[self.free] = 0.0
        k = int(pulled.argmax())
        if pulled[k] <= self.rounding:
            return False
        self.free[k] = True
        return True

    def _descend(self) -> None:
        """Move to the minimum over the free coordinates, holding those that would leave the box."""
        while (free := np.flatnonzero(self.free)).size:
            now = self.x[free]
            goal = now - np.linalg.solve(self.q[np.ix_(free, free)], self._gradient()[free])
            low, high = self.lower[free], self.upper[free]
            reached = np.flatnonzero((goal <= low) | (goal >= high))
            if not reached.size:
                self.x[free] = goal
                return
            bound = np.where(goal <= low, low, high)[reached]
            room, ways = bound - now[reached], (goal - now)[reached]
            ratios = np.divide(room, ways, out=np.zeros_like(ways), where=ways != 0.0)  # 0/0: there already
            share = float(ratios.min())
            self.x[free] = np.minimum(np.maximum(now + share * (goal - now), low), high)
            blocked = free[reached[ratios <= share]]
            self.x[blocked] = bound[ratios <= share]
            self.free[blocked] = False
