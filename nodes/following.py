"""Following a target by public directions and a public curvature: one private sign a record.

The gradient of |‖x - s‖ - b|, where a sensor at s has measured the distance b, is the sign of the residual
times the direction u = (x - s)/‖x - s‖. If s is public, u is public at the public decision x_t. Then the sign
alone is made of a record.

One round of node i, with P_t the covariance that the node believes its state to have:

    z = sum_j a_ij q_j                  a release holds the information Y, Y x, and what tells states apart
    x_t = F (sum a_ij Y_j)^-1 sum a_ij Y_j x_j,   P_t = F (sum a_ij Y_j)^-1 F' + W
    g = sign(‖x_t - s_i‖ - b)           the only value made of a record; 0 for an empty slot
    y = -l2-sphere(g)                   in one dimension: +-coth(epsilon/2), E y = -g
    A = 0.9 sum a_ij A_j + 0.1 sum a_ij (x_j - x)(x_j - x)'       how far states lately were from their mean
    S = u'(P_t + A)u,   a = p sqrt(2/(pi (S + error^2))),   R = coth^2(epsilon/2) - a^2 S,   w = n a^2/R
    Y' = P_t^-1 + w u u',   x' = contain(x_t + n (a/R) y Y'^-1 u)

n is the number of nodes in the mesh file. p is the `presence`, the share of slots that hold a record. a is
the slope of E y in the error u'(truth - x) (Bussgang 1952), and R the noise of y around it, privacy's
included. A filter of signs without privacy is that of Ribeiro, Giannakis, Roumeliotis (2006). Averages of Y
with states weighted by it are covariance intersection (Julier, Uhlmann 1997). A stands for what P_t does
not know in a ring, where states differ (`experiments/curvature_rules.py`, the rule "intersection, spread").
W is the covariance that white noise in the highest derivative adds in a round. Variances are at most those
of a uniform value in the box.

Privacy
-------
1. x_t, u, P_t, A, a and R are functions of settings and of earlier releases. Given these, the release is a
   function of y alone, which is post-processing. No record decides a node's direction or gain.
2. g is one number, |g| <= 1, so no clip changes it. y is the mechanism's answer, with the guarantee that it
   states (`nodes.privacy.l2_sphere` at d = 1, theta = 1, h = 1): epsilon for a record that is replaced, added
   or removed. An empty slot tosses a fair coin.
3. A record is in one slot, so the stream has epsilon.

All of it fails if s is read from records, as the release shows u. So places are settings, and records have no
features.

As mirror descent
-----------------
x' = argmin <g~, x> + 1/2 ‖x - x_t‖^2_Q with Q = Y'/n: a step in a Mahalanobis map that changes each round.
Q is a function of earlier releases, so E[g~ | past] is a gradient. For F = I, W = 0, a linearised squared
residual and one Q for all nodes (a complete graph), Q_t - Q_{t-1} = w u u' cancels the loss's curvature,
and the regret has the order d log T, with the noise in its factor. None of the three holds here: signs are
slopes of an absolute loss, W is above 0, and F moves. So no bound is claimed.

| case | what happens |
|---|---|
| no record, or a distance that is NaN | a fair coin |
| x_t = s | no direction: u = 0, and the state stays |
| a consensus that is no information matrix (a hostile release) | the start's covariance in its place |
| a release that comes late | no correction: its weight has gone to the own release, which is as consistent |
| more than `MOST_MOVES` rounds without a plan | the start |

Sums run in a fixed order, without BLAS: a state gives the same bits alone or among others.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nodes.checks import at_least_one, finite_array, positive
from nodes.dynamics import Dynamics
from nodes.geometry.constraints import Box
from nodes.values import Consensus, Decision, FloatArray, IntArray, Observations

RHO = 0.9
"""The part that each round keeps of how far states were apart."""
MOST_MOVES = 100
"""Rounds without a plan after which nothing is known of a target."""
_LEAST_PIVOT, _LEAST_SHARE = 1e-11, 1e-15


class Belief(NamedTuple):
    """A state x (..., d), its covariance p (..., d, d), and how far positions were apart (..., s, s)."""

    x: FloatArray
    p: FloatArray
    spread: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class BeliefMotion(Dynamics):
    """Motion of packed beliefs: x' = F x, P' = F P F' + `noise`.

    A packed belief (..., D) is (Y x, Y, x, M): d numbers, the upper triangle of Y = P^-1, the position (s,),
    and the upper triangle of M = RHO A + (1 - RHO) x x'. A node needs nothing of its neighbours' beliefs but
    the weighted average of the packed ones. Positions are the first s coordinates of a state. Raises
    ValueError unless the sizes fit, and `noise` is positive definite.
    """

    noise: FloatArray = field(kw_only=True)
    box: Box = field(kw_only=True)
    space: int = field(kw_only=True)
    start: FloatArray = field(init=False)
    most: FloatArray = field(init=False)
    _upper: tuple[IntArray, IntArray] = field(init=False)
    _near: tuple[IntArray, IntArray] = field(init=False)

    def __post_init__(self) -> None:
        Dynamics.__post_init__(self)  # slots make another class, of which super() does not know
        d = len(self.matrix)
        noise = finite_array("noise", self.noise)
        if noise.shape != (d, d) or self.box.dimension != d:
            raise ValueError(f"noise has shape {noise.shape}, the box {self.box.dimension}: must be {d}")
        if np.linalg.eigvalsh(noise)[0] <= 0.0:
            raise ValueError("noise must be positive definite")
        if not 1 <= self.space <= d:
            raise ValueError(f"space is {self.space}: must be from 1 to {d}")
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "most", (self.box.upper - self.box.lower) ** 2 / 12.0)
        object.__setattr__(self, "_upper", np.triu_indices(d))
        object.__setattr__(self, "_near", np.triu_indices(self.space))
        object.__setattr__(self, "start", self.begun((self.box.lower + self.box.upper) / 2.0))

    @property
    def length(self) -> int:
        """D, the length of a packed belief."""
        return packed_length(len(self.matrix), self.space)

    @property
    def largest_information(self) -> float:
        """A bound on the eigenvalues of P^-1 after a motion."""
        grown = _applied(np.abs(self.matrix), np.sqrt(self.most)) ** 2 + np.diagonal(self.noise)
        shrink = float(np.minimum(1.0, self.most / grown).min())
        precisions = np.diagonal(inverse(self.noise, np.diagonal(self.noise)))
        return 1.01 * math.fsum(precisions.tolist()) / shrink

    def begun(self, x: FloatArray) -> FloatArray:
        """Return the packed belief of a start at x (d,), read-only."""
        zeros = np.zeros((self.space, self.space))
        packed = self.packed(Belief(x, np.diag(self.most), zeros), np.diag(1.0 / self.most))
        packed.flags.writeable = False
        return packed

    def packed(self, belief: Belief, information: FloatArray | None = None) -> FloatArray:
        """Return a belief as (..., D). `information`: P^-1, where it is known."""
        y = inverse(belief.p, _LEAST_SHARE * self.most) if information is None else information
        at = belief.x[..., : self.space]
        second = RHO * belief.spread + (1.0 - RHO) * (at[..., :, None] * at[..., None, :])
        parts = _applied(y, belief.x), y[..., *self._upper], at, second[..., *self._near]
        return np.concatenate(parts, -1)

    @np.errstate(all="ignore")  # of hostile releases
    def read(self, z: FloatArray) -> Belief:
        """Return the belief of a packed one (..., D), or of an average of such; total."""
        d, s = len(self.matrix), self.space
        triangle = d * (d + 1) // 2
        y = _symmetric(z[..., d : d + triangle], self._upper, d)
        p = self._within(inverse(y, 1.0 / self.most))
        x = self.box.project(np.nan_to_num(_applied(p, z[..., :d])))
        mean, at = z[..., d + triangle : d + triangle + s], x[..., :s]
        cross = mean[..., :, None] * at[..., None, :]
        far = at[..., :, None] * at[..., None, :] - (cross + np.swapaxes(cross, -1, -2))
        spread = _symmetric(z[..., d + triangle + s :], self._near, s) + (1.0 - RHO) * far
        widest = 12.0 * np.sqrt(self.most[:s, None] * self.most[:s])
        return Belief(x, p, np.minimum(np.maximum(np.nan_to_num(spread), -widest), widest))

    def moved(self, x: FloatArray, times: int = 1) -> FloatArray:
        """Return packed beliefs (..., D) after `times` motions."""
        if times == 0:
            return x
        if times > MOST_MOVES:
            return np.broadcast_to(self.start, x.shape).copy()
        belief = self.after(self.read(x))
        for _ in range(times - 1):
            belief = self.after(belief._replace(spread=RHO * belief.spread))
        return self.packed(belief)

    def after(self, belief: Belief) -> Belief:
        """Return a belief after one motion, in the box."""
        matrix = self.matrix
        p = _product(_product(matrix, belief.p), np.ascontiguousarray(matrix.T)) + self.noise
        return Belief(self.box.project(_applied(matrix, belief.x)), self._within(p), belief.spread)

    def carried(self, difference: FloatArray, times: int) -> FloatArray:  # noqa: ARG002 # 0 for all
        """Return 0: a release that comes late corrects nothing, as any weights give a consistent belief."""
        return np.zeros_like(difference)

    def _within(self, p: FloatArray) -> FloatArray:
        """Return covariances with variances of at most `most`; the start's for what is none."""
        variances = np.diagonal(p, axis1=-2, axis2=-1)
        is_sane = np.logical_and.reduce(np.isfinite(p), (-2, -1)) & np.logical_and.reduce(variances > 0.0, -1)
        p = np.where(is_sane[..., None, None], p, np.diag(self.most))
        variances = np.where(is_sane[..., None], variances, self.most)
        shrinks = np.minimum(1.0, np.sqrt(self.most / variances))
        bounded: FloatArray = p * (shrinks[..., :, None] * shrinks[..., None, :])
        return bounded


