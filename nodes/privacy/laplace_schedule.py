"""`laplace` on gradients with an epsilon that grows from round to round.

Guarantees
----------
As in `nodes.privacy.laplace`, in each round with its own epsilon, a function of settings and round alone.
Event level: a record enters one release, so its epsilon is at most the largest. Stream level: h times the
rounds' epsilons add up to the schedule's total (`nodes.accounting.releases.GrowingSum`).

| case | what happens |
|---|---|
| a round outside the schedule | ValueError: the ledger does not let it learn |
| an epsilon of the schedule out of range | ValueError at the start, as in `nodes.privacy.laplace` |
| all else | as in `nodes.privacy.laplace` |
"""

from dataclasses import dataclass, field
from fractions import Fraction

from nodes.accounting.releases import Composition, DeltaBudget, GrowingSum
from nodes.accounting.schedule import GrowingEpsilon
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.mechanism import Privatised, Sampler, Secret, Update
from nodes.privacy.private import Private
from nodes.sparse import Rows


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
