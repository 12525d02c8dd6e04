"""The learner's steps on public values (Wu, Farokhi, Smith, Kaafar 2020, Algorithms 1 and 2). Pure.

The cost is f(theta) = eta/2 ||theta||^2 + (1/n) sum over the owners' records of the loss; Q_l(k) is owner l's
private mean gradient at theta_k, and `gradient` their weighted sum, of weights in proportion to an influence
that is public: n_l, or the precision of an answer. Arrays are (d,) or (..., d): a row gives
the same bits alone or among others.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from nodes.checks import at_least_one, not_negative, positive
from nodes.geometry.constraints import Constraint
from nodes.values import BoolArray, FloatArray


class QueryStage(NamedTuple):
    """The learner's state before query k: theta_k and the average so far, both (..., d).

    `average` is the model. In Algorithm 1, which averages nothing, it is theta_k.
    """

    query: int
    parameters: FloatArray
    average: FloatArray


class QueryStep(Protocol):
    """One of the two algorithms, for T = `queries` queries."""

    @property
    def queries(self) -> int:
        """T."""

    @property
    def dimension(self) -> int:
        """The dimension d of theta."""

    def start(self) -> QueryStage:
        """Return the stage of query 1, arrays (d,)."""

    def advance(self, stage: QueryStage, gradient: FloatArray) -> QueryStage:
        """Return the stage after the stage's query, answered by `gradient` (..., d).

        Raises ValueError after query T.
        """


@dataclass(frozen=True, slots=True)
class StronglyConvex:
    """Algorithm 1: theta_{k+1} = theta_k - rho/(T^2 k) (eta theta_k + gradient), from 0; no constraint.

    eta is the `regulariser`. Raises ValueError for settings out of range, naming the setting.
    """

    dimension: int
    queries: int
    rho: float
    regulariser: float = 0.0

    def __post_init__(self) -> None:
        at_least_one("dimension", self.dimension)
        at_least_one("queries", self.queries)
        positive("rho", self.rho)
        not_negative("regulariser", self.regulariser)

    def start(self) -> QueryStage:
        """Return query 1 at theta_1 = 0."""
        return QueryStage(1, np.zeros(self.dimension), np.zeros(self.dimension))

    def advance(self, stage: QueryStage, gradient: FloatArray) -> QueryStage:
        """Return the next stage, arrays (..., d); ValueError after query T."""
        k, theta, _ = _asked(stage, self.queries)
        stepped = theta - self.rho / (self.queries**2 * k) * (self.regulariser * theta + gradient)
        return QueryStage(k + 1, stepped, stepped)


@dataclass(frozen=True, slots=True)
class Averaged:
    """Algorithm 2: theta_{k+1} = Proj[theta_k - c_1/sqrt(k) (eta theta_k + gradient)], and its average.

    average_{k+1} = (k-1)/(T^-1/2 + k) average_k + (T^-1/2 + 1)/(T^-1/2 + k) theta_k (equation 8), so after
    query T it holds theta_1 .. theta_T. c_1 is `step`, eta the `regulariser`; theta_1 is the member of the
    constraint nearest to 0. Raises ValueError for settings out of range, naming the setting.
    """

    constraint: Constraint
    queries: int
    step: float
    regulariser: float = 0.0

    def __post_init__(self) -> None:
        at_least_one("queries", self.queries)
        positive("step", self.step)
        not_negative("regulariser", self.regulariser)

    @property
    def dimension(self) -> int:
        """The dimension d of theta."""
        return self.constraint.dimension

    def start(self) -> QueryStage:
        """Return query 1 at theta_1, which is also the average before it has weight."""
        first = self.constraint.project(np.zeros(self.dimension))
        return QueryStage(1, first, first)

    def advance(self, stage: QueryStage, gradient: FloatArray) -> QueryStage:
        """Return the next stage, arrays (..., d); ValueError after query T."""
        k, theta, average = _asked(stage, self.queries)
        stepped = theta - self.step / math.sqrt(k) * (self.regulariser * theta + gradient)
        shift = 1.0 / math.sqrt(self.queries)
        mixed = (k - 1) / (shift + k) * average + (shift + 1) / (shift + k) * theta
        return QueryStage(k + 1, self.constraint.project(stepped), mixed)


# How much each owner counts. It is computed from public terms alone, never from an answer.


class Terms(NamedTuple):
    """n_l, and the standard deviation s_l of a coordinate of the owner's answers."""

    records: int
    deviation: float


Weigh = Callable[[Terms], float]
"""An owner's influence: its weight up to a factor that is the same for all; above 0."""


def by_records(owner: Terms) -> float:
    """Return n_l: the weighted sum is then the gradient of all records' mean, as in the paper."""
    return float(owner.records)


def by_noise(dimension: int, bound: float) -> Weigh:
    """Return the influence Xi^2 over the variance of an answer: of its noise, and of its few records.

    The noise adds d s_l^2. No gradient is longer than the `bound` Xi, so the mean of n_l drawn records adds
    at most Xi^2/n_l. Weights in proportion to it have the least variance of the weighted sum. It is n_l
    without noise, and falls as (n_l epsilon_l)^2 where noise is most of the variance.
    """

    def precision(owner: Terms) -> float:
        noise = owner.deviation / bound
        return owner.records / (1.0 + owner.records * dimension * noise * noise)

    return precision


def noise_of(owners: Iterable[Terms], weigh: Weigh = by_records) -> float:
    """Return the deviation of the weighted answer, sqrt(sum_l (w_l s_l)^2); at least one owner."""
    terms = list(owners)
    influence = [weigh(owner) for owner in terms]
    deviations = (share * owner.deviation for share, owner in zip(influence, terms, strict=True))
    return math.hypot(*deviations) / sum(influence)


def effective_records(owners: Iterable[Terms], weigh: Weigh = by_records) -> float:
    """Return 1/sum_l (w_l^2/n_l): how many records, weighed alike, their sampling errs like; n by records."""
    terms = list(owners)
    influence = [weigh(owner) for owner in terms]
    squares = sum(share**2 / owner.records for share, owner in zip(influence, terms, strict=True))
    return sum(influence) ** 2 / squares


def weights(influence: FloatArray, answered: BoolArray) -> FloatArray:
    """Return the influence's shares among the owners that answered, 0 for the others, shape (..., owners).

    `influence` (owners,) holds numbers above 0. `answered` is (..., owners); where
    nobody answered all weights are 0.
    """
    counted = np.where(answered, influence, 0.0)
    total = np.add.reduce(counted, -1, keepdims=True)
    return np.divide(counted, total, out=np.zeros(counted.shape), where=total > 0)


def combined(responses: FloatArray, shares: FloatArray) -> FloatArray:
    """Return sum_l shares_l Q_l(k), shape (..., d), of responses (..., owners, d) and weights (..., owners).

    Owners are added in their order. A response of weight 0 counts as 0, whatever it holds.
    """
    answered = np.where(shares[..., None] > 0, responses, 0.0)
    total: FloatArray = np.add.reduce(shares[..., None] * answered, -2)
    return total


def _asked(stage: QueryStage, queries: int) -> QueryStage:
    if not 1 <= stage.query <= queries:
        raise ValueError(f"query is {stage.query}: must be from 1 to {queries}")
    return stage
