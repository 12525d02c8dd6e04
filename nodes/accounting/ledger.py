"""The ledger: the epsilon spent after a number of charged rounds, rounded up, never down.

At event level nothing runs out: the epsilon of one release is that of the whole stream. At stream level all
`batch_size` records of a slot may change at once, so a release costs batch_size * epsilon, and releases
compose (`nodes.accounting.releases`).
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

from nodes.accounting.releases import Composition, Sum
from nodes.checks import OutOfRange, at_least_one
from nodes.decimals import as_text, rounded_up, up_to_digits


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of one node.

    Attributes
    ----------
    epsilon : Fraction or None
        That of one release at event level, the largest of a schedule, above 0; None: nothing is protected.
    batch_size : int
        The number of observations of a slot.
    budget : Fraction or None
        The stream-level epsilon that may be spent; None: no limit. Raises ValueError if it does not pay for
        one round, or if nothing is protected.
    composition : Composition or None
        How releases compose; None: the sum of batch_size * epsilon.
    rounds : int or None
        The last round of a schedule of epsilons; None: no end.
    last_learning_round : int or None
        The last round in which a node that missed none may learn; None: no end. A node that was away stops in
        the same round.
    """

    epsilon: Fraction | None
    batch_size: int
    budget: Fraction | None = None
    composition: Composition | None = None
    rounds: int | None = None
    last_learning_round: int | None = field(init=False)

    def __post_init__(self) -> None:
        at_least_one("batch_size", self.batch_size)
        if self.epsilon is None:
            if self.budget is not None:
                raise ValueError(
                    f"budget is {as_text(self.budget)}: a mechanism without epsilon cannot keep one"
                )
            object.__setattr__(self, "composition", None)
            object.__setattr__(self, "last_learning_round", None)
            return
        if self.epsilon <= 0:
            raise ValueError(f"epsilon is {self.epsilon}: must be above 0")
        composition = self.composition or Sum(self.batch_size * self.epsilon)
        object.__setattr__(self, "composition", composition)
        object.__setattr__(self, "last_learning_round", self._last(composition))

    def _last(self, composition: Composition) -> int | None:
        if self.budget is None:
            return self.rounds
        affordable = composition.affordable(self.budget)
        if affordable < 1:
            cost = f"{up_to_digits(composition.spent(1, 1)):.6g}"
            raise OutOfRange("budget", self.budget, f"must be at least {cost}, one round's cost")
        return affordable if self.rounds is None else min(affordable, self.rounds)

    @property
    def delta(self) -> float:
        """The delta at stream level; 0: pure."""
        return self.composition.delta if self.composition else 0.0

    def may_learn(self, round: int, charged: int) -> bool:
        """Return whether `round` may be charged after `charged` charged rounds: spent + next <= budget."""
        last = self.last_learning_round
        return last is None or (round <= last and charged < last)

    def spent(self, charged: int, round: int | None = None) -> float:
        """Return the stream-level epsilon of `charged` rounds; infinite if nothing is protected.

        `round` is the last one stepped; without it the largest of a schedule's epsilons are counted.
        """
        last = self.last_learning_round
        if last is not None and (round is None or round > last):
            round = last
        return self.composition.spent(charged, round) if self.composition else math.inf

    def left(self, charged: int, round: int | None = None) -> float:
        """Return the rest of the budget, rounded down; infinite without a budget."""
        if self.budget is None:
            return math.inf
        spent = self.spent(charged, round)
        return -rounded_up(Fraction(spent) - self.budget) if spent < self.budget else 0.0
