"""`gaussian`, on gradients: each observation's gradient clipped in L2, summed, noised, and only then used.

Guarantees
----------
Adjacency: event. One record of a node is replaced or, with slots by time, added or removed. In a full slot an
added record displaces another one, which is a replacement.

All values are integers, in steps of a public grid. One observation moves the sum by at most D = 2K in L2
(`nodes.privacy.clipping`), or by the D of its features (`nodes.privacy.features`). With discrete Gaussian
noise (Canonne, Kamath, Steinke 2020) the release is (epsilon, delta), discretisation included.
`nodes.accounting.calibration` derives the noise's scale from epsilon, delta, D and d. The calibration
`analytic` is that of Balle, Wang 2018; `classic` is sqrt(2 ln(2/delta)) D/epsilon.

The whole stream is (epsilon, delta) too, as each observation enters one slot, and everything later is
computed from the release.

Nothing is assumed about the loss, step size, map, set or solver, as they come after the noise. Required: an
exact sampler, one call a round, slots that do not shift, and a public point at which the gradients are taken.

| case | what happens |
|---|---|
| no observation, or zero gradients | the release is made of noise alone |
| NaN, infinity, a norm that overflows | a zero gradient, counted as broken |
| n < h observations | the sum is still divided by h: a count would be another release |
| delta not in [1e-300, 1), epsilon not in (1e-8, 1e5] | ValueError |
| classic with epsilon above 1, where it does not hold | ValueError |
| noise whose draws leave 64 bits, or fall below the grid | ValueError |

The estimate of the clipped gradients' sum / h is unbiased up to the rounding to the grid. The rounding is at
most theta sqrt(d) 2^-b an observation, with b = 29 at d <= 15, falling to 18 at d = 2^24.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from nodes.accounting.calibration import analytic_scale, classic_scale, delta_in_range
from nodes.accounting.releases import Composition, DeltaBudget, GaussianComposition
from nodes.checks import TAIL, in_range, room_for_noise
from nodes.privacy.clipping import Grid, l2_grid
from nodes.privacy.mechanism import Secret
from nodes.privacy.sampled import GridMechanism
from nodes.values import IntArray

Calibration = Literal["analytic", "classic"]


@dataclass(frozen=True, slots=True, eq=False)
class GaussianGradient(GridMechanism):
    """Gaussian noise on the sum of a slot's gradients, each clipped in L2 to `theta`; `delta` in (0, 1).

    `calibration`: how the scale follows from epsilon and delta. They hold for `releases` together, in each of
    which a record or a unit takes part: their sensitivity is sqrt(releases) times that of one (Dong, Roth, Su
    2022, corollary 2).
    """

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[Literal["l1", "l2"]] = "l2"
    calibration: Calibration = "analytic"
    releases: int = field(default=1, kw_only=True)

    @property
    def mu(self) -> float:
        """The sensitivity divided by the noise's scale, rounded up. Composition needs nothing else."""
        return math.nextafter(self.distance / self.scale, math.inf)

    def composition(self, budget: DeltaBudget | None) -> Composition:
        """Return how releases compose if all h records of a slot may change."""
        delta = self.delta if budget is None else budget.delta
        return GaussianComposition(self.distance * self.batch_size, self.scale, self.dimension, delta)

    def _clip_grid(self) -> Grid:
        in_range(self.epsilon)
        delta_in_range(self.delta)
        return l2_grid(self.theta, self.dimension)

    def _noise(self) -> float:
        room = room_for_noise(self.grid.radius, self.batch_size)
        scale_of = analytic_scale if self.calibration == "analytic" else classic_scale
        sensitivity = math.isqrt(self.distance**2 * self.releases - 1) + 1  # rounded up
        coordinates = self.dimension * self.releases
        return scale_of(self.epsilon, self.delta, sensitivity, coordinates, room / TAIL)

    def _noised(self, round: int, total: IntArray, secret: Secret | None) -> tuple[IntArray, None]:  # noqa: ARG002
        return self.sampler.gaussian(round, total, self.scale), None
