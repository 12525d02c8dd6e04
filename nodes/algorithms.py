"""Algorithms as two public functions: `decide` (consensus -> decision) and `update` (-> the next release).

DPDO-NC (Zhou, Li 2025, Algorithm 1) and DOLA (Li et al. 2018, Algorithms 1, 2 and 4) make the same mirror
step and differ in the public point at which the gradient is taken. Sparse DOLA (Li et al. 2018, Algorithm 3)
is dual averaging with a lasso step, for sparse decisions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal, Protocol

import numpy as np

from nodes.checks import finite_array, not_negative, positive
from nodes.dynamics import Dynamics
from nodes.geometry.constraints import Box, Constraint, L2Ball
from nodes.geometry.mirror_step import MirrorStep
from nodes.values import Consensus, Decision, FloatArray, IntArray, Observations

# Step sizes alpha_t: public functions of the round t >= 1 alone.


class StepSize(Protocol):
    """alpha_t for t = 1, 2, ...: positive and finite."""

    def __call__(self, round: int, /) -> float:
        """Return alpha_t of round t >= 1."""


@dataclass(frozen=True, slots=True)
class Constant:
    """alpha_t = a; ValueError unless a > 0 and finite."""

    a: float

    def __post_init__(self) -> None:
        positive("a", self.a)

    def __call__(self, round: int, /) -> float:  # noqa: ARG002 # the same in all rounds
        """Return a."""
        return self.a


@dataclass(frozen=True, slots=True)
class InverseSqrt:
    """alpha_t = a/sqrt(t); ValueError unless a > 0 and finite."""

    a: float

    def __post_init__(self) -> None:
        positive("a", self.a)

    def __call__(self, round: int, /) -> float:
        """Return a/sqrt(t)."""
        return self.a / math.sqrt(round)


@dataclass(frozen=True, slots=True)
class Inverse:
    """alpha_t = a/t; ValueError unless a > 0 and finite."""

    a: float

    def __post_init__(self) -> None:
        positive("a", self.a)

    def __call__(self, round: int, /) -> float:
        """Return a/t."""
        return self.a / round


@dataclass(frozen=True, slots=True)
class ShiftedInverse:
    """alpha_t = a/(b + t); ValueError unless a > 0 and b >= 0, both finite."""

    a: float
    b: float

    def __post_init__(self) -> None:
        positive("a", self.a)
        not_negative("b", self.b)

    def __call__(self, round: int, /) -> float:
        """Return a/(b + t)."""
        return self.a / (self.b + round)


# The algorithms.

GradientAt = Literal["decision", "consensus"]


RowsOf = Callable[[Decision, Observations], FloatArray]
"""Returns rows (..., n, width), one for each observation, at the decision of the round."""


class Algorithm(Protocol):
    """A learner's steps on public values. Pure; arrays (d,) or (..., d) with contiguous rows."""

    @property
    def start(self) -> FloatArray:
        """x_1, the first release, shape (d,)."""

    @property
    def constraint(self) -> Constraint:
        """Omega, the set in which decisions lie."""

    @property
    def dimension(self) -> int:
        """The dimension d of a release."""

    @property
    def reach(self) -> float:
        """The largest L2 norm of a release before any noise on it."""

    @property
    def dynamics(self) -> Dynamics | None:
        """How states move from one round to the next; None: they do not."""

    @property
    def observed_set(self) -> Constraint:
        """The set of the points that the loss sees."""

    @property
    def rows(self) -> RowsOf | None:
        """The row that the mechanism sums for a record; None: its gradient. With rows there is no regret."""

    def observed(self, x: FloatArray) -> FloatArray:
        """Return the coordinates that the loss sees, shape (..., m); all of them without dynamics."""

    def decide(self, round: int, consensus: Consensus, share: FloatArray | float = 1.0) -> Decision:
        """Return x_t, the point that the node acts on in round t; all closing rounds act as the first one.

        `share` (...): the sum of squares of the weights of the consensus, in closing rounds of a row of their
        product, for decisions that depend on how much noise the consensus holds.
        """

    def gradient_point(self, consensus: Consensus, decision: Decision) -> FloatArray:
        """Return the public point at which the slot's gradients are taken, shape (..., d)."""

    def update(self, round: int, consensus: Consensus, gradient: FloatArray) -> FloatArray:
        """Return the next round's release, before noise on it. The mechanism returned `gradient` (..., m)."""

    def contain(self, z: FloatArray) -> FloatArray:
        """Return z projected onto the set in which releases live."""


