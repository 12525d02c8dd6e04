"""The tightest known composition, as a table made before the first round: a step only looks up."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from typing import Literal

from nodes.accounting.releases import Composition, DeltaBudget, Sum, checked_delta, laplace, pure
from nodes.checks import rounded_up

TightKind = Literal["laplace", "pure"]

_POINTS = 41
_A_DECADE = 24
_MOST_RELEASES = 100_000
_TIGHT = {"laplace": laplace, "pure": pure}
_REUSES = {
    "laplace": "tight composition of Laplace noise (privacy loss distributions)",
    "pure": "tight composition of pure mechanisms (Kairouz, Oh, Viswanath 2015)",
}


@dataclass(frozen=True, slots=True)
class Tight:
    """The tightest composition of releases of equal cost, from a table made once, up to a budget.

    Look-ups round up to the next point of a table, at most a sixth more releases; the sum counts if it is
    less. Beyond 100,000 releases only the sum counts. Raises ValueError for a delta out of range, or
    without dp-accounting.
    """

    kind: TightKind
    cost: Fraction
    delta: float
    budget: Fraction
    _points: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _spent: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_delta(self.delta)
        points, spent = _table(self.kind, self.cost, self.delta, self.budget)
        object.__setattr__(self, "_points", points)
        object.__setattr__(self, "_spent", spent)

    @property
    def words(self) -> str:
        """The composition, in words for people."""
        return _REUSES[self.kind]

    def spent(self, charged: int, round: int | None = None) -> float:  # noqa: ARG002 # all cost the same
        """Return the epsilon at delta of at least `charged` releases."""
        basic = Sum(self.cost).spent(charged)
        last = self._points[-1]
        if charged > last:  # more charges than rounds: round up to twice, four times ... as many
            most = last << ((charged - 1) // last).bit_length()
            return min(basic, max(self._spent[-1], _exact(self.kind, self.cost, self.delta, most)))
        return min(basic, self._spent[bisect_left(self._points, charged)])

    def affordable(self, budget: Fraction) -> int:
        """Return the largest n known to be within `budget`, which is at most the table's."""
        tabled = self._points[bisect_right(self._spent, budget) - 1]
        return max(tabled, Sum(self.cost).affordable(budget))


def pure_composition(kind: TightKind, cost: Fraction, budget: DeltaBudget | None) -> Composition:
    """Return how releases of a pure `cost` each compose: tightly at the budget's delta, else as a sum."""
    return Sum(cost) if budget is None else Tight(kind, cost, budget.delta, budget.epsilon)


@lru_cache(maxsize=16)
def _table(
    kind: TightKind, cost: Fraction, delta: float, budget: Fraction
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return points 0..n, the last within the budget, and a bound on the cost of each, in rising order.

    The cost of more releases bounds that of fewer, so a later point that came out lower replaces an earlier.
    """
    spent_by = partial(_exact, kind, cost, delta)
    last = _last_within(spent_by, max(1, min(Sum(cost).affordable(budget), _MOST_RELEASES)), budget)
    points = _points(last)
    spent = [0.0, *map(spent_by, points[1:])]
    for k in reversed(range(len(spent) - 1)):
        spent[k] = min(spent[k], spent[k + 1])
    return tuple(points), tuple(spent)


def _points(last: int) -> list[int]:
    """Return the table's points, 0 to `last`.

    Squares alone would be coarse for the first releases where the budget pays for very many of them.
    """
    squares = {math.ceil(last * (k / (_POINTS - 1)) ** 2) for k in range(_POINTS)}
    powers = {round(10 ** (k / _A_DECADE)) for k in range(math.ceil(math.log10(last) * _A_DECADE))}
    return sorted(squares | {n for n in powers if n < last / 8})  # from there on squares are as close


def _last_within(spent_by: Callable[[int], float], low: int, budget: Fraction) -> int:
    """Return the largest n found between `low` and 100,000 whose cost is within the budget."""
    high = low
    while high < _MOST_RELEASES and spent_by(high) <= budget:
        low, high = high, min(2 * high, _MOST_RELEASES)
    if spent_by(high) <= budget:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spent_by(middle) <= budget else (low, middle)
    return low


@lru_cache(maxsize=1024)
def _exact(kind: TightKind, cost: Fraction, delta: float, charged: int) -> float:
    basic = Sum(cost).spent(charged)
    if charged > _MOST_RELEASES:
        return basic
    return min(basic, _TIGHT[kind](rounded_up(cost), charged, delta))
