"""The constants of a mirror map on a set, and of a loss, that bounds on regret are made of."""

import math
from typing import NamedTuple

import numpy as np

from nodes.algorithms import Algorithm, MirrorDescent
from nodes.geometry.constraints import Box, Constraint, Simplex
from nodes.geometry.mirror_maps import Entropy, Mahalanobis
from nodes.geometry.mirror_step import ENTROPY_FLOOR
from nodes.losses.losses import Absolute, Hinge, Huber, Linear, Logistic, Loss, RangeLoss, Squared
from nodes.losses.residuals import OfAResidual, RobustRange
from nodes.losses.softmax import Softmax
from nodes.losses.weighted import Weighted


class Geometry(NamedTuple):
    """Constants of a mirror map phi on Omega, with the L2 norm.

    `diameter` is eta, `modulus` omega and `smoothness` M of D(x, y) in y (infinite for the entropy, at the
    simplex's edge). `divergence` is the largest D(x, q) of a member x and a release q of Omega.
    """

    diameter: float
    modulus: float
    smoothness: float
    divergence: float


def geometry(algorithm: Algorithm) -> Geometry:
    """Return the constants of an algorithm's map and set; those of Sparse DOLA are Euclidean."""
    omega = algorithm.constraint
    wide = diameter(omega)
    phi = algorithm.step.mirror_map if isinstance(algorithm, MirrorDescent) else None
    if isinstance(phi, Entropy):  # D(x, q) <= log(1/min q), and a release's coordinates have a floor
        return Geometry(wide, 1.0, math.inf, math.log(omega.dimension / ENTROPY_FLOOR) + ENTROPY_FLOOR)
    low, high = 1.0, 1.0
    if isinstance(phi, Mahalanobis):
        low, high = phi.modulus, float((phi.q if phi.diagonal else np.linalg.eigvalsh(phi.q)).max())
    return Geometry(wide, low, high, high * wide * wide / 2)


def diameter(constraint: Constraint) -> float:
    """Return the largest L2 distance of two members."""
    if isinstance(constraint, Box):
        return math.hypot(*(constraint.upper - constraint.lower).tolist())
    if isinstance(constraint, Simplex):
        return math.sqrt(2) if constraint.dimension > 1 else 0.0
    return 2 * constraint.reach  # the balls hold -x with x


_CURVATURES: dict[type[Loss], float] = {Linear: 0.0, Squared: 1.0, Huber: 1.0, Logistic: 0.25, Softmax: 0.5}


def convex(loss: Loss | None) -> bool | None:
    """Return whether a loss is convex in the decision; None: unknown, of an own loss (or None)."""
    if isinstance(loss, Weighted):
        return convex(loss.loss)
    if isinstance(loss, RangeLoss | OfAResidual):
        return False
    return True if type(loss) in _CURVATURES or isinstance(loss, Hinge | Absolute) else None


def smooth_apart(loss: Loss | None) -> bool:
    """Return whether the gradient of a loss that is not convex is Lipschitz with 1 away from the sensor.

    So are the range losses' where ||x - s|| is at least half of the measured distance: along x - s the second
    derivative is 1 or, beyond the k of a robust one, 0; across it is the residual, cut at k, over ||x - s||.
    Of the others nothing is claimed.
    """
    return isinstance(loss, RangeLoss | RobustRange)


def curvature(loss: Loss | None) -> float | None:
    """Return c if the gradient is Lipschitz with c ||a||^2, a the features; None: it is not, or unknown.

    1/4 for logistic and 1/2 for softmax are the largest eigenvalues of their Hessians over ||a||^2
    (Bohning, 1992, Theorem 1).
    """
    if isinstance(loss, Weighted):
        inner = curvature(loss.loss)
        return None if inner is None else inner * float(loss.weights.max())
    return None if loss is None else _CURVATURES.get(type(loss))
