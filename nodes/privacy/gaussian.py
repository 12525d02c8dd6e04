"""`gaussian`, on gradients: each observation's gradient clipped in L2, summed, noised, and only then used.

Guarantees
----------
Adjacency: event, one record of a node replaced; or added or removed, where slots are by time: in a full slot
a record displaces another, so it is a replacement here too. Everything is in integers, in steps of a public
grid: one observation moves the sum by at most 2K in L2 (`nodes.privacy.l2_grid`), and discrete Gaussian noise
(Canonne, Kamath, Steinke 2020) whose scale `nodes.privacy.calibration` takes from epsilon, delta, 2K and d
gives (epsilon, delta), discretisation included, for the release and, as each observation enters one slot and
what follows is made of the release, for the whole stream. Calibration `analytic` is that of Balle, Wang 2018,
`classic` sqrt(2 ln(2/delta)) 2K/epsilon. Nothing is assumed of the loss, step size, map, set or solver: they
come after. It needs an exact sampler, one call a round, slots that do not shift, and a public point at which
the gradients are taken.

| case | what happens |
|---|---|
| no observation, or zero gradients | the release is made of noise alone |
| NaN, infinity, a norm that overflows | a zero gradient, counted as broken |
| n < h observations | the sum is divided by h all the same: a count would be another release |
| delta not in [1e-300, 1), epsilon not in (1e-8, 1e5] | ValueError |
| classic with epsilon above 1, where it does not hold | ValueError |
| noise that draws beyond 64 bits, or below the grid | ValueError |

The estimate of the clipped gradients' sum / h is unbiased up to the grid, at most theta sqrt(d) 2^-b an
observation, b = 29 at d <= 15, falling to 18 at d = 2^24.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Literal

from nodes.checks import at_least_one, positive
from nodes.privacy.calibration import analytic_scale, classic_scale
from nodes.privacy.clipping import Grid
from nodes.privacy.l2_grid import l2_grid, to_l2_grid
from nodes.privacy.mechanism import Privatised, Sampler, Update
from nodes.privacy.private import Private
from nodes.privacy.ranges import TAIL, delta_in_range, in_range, room_for_noise
from nodes.privacy.reveal import opened
from nodes.privacy.slot_sum import bounded_sum, checked
from nodes.sparse import Rows
from nodes.values import IntArray, Release

Calibration = Literal["analytic", "classic"]


@dataclass(frozen=True, slots=True, eq=False)
class GaussianGradient:
    """Gaussian noise on the sum of a slot's gradients, each clipped in L2 to `theta`.

    Attributes
    ----------
    theta : float
        The L2 bound that the clip enforces.
    epsilon : Fraction
        Of one release, at `delta`.
    delta : float
        Of one release, in (0, 1).
    batch_size : int
        h: what sums are divided by, fixed and public.
    dimension : int
        d.
    sampler : Sampler
        Where the noise comes from.
    calibration : {"analytic", "classic"}
        How epsilon and delta make a scale.

    Raises ValueError for settings out of range, naming which and what is allowed.
    """

    theta: float
    epsilon: Fraction
    delta: float
    batch_size: int
    dimension: int
    sampler: Sampler
    calibration: Calibration = "analytic"
    name: str = field(default="gaussian", init=False)
    release_slack: float = field(default=0.0, init=False)
    grid: Grid = field(init=False)
    scale: float = field(init=False)

    def __post_init__(self) -> None:
        positive("theta", self.theta)
        at_least_one("batch_size", self.batch_size)
        in_range(self.epsilon)
        delta_in_range(self.delta)
        grid = l2_grid(self.theta, self.dimension)
        room = room_for_noise(grid.radius, self.batch_size)
        scale_of = analytic_scale if self.calibration == "analytic" else classic_scale
        scale = scale_of(self.epsilon, self.delta, 2 * grid.radius, self.dimension, room / TAIL)
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "scale", scale)

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""
        return self.sampler.simulated

    @property
    def mu(self) -> float:
        """The sensitivity over the noise's scale, rounded up: all that composition needs to know."""
        return math.nextafter(2 * self.grid.radius / self.scale, math.inf)

    def noise_scale(self, round: int) -> float:  # noqa: ARG002 # the same in every round
        """Return the standard deviation of one coordinate's noise on the slot's mean gradient."""
        return self.scale * self.grid.step / self.batch_size

    def privatise(
        self,
        round: int,
        gradients: Private[Rows],
        update: Update,
    ) -> Privatised:
        """Return update((sum of clipped gradients + noise)/h), gradients of shape (..., n, d), n <= h."""
        total, clipped, broken = self._bounded_sum(
            checked(opened(gradients), self.batch_size, self.dimension)
        )
        noisy = self.sampler.gaussian(round, total, self.scale)
        estimate = noisy * self.grid.step / self.batch_size
        return Privatised(Release(update(estimate)), Private(clipped), Private(broken))

    def _bounded_sum(self, gradients: Rows) -> tuple[IntArray, int, int]:
        return bounded_sum(gradients, self.theta, "l2", partial(to_l2_grid, grid=self.grid))
