"""Computes decisions from class sums and moments, as public functions of the consensus without step or clip.

Releases are running means of a slot's noisy sums g_t over h, q_{t+1} = z_t + (g_t - z_t)/t. So after t rounds
of learning they are the mean of all nodes' g_1 ... g_t, as far as mixing has come. Releases are functions of
the noisy sums alone. No decision enters them, so releases do not change where a node decides otherwise.
Decisions are computed from noisy values alone, so they are post-processing.

In the notation of `nodes.privacy.features`, all sums are first divided by the released number of records f
(as a share of h). So missing records, empty slots, and nodes that have joined do not change the scale. With
each class's share p_k = max(f_k/f, min(0.04/C, 2 s/f)), where s is the deviation of the noise in f_k and
shares are then divided by their sum, and its mean mu_k = sum_k/(f p_k):

| features | decision |
|---|---|
| class sums, labels +-1 | w = mu_+ - mu_-, cut (|mu_+|^2 - |mu_-|^2)/2: the nearest mean |
| class sums, C classes | w_k = mu_k, cut |mu_k|^2/2 |
| moments | w = (S + r I)^-1 (mu_+ - mu_-), cut w'mu + z(1 - p_+) sqrt(w'Sw) |

Moments give the decision of ridge linear discriminant analysis. mu is the mean of all rows, S = G/f - mu mu',
and the ridge is r = max(nu, nu/2 - lambda_min(S)). nu = sqrt(2) sigma sqrt(d)/(f sqrt(N_eff)) is the spectral
norm of the noise in S, whose products have the deviation sigma/sqrt(2). sigma is the deviation of a
coordinate's noise in one node's mean over the rounds of learning. N_eff = 1/sum of squares of this round's
weights. In closing rounds the weights are this node's row of the product of these rounds' matrices. Mixing
before them makes the noise only smaller. nu is at least 1e-4, for columns that are linearly dependent. z is
the normal quantile, so about a share p_+ of the rows is above the cut.

| case | decision |
|---|---|
| no record yet, or a released number of records below 1e-9 h | 0 |
| a noisy count below two deviations of its noise | the share of these two, at most 0.04/C |
| one class alone, without noise | its mean, and 0 for the others' |
| a constant column, d = 1 | as any other: the ridge is above 0 |

Sums are taken in a fixed order, but eigenvalues come from LAPACK. So decisions are equal bit for bit on one
machine only. Releases are so on every machine, as no decision enters them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Protocol

import numpy as np

from nodes.geometry.constraints import Space
from nodes.privacy.features import ABSENT, HEIGHT, PART, WHOLE
from nodes.sparse import dense
from nodes.values import Consensus, Decision, FloatArray, Observations

LEAST_RIDGE = 1e-4
_LEAST_COUNT = 1e-9
_LEAST_SHARE = 0.04


class Discriminant(Protocol):
    """A function from means of features (..., D) to decisions (..., size)."""

    @property
    def length(self) -> int:
        """D."""

    @property
    def size(self) -> int:
        """The length of a decision."""

    def __call__(self, means: FloatArray, deviations: FloatArray) -> FloatArray:
        """Return the decisions (..., size); `deviations` (...): those of a coordinate's noise."""


@dataclass(frozen=True, slots=True)
class NearestMean:
    """The decision from class sums of rows of `columns` numbers: one row a class; two classes: mu_+ - mu_-.

    `intercept`: whether records end with a constant `HEIGHT`. Then each row of the decision ends with a
    coordinate for its cut.
    """

    columns: int
    classes: int
    intercept: bool = False

    @property
    def length(self) -> int:
        """C (d + 1)."""
        return self.classes * (self.columns + 1)

    @property
    def size(self) -> int:
        """The length of a decision: of all its rows of d numbers, or of d + 1 with the cut."""
        return (1 if self.classes == 2 else self.classes) * (self.columns + self.intercept)

    def __call__(self, means: FloatArray, deviations: FloatArray) -> FloatArray:
        """Return the decisions (..., size)."""
        blocks = means.reshape(*means.shape[:-1], self.classes, self.columns + 1)
        total, _, centres = _centres(blocks[..., :-1], blocks[..., -1] / HEIGHT, deviations / HEIGHT)
        cuts = np.add.reduce(centres * centres, -1) / 2
        if self.classes == 2:
            centres, cuts = centres[..., 1:, :] - centres[..., :1, :], cuts[..., 1:] - cuts[..., :1]
        rows = _with_cut(centres, cuts) if self.intercept else centres
        decisions = rows.reshape(*means.shape[:-1], self.size)
        return np.where(total[..., None] > 0.0, decisions, 0.0)


