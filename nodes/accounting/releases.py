"""Compositions: the cost of a number of a node's releases at stream level; rounded up, never down.

At stream level all h records of a slot may change at once, so one release costs h * epsilon; a `Composition`
gives the cost of many together. It holds for any history: `spent` never falls, and what is affordable is
within the budget whichever rounds were missed. The tightest composition is read from a table (`Tight`).
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from nodes.accounting.calibration import delta_in_range, discrete_delta, says_nothing
from nodes.checks import as_text, at_least_one, quotient_up, rounded_up
from nodes.values import FloatArray

# Splits a total stream-level epsilon over a number of rounds: pure, exact, and never above the total.
#
# At stream level a release costs h * epsilon_t (all h records of a slot may change), so the shares are
#
#     uniform   epsilon_t = total/(h R)
#     growing   epsilon_t = total sqrt(t)/(h (sqrt(1) + ... + sqrt(R)))
#
# for R rounds, each rounded down to six significant digits or better. `growing` spends most when steps have
# become small: later steps forget early noise, while late noise stays. At event level a record enters one
# release, so its epsilon is that release's: at most the largest.

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
        """Return the sum of the epsilons of rounds 1 to `round`."""
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


# The cost of T releases together: the smallest epsilon for which they are (epsilon, delta)-private.
#
# Each function returns an upper bound, tight up to rounding (0.5 % for `laplace`, whose losses are rounded up
# to a grid), and monotone in T up to that.
#
# | releases | compose as | source |
# |---|---|---|
# | Laplace noise on integers | the scalar Laplace mechanism | below; sum by dp-accounting's privacy losses |
# | pure mechanisms | randomised response, the worst of them | Kairouz, Oh, Viswanath 2015, theorem 3.3 |
# | Gaussian noise on integers | Gaussian noise, mu sqrt(T) | Balle, Wang 2018; Dong, Roth, Su 2022 |
#
# Why the continuous scalar Laplace pair bounds noise on d integers. Let delta(x) be the hockey-stick
# divergence at e^x. On one coordinate, distance k, scale S, the discrete pair has delta(x) = 1 - e^(-j/S) at
# x = (k - 2j)/S, as the continuous pair has. Between these points it is linear in e^x, and the continuous
# pair at the distance k + 1/(4S) is above it (as 1/cosh(1/(2S)) >= e^(-1/(8S^2))). On d coordinates go from
# one input to the other one coordinate at a time: the trade-off functions of log-concave noise compose as
# distances add up (Dong, Roth, Su 2022, section 2.5), so the pair at the L1 distance bounds them all. With S
# >= 2^30/30 and d <= 2^24, d/(4S) is less than 1e-9 of the distance; `laplace` takes an epsilon larger by
# that much.

_POINTS = 2000  # the grid's step is epsilon sqrt(T)/2000
_UP = 1 + 1e-9
_ADDS_UP = 30.0  # above it the loss of a release is nearly always epsilon: the sum is as good


def checked_delta(delta: float) -> float:
    """Return `delta`. Raises ValueError unless 1e-12 <= delta < 1; below that rounding would show."""
    if not 1e-12 <= delta < 1:
        raise ValueError(f"delta is {delta!r}: must be at least 1e-12 and below 1")
    return delta


def laplace(epsilon: float, releases: int, delta: float) -> float:
    """Return the epsilon of `releases` Laplace mechanisms. Raises ValueError without dp-accounting."""
    basic = releases * epsilon * _UP
    if epsilon > _ADDS_UP or releases < 2:
        return basic
    interval = epsilon * math.sqrt(releases) / _POINTS
    scale = 1 / (epsilon * _UP)
    single = _distributions().from_laplace_mechanism(scale, value_discretization_interval=interval)
    return min(basic, float(single.self_compose(releases).get_epsilon_for_delta(delta)) * _UP)


def _distributions() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415 # an extra: 150 MB, 0.8 s
    except ImportError:
        raise ValueError(
            "a budget with a delta needs dp-accounting, which is not installed: "
            "pip install 'mirrormesh[accounting]', or give the budget as a plain number, which sums epsilons"
        ) from None
    return privacy_loss_distribution


def pure(epsilon: float, releases: int, delta: float) -> float:
    """Return the epsilon of any `releases` pure mechanisms of that epsilon.

    p = e^epsilon/(1 + e^epsilon), q = 1 - p. The loss is (T - 2l) epsilon with probability
    C(T, l) p^(T-l) q^l, and delta(x) is the sum of C(T, l) (p^(T-l) q^l - e^x q^(T-l) p^l) over the losses
    above x. It is solved for x in the piece between two losses where it equals delta.
    """
    basic = releases * epsilon * _UP
    if epsilon > _ADDS_UP or releases < 2:
        return basic
    log_p = -math.log1p(math.exp(-epsilon))
    losing: FloatArray = np.arange((releases + 1) // 2, dtype=np.float64)
    ways = np.concatenate([[0.0], np.cumsum(np.log((releases - losing[:-1]) / (losing[:-1] + 1)))])
    likely = np.logaddexp.accumulate(ways + releases * log_p - losing * epsilon)
    unlikely = np.logaddexp.accumulate(ways + releases * (log_p - epsilon) + losing * epsilon)
    ends = (releases - 2 * (losing + 1)) * epsilon  # the lower end of each piece
    with np.errstate(under="ignore"):
        deltas = np.exp(likely) - np.exp(unlikely + np.maximum(ends, 0.0))
    piece = min(int(np.searchsorted(np.maximum.accumulate(deltas), delta)), len(losing) - 1)
    rest = math.exp(likely[piece]) - delta
    if rest <= 0:
        return max(0.0, float(ends[piece])) * _UP
    return min(max(0.0, math.log(rest) - float(unlikely[piece])) * (1 + 1e-7), basic)


def gaussian(sensitivity: int, scale: float, coordinates: int, releases: int, delta: float) -> float:
    """Return the epsilon of `releases` discrete Gaussian mechanisms, by bisection.

    `sensitivity`, in L2, and `scale` are in integer steps. All releases together are one with sqrt(T) times
    the sensitivity on T times the coordinates. The proof in `nodes.accounting.calibration` holds unchanged:
    its sums run over rounds too, and the pair at mu sqrt(T) bounds releases that depend on earlier rounds.
    """
    if not releases:
        return 0.0
    return gaussian_pair(sensitivity * math.sqrt(releases), scale, coordinates * releases, delta)


def gaussian_pair(sensitivity: float, scale: float, coordinates: int, delta: float) -> float:
    """Return the epsilon at delta of discrete Gaussian noise on that many coordinates, by bisection.

    Infinite if the noise is too small for the bound to say anything.
    """
    if says_nothing(scale, coordinates):
        return math.inf

    def excess(epsilon: float) -> float:
        return discrete_delta(epsilon, sensitivity, scale, coordinates)

    low, high = 0.0, 1.0
    if excess(low) <= delta:
        return low
    while excess(high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= delta else (middle, high)
    return high


# The interface of a composition, which a ledger uses.

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
        """Return h times the sum of the `charged` largest epsilons of rounds 1..round.

        A round is charged at most once. Charges beyond the number of rounds count at the largest epsilon.
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


# The tightest known composition, as a table that is computed before the first round and read at each step.

TightKind = Literal["laplace", "pure"]

_MOST_POINTS = 41
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
            rounded_charges = last << ((charged - 1) // last).bit_length()
            return min(basic, max(self._spent[-1], _exact(self.kind, self.cost, self.delta, rounded_charges)))
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
    """Return numbers of releases, from 0 to the largest within the budget, and a bound on the cost of each.

    Both rise. The cost of more releases bounds that of fewer, so a bound that is above a later one is
    replaced by the later one.
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
    squares = {math.ceil(last * (k / (_MOST_POINTS - 1)) ** 2) for k in range(_MOST_POINTS)}
    powers = {round(10 ** (k / _A_DECADE)) for k in range(math.ceil(math.log10(last) * _A_DECADE))}
    return sorted(squares | {n for n in powers if n < last / 8})  # from there on squares are as close


def _last_within(spent_by: Callable[[int], float], low: int, budget: Fraction) -> int:
    """Return the largest n between `low` and 100,000 whose cost is within the budget, as far as
    it is known.
    """
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
