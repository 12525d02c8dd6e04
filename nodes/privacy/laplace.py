"""`laplace`, on gradients: each observation's gradient clipped in L1, summed, noised, and only then used.

Guarantees
----------
Adjacency: event, one record of a node replaced; or added or removed, where slots are by time: in a full slot
a record displaces another, so it is a replacement here too. Everything is in integers, in steps of a public
grid: one observation moves the sum by at most 2K in L1 (`nodes.privacy.clipping`), and discrete Laplace noise
of scale S >= 2K/epsilon gives epsilon = 2K/S, delta = 0 (Dwork, McSherry, Nissim, Smith 2006; Ghosh,
Roughgarden, Sundararajan 2009) for the release and, as each observation enters one slot, for the whole stream
(Jain, Raskhodnikova, Sivakumar, Smith 2023). Nothing is assumed of the loss, step size, map, set or solver:
they come after. It needs an exact sampler, one call a round, slots that do not shift, and a public point at
which the gradients are taken.

| case | what happens |
|---|---|
| no observation, or zero gradients | the release is made of noise alone |
| NaN, infinity, a norm that overflows | a zero gradient, counted as broken |
| n < h observations | the sum is divided by h all the same: a count would be another release |
| epsilon so small that draws leave 64 bits (about 3e-8) | ValueError |
| epsilon so large that noise falls below the grid (about 1e9) | ValueError |

The estimate of the clipped gradients' sum / h is unbiased up to the grid, theta 2^-30 an observation.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

from nodes.checks import OutOfRange, at_least_one, positive
from nodes.decimals import rounded_up
from nodes.privacy.clipping import Grid, to_grid
from nodes.privacy.mechanism import Privatised, Sampler, Update
from nodes.privacy.private import Private
from nodes.privacy.ranges import TAIL, room_for_noise
from nodes.privacy.reveal import opened
from nodes.privacy.slot_sum import bounded_sum, checked
from nodes.sparse import Rows
from nodes.values import IntArray, Release


def laplace_scale(radius: int, epsilon: Fraction, batch_size: int = 1) -> float:
    """Return S, the smallest float that is at least 2K/epsilon, in grid steps; `radius` is K.

    Raises OutOfRange where K h + 64 S would leave the sampler's 64 bits, or S would be below one step.
    """
    least = Fraction(2 * radius * TAIL, room_for_noise(radius, batch_size))
    largest = Fraction(2 * radius)
    if not least < epsilon <= largest:
        allowed = f"above {float(least):.3g} and at most {float(largest):.3g}"
        raise OutOfRange("epsilon", epsilon, f"must be {allowed}")
    return rounded_up(2 * radius / epsilon)


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceGradient:
    """Laplace noise on the sum of a slot's gradients, each clipped in L1 to `theta`.

    Attributes
    ----------
    theta : float
        The L1 bound that the clip enforces.
    epsilon : Fraction
        Of one release, exactly.
    batch_size : int
        h: what sums are divided by, fixed and public.
    dimension : int
        d.
    sampler : Sampler
        Where the noise comes from.

    Raises ValueError for settings out of range, naming which and what is allowed.
    """

    theta: float
    epsilon: Fraction
    batch_size: int
    dimension: int
    sampler: Sampler
    name: str = field(default="laplace", init=False)
    delta: float = field(default=0.0, init=False)
    release_slack: float = field(default=0.0, init=False)
    grid: Grid = field(init=False)
    scale: float = field(init=False)

    def __post_init__(self) -> None:
        positive("theta", self.theta)
        at_least_one("batch_size", self.batch_size)
        grid = Grid.of(self.theta, self.dimension)
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "scale", laplace_scale(grid.radius, self.epsilon, self.batch_size))

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""
        return self.sampler.simulated

    def noise_scale(self, round: int) -> float:  # noqa: ARG002 # the same in every round
        """Return the scale of one coordinate's noise on the slot's mean gradient."""
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
        noisy = self.sampler.laplace(round, total, self.scale)
        estimate = noisy * self.grid.step / self.batch_size
        return Privatised(Release(update(estimate)), Private(clipped), Private(broken))

    def _bounded_sum(self, gradients: Rows) -> tuple[IntArray, int, int]:
        return bounded_sum(gradients, self.theta, "l1", partial(to_grid, grid=self.grid))