def packed_length(dimension: int, space: int) -> int:
    """Return D of states of that dimension, with positions of `space` coordinates."""
    return dimension * (dimension + 3) // 2 + space * (space + 3) // 2


def inverse(matrix: FloatArray, least: FloatArray | float) -> FloatArray:
    """Return the inverse of positive definite matrices (..., d, d), in a fixed order, symmetric.

    Diagonals are at least `least`. A coordinate without a pivot is taken as independent of the others.
    """
    diagonal = np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), least)
    roots = np.sqrt(diagonal)
    units = roots[..., :, None] * roots[..., None, :]
    swept = np.minimum(np.maximum(matrix / units, -1.0), 1.0)
    d = swept.shape[-1]
    for k in range(d):
        pivot = swept[..., k, k]
        is_pivot = pivot > _LEAST_PIVOT
        column = np.where(is_pivot[..., None], swept[..., :, k], 0.0)
        scale = 1.0 / np.where(is_pivot, pivot, 1.0)
        swept = swept - column[..., :, None] * column[..., None, :] * scale[..., None, None]
        scaled = column * scale[..., None]
        swept[..., :, k] = swept[..., k, :] = scaled
        swept[..., k, k] = -scale
    inverted: FloatArray = -swept / units
    return inverted


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return left right, matrices (..., d, d), summed in order."""
    total: FloatArray = left[..., :, 0, None] * right[..., 0, None, :]
    for k in range(1, left.shape[-1]):
        total = total + left[..., :, k, None] * right[..., k, None, :]
    return total


def _applied(matrix: FloatArray, x: FloatArray) -> FloatArray:
    """Return matrix x, shape (..., d), summed in order."""
    total: FloatArray = matrix[..., 0] * x[..., 0, None]
    for k in range(1, x.shape[-1]):
        total = total + matrix[..., k] * x[..., k, None]
    return total


def _inner(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return <left, right>, shape (...), summed in order."""
    total: FloatArray = left[..., 0] * right[..., 0]
    for k in range(1, left.shape[-1]):
        total = total + left[..., k] * right[..., k]
    return total


