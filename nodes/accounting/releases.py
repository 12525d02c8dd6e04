"""Compositions: the cost of a node's releases at stream level, by their number; rounded up, never down.

At stream level all h records of a slot may change at once, so one release costs h * epsilon; a `Composition`
gives the cost of many together. It holds for any history: `spent` never falls, and what is affordable is
within the budget whichever rounds were missed. A tight one, from a table, is in `nodes.accounting.tight`.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, Protocol

from nodes.accounting.calibration import delta_in_range
from nodes.accounting.composition import gaussian, gaussian_pair
from nodes.accounting.schedule import GrowingEpsilon
from nodes.decimals import quotient_up, rounded_up

_FOR_EVER = 1 << 40


def most_within(spent: Callable[[int], float], budget: Fraction) -> int:
    """Return the largest n, up to 2^40, with spent(n) <= budget; `spent` never falls."""
    return bisect_right(range(1, _FOR_EVER), -rounded_up(-budget), key=spent)


class DeltaBudget(NamedTuple):
    """The budget of a whole stream, in an account with a delta."""

    epsilon: Fraction
    delta: float


class Composition(Protocol):
    """How the releases of one node compose."""

    @property
    def words(self) -> str:
        """The composition, in words for people."""

    @property
    def delta(self) -> float:
        """The delta of all releases together; 0: pure."""

    def spent(self, charged: int, round: int | None = None) -> float:
        """Return the epsilon of `charged` releases, made in rounds up to `round` (None: any)."""

    def affordable(self, budget: Fraction) -> int:
        """Return the number of releases that `budget` pays for."""


@dataclass(frozen=True, slots=True)
class Sum:
    """Epsilons add up (Dwork, Roth 2014, corollary 3.15). `cost`: that of one release, exactly."""

    cost: Fraction
    words: str = field(default="sum", init=False)
    delta: float = field(default=0.0, init=False)

    def spent(self, charged: int, round: int | None = None) -> float:  # noqa: ARG002 # all cost the same
        """Return charged * cost."""
        return quotient_up(charged * self.cost.numerator, self.cost.denominator)

    def affordable(self, budget: Fraction) -> int:
        """Return the largest n with n * cost <= budget."""
        return math.floor(budget / self.cost)


@dataclass(frozen=True, slots=True)
class GrowingSum:
    """The sum of a schedule's epsilons, times h. Missed rounds count as the cheapest so far."""

    schedule: GrowingEpsilon
    words: str = field(default="sum of the schedule", init=False)
    delta: float = field(default=0.0, init=False)

    def spent(self, charged: int, round: int | None = None) -> float:
        """Return the sum of the `charged` largest among rounds 1..round: a round is charged at most once.

        Charges beyond the number of rounds count as the largest of all.
        """
        last = self.schedule.rounds if round is None else min(round, self.schedule.rounds)
        recent = min(charged, last)
        costs = self.schedule.until(last) - self.schedule.until(last - recent)
        costs += (charged - recent) * self.schedule.epsilon_at(self.schedule.rounds)
        return rounded_up(self.schedule.batch_size * costs)

    def affordable(self, budget: Fraction) -> int:
        """Return the last round in which a node that misses none may learn."""
        cost = self.schedule.batch_size
        return bisect_right(
            range(1, self.schedule.rounds + 1), budget, key=lambda n: cost * self.schedule.until(n)
        )


@dataclass(frozen=True, slots=True)
class GaussianComposition:
    """Gaussian releases, as one Gaussian with sqrt(T) times the sensitivity.

    `sensitivity` (L2, of all h records of a slot) and `scale` are in integer steps, over `coordinates`.
    """

    sensitivity: int
    scale: float
    coordinates: int
    delta: float
    words: str = field(default="composition of Gaussian noise (analytic)", init=False)

    def __post_init__(self) -> None:
        delta_in_range(self.delta)

    def spent(self, charged: int, round: int | None = None) -> float:  # noqa: ARG002 # all cost the same
        """Return the epsilon at delta."""
        return gaussian(self.sensitivity, self.scale, self.coordinates, charged, self.delta)

    def affordable(self, budget: Fraction) -> int:
        """Return the largest n, up to 2^40, within the budget."""
        return most_within(self.spent, budget)


class BandNorms(Protocol):
    """The norms of C (`nodes.privacy.bisr_coefficients`)."""

    @property
    def gain(self) -> float:
        """The sum of C's first column, rounded up."""

    def stream_norm(self, releases: int) -> float:
        """Return the L2 norm of C times ones for T releases, rounded up."""


@dataclass(frozen=True, slots=True)
class BandComposition:
    """Correlated Gaussian releases, as one Gaussian with the sensitivity of all draws together.

    A node's whole stream may change. All h records of every slot move their sums by h D, so the draws move by
    C (h D, h D, ...): over T steps by h D sqrt(sum_{t<=T} (c_0 + ... + c_{t-1})^2), and by gain sqrt(d T) for
    rounding (`nodes.privacy.bisr`). As the sums grow with t, beginning a new band costs less than going on.

    `sensitivity` (L2, of a slot's h records, without C) and `scale` are in draws' steps, over `coordinates`.
    """

    matrix: BandNorms
    sensitivity: int
    scale: float
    coordinates: int
    delta: float
    words: str = field(default="composition of correlated Gaussian noise (analytic)", init=False)

    def __post_init__(self) -> None:
        delta_in_range(self.delta)

    def spent(self, charged: int, round: int | None = None) -> float:  # noqa: ARG002 # all cost the same
        """Return the epsilon at delta."""
        if not charged:
            return 0.0
        coordinates = self.coordinates * charged
        distance = self.sensitivity * self.matrix.stream_norm(charged)
        distance += self.matrix.gain * math.sqrt(coordinates)
        return gaussian_pair(distance, self.scale, coordinates, self.delta)

    def affordable(self, budget: Fraction) -> int:
        """Return the largest n, up to 2^40, within the budget."""
        return most_within(self.spent, budget)
