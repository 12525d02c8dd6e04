"""Forecasts the value of a collaboration before it runs (Wu, Farokhi, Smith, Kaafar 2020, section III). Pure.

Relative fitness: psi = f(model)/f* - 1, f* the least cost on the owners' records together. The theorems bound
E f - f* by functions of the owners' sizes and epsilons alone, which are functions of one number here, the
`noise`: the standard deviation of a coordinate of the weighted mean answer, sqrt(sum_l (w_l s_l)^2) with
s_l that of owner l's answers and w_l its weight. With Laplace noise and weights n_l/n it is
sqrt(8) Xi T kappa/n sqrt(sum_l epsilon_l^-2).

| source | bound on E f - f* | in `noise` |
|---|---|---|
| Theorem 2, Algorithm 1 | 8 Xi^2 rho/(L n^2) sum epsilon_l^-2 + small | noise^2 rho/(L T^2) + small |
| Theorem 3, Algorithm 2 | c_2 Xi/n sqrt(sum epsilon_l^-2), c_2 unknown | noise, times a constant |

Theorem 2's proof takes E ||w||^2 = 2 b^2 for Laplace noise of scale b in d coordinates; it is 2 b^2 d. So
`theorem_2` has the factor d that is missing in print. Its "small" terms are not small where T steps that
shorten as rho/(T^2 k) do not reach the optimum; a fit's `floor` is that part.

With other weights than n_l/n the model is that of fewer records, as if drawn from all of them: it costs
g (sum_l w_l^2/n_l - 1/n) more on all records, g that of `Fit`. This holds of owners whose records are alike.
A forecast knows of no difference between owners, so it cannot choose: least noise always wins in it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from nodes.checks import not_negative, positive
from nodes.collaboration.steps import (
    QueryStage,
    QueryStep,
    Terms,
    Weigh,
    by_records,
    effective_records,
    noise_of,
)
from nodes.geometry.constraints import Constraint
from nodes.losses.losses import Loss
from nodes.privacy.query import MechanismName
from nodes.values import FloatArray, Observations
from topology.keyed import generator

Power = Literal[1, 2]
"""Of the noise: 2 as in Theorem 2, 1 as in Theorem 3."""
LOW, HIGH = 10.0, 90.0
"""The percentiles of the band over runs."""


class Fit(NamedTuple):
    """psi = floor + slope noise^power, fitted; and g, the cost of few records.

    `low`, `high`: a run's psi over the fit's, 10th and 90th percentile. `error`: the root mean square of
    ln(mean psi/fit). `sampling`: g; the best model of m records costs g/m more than f*, relatively, on new
    ones.
    """

    power: Power
    floor: float
    slope: float
    low: float
    high: float
    error: float
    sampling: float

    def at(self, noise: float) -> float:
        """Return the expected psi."""
        return self.floor + self.slope * noise**self.power


class Owner(NamedTuple):
    """One owner's contribution, in relative fitness on new records: psi + g/n.

    `share`: its share of the variance of the weighted answer's noise. `without`: the fitness of the other
    owners alone; None: there are none. `alone`: that of its own best model without noise, g/n_l. `margin`:
    the factor by which all epsilons may shrink until learning alone is as good; 0: learning alone is always
    as good.
    """

    share: float
    without: float | None
    alone: float
    margin: float


class Forecast(NamedTuple):
    """`expected` psi with the band of one run; `new` psi + g/n, on new records; the owners by name."""

    noise: float
    expected: float
    low: float
    high: float
    new: float
    owners: dict[str, Owner]


def theorem_2(noise: float, *, rho: float, convexity: float, queries: int, dimension: int) -> float:
    """Return Theorem 2's bound on min_k E f(theta_k) - f*, without what it calls small; L is `convexity`.

    Infinite where L is 0.
    """
    return dimension * noise**2 * rho / (convexity * queries**2) if convexity > 0 else math.inf


def fit(noises: FloatArray, fitness: FloatArray, sampling: float, power: Power) -> Fit:
    """Fit floor + slope noise^power, both >= 0, to the relative fitness psi, by least relative squares.

    `fitness` (levels, runs) is psi at `noises` (levels,); its mean over runs is fitted. Raises ValueError for
    fewer than two levels, or a mean psi that is not finite and above 0.
    """
    means = fitness.mean(1)
    if len(noises) < 2 or not (np.isfinite(means) & (means > 0)).all():
        raise ValueError("a fit needs relative fitness above 0 at two levels of noise or more")
    columns = np.stack([np.ones_like(means), noises**power], 1) / means[:, None]
    floor, slope = _not_negative(columns)
    fitted = floor + slope * noises**power
    low, high = np.percentile(fitness / fitted[:, None], [LOW, HIGH])
    error = float(np.sqrt(np.mean(np.log(means / fitted) ** 2)))
    return Fit(power, floor, slope, float(low), float(high), error, sampling)


def _not_negative(columns: FloatArray) -> tuple[float, float]:
    """Return (a, b) >= 0 with the least ||columns (a, b) - 1||: of both columns, or of the better
    one alone.
    """
    coefficients = np.linalg.lstsq(columns, np.ones(len(columns)), rcond=None)[0]
    if (coefficients >= 0).all():
        return float(coefficients[0]), float(coefficients[1])
    single = columns.sum(0) / (columns * columns).sum(0)
    residuals = ((columns * single - 1) ** 2).sum(0)
    return (float(single[0]), 0.0) if residuals[0] < residuals[1] else (0.0, float(single[1]))


def forecast(owners: Mapping[str, Terms], fitted: Fit, weigh: Weigh = by_records) -> Forecast:
    """Return what these owners reach together, and the contribution of each.

    Raises ValueError without owners.
    """
    if not owners:
        raise ValueError("owners are missing: must be at least one")
    terms = list(owners.values())
    noise = noise_of(terms, weigh)
    expected, fewer = fitted.at(noise), fitted.sampling * _lost(terms, weigh)
    return Forecast(
        noise,
        expected + fewer,
        expected * fitted.low + fewer,
        expected * fitted.high + fewer,
        new_records(terms, fitted, weigh),
        {name: _owner(owners, name, fitted, weigh) for name in owners},
    )


def new_records(owners: Sequence[Terms], fitted: Fit, weigh: Weigh = by_records, scale: float = 1.0) -> float:
    """Return psi + g/n, that on new records, if the noise of every answer were `scale` times as large."""
    scaled = [owner._replace(deviation=owner.deviation * scale) for owner in owners]
    return fitted.at(noise_of(scaled, weigh)) + fitted.sampling / effective_records(scaled, weigh)


def _lost(owners: Sequence[Terms], weigh: Weigh) -> float:
    """Return sum_l w_l^2/n_l - 1/n: 0 by records."""
    return 1 / effective_records(owners, weigh) - 1 / sum(owner.records for owner in owners)


def _owner(owners: Mapping[str, Terms], name: str, fitted: Fit, weigh: Weigh) -> Owner:
    terms_of_owner, terms = owners[name], list(owners.values())
    other_terms = [owner for other_name, owner in owners.items() if other_name != name]
    noise, influence = noise_of(terms, weigh), sum(weigh(owner) for owner in terms)
    share = (weigh(terms_of_owner) * terms_of_owner.deviation / (noise * influence)) ** 2 if noise else 0.0
    own_sampling = fitted.sampling / terms_of_owner.records
    return Owner(
        share,
        new_records(other_terms, fitted, weigh) if other_terms else None,
        own_sampling,
        _margin(terms, fitted, weigh, own_sampling),
    )


_WIDEST, _HALVINGS = 2.0**100, 64


def _margin(owners: Sequence[Terms], fitted: Fit, weigh: Weigh, alone: float) -> float:
    """Return how many times the noise may grow until learning alone is as good: by halving an interval."""
    if new_records(owners, fitted, weigh, 0.0) >= alone:
        return 0.0
    if new_records(owners, fitted, weigh, _WIDEST) <= alone:
        return math.inf
    low, high = 1 / _WIDEST, _WIDEST
    for _ in range(_HALVINGS):
        middle = math.sqrt(low) * math.sqrt(high)
        if new_records(owners, fitted, weigh, middle) < alone:
            low = middle
        else:
            high = middle
    return low


# The cost f on records that need no protection: its value, its clipped gradient, and its minimum.

_PATIENCE = 40
_BLOCK = 1 << 16
_NEAR, _FLAT = 1e-8, 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Cost:
    """f(theta) = eta/2 ||theta||^2 + the mean loss of the records: `features` (n, d) and `labels` (n,).

    eta is the `regulariser`. `loss` depends on the score and the label alone. Raises ValueError without
    records.
    """

    loss: Loss
    features: FloatArray
    labels: FloatArray
    regulariser: float = 0.0

    def __post_init__(self) -> None:
        not_negative("regulariser", self.regulariser)
        if self.features.ndim != 2 or not len(self.labels) == len(self.features) > 0:
            raise ValueError(f"features are of shape {self.features.shape}: must be (n, d), n >= 1")

    @property
    def dimension(self) -> int:
        """The dimension d."""
        return int(self.features.shape[1])

    def at(self, theta: FloatArray) -> FloatArray:
        """Return f, shape (...), of theta (..., d)."""
        total = sum(
            self.loss.value(*self._by_score(theta, rows)).sum((-2, -1)) for rows in self._blocks(theta)
        )
        lengths = np.add.reduce(theta * theta, -1)
        return np.asarray(total / len(self.labels) + 0.5 * self.regulariser * lengths)

    def clipped_gradient(self, theta: FloatArray, bound: float, order: int) -> FloatArray:
        """Return the mean of the records' loss gradients, each clipped to `bound` in L1 or L2 (..., d).

        `order` is 1 or 2. The regulariser's gradient is not in it. In floats: for simulations alone.
        """
        positive("bound", bound)
        norms = np.linalg.norm(self.features, order, axis=-1)
        limits = np.divide(bound, norms, out=np.full(len(norms), np.inf), where=norms > 0)
        total = np.zeros(theta.shape)
        for rows in self._blocks(theta):
            slopes, row_limits = self._slopes(theta, rows), limits[rows]
            total += np.minimum(np.maximum(slopes, -row_limits), row_limits) @ self.features[rows]
        return total / len(self.labels)

    def least(self, constraint: Constraint | None, rounds: int = 3000) -> tuple[FloatArray, float]:
        """Return (theta*, f(theta*)) over the constraint, theta* (d,), by subgradient steps.

        Step lengths are Polyak's, towards a target below the best value so far that comes nearer whenever
        it is not reached (Goffin, Kiwiel 1999).
        """
        theta = self._start(constraint)
        best, value = theta, float(self.at(theta))
        gap, since = max(value, 1e-12), 0
        for _ in range(rounds):
            slopes = self._slopes(theta, slice(None))
            gradient = slopes @ self.features / len(self.labels) + self.regulariser * theta
            square = float(gradient @ gradient)
            if square <= _FLAT**2 * float(slopes @ slopes) or gap <= _NEAR * value:
                break
            now = float(self.at(theta))
            theta = _held(theta - (now - value + gap) / square * gradient, constraint)
            since += 1
            reached = float(self.at(theta))
            if reached < value - 0.5 * gap:
                since = 0
            if reached < value:
                best, value = theta, reached
            if since >= _PATIENCE:
                gap, since, theta = 0.5 * gap, 0, best
        return best, value

    def _start(self, constraint: Constraint | None) -> FloatArray:
        """Return the least-squares fit of the labels, or 0 if that is better, as the starting point."""
        n, d = self.features.shape
        system = self.features.T @ self.features / n + self.regulariser * np.eye(d)
        fitted = np.linalg.lstsq(system, self.features.T @ self.labels / n, rcond=None)[0]
        candidates = np.stack([_held(np.zeros(d), constraint), _held(fitted, constraint)])
        start: FloatArray = candidates[int(np.argmin(self.at(candidates)))]
        return start

    def _blocks(self, theta: FloatArray) -> Iterator[slice]:
        """Yield slices of the records that are so short that their intermediate results stay in a cache."""
        size = max(1, _BLOCK // max(1, theta.size // self.dimension))
        return (slice(first, first + size) for first in range(0, len(self.labels), size))

    def _slopes(self, theta: FloatArray, rows: slice) -> FloatArray:
        """Return the loss's derivative in each record's score, shape (..., n)."""
        slopes = self.loss.gradients(*self._by_score(theta, rows))
        return np.asarray(slopes)[..., 0, 0]

    def _by_score(self, theta: FloatArray, rows: slice) -> tuple[FloatArray, Observations]:
        """Return the scores (..., n, 1), as decisions on records whose one feature is 1."""
        labels = self.labels[rows, None]
        scores = theta @ self.features[rows].T
        return scores[..., None], Observations(np.ones((1, 1)), labels, np.ones(labels.shape, np.bool_))


def _held(theta: FloatArray, constraint: Constraint | None) -> FloatArray:
    return theta if constraint is None else constraint.project(theta)


# Runs of a collaboration on records that need no protection, many at once, with seeded noise.
#
# The owners' weighted mean gradient is the mean gradient of all records together, so one set represents their
# sets.


class Share(NamedTuple):
    """An owner's noise on a coordinate of the weighted mean gradient: its distribution and deviation.

    `deviation` (...) has the leading axes of the runs, or is one number.
    """

    law: MechanismName
    deviation: FloatArray | float


def stages(
    cost: Cost, step: QueryStep, bound: float, shares: Mapping[str, Share], shape: tuple[int, ...], seed: int
) -> Iterator[QueryStage]:
    """Yield the stage after each query, arrays (*shape, d), of independent runs.

    Each record's gradient is clipped to `bound`, in L2 if any noise is Gaussian, otherwise in L1: in floats,
    where a mechanism has integers. The noise is drawn from generators of the seed and the owner's name.
    """
    order = 2 if any(share.law == "gaussian" for share in shares.values()) else 1
    sources = {name: generator("trial", seed, name) for name in shares}
    first = step.start()
    stage = first._replace(
        parameters=np.broadcast_to(first.parameters, (*shape, step.dimension)),
        average=np.broadcast_to(first.average, (*shape, step.dimension)),
    )
    for _ in range(step.queries):
        gradient = cost.clipped_gradient(stage.parameters, bound, order)
        for name, share in shares.items():
            gradient = gradient + _drawn(sources[name], share, gradient.shape)
        stage = step.advance(stage, gradient)
        yield stage


def _drawn(random: np.random.Generator, share: Share, shape: tuple[int, ...]) -> FloatArray:
    """Return noise of that deviation in each coordinate."""
    deviation = np.asarray(share.deviation)[..., None]
    if share.law == "gaussian":
        return np.asarray(deviation * random.standard_normal(shape))
    return np.asarray(deviation / np.sqrt(2.0) * random.laplace(size=shape))
