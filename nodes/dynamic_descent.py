"""Mirror descent for a target that moves: the state goes through a public motion model after each step.

    s = z_t - alpha_t G g~,   q_{t+1} = contain(F s)

F is the model (`nodes.dynamics`); `contain` is the projection onto Omega in Q's metric, once, after F. g~ is
the mechanism's answer for the m coordinates that the loss sees, and G (d, m) the columns of Q^-1 that belong
to them: so a gradient of the position also moves the velocity. (Hall, Willett 2013, eq. 3; in a mesh
Shahrampour, Jadbabaie 2018, Algorithm 1, which steps from the consensus as well.)

Why privacy is untouched
------------------------
* F, G, Q, Omega and alpha_t are settings, and z_t is a function of releases and plans. Let a mechanism turn
  a slot's gradients into g~ with (epsilon, delta). The release is a function of (z_t, g~) that reads no
  record, so it has the same (epsilon, delta): post-processing. That holds for any F, also one that grows.
* The loss gets x[observes] alone, and answers with m coordinates, which alone are clipped and get noise.
  Written as gradients of the whole state they have 0 elsewhere, whatever the records are: there is nothing to
  hide. So the sensitivity is that of a loss in m dimensions, and no noise enters beside it.
* Noise on the parameters would have to cover F G as well: it is not offered (`streams.mesh` refuses it).

No bound on the regret is claimed: the theorems need an F that is non-expansive in the divergence, and those
of constant velocity and acceleration are non-expansive in no norm.
"""

from dataclasses import dataclass, field

import numpy as np

from nodes.algorithms import MirrorDescent
from nodes.checks import finite_array
from nodes.dynamics import Dynamics
from nodes.geometry.constraints import Box
from nodes.values import Consensus, Decision, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class DynamicMirrorDescent:
    """The step of `still`, in its metric and set, then F.

    `observes`: the coordinates that the loss sees, distinct. `gain`: G, shape (d, m), or one for each of the
    rows that step side by side. Raises ValueError unless the dimensions fit and Omega is a box, which alone
    holds each coordinate by itself.
    """

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

    def decide(self, round: int, consensus: Consensus) -> Decision:
        """Return the projection of the consensus onto Omega, shape (..., d): the state believed."""
        return self.still.decide(round, consensus)

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
