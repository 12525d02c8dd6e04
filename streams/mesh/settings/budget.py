"""Settings of spending: the epsilon of a release or of a whole schedule, and the stream's budget."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from nodes.accounting.schedule import GrowingEpsilon, uniform_epsilon
from streams.mesh.settings.base import Count, Exact, Settings, refusal


class EpsilonSettings(Settings):
    """A total epsilon of the whole stream (as a sum, stream level), split over rounds."""

    total: Exact
    """The sum of the epsilons of all releases."""
    rounds: Count
    """The rounds 1 to this one have a part of it; after the last a node learns no more."""
    schedule: Literal["uniform", "growing"] = "uniform"
    """`uniform`: the same epsilon each round. `growing`: more in later rounds, for laplace on the
    gradient."""


class BudgetSettings(Settings):
    """A budget of the whole stream at a delta, spent by the tightest known composition."""

    epsilon: Exact
    """The largest epsilon of the whole stream."""
    delta: float = Field(ge=1e-12, lt=1)
    """The delta at which it holds."""


def _kind(value: Any) -> str:
    return "mapping" if isinstance(value, Mapping | Settings) else "number"


Epsilon = Annotated[
    Annotated[Exact, Tag("number")] | Annotated[EpsilonSettings, Tag("mapping")], Discriminator(_kind)
]
"""The epsilon of every release, or a schedule."""
Budget = Annotated[
    Annotated[Exact, Tag("number")] | Annotated[BudgetSettings, Tag("mapping")], Discriminator(_kind)
]
"""A pure budget, spent by the sum, or one with a delta."""


def release_epsilon(epsilon: Fraction | EpsilonSettings, batch_size: int) -> Fraction:
    """Return the largest epsilon of a release. Raises ValueError for an impossible schedule."""
    if not isinstance(epsilon, EpsilonSettings):
        return epsilon
    growing = growing_epsilon(epsilon, batch_size)
    return growing.largest if growing else uniform_epsilon(epsilon.total, epsilon.rounds, batch_size)


def growing_epsilon(epsilon: Fraction | EpsilonSettings | None, batch_size: int) -> GrowingEpsilon | None:
    """Return the schedule of growing epsilons; None if they do not grow. Raises ValueError."""
    if not isinstance(epsilon, EpsilonSettings) or epsilon.schedule != "growing":
        return None
    return GrowingEpsilon(epsilon.total, epsilon.rounds, batch_size)


def budget_epsilon(budget: Fraction | BudgetSettings | None) -> Fraction | None:
    """Return the whole stream's budget of epsilon; None: no limit."""
    return budget.epsilon if isinstance(budget, BudgetSettings) else budget


def check_spending(
    mechanism: str, epsilon: Fraction | EpsilonSettings | None, budget: Fraction | BudgetSettings | None
) -> None:
    """Raise a refusal if they do not fit together; `mechanism` reads like `laplace on the gradient`."""
    growing = isinstance(epsilon, EpsilonSettings) and epsilon.schedule == "growing"
    if isinstance(epsilon, EpsilonSettings) and mechanism.startswith("gaussian"):
        raise refusal(
            "gaussian noise does not sum up to a total: must be a number, that of one release; what limits "
            "the whole stream is budget: {epsilon: ..., delta: ...}",
            "epsilon",
        )
    if growing and mechanism != "laplace on the gradient":
        raise refusal(
            f"{mechanism} keeps one epsilon: must be uniform (growing is for laplace on the gradient)",
            *("epsilon", "schedule"),
        )
    if growing and isinstance(budget, BudgetSettings):
        raise refusal("a growing epsilon is summed up: must be a number, without delta", "budget")
    if mechanism.startswith("gaussian") and isinstance(budget, Fraction):
        raise refusal("gaussian has a delta: must be {epsilon: ..., delta: ...}", "budget")
