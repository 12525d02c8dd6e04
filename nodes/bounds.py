"""Bounds on the regret of the algorithms as they run here: by the proofs of Zhou, Li 2025, Lemmas 3 to 6.

The network's regret, for the node i with the largest, is

    first order   max over x in Omega of E sum_t sum_j <grad f_t^j(x_t^i), x_t^i - x>    (Definition 1)
    convex        E sum_t sum_j f_t^j(x_t^i) - min over x in Omega of sum_t sum_j f_t^j(x)   (equation 4)

Three parts bound it, each over N. (1) D growth: the telescoped sum of (D(x, z_t) - D(x, q_{t+1}))/alpha_t, as
D(x, .) is convex and A doubly stochastic. (2) sum_t alpha_t E||g~_t||^2/(2 omega), by Young's inequality.
(3) K sqrt(N) S sum_t E||q_{t+1} - z_t||: nodes differ by what their steps add, which mixing takes away again;
K is the change of a loss per distance: theta for convex losses, beta eta + theta for the first order.

What differs from the printed theorem, whose noise is on the parameters: its proof takes z_t for a member of
Omega (equation 11), which a release with noise is not, so here a projection adds its length; the sensitivity
is the mechanism's; and S is that of the schedule's own windows (`left_in_all`), not of the smallest weight.
Gradients longer than the clip, correlated noise and late neighbours are outside of these bounds.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nodes.algorithms import Algorithm, MirrorDescent, StepSize
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
    OfAResidual,
    RangeLoss,
    RobustRange,
    Scaled,
    Softmax,
    Squared,
    Weighted,
)

# The constants of a mirror map on a set, and of a loss, that bounds on regret are made of.


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
    if isinstance(loss, Scaled | Weighted):
        return convex(loss.loss)
    if isinstance(loss, RangeLoss | OfAResidual):
        return False
    return True if type(loss) in _CURVATURES or isinstance(loss, Hinge | Absolute) else None


def smooth_apart(loss: Loss | None) -> bool:
    """Return whether the gradient of a loss that is not convex has the Lipschitz constant 1 away from the
    sensor.

    The range losses have it where ||x - s|| is at least half of the measured distance. Along x - s the second
    derivative is 1 or, beyond the k of a robust loss, 0; across it is the residual, cut at k, over ||x - s||.
    For other losses nothing is claimed.
    """
    return isinstance(loss, RangeLoss | RobustRange)


def curvature(loss: Loss | None) -> float | None:
    """Return c if the gradient is Lipschitz with c ||a||^2, a the features; None: it is not, or unknown.

    1/4 for logistic and 1/2 for softmax are the largest eigenvalues of their Hessians over ||a||^2
    (Bohning, 1992, Theorem 1).
    """
    if isinstance(loss, Scaled):
        return curvature(loss.loss)
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
    Ozdaglar 2009, Proposition 1). The paper prints 1 + x in the denominator, which gives a smaller C that the
    source does not prove. For one node C = 0.
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


_EXACT, _WIDER = 256, 100


# The bounds.


@dataclass(frozen=True, slots=True)
class Network:
    """The quantities of a mesh that the bounds depend on.

    `gradient` bounds the root mean square over nodes of a slot's mean gradient in L2, `slope` is K.
    `noise` gives, for round t, the root mean square over nodes of the length of the noise of its step.
    `left` is S. `strong`: mu, if the losses minus mu D are convex, too. `shift`: alpha_t times this
    bounds how far a decision is from its consensus (Sparse DOLA: rho sqrt(d)).
    """

    nodes: int
    rounds: int
    geometry: Geometry
    step_size: StepSize
    gradient: float
    slope: float
    noise: Callable[[int], float]
    left: float
    strong: float = 0.0
    shift: float = 0.0


def with_noise_on_gradients(network: Network) -> float:
    """Return the bound where releases are members of Omega, and E g~_t = the gradient at z_t.

    N (D growth + sum_t alpha_t G_t^2/(2 omega) + K sqrt(N) S sum_t alpha_t G_t/omega),
    G_t^2 = gradient^2 + noise_t^2; a lasso step adds N K shift sum_t alpha_t.
    """
    of, alpha, rounds = network.geometry, network.step_size, network.rounds

    def length(t: int) -> float:
        return math.hypot(network.gradient, network.noise(t))

    squares = total(lambda t: alpha(t) * length(t) ** 2, rounds)
    disagreement = network.left * total(lambda t: alpha(t) * length(t), rounds) / of.modulus
    local = of.divergence * growth(alpha, rounds, network.strong) + squares / (2 * of.modulus)
    lasso = network.slope * network.shift * total(alpha, rounds) if network.shift else 0.0
    return network.nodes * (local + lasso + _between(network, disagreement))


def with_noise_on_parameters(network: Network) -> float:
    """Return the bound where noise of length s_t, s_1 = 0, is added to releases; infinite for the entropy.

    N (D/alpha_T + theta^2 sum_t alpha_t/(2 omega) + M/2 sum_t s_t^2/alpha_t + K kappa sum_t s_t
    + K kappa sqrt(N) S sum_t (alpha_t theta/omega + (1 + kappa) s_t)), kappa = sqrt(M/omega).
    """
    of, alpha, rounds = network.geometry, network.step_size, network.rounds
    if not math.isfinite(of.smoothness):
        return math.inf
    stretch = math.sqrt(of.smoothness / of.modulus)
    steps, theta = total(alpha, rounds), network.gradient
    noise = total(network.noise, rounds - 1)  # that of the release of round t + 1 is drawn in round t
    squares = total(lambda t: network.noise(t) ** 2 / alpha(t + 1), rounds - 1)
    local = of.divergence * growth(alpha, rounds) + theta**2 * steps / (2 * of.modulus)
    noisy = of.smoothness / 2 * squares + network.slope * stretch * noise
    disagreement = stretch * network.left * (theta * steps / of.modulus + (1 + stretch) * noise)
    return network.nodes * (local + noisy + _between(network, disagreement))


def of_any_decisions(network: Network) -> float:
    """Return N T theta eta: no decisions in Omega have a larger regret."""
    return network.nodes * network.rounds * network.gradient * network.geometry.diameter


def growth(step_size: StepSize, rounds: int, strong: float = 0.0) -> float:
    """Return sum_t max(0, 1/alpha_t - 1/alpha_{t-1} - strong), 1/alpha_0 = 0: 1/alpha_T for strong = 0.

    The increments of 1/alpha must not grow from t = 2 on, which holds for all rules here.
    """
    if not strong:
        return 1 / step_size(rounds)

    def shrunk(t: int) -> int:
        return int(1 / step_size(t + 1) - 1 / step_size(t) <= strong)

    last = bisect_left(range(1, rounds), 1, key=shrunk) + 1
    rest = 1 / step_size(last) - 1 / step_size(1) - strong * (last - 1)
    return max(0.0, 1 / step_size(1) - strong) + max(0.0, rest)


def total(term: Callable[[int], float], rounds: int) -> float:
    """Return at least sum_{t=1}^T term(t), and hardly more for powers of t; `term` must not grow.

    The first 256 rounds are summed one by one, then each hundredth of the way at its first value.
    """
    try:
        partial_sum = math.fsum(term(t) for t in range(1, min(rounds, _EXACT) + 1))
    except OverflowError:  # fsum raises it where + of finite floats gives infinity
        return math.inf
    first = _EXACT + 1
    while first <= rounds:
        end = min(rounds + 1, first + max(1, first // _WIDER))
        partial_sum += (end - first) * term(first)
        first = end
    return partial_sum


def _between(network: Network, apart: float) -> float:
    """Return (3): K sum_t of the nodes' mean distance, which `apart` bounds over sqrt(N), and eta too."""
    nodes = network.nodes
    if nodes == 1 or network.slope == 0.0:
        return 0.0
    widest = (nodes - 1) / nodes * network.geometry.diameter * network.rounds
    return network.slope * min(math.sqrt(nodes) * apart, widest)


