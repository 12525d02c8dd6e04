"""`laplace`, on gradients: each observation's gradient clipped in L1, summed, noised, and only then used.

Guarantees
----------
Adjacency: event. One record of a node is replaced or, with slots by time, added or removed. In a full slot an
added record displaces another one, which is a replacement.

All values are integers, in steps of a public grid. One observation moves the sum by at most 2K in L1
(`nodes.privacy.clipping`). With discrete Laplace noise of scale S >= 2K/epsilon the release has epsilon =
2K/S, delta = 0 (Dwork, McSherry, Nissim, Smith 2006; Ghosh, Roughgarden, Sundararajan 2009). The whole stream
has the same epsilon, as each observation enters one slot (Jain, Raskhodnikova, Sivakumar, Smith 2023).

Nothing is assumed about the loss, step size, map, set or solver, as they come after the noise. Required: an
exact sampler, one call a round, slots that do not shift, and a public point at which the gradients are taken.

| case | what happens |
|---|---|
| no observation, or zero gradients | the release is made of noise alone |
| NaN, infinity, a norm that overflows | a zero gradient, counted as broken |
| n < h observations | the sum is still divided by h: a count would be another release |
| epsilon so small that draws leave 64 bits (about 3e-8) | ValueError |
| epsilon so large that noise falls below the grid (about 1e9) | ValueError |

The estimate of the clipped gradients' sum / h is unbiased up to the rounding to the grid, which is theta
2^-30 an observation.

With an epsilon that grows from round to round (`LaplaceSchedule`) each round has these guarantees with its
own epsilon, which is a function of settings and round alone. At event level a record enters one release, so
its epsilon is at most the largest one. At stream level h times the rounds' epsilons add up to the schedule's
total (`nodes.accounting.releases.GrowingSum`).

| case, with a schedule | what happens |
|---|---|
| a round outside the schedule | ValueError: the ledger does not let it learn |
| an epsilon of the schedule out of range | ValueError at the start |
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

from nodes.accounting.releases import Composition, DeltaBudget, GrowingEpsilon, GrowingSum, pure_composition
from nodes.checks import TAIL, OutOfRange, room_for_noise, rounded_up
from nodes.privacy.clipping import Grid
from nodes.privacy.mechanism import Privatised, Sampler, Secret, Update
from nodes.privacy.private import Private
from nodes.privacy.sampled import GridMechanism
from nodes.sparse import Rows
from nodes.values import IntArray


def laplace_scale(radius: int, epsilon: Fraction, batch_size: int = 1) -> float:
    """Return S, the smallest float that is at least 2K/epsilon, in grid steps; `radius` is K.

    Raises OutOfRange if K h + 64 S would leave the sampler's 64 bits, or S would be below one step.
    """
    least = Fraction(2 * radius * TAIL, room_for_noise(radius, batch_size))
    largest = Fraction(2 * radius)
    if not least < epsilon <= largest:
        allowed = f"above {float(least):.3g} and at most {float(largest):.3g}"
        raise OutOfRange("epsilon", epsilon, f"must be {allowed}")
    return rounded_up(2 * radius / epsilon)


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceGradient(GridMechanism):
    """Laplace noise on the sum of a slot's gradients, each clipped in L1 to `theta`."""

    name: ClassVar[str] = "laplace"
    norm: ClassVar[Literal["l1", "l2"]] = "l1"
    delta: float = field(default=0.0, init=False)

    def composition(self, budget: DeltaBudget | None) -> Composition:
        """Return how releases compose if all h records of a slot may change."""
        return pure_composition("laplace", self.batch_size * self.epsilon, budget)

    def _clip_grid(self) -> Grid:
        return Grid.of(self.theta, self.dimension)

    def _noise(self) -> float:
        return laplace_scale(self.grid.radius, self.epsilon, self.batch_size)

    def _noised(self, round: int, total: IntArray, secret: Secret | None) -> tuple[IntArray, None]:  # noqa: ARG002
        return self.sampler.laplace(round, total, self.scale), None


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceSchedule:
    """Laplace noise on the sum of a slot's gradients, scaled by the round's epsilon.

    `theta`, `dimension` and `sampler` as in `LaplaceGradient`; h is the schedule's `batch_size`. Raises
    ValueError for settings out of range, naming the setting and what is allowed.
    """

    theta: float
    schedule: GrowingEpsilon
    dimension: int
    sampler: Sampler
    name: str = field(default="laplace", init=False)
    delta: float = field(default=0.0, init=False)
    release_slack: float = field(default=0.0, init=False)
    band: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.of_round(1)
        self.of_round(self.schedule.rounds)

    @property
    def epsilon(self) -> Fraction:
        """The largest epsilon of a release."""
        return self.schedule.largest

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""
        return self.sampler.simulated

    @property
    def audited(self) -> LaplaceGradient:
        """The mechanism of the last round, which has the least noise."""
        return self.of_round(self.schedule.rounds)

    def composition(self, budget: DeltaBudget | None) -> Composition:  # noqa: ARG002 # settings refuse one
        """Return the sum of the schedule."""
        return GrowingSum(self.schedule)

    def of_round(self, round: int) -> LaplaceGradient:
        """Return the mechanism of one round."""
        epsilon, size = self.schedule.epsilon_at(round), self.schedule.batch_size
        return LaplaceGradient(self.theta, epsilon, size, self.dimension, self.sampler)

    def noise_scale(self, round: int) -> float:
        """Return the scale of a coordinate's noise on the mean gradient; after the end, the last round's."""
        return self.of_round(min(round, self.schedule.rounds)).noise_scale(round)

    def privatise(
        self,
        round: int,
        gradients: Private[Rows],
        update: Update,
        secret: Secret | None = None,  # noqa: ARG002
    ) -> Privatised:
        """Return update((sum of clipped gradients + noise)/h), gradients of shape (..., n, d), n <= h."""
        return self.of_round(round).privatise(round, gradients, update)