def _symmetric(triangle: FloatArray, at: tuple[IntArray, IntArray], size: int) -> FloatArray:
    full = np.empty((*triangle.shape[:-1], size, size))
    full[..., *at] = triangle
    full[..., at[1], at[0]] = triangle
    return full


@dataclass(frozen=True, slots=True, eq=False)
class Following:
    """The algorithm of one node, or of nodes side by side. All of its fields are public.

    Attributes
    ----------
    dynamics : BeliefMotion
        F, W and the box.
    place : FloatArray
        The sensor's place, shape (p,), or one for each row, (N, p). p is s, or more: then the target has the
        further coordinates `height`.
    response : FloatArray
        coth(epsilon/2), shape () or (N,): the size of the mechanism's answer; 1 without noise.
    error, presence : float
        The standard deviation of a distance's error, and the share of slots that hold a record.
    nodes : int
        n.
    x_1 : FloatArray or None
        The first decision, shape (d,); None: the middle of the box.
    """

    dynamics: BeliefMotion
    place: FloatArray
    response: FloatArray
    error: float
    presence: float
    nodes: int
    height: tuple[float, ...] = ()
    x_1: FloatArray | None = None
    start: FloatArray = field(init=False)
    constraint: Box = field(init=False)
    observed_set: Box = field(init=False)

    def __post_init__(self) -> None:
        positive("error", self.error)
        at_least_one("nodes", self.nodes)
        if not 0.0 < self.presence <= 1.0:
            raise ValueError(f"presence is {self.presence}: must be above 0 and at most 1")
        place, response = finite_array("place", self.place), np.asarray(self.response, np.float64)
        needed = self.dynamics.space + len(self.height)
        if place.shape[-1] != needed:
            raise ValueError(f"place has {place.shape[-1]} coordinates: must have {needed}")
        if not (np.isfinite(response).all() and (response >= 1.0).all()):
            raise ValueError("response must be coth(epsilon/2), at least 1")
        box = self.dynamics.box
        start = self.dynamics.start
        if self.x_1 is not None:
            x_1 = finite_array("x_1", self.x_1)
            if x_1.shape != box.lower.shape or np.abs(box.project(x_1) - x_1).max() > 0.0:
                raise ValueError(f"x_1 is {x_1.tolist()}: must be in the box")
            start = self.dynamics.begun(x_1)
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "response", response)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "constraint", box)
        space = self.dynamics.space
        object.__setattr__(self, "observed_set", Box(box.lower[:space], box.upper[:space]))

    @property
    def dimension(self) -> int:
        """D, the length of a release."""
        return self.dynamics.length

    @property
    def reach(self) -> float:
        """The largest L2 norm of a release: a bound that no release of this algorithm reaches."""
        # a^2 is at most 2/(pi error^2), and R at least 1 - 2/pi
        gain = self.nodes * 2.0 / math.pi / self.error**2 / (1.0 - 2.0 / math.pi)
        information = self.dynamics.largest_information + gain
        box = self.dynamics.box
        width = max(1.0, float(np.sqrt((np.maximum(-box.lower, box.upper) ** 2).sum())))
        return self.dimension * 25.0 * (information * width + width * width)

    def observed(self, x: FloatArray) -> FloatArray:
        """Return the position, shape (..., s)."""
        return x[..., : self.dynamics.space]

    def rows(self, decision: Decision, observations: Observations) -> FloatArray:
        """Return the signs of expected minus measured distances, shape (..., n, 1); 0 for no number."""
        offsets = self._offsets(decision)
        distances = np.sqrt(_inner(offsets, offsets))
        signs = np.sign(distances[..., None] - observations.labels)
        counts = observations.present & ~np.isnan(observations.labels)
        return np.where(counts, signs, 0.0)[..., None]

    def decide(
        self,
        round: int,  # noqa: ARG002 # a lasso step needs it
        consensus: Consensus,
        share: FloatArray | float = 1.0,  # noqa: ARG002 # a discriminant needs it
    ) -> Decision:
        """Return x_t, shape (..., d): the consensus's state, moved on to this round."""
        return Decision(self._believed(consensus).x)

    def gradient_point(self, consensus: Consensus, decision: Decision) -> FloatArray:  # noqa: ARG002 # public too
        """Return the decision."""
        return decision

    @np.errstate(all="ignore")  # of hostile releases
    def update(self, round: int, consensus: Consensus, gradient: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the packed belief with the answer for the slot's sign (..., 1) in it, shape (..., D)."""
        motion, belief = self.dynamics, self._believed(consensus)
        x, p, spread = belief
        s = motion.space
        offsets = self._offsets(x)
        lengths = np.sqrt(_inner(offsets, offsets))
        is_positive = lengths > 0.0
        u = np.where(is_positive[..., None], offsets / np.where(is_positive, lengths, 1.0)[..., None], 0.0)
        u = np.ascontiguousarray(u[..., :s])
        weighted = _applied(p[..., :s], u)
        variance = np.maximum(_inner(u, weighted[..., :s]), 0.0)
        believed = variance + np.maximum(_inner(u, _applied(spread, u)), 0.0)
        slope = self.presence * np.sqrt(2.0 / math.pi / (believed + self.error * self.error))
        noise = self.response * self.response - slope * slope * believed
        information = self.nodes * slope * slope / noise
        gain = weighted / (1.0 + information * variance)[..., None]
        step = self.nodes * slope / noise * -gradient[..., 0]
        x = motion.box.project(x + gain * step[..., None])
        y = inverse(p, _LEAST_SHARE * motion.most)
        y[..., :s, :s] = y[..., :s, :s] + u[..., :, None] * u[..., None, :] * information[..., None, None]
        return motion.packed(Belief(x, p, spread), y)

    def contain(self, z: FloatArray) -> FloatArray:
        """Return packed beliefs (..., D) as such: states in the box, covariances within it."""
        return self.dynamics.packed(self.dynamics.read(z))

    def _believed(self, consensus: FloatArray) -> Belief:
        return self.dynamics.after(self.dynamics.read(consensus))

    def _offsets(self, x: FloatArray) -> FloatArray:
        at = x[..., : self.dynamics.space]
        if self.height:
            at = np.concatenate((at, np.broadcast_to(self.height, (*at.shape[:-1], len(self.height)))), -1)
        offsets: FloatArray = at - self.place
        return offsets


def white_noise(orders: int, dimensions: int, period: float, intensity: float) -> FloatArray:
    """Return W, shape (d, d), of a motion whose highest derivative is white noise of that intensity (a root).

    Block (i, j) of the `orders` derivatives is intensity^2 p^(m-i-j-1)/((m-i-j-1) (r-i)! (r-j)!), where r =
    orders - 1 and m = 2 orders: of constant velocity [[p^3/3, p^2/2], [p^2/2, p]].
    """
    positive("intensity", intensity)
    last = orders - 1
    blocks = np.empty((orders, orders))
    for i in range(orders):
        for j in range(orders):
            power = 2 * orders - i - j - 1
            factorials = math.factorial(last - i) * math.factorial(last - j)
            blocks[i, j] = intensity * intensity * period**power / (power * factorials)
    return np.kron(blocks, np.eye(dimensions)).astype(np.float64)


_STEPS = 9
WEAK = 0.05
"""The eigenvalue below which no step along a gradient follows a target, by the experiments on walls."""


def weakest_direction(algorithm: Following) -> tuple[float, FloatArray]:
    """Return the least eigenvalue of the mean of u u' over nodes, on a grid over the box, and where, (s,).

    It is at most 1/s, which is that of sensors all around; near 0, distances tell nothing of some direction.
    """
    box, space = algorithm.observed_set, algorithm.dynamics.space
    axes = [np.linspace(low, high, _STEPS) for low, high in zip(box.lower, box.upper, strict=True)]
    at = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, space)
    above = np.broadcast_to(algorithm.height, (len(at), len(algorithm.height)))
    offsets = np.concatenate((at, above), -1)[:, None] - np.atleast_2d(algorithm.place)
    lengths = np.sqrt((offsets * offsets).sum(-1, keepdims=True))
    u = (offsets / np.maximum(lengths, 1e-12))[..., :space]
    least = np.linalg.eigvalsh(np.einsum("xni,xnj->xij", u, u) / u.shape[1])[:, 0]
    k = int(least.argmin())
    return float(max(0.0, least[k])), at[k]