# The papers' theorems as they are printed. Not all are true: docs/explanation/bounds.md says which.


def zhou_li_theorem_2(
    *,
    nodes: int,
    dimension: int,
    rounds: int,
    geometry: Geometry,
    gradient: float,
    smoothness: float,
    epsilon: float,
    start: float,
    mixing: Geometric,
) -> float:
    """Return U_1 + U_2 sqrt(T) of Zhou, Li 2025, Theorem 2 (equation 28).

    For steps 1/(N sqrt(t)) and Laplace noise of scale 2 sqrt(d) alpha_t theta/(omega epsilon) on the
    parameters. `gradient` is theta, `smoothness` beta, `start` the L2 norm of the stacked x_1; epsilon may be
    infinite, without noise.
    """
    eta, omega, smooth, _ = geometry  # smooth is M
    n, d, theta = float(nodes), float(dimension), gradient
    slope = smoothness * eta + 2 * theta
    agreement = mixing.scale / mixing.gap if mixing.gap else math.inf
    first = 2 * n * math.sqrt(n * d) * agreement * slope * start if start else 0.0
    noise = 8 * math.sqrt(2 * n) * d * theta**2 / (omega * epsilon)
    noise += 8 * d**2 * smooth * theta**2 / (omega * epsilon) ** 2
    disagreement = 8 * math.sqrt(2 * d) * d * n * theta * slope / (omega * epsilon)
    disagreement += 4 * math.sqrt(d) * n * theta * slope / omega
    local = 2 * math.sqrt(n) * theta**2 / omega + smooth * eta**2 / 2
    return first + (noise + local + disagreement * agreement) * math.sqrt(rounds)


@dataclass(frozen=True, slots=True)
class LiTheorem5:
    """Li et al. 2018, Theorem 5 (equations 21 and 22), from Lemma 6: the regret of Algorithm 1.

    `gradient` is L, `diameter` R, `epsilon` may be infinite. Its proof compares norms where it needs their
    squares, and it is false for a large R: a run of it is among the tests.
    """

    nodes: int
    dimension: int
    gradient: float
    diameter: float
    epsilon: float
    mixing: Geometric

    def convex(self, rounds: int) -> float:
        """Return the bound for steps 1/(2 sqrt(t)); the paper prints a division by lambda = 0 too many."""
        return self._of(math.sqrt(rounds) - 0.5)

    def strongly_convex(self, rounds: int, modulus: float) -> float:
        """Return the bound for steps 1/(lambda t) and losses that are strongly convex with lambda."""
        return self._of((1 + math.log(rounds)) / modulus)

    def _of(self, steps: float) -> float:
        """Return equation 20 with the sum of the steps and, in expectation, of the noise."""
        m, slope = self.nodes, self.gradient  # slope is L
        disagreement = 3 * (1 - self.mixing.gap) * self.mixing.scale * m * slope / self.mixing.gap
        noise = 2 * math.sqrt(2) * m * self.dimension * slope / self.epsilon * steps
        local = m * slope * (self.diameter + disagreement + 6.5 * slope) * steps
        return local + (disagreement + (2 * slope + 1) / (2 * m)) * noise + m * self.diameter / 2
