"""The mirror step argmin over x in Omega of D(x, z) + <s, x>, for the combinations that are offered.

The step is the Bregman projection onto Omega of the free step y, grad phi(y) = grad phi(z) - s. It has a
closed form, or takes a finite search, or one equation solved to the last bits (Zhou, Li 2025, Algorithm 1;
Beck, Teboulle 2003, eq. 3.11 for the entropy).

| mirror map | constraints offered |
|---|---|
| Euclidean | all |
| Mahalanobis, Q diagonal or full | L1, L2, Linf balls, box |
| entropy | simplex |
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from nodes.geometry.constraints import Box, Constraint, L1Ball, L2Ball, LinfBall, Simplex
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis, MirrorMap
from nodes.values import FloatArray

ENTROPY_FLOOR = 1e-12
"""Each coordinate is at least ENTROPY_FLOOR/d before renormalising: one at 0 could never grow again."""


class NotOffered(ValueError):
    """The mirror map and constraint have no exact step; the text names the combinations that have one."""


@dataclass(frozen=True, slots=True, eq=False)
class MirrorStep:
    """A mirror step of one map on one set. Arrays as in `nodes.geometry.constraints`: (d,) or (..., d).

    `free` maps (z, s) to y, the step without the constraint. `onto` is the Bregman projection of y onto
    Omega. `start` is the point of Omega where phi is least, shape (d,), read-only.
    """

    mirror_map: MirrorMap
    constraint: Constraint
    free: Callable[[FloatArray, FloatArray], FloatArray]
    onto: Callable[[FloatArray], FloatArray]
    start: FloatArray

    def __call__(self, z: FloatArray, scaled_gradient: FloatArray) -> FloatArray:
        """Return argmin over x in Omega of D(x, z) + <scaled_gradient, x>, shape (..., d)."""
        return self.onto(self.free(z, scaled_gradient))

    def project(self, z: FloatArray) -> FloatArray:
        """Return the step with zero gradient, the Bregman projection of z onto Omega, shape (..., d)."""
        return self.onto(z)


def mirror_step(mirror_map: MirrorMap, constraint: Constraint) -> MirrorStep:
    """Return the step of that map on that set.

    Raises NotOffered, a ValueError, if there is none, and ValueError if the dimensions differ.
    """
    onto: Callable[[FloatArray], FloatArray]
    free: Callable[[FloatArray, FloatArray], FloatArray]
    match mirror_map, constraint:
        case Euclidean(), _:
            free, onto = np.subtract, constraint.project
        case Mahalanobis(), _:
            free, onto = _mahalanobis(mirror_map, constraint)
        case Entropy(), Simplex():
            onto = partial(_floored_simplex, constraint)
            free = partial(_multiplicative, onto)
        case _:
            raise _not_offered(mirror_map, constraint)
    # phi is least at 0 without the constraint; the entropy at equal coordinates, to which 0 is projected.
    start = onto(np.zeros(constraint.dimension))
    start.flags.writeable = False
    return MirrorStep(mirror_map, constraint, free, onto, start)


def _mahalanobis(
    mirror_map: Mahalanobis, constraint: Constraint
) -> tuple[Callable[[FloatArray, FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]:
    q = mirror_map.q
    match mirror_map.diagonal, constraint:
        case True, LinfBall() | Box():  # separable: each coordinate on its own
            onto = constraint.project
        case True, L1Ball():
            onto = partial(project_diagonal_l1, q, constraint.radius)
        case True, L2Ball():
            onto = partial(project_diagonal_l2, q, constraint.radius)
        case False, L1Ball():
            onto = partial(project_full_l1, q, constraint.radius)
        case False, L2Ball():
            onto = partial(project_full_l2, Eigenbasis.of(q), constraint.radius)
        case False, Box():
            onto = partial(project_full_box, q, constraint.lower, constraint.upper)
        case False, LinfBall():
            corner = np.full(constraint.dimension, constraint.radius)
            onto = partial(project_full_box, q, -corner, corner)
        case _:
            raise _not_offered(mirror_map, constraint)
    if mirror_map.dimension != constraint.dimension:
        raise ValueError(
            f"q has dimension {mirror_map.dimension}, the {constraint.name} {constraint.dimension}: "
            "must be the same"
        )
    inverse: FloatArray = 1.0 / q if mirror_map.diagonal else np.linalg.inv(q).astype(np.float64)
    return partial(_preconditioned, inverse), onto


def _preconditioned(inverse: FloatArray, z: FloatArray, s: FloatArray) -> FloatArray:
    """Return z - Q^-1 s, without BLAS."""
    offset: FloatArray = inverse * s if inverse.ndim == 1 else (inverse * s[..., None, :]).sum(-1)
    return z - offset


def _multiplicative(onto: Callable[[FloatArray], FloatArray], z: FloatArray, s: FloatArray) -> FloatArray:
    """Return z exp(-s), scaled to sum 1 (which is its Bregman projection), in logarithms."""
    logarithms = np.log(onto(z)) - s
    powers = np.exp(logarithms - np.maximum.reduce(logarithms, -1, keepdims=True))
    normalised: FloatArray = powers / np.add.reduce(powers, -1, keepdims=True)
    return normalised


def _floored_simplex(simplex: Simplex, y: FloatArray) -> FloatArray:
    """Return y, projected onto the simplex in L2 if it is outside, with the public floor, renormalised."""
    floored = np.maximum(simplex.project(y), ENTROPY_FLOOR / simplex.dimension)
    total: FloatArray = floored / np.add.reduce(floored, -1, keepdims=True)
    return total


def _not_offered(mirror_map: MirrorMap, constraint: Constraint) -> NotOffered:
    return NotOffered(
        f"{mirror_map.name} on the {constraint.name} is not offered; offered are: euclidean on l1-ball, "
        "l2-ball, linf-ball, box, simplex; entropy on simplex; mahalanobis, with a diagonal or a full q, on "
        "l1-ball, l2-ball, linf-ball, box"
    )


# Projection onto the L1 ball in the metric of a full Q: argmin over the ball of 1/2 (x - y)'Q(x - y).


def project_full_l1(q: FloatArray, radius: float, y: FloatArray) -> FloatArray:
    """Return the projection of y (..., d) onto the L1 ball, exact up to rounding; q (d, d).

    Each row is solved on its own, so its bits do not depend on the other rows.
    """
    outside = np.add.reduce(np.abs(y), -1) > radius
    if not np.count_nonzero(outside):
        return y
    targets = (q * y[..., None, :]).sum(-1)
    x = y.copy()
    for row in np.argwhere(outside):
        x[tuple(row)] = _ActiveSearch(q, radius, targets[tuple(row)]).run()
    return x


class _ActiveSearch:
    """Minimise 1/2 x'Qx - <b, x> over ||x||_1 <= radius: the method of Wolfe (1976) for polytopes.

    x is a convex combination of the corners radius s_k e_k, k in `active`, and, while `origin` is true, of 0.
    A turn adds the corner (or 0) that the gradient asks for and moves to the minimum over their affine hull.
    Where a weight would turn negative it stops, drops that corner, and goes on from there. The objective
    falls with every turn and each set has one minimum, so no set comes twice: it ends, with ties or without.
    """

    def __init__(self, q: FloatArray, radius: float, b: FloatArray) -> None:
        self.q, self.b, self.radius = q, b, radius
        self.rounding = 1e-14 * float(np.abs(b).max() + radius * np.abs(q).max())
        self.active: list[int] = []
        self.signs = np.zeros_like(b)
        self.x = np.zeros_like(b)
        self.origin = True

    def run(self) -> FloatArray:
        """Return the minimum, shape (d,)."""
        multiplier = 0.0  # of ||x||_1 <= radius
        for _ in range(100 + 10 * len(self.b)):  # a limit, in case rounding makes it cycle
            if not self._add(multiplier):
                break
            multiplier = self._descend()
        return self.x

    def _add(self, multiplier: float) -> bool:
        """Add the origin, or the corner that the gradient asks for most; false at the minimum."""
        if multiplier < -self.rounding:
            self.origin = True
            return True
        gradient = (self.q * self.x).sum(-1) - self.b
        pull = np.abs(gradient)
        pull[self.active] = 0.0
        k = int(pull.argmax())
        if pull[k] <= multiplier + self.rounding:
            return False
        self.active.append(k)
        self.signs[k] = -np.sign(gradient[k])
        return True

    def _descend(self) -> float:
        """Move to the minimum over the hull of the active corners, dropping those in the way."""
        while True:
            target, multiplier = self._hull_minimum()
            now = self.signs[self.active] * self.x[self.active]  # weights times the radius, the origin's last
            goal = self.signs[self.active] * target
            if self.origin:
                now = np.append(now, self.radius - now.sum())
                goal = np.append(goal, self.radius - goal.sum())
            crossing = np.flatnonzero(goal <= 0.0)
            if not crossing.size:
                self.x[self.active] = target
                return multiplier
            weights, ways = now[crossing], now[crossing] - goal[crossing]
            ratios = np.divide(weights, ways, out=np.zeros_like(ways), where=ways > 0.0)  # 0/0: at 0 already
            first = int(ratios.argmin())
            self.x[self.active] += ratios[first] * (target - self.x[self.active])
            self._drop(int(crossing[first]))

    def _hull_minimum(self) -> tuple[FloatArray, float]:
        """Return the minimum over the affine hull, shape (len(active),), and the multiplier."""
        signs = self.signs[self.active]
        right = np.stack([self.b[self.active], signs], axis=1)
        free, along = np.linalg.solve(self.q[np.ix_(self.active, self.active)], right).T
        if self.origin:
            return free, 0.0
        multiplier = ((signs * free).sum() - self.radius) / (signs * along).sum()
        return free - multiplier * along, float(multiplier)

    def _drop(self, place: int) -> None:
        if place == len(self.active):
            self.origin = False
        else:
            k = self.active.pop(place)
            self.x[k] = self.signs[k] = 0.0


# Projections in the metric of a diagonal or a full Q: argmin over the set of 1/2 (x - y)'Q(x - y).
#
# For the L1 ball and a full Q see `nodes.geometry.mirror_step`. The functions of a full Q return a row of y
# (..., d) unchanged if it is inside, and its bits do not depend on the other rows.


def project_diagonal_l1(q: FloatArray, radius: float, y: FloatArray) -> FloatArray:
    """Return the projection of y (..., d) onto the L1 ball; q (d,) > 0.

    x_k = sign(y_k) max(|y_k| - tau/q_k, 0), and tau is the largest of the weighted means
    (|y_1| + ... + |y_k| - radius)/(1/q_1 + ... + 1/q_k) in descending order of q|y|
    (`nodes.geometry.constraints`).
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
        x[tuple(row)] = _BoxSearch(q, lower, upper, y[tuple(row)]).run()
    return x


class _BoxSearch:
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
