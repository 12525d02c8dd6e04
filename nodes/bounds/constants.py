"""The constants of a mirror map on a set, and of a loss, that bounds on regret are made of."""

import math
from typing import NamedTuple

import numpy as np

from nodes.algorithms import Algorithm, MirrorDescent
from nodes.geometry.constraints import Box, Constraint, Simplex
from nodes.geometry.mirror_maps import Entropy, Mahalanobis
from nodes.geometry.mirror_step import ENTROPY_FLOOR
from nodes.losses.losses import (
    Absolute,
    Hinge,
    Huber,
    Linear,
    Logistic,
    Loss,
    RangeLoss,
    Softmax,
    Squared,
    Weighted,
)
from nodes.losses.residuals import OfAResidual, RobustRange


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


# How fast disagreement shrinks: the constants of the papers' lemmas, and one from measured windows.
#
# Phi(t, s) = A(t - 1) ... A(s) tends to the matrix of 1/N. The papers bound each entry's distance from 1/N
# by C lambda^(t - s), from the smallest weight alone, which says next to nothing for more than a few nodes.


class Geometric(NamedTuple):
    """C and 1 - lambda of a bound C lambda^k on what is left after k rounds."""

    scale: float
    gap: float


def zhou_li_lemma_2(nodes: int, window: int, least_weight: float) -> Geometric:
    """Return C and 1 - lambda of Zhou, Li 2025, Lemma 2.

    `least_weight` a is below every positive weight, those on the diagonal too; the edges of any `window`
    rounds B connect all nodes. With x = a^((N - 1) B): C = 2 (1 + 1/x)/(1 - x) as in its source (Nedic,
    Ozdaglar 2009, Proposition 1). The paper prints 1 + x below, which is smaller and not what the source
    proves. One node has nothing to disagree on: C = 0.
    """
    if nodes == 1:
        return Geometric(0.0, 1.0)
    power = (nodes - 1) * window
    x = least_weight**power
    if x in {0.0, 1.0}:  # below the least float; or weights of 1, which the lemma does not allow
        return Geometric(math.inf, 0.0)
    return Geometric(2 * (1 + 1 / x) / (1 - x), -math.expm1(math.log1p(-x) / power))


def li_lemma_3(nodes: int, window: int, least_weight: float) -> Geometric:
    """Return theta and 1 - beta of Li et al. 2018, Lemma 3 (Ram, Nedic, Veeravalli 2010)."""
    share = least_weight / (4 * nodes**2)
    return Geometric((1 - share) ** -2, -math.expm1(math.log1p(-share) / window))


def left_in_all(window: int, rate: float) -> float:
    """Return sum over k >= 1 of the disagreement that is left after k rounds, of 1 at first.

    `rate` bounds what is left after any `window` rounds in a row, so after k rounds rate^floor(k/window) is.
    Infinite for a rate of 1.
    """
    return window / (1 - rate) - 1 if rate < 1 else math.inf
