"""Projection onto the L1 ball in the metric of a full Q: argmin over the ball of 1/2 (x - y)'Q(x - y)."""

import numpy as np

from nodes.values import FloatArray


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
        x[tuple(row)] = _Search(q, radius, targets[tuple(row)]).run()
    return x


class _Search:
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
