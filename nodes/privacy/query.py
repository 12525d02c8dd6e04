"""An owner's answer to a query: the mean of its set's clipped gradients, with noise, T times in all.

Guarantees
----------
Adjacency: one record of the set is replaced. The number of records, n_l, is public. Every query uses every
record, so T answers compose. As on a mesh (`nodes.privacy.clipping`), all values are integers, in steps of a
public grid. One record moves the sum by at most 2K: in L1 for `laplace`, in L2 for `gaussian`. A set is read
in chunks whose sums are added in exact integers, so the sum does not depend on the chunks.

`laplace` (Wu, Farokhi, Smith, Kaafar 2020, theorem 1): with noise of scale S >= 2K T kappa/epsilon an answer
has epsilon/(T kappa), delta = 0. T answers have epsilon/kappa, as epsilons add up, also if a query depends on
earlier answers (Dwork, Roth 2014, theorem 3.14).

`gaussian`: T answers, each at a sensitivity of 2K, are no worse than one Gaussian answer at a sensitivity of
sqrt(T) 2K, also if a query depends on earlier answers (Dong, Roth, Su 2022, corollary 2). The scale is
calibrated for that sensitivity to (epsilon/kappa, delta/kappa), with the discretisation of T d integers
included (`nodes.accounting.calibration`).

`sharing`, kappa: a record may be in the sets of up to kappa owners. By basic composition all of their answers
together protect it with the sums of their epsilon_l/kappa and delta_l/kappa. These are at most the largest
epsilon_l and the largest delta_l. For kappa = 1 they are epsilon_l and delta_l.

Required: an exact sampler, at most one answer to each of T queries, a set that stays as it is, and queries
made of public values. Nothing is assumed about the loss or about who asks.

| case | what happens |
|---|---|
| NaN, infinity, a norm that overflows | a zero gradient, counted as broken |
| fewer records than n_l | the sum is still divided by n_l |
| more records than n_l, a query beyond T | ValueError |
| noise whose draws leave 64 bits, or fall below the grid | ValueError |

The estimate of the clipped gradients' mean is unbiased up to the rounding to the grid
(`nodes.privacy.laplace`, `gaussian`). An answer is then limited to 64 scales of noise around the clip, which
is post-processing.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from nodes.accounting.calibration import delta_in_range
from nodes.accounting.releases import Composition, GaussianComposition, Sum
from nodes.checks import TAIL, at_least_one, in_range
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.mechanism import Audited, Sampler
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.sampled import checked
from nodes.sparse import Rows
from nodes.values import FloatArray, IntArray

MechanismName = Literal["laplace", "gaussian"]


class GradientSum(NamedTuple):
    """The sum of the clipped gradients read so far, in steps of the grid, shape (d,).

    `records` were read, of which the clip changed `clipped`, and `broken` were not finite.
    """

    total: IntArray
    records: int = 0
    clipped: int = 0
    broken: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class QueryMechanism:
    """The private answers of one owner. Raises ValueError for settings out of range, naming the setting.

    Attributes
    ----------
    name : {"laplace", "gaussian"}
        The noise.
    gradient_bound : float
        Xi: each record's gradient is clipped to it, in L1 for laplace, in L2 for gaussian.
    epsilon : Fraction
        epsilon_l of all T answers, exactly, for a record that is in one set or in `sharing` sets.
    delta : float
        delta_l; 0 for laplace.
    queries : int
        T.
    sharing : int
        kappa, the most sets that one record may be in.
    records : int
        n_l, fixed and public.
    dimension : int
        d.
    sampler : Sampler
        The source of the noise.
    """

    name: MechanismName
    gradient_bound: float
    epsilon: Fraction
    delta: float
    queries: int
    sharing: int
    records: int
    dimension: int
    sampler: Sampler
    answers: LaplaceGradient | GaussianGradient = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("queries", "sharing", "records"):
            at_least_one(name, getattr(self, name))
        in_range(self.epsilon)
        object.__setattr__(self, "answers", self._mechanism(self.records))

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""
        return self.sampler.simulated

    @property
    def own_epsilon(self) -> Fraction:
        """epsilon_l/kappa: that of this owner's T answers."""
        return self.epsilon / self.sharing

    @property
    def own_delta(self) -> float:
        """delta_l/kappa, rounded down: that of this owner's T answers."""
        return self.delta if self.sharing == 1 else math.nextafter(self.delta / self.sharing, 0.0)

    @property
    def composition(self) -> Composition:
        """How this owner's answers compose."""
        if self.name == "laplace":
            return Sum(self.own_epsilon / self.queries)
        return GaussianComposition(
            2 * self.answers.grid.radius, self.answers.scale, self.dimension, self.own_delta
        )

    @property
    def noise_scale(self) -> float:
        """The scale of one coordinate's noise on the mean gradient."""
        return self.answers.noise_scale(1)

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of one coordinate's noise on the mean gradient."""
        return self.noise_scale * (math.sqrt(2) if self.name == "laplace" else 1.0)

    @property
    def largest(self) -> float:
        """The public bound on a coordinate of an answer, which is held within it."""
        return self.answers.grid.radius * self.answers.grid.step + TAIL * self.noise_scale

    @property
    def response_bound(self) -> float:
        """The public bound on an answer's L2 norm."""
        return math.sqrt(self.dimension) * self.largest * (1 + 1e-9)

    @property
    def audited(self) -> Audited:
        """One answer on a set of one record, for an audit: its noise does not depend on n_l."""
        return self._mechanism(1)

    def spent(self, charged: int) -> float:
        """Return the epsilon at delta_l/kappa of that many answers, rounded up; at most that of all."""
        budget = Sum(self.own_epsilon).spent(1)
        return min(self.composition.spent(charged), budget) if charged <= self.queries else math.inf

    def begin(self) -> Private[GradientSum]:
        """Return the sum of no records."""
        return Private(GradientSum(np.zeros(self.dimension, dtype=np.int64)))

    def add(self, so_far: Private[GradientSum], gradients: Private[Rows]) -> Private[GradientSum]:
        """Return the sum with more gradients (n, d), each clipped on its own.

        Raises ValueError for another dimension, or more than n_l records in all.
        """
        before = opened(so_far)
        rows = checked(opened(gradients), self.records - before.records, self.dimension)
        total, clipped, broken = self.answers.bounded_sum(rows)
        return Private(
            GradientSum(
                before.total + total,
                before.records + rows.shape[-2],
                before.clipped + clipped,
                before.broken + broken,
            )
        )

    def answer(self, query: int, total: Private[GradientSum]) -> FloatArray:
        """Return Q_l(k) = (sum + noise)/n_l, shape (d,): public. A draw: call it once for each query.

        Raises ValueError for a query that is not in 1..T.
        """
        if not 1 <= query <= self.queries:
            raise ValueError(f"query is {query}: must be from 1 to {self.queries}")
        estimate, _ = self.answers.estimated(query, opened(total).total)
        return np.clip(estimate, -self.largest, self.largest)

    def _mechanism(self, records: int) -> LaplaceGradient | GaussianGradient:
        common = records, self.dimension, self.sampler
        if self.name == "laplace":
            cost = self.own_epsilon / self.queries
            return LaplaceGradient(self.gradient_bound, cost, *common)
        delta_in_range(self.own_delta)
        return GaussianGradient(
            self.gradient_bound, self.own_epsilon, self.own_delta, *common, releases=self.queries
        )