@dataclass(frozen=True, slots=True)
class RidgeDiscriminant:
    """The decision from moments of rows of `columns` numbers; class sums in them are weighted by `kappa`.

    `intercept`: whether records end with a constant `HEIGHT`. Then the decision ends with a coordinate for
    the cut.
    """

    columns: int
    kappa: float
    intercept: bool = False

    @property
    def length(self) -> int:
        """The length d (d + 1)/2 + 2 (d + 1) of a sum."""
        return (self.columns + 4) * (self.columns + 1) // 2

    @property
    def size(self) -> int:
        """The length of a decision."""
        return self.columns + self.intercept

    def ridge(self, count: FloatArray, deviations: FloatArray) -> FloatArray:
        """Return nu, the size of the noise in S; `count`: the released number of records over h."""
        nu: FloatArray = math.sqrt(2 * self.columns) * deviations / count
        return np.maximum(nu, LEAST_RIDGE)

    def __call__(self, means: FloatArray, deviations: FloatArray) -> FloatArray:
        """Return the decisions (..., size)."""
        products = self.columns * (self.columns + 1) // 2
        blocks = means[..., products:].reshape(*means.shape[:-1], 2, self.columns + 1) / self.kappa
        noise = deviations / (self.kappa * HEIGHT)
        total, shares, centres = _centres(blocks[..., :-1], blocks[..., -1] / HEIGHT, noise)
        count = np.where(total > 0.0, total, 1.0)
        centre = np.add.reduce(blocks[..., :-1], -2) / count[..., None]
        covariance = self._second(means[..., :products]) / count[..., None, None]
        covariance = covariance - centre[..., :, None] * centre[..., None, :]
        values, vectors = np.linalg.eigh(covariance)
        nu = self.ridge(count, deviations)
        ridge = np.maximum(nu, nu / 2 - values[..., 0])
        difference = centres[..., 0, :] - centres[..., 1, :]
        along = np.add.reduce(vectors * difference[..., :, None], -2) / (values + ridge[..., None])
        weights = np.add.reduce(vectors * along[..., None, :], -1)
        if self.intercept:
            spread = np.sqrt(np.maximum(np.add.reduce(values * along * along, -1), 0.0))
            cut = np.add.reduce(weights * centre, -1) + _quantiles(1.0 - shares[..., 0]) * spread
            weights = _with_cut(weights, cut)
        return np.where(total[..., None] > 0.0, weights, 0.0)

    def _second(self, quadratic: FloatArray) -> FloatArray:
        """Return the symmetric G (..., d, d) whose upper triangle is `quadratic` (..., d (d + 1)/2)."""
        rows, columns = np.triu_indices(self.columns)
        entries = np.where(rows == columns, quadratic, quadratic * (WHOLE / PART))
        second = np.empty((*quadratic.shape[:-1], self.columns, self.columns))
        second[..., rows, columns] = entries
        second[..., columns, rows] = entries
        return second