@dataclass(frozen=True, slots=True, eq=False)
class MirrorDescent:
    """q_{t+1} = argmin over x in Omega of D(x, z_t) + alpha_t <eta z_t + g, x>;  x_t = the same with alpha 0.

    eta is the `regulariser`, taken at the public consensus z_t (Li et al. 2018, Algorithm 4, with the public
    point in place of the private w_t). `x_1` (d,) defaults to the point of Omega where phi is least. Raises
    ValueError if eta is negative or not finite, if `gradient_at` is unknown, or if x_1 is not in Omega.
    """

    rows: ClassVar[None] = None

    step: MirrorStep
    step_size: StepSize
    regulariser: float = 0.0
    gradient_at: GradientAt = "decision"
    x_1: FloatArray | None = None
    start: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        not_negative("regulariser", self.regulariser)
        if self.gradient_at not in {"decision", "consensus"}:
            raise ValueError(f"gradient_at is {self.gradient_at!r}: must be 'decision' or 'consensus'")
        start = self.step.start if self.x_1 is None else self._checked(self.x_1)
        object.__setattr__(self, "start", start)

    def _checked(self, x_1: FloatArray) -> FloatArray:
        start = finite_array("x_1", x_1)
        if start.shape != (self.dimension,):
            raise ValueError(f"x_1 has shape {start.shape}: must be ({self.dimension},)")
        if np.abs(self.step.project(start) - start).max() > 1e-9 * max(1.0, self.reach):
            raise ValueError(f"x_1 is {start.tolist()}: must be in the {self.step.constraint.name}")
        return finite_array("x_1", self.step.project(start))

    @property
    def constraint(self) -> Constraint:
        """Omega."""
        return self.step.constraint

    @property
    def dimension(self) -> int:
        """The dimension d."""
        return self.step.constraint.dimension

    @property
    def reach(self) -> float:
        """The largest L2 norm of a member of Omega."""
        return self.step.constraint.reach

    @property
    def dynamics(self) -> None:
        """None: nothing moves by itself."""
        return None

    @property
    def observed_set(self) -> Constraint:
        """Omega."""
        return self.constraint

    def observed(self, x: FloatArray) -> FloatArray:
        """Return x: the loss sees all coordinates."""
        return x

    def decide(
        self,
        round: int,  # noqa: ARG002 # a lasso step needs it
        consensus: Consensus,
        share: FloatArray | float = 1.0,  # noqa: ARG002 # a discriminant needs it
    ) -> Decision:
        """Return the Bregman projection of the consensus onto Omega, shape (..., d)."""
        return Decision(self.step.project(consensus))

    def gradient_point(self, consensus: Consensus, decision: Decision) -> FloatArray:
        """Return the decision (DPDO-NC) or the unprojected consensus (DOLA), shape (..., d)."""
        return decision if self.gradient_at == "decision" else consensus

    def update(self, round: int, consensus: Consensus, gradient: FloatArray) -> FloatArray:
        """Return the mirror step from z_t along alpha_t (eta z_t + g), shape (..., d)."""
        if self.regulariser:
            gradient = self.regulariser * consensus + gradient
        return self.step(consensus, self.step_size(round) * gradient)

    def contain(self, z: FloatArray) -> FloatArray:
        """Return the Bregman projection of z onto Omega, shape (..., d)."""
        return self.step.project(z)


dpdo_nc = partial(MirrorDescent, gradient_at="decision")
"""DPDO-NC (Zhou, Li 2025, Algorithm 1) with the gradient at the public decision."""

dola = partial(MirrorDescent, gradient_at="consensus")
"""DOLA (Li et al. 2018, Algorithms 1, 2 and 4), with the gradient at the public consensus."""


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

    rows: ClassVar[None] = None

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

    @property
    def dynamics(self) -> None:
        """None: nothing moves by itself."""
        return None

    @property
    def observed_set(self) -> L2Ball:
        """The ball."""
        return self.constraint

    def observed(self, x: FloatArray) -> FloatArray:
        """Return x: the loss sees all coordinates."""
        return x

    def decide(
        self,
        round: int,
        consensus: Consensus,
        share: FloatArray | float = 1.0,  # noqa: ARG002 # a discriminant needs it
    ) -> Decision:
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


