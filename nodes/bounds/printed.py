"""The papers' theorems as they are printed. Not all are true: docs/explanation/bounds.md says which."""

import math
from dataclasses import dataclass

from nodes.bounds.constants import Geometry
from nodes.bounds.mixing import Geometric


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