def _centres(
    sums: FloatArray, counts: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (number of records (...), at least 0; classes' shares (..., C); classes' means (..., C, d)).

    `noise`: the deviation of the noise in each of the counts (..., C).
    """
    total = np.add.reduce(counts, -1)
    learnt = total > _LEAST_COUNT
    count = np.where(learnt, total, 1.0)[..., None]
    least = np.minimum(_LEAST_SHARE / counts.shape[-1], 2.0 * noise[..., None] / count)
    shares = np.maximum(counts / count, np.maximum(least, _LEAST_COUNT))
    shares = shares / np.add.reduce(shares, -1, keepdims=True)
    return np.where(learnt, total, 0.0), shares, sums / (count * shares)[..., None]


def _with_cut(weights: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return `weights` with a last coordinate by which a row that ends with `HEIGHT` scores 0 at the cut."""
    return np.concatenate([weights, -cuts[..., None] / HEIGHT], -1)


def _quantiles(shares: FloatArray) -> FloatArray:
    """Return the normal quantiles of shares above 0 and below 1, same shape."""
    quantile = NormalDist().inv_cdf
    return np.array([quantile(share) for share in shares.ravel().tolist()]).reshape(shares.shape)


def mean_deviation(deviation: float, rounds: int, band: FloatArray | None = None) -> float:
    """Return the deviation of a coordinate's noise in the mean of `rounds` rounds.

    `deviation`: the deviation of one draw. `band`: the coefficients r_0 = 1, r_1, ... of correlated noise. In
    its sum over t rounds the draw Z_{t-k} has the coefficient r_0 + ... + r_k.
    """
    if band is None:
        return deviation / math.sqrt(rounds)
    sums = np.cumsum(band)[:rounds]
    squares = float(np.add.reduce(sums * sums)) + (rounds - len(sums)) * float(sums[-1]) ** 2
    return deviation * math.sqrt(squares) / rounds


Deviations = Callable[[int], float]
"""Returns the deviation of a coordinate's noise in the mean of the first t >= 1 rounds of learning."""


@dataclass(frozen=True, slots=True, eq=False)
class RunningMeans:
    """The algorithm q_{t+1} = z_t + (g_t - z_t)/t with decisions x_t = `decide_by`(z_t), without constraint.

    It is mirror descent with steps 1/t and a pull of 1 towards 0. So releases have a public bound, `reach`,
    which is K in units of the features. `deviations`: the noise of one node. `intercept`: whether records end
    with a constant feature, which carries the decision's cut and is no part of a row. `labelled`: whether
    labels are +-1 rather than 0 to C - 1.
    """

    decide_by: Discriminant
    reach: float
    deviations: Deviations
    intercept: bool
    labelled: bool
    start: FloatArray = field(init=False)
    constraint: Space = field(init=False)

    def __post_init__(self) -> None:
        start = np.zeros(self.decide_by.length)
        start.flags.writeable = False
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "constraint", Space(self.decide_by.size))

    @property
    def dimension(self) -> int:
        """The length D of a release."""
        return self.decide_by.length

    @property
    def dynamics(self) -> None:
        """None: there are no dynamics."""
        return None

    @property
    def observed_set(self) -> Space:
        """All decisions."""
        return self.constraint

    def observed(self, x: FloatArray) -> FloatArray:
        """Return x: the loss sees all of a decision."""
        return x

    def rows(self, decision: Decision, observations: Observations) -> FloatArray:  # noqa: ARG002 # of records alone
        """Return each record's numbers and, last, its class or `ABSENT`, shape (..., n, d + 1)."""
        features = dense(observations.features)
        numbers = features[..., :-1] if self.intercept else features
        labels = observations.labels
        if self.labelled:
            labels = np.where(np.isnan(labels), labels, labels > 0.0)
        kinds = np.where(observations.present, labels, ABSENT)
        return np.concatenate([numbers, kinds[..., None]], -1)

    def decide(self, round: int, consensus: Consensus, share: FloatArray | float = 1.0) -> Decision:
        """Return the decision x_t, shape (..., size), by the consensus z_t; `share` is 1/N_eff."""
        deviations = self.deviations(max(1, round - 1)) * np.sqrt(share)
        return Decision(self.decide_by(consensus, np.broadcast_to(deviations, consensus.shape[:-1])))

    def gradient_point(self, consensus: Consensus, decision: Decision) -> FloatArray:  # noqa: ARG002 # no gradients
        """Return the decision."""
        return decision

    def update(self, round: int, consensus: Consensus, gradient: FloatArray) -> FloatArray:
        """Return the mean with the slot's `gradient` g_t, shape (..., D)."""
        return consensus + (gradient - consensus) / round

    def contain(self, z: FloatArray) -> FloatArray:
        """Return z unchanged, as a weighted average of releases is within their bound."""
        return z