# Mirror descent for a target that moves: the state goes through a public motion model after each step.
#
#     s = z_t - alpha_t G g~,   q_{t+1} = contain(F s)
#
# F is the model (`nodes.dynamics`); `contain` is the projection onto Omega in Q's metric, once, after F. g~
# is the mechanism's answer for the m coordinates that the loss sees, and G (d, m) the columns of Q^-1 that
# belong to them: so a gradient of the position also moves the velocity. (Hall, Willett 2013, eq. 3; in a
# mesh Shahrampour, Jadbabaie 2018, Algorithm 1, which steps from the consensus as well.)
#
# Why privacy is untouched
# ------------------------
# * F, G, Q, Omega and alpha_t are settings, and z_t is a function of releases and plans. Let a mechanism turn
#   a slot's gradients into g~ with (epsilon, delta). The release is a function of (z_t, g~) that reads no
#   record, so it has the same (epsilon, delta): post-processing. That holds for any F, also one that grows.
# * The loss gets x[observes] alone, and answers with m coordinates, which alone are clipped and get noise.
#   Written as gradients of the whole state they have 0 elsewhere, whatever the records are: there is nothing
#   to hide. So the sensitivity is that of a loss in m dimensions, and no noise enters beside it.
# * Noise on the parameters would have to cover F G as well: it is not offered (`streams.mesh` refuses it).
#
# No bound on the regret is claimed: the theorems need an F that is non-expansive in the divergence, and
# those of constant velocity and acceleration are non-expansive in no norm.


@dataclass(frozen=True, slots=True, eq=False)
class DynamicMirrorDescent:
    """The step of `still`, in its metric and set, then F.

    `observes`: the coordinates that the loss sees, distinct. `gain`: G, shape (d, m), or one G for each of
    the rows that step side by side. Raises ValueError unless the dimensions fit and Omega is a box, the only
    set that bounds each coordinate separately.
    """

    rows: ClassVar[None] = None

    still: MirrorDescent
    dynamics: Dynamics
    observes: tuple[int, ...]
    gain: FloatArray
    start: FloatArray = field(init=False)
    constraint: Box = field(init=False)
    observed_set: Box = field(init=False)
    _seen: IntArray = field(init=False)

    def __post_init__(self) -> None:
        within, d = self.still.constraint, self.still.dimension
        if self.dynamics.dimension != d:
            raise ValueError(f"the matrix has {self.dynamics.dimension} rows: must be {d}, the dimension")
        if not isinstance(within, Box):  # a setting like the others
            raise ValueError(  # noqa: TRY004
                f"the set is {within.name}: must be a box, as each coordinate has its own bound"
            )
        if not self.observes or len(set(self.observes)) < len(self.observes):
            raise ValueError(f"observes is {list(self.observes)}: must be distinct coordinates")
        if min(self.observes) < 0 or max(self.observes) >= d:
            raise ValueError(f"observes is {list(self.observes)}: must be from 0 to {d - 1}")
        gain = finite_array("gain", self.gain)
        if gain.shape[-2:] != (d, len(self.observes)):
            raise ValueError(f"gain has shape {gain.shape}: must be ({d}, {len(self.observes)})")
        if self.still.regulariser:
            raise ValueError(f"regulariser is {self.still.regulariser}: must be 0 with a motion model")
        observed = np.array(self.observes, np.int64)
        object.__setattr__(self, "gain", gain)
        object.__setattr__(self, "start", self.still.start)
        object.__setattr__(self, "constraint", within)
        object.__setattr__(self, "_seen", observed)
        object.__setattr__(self, "observed_set", Box(within.lower[observed], within.upper[observed]))

    @property
    def dimension(self) -> int:
        """The dimension d of a state."""
        return self.still.dimension

    @property
    def reach(self) -> float:
        """The largest L2 norm of a state of Omega."""
        return self.still.reach

    def observed(self, x: FloatArray) -> FloatArray:
        """Return x[observes], shape (..., m)."""
        return x.take(self._seen, -1)

    def decide(self, round: int, consensus: Consensus, share: FloatArray | float = 1.0) -> Decision:
        """Return the projection of the consensus onto Omega, shape (..., d): the state believed."""
        return self.still.decide(round, consensus, share)

    def gradient_point(self, consensus: Consensus, decision: Decision) -> FloatArray:
        """Return the state at which gradients are taken, shape (..., d)."""
        return self.still.gradient_point(consensus, decision)

    def update(self, round: int, consensus: Consensus, gradient: FloatArray) -> FloatArray:
        """Return contain(F (z_t - alpha_t G g)), shape (..., d); g (..., m)."""
        scaled = self.still.step_size(round) * gradient
        step = (self.gain * scaled[..., None, :]).sum(-1)
        return self.contain(self.dynamics.moved(consensus - step))

    def contain(self, z: FloatArray) -> FloatArray:
        """Return the projection of z onto Omega in Q's metric, shape (..., d)."""
        return self.still.contain(z)
