"""What has been spent, as a function of the number of charged rounds. Exact; rounded up, never down.

At event level there is nothing to run out: the epsilon of one release is that of the whole stream. At stream
level all `batch_size` records of a slot may change at once, so a release costs batch_size * epsilon, and
releases add up (basic composition; Dwork, Roth 2014, corollary 3.15).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from nodes.checks import at_least_one
from nodes.decimals import as_text, quotient_up


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account of one node.

    Attributes
    ----------
    epsilon : Fraction or None
        Of one release at event level, above 0; None where nothing is protected.
    batch_size : int
        Observations a slot holds.
    budget : Fraction or None
        The stream-level epsilon that may be spent; None: no limit. ValueError where it does not pay for one
        round, or where nothing is protected.
    """

    epsilon: Fraction | None
    batch_size: int
    budget: Fraction | None = None

    def __post_init__(self) -> None:
        at_least_one("batch_size", self.batch_size)
        if self.epsilon is not None and self.epsilon <= 0:
            raise ValueError(f"epsilon is {self.epsilon}: must be above 0")
        if self.budget is None:
            return
        if self.epsilon is None:
            raise ValueError(f"budget is {as_text(self.budget)}: a mechanism without epsilon cannot keep one")
        cost = self.batch_size * self.epsilon
        if self.budget < cost:
            raise ValueError(
                f"budget is {as_text(self.budget)}: must be at least {as_text(cost)}, one round's cost"
            )

    @property
    def last_learning_round(self) -> int | None:
        """The last round in which a node that missed none may learn; None: no budget ends it.

        A node that was away stops in the same round.
        """
        return last_learning_round(self.budget, self.epsilon, self.batch_size)

    def may_learn(self, round: int, charged: int) -> bool:
        """Return whether `round` may be charged after `charged` charged rounds: spent + next <= budget."""
        last = self.last_learning_round
        return last is None or (round <= last and charged < last)

    def spent(self, charged: int) -> float:
        """Return the stream-level epsilon of `charged` charged rounds; infinite where none is protected."""
        if self.epsilon is None:
            return math.inf
        numerator, denominator = self.epsilon.as_integer_ratio()
        return quotient_up(charged * self.batch_size * numerator, denominator)


def last_learning_round(budget: Fraction | None, epsilon: Fraction | None, batch_size: int) -> int | None:
    """Return the largest n with n * batch_size * epsilon <= budget; None without a budget or an epsilon."""
    if budget is None or epsilon is None:
        return None
    return math.floor(budget / (batch_size * epsilon))
