"""Sparse DOLA (Li et al. 2018, Algorithm 3): dual averaging with a lasso step, for sparse decisions."""

from dataclasses import dataclass, field

import numpy as np

from nodes.checks import not_negative
from nodes.geometry.balls import L2Ball
from nodes.step_sizes import StepSize
from nodes.values import Consensus, Decision, FloatArray


def soft(p: FloatArray, threshold: float) -> FloatArray:
    """Return argmin over w of 1/2 ||p - w||^2 + threshold ||w||_1, shape (..., d): the soft threshold."""
    shrunk: FloatArray = np.maximum(p - threshold, 0.0) + np.minimum(p + threshold, 0.0)
    return shrunk


@dataclass(frozen=True, slots=True, eq=False)
class SparseDola:
    """theta_{t+1} = Proj[z_t - alpha_t g_t(w_t)];  w_t = soft(p_t, alpha_t rho), p_t = Proj[z_t].

    The releases are the dual state theta, which the projection keeps in the ball (phi = ||.||^2/2, so the
    mirror map is the identity). z_t is their weighted average, and so in the ball too, up to rounding and
    noise on the parameters. The paper's listing leaves out the mixing and the dual update; its text
    (section 5) implies them. theta_1 = 0, so x_1 = 0. The regret counts the loss alone, without the lasso
    term. `lasso` is rho; raises ValueError if it is negative or not finite.
    """

    constraint: L2Ball
    step_size: StepSize
    lasso: float
    start: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        not_negative("lasso", self.lasso)
        start = np.zeros(self.dimension)
        start.flags.writeable = False
        object.__setattr__(self, "start", start)

    @property
    def dimension(self) -> int:
        """The dimension d."""
        return self.constraint.dimension

    @property
    def reach(self) -> float:
        """The largest L2 norm of a dual state."""
        return self.constraint.reach

    def decide(self, round: int, consensus: Consensus) -> Decision:
        """Return w_t = soft(p_t, alpha_t rho), shape (..., d): in the ball, as p_t is."""
        return Decision(soft(self.constraint.project(consensus), self.step_size(round) * self.lasso))

    def gradient_point(self, consensus: Consensus, decision: Decision) -> FloatArray:  # noqa: ARG002 # public too
        """Return the decision w_t, shape (..., d)."""
        return decision

    def update(self, round: int, consensus: Consensus, gradient: FloatArray) -> FloatArray:
        """Return theta_{t+1}, shape (..., d)."""
        return self.constraint.project(consensus - self.step_size(round) * gradient)

    def contain(self, z: FloatArray) -> FloatArray:
        """Return z projected into the ball, shape (..., d)."""
        return self.constraint.project(z)
