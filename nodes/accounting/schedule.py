"""Splits a total stream-level epsilon over a number of rounds: pure, exact, and never above the total.

At stream level a release costs h * epsilon_t (all h records of a slot may change), so the shares are

    uniform   epsilon_t = total/(h R)
    growing   epsilon_t = total sqrt(t)/(h (sqrt(1) + ... + sqrt(R)))

for R rounds, each rounded down to six significant digits or better. `growing` spends most when steps have
become small: later steps forget early noise, while late noise stays. At event level a record enters one
release, so its epsilon is that release's: at most the largest.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from nodes.checks import at_least_one
from nodes.decimals import as_text

_DIGITS = 6
_MOST_ROUNDS = 1_000_000


def uniform_epsilon(total: Fraction, rounds: int, batch_size: int) -> Fraction:
    """Return each release's epsilon. Raises ValueError unless total > 0 and the others are at least 1."""
    _check(total, rounds, batch_size)
    share = total / (rounds * batch_size)
    return math.floor(share / _unit(share)) * _unit(share)


@dataclass(frozen=True, slots=True)
class GrowingEpsilon:
    """Epsilons that grow with the square root of the round, and end after `rounds`.

    Raises ValueError unless total is above 0, batch_size at least 1, and rounds from 1 to 1,000,000.
    """

    total: Fraction
    rounds: int
    batch_size: int
    unit: Fraction = field(init=False, repr=False)
    _sums: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check(self.total, self.rounds, self.batch_size)
        if self.rounds > _MOST_ROUNDS:
            raise ValueError(f"rounds is {self.rounds}: must be at most {_MOST_ROUNDS} where epsilon grows")
        unit, sums = _growing(self.total, self.rounds, self.batch_size)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "_sums", sums)

    @property
    def largest(self) -> Fraction:
        """The epsilon of the last round."""
        return self.epsilon_at(self.rounds)

    def epsilon_at(self, round: int) -> Fraction:
        """Return the epsilon of the release that `round` makes; ValueError outside the schedule."""
        if not 1 <= round <= self.rounds:
            raise ValueError(f"round is {round}: the schedule is of rounds 1 to {self.rounds}")
        return (self._sums[round] - self._sums[round - 1]) * self.unit

    def until(self, round: int) -> Fraction:
        """Return the sum of the epsilons of rounds 1..round."""
        return self._sums[round] * self.unit


@lru_cache(maxsize=8)
def _growing(total: Fraction, rounds: int, batch_size: int) -> tuple[Fraction, tuple[int, ...]]:
    weights = [math.isqrt(t << 40) for t in range(1, rounds + 1)]  # sqrt(t), times 2^20
    share = total / (sum(weights) * batch_size)
    unit = _unit(share * weights[0])
    numerator, denominator = (share / unit).as_integer_ratio()
    return unit, tuple(accumulate((weight * numerator // denominator for weight in weights), initial=0))


def _unit(share: Fraction) -> Fraction:
    """Return the power of ten that fits into `share` between 10^5 and about 10^6 times."""
    return Fraction(10) ** (math.floor(math.log10(share)) - _DIGITS + 1)


def _check(total: Fraction, rounds: int, batch_size: int) -> None:
    at_least_one("rounds", rounds)
    at_least_one("batch_size", batch_size)
    if total <= 0:
        raise ValueError(f"total is {as_text(total)}: must be above 0")
