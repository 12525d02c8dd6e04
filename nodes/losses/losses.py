"""Losses of one observation, and their gradients in the decision.

Shapes: decision (..., d) against features (..., n, d), labels and present (..., n), leading axes broadcast.
An absent record has value 0 and a zero gradient. At a kink the gradient is a subgradient. Sparse features
(n, d), with a decision (d,), give sparse gradients if the loss depends on the score <x, a> alone.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from nodes.checks import finite_array, positive
from nodes.privacy.clipping import Norm, clip
from nodes.sparse import Rows, SparseRows, dense
from nodes.values import BoolArray, FloatArray, Observations


class Loss(Protocol):
    """f(x) of each observation."""

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return f of each observation at the decision, shape (..., n)."""

    def gradients(self, decision: FloatArray, observations: Observations) -> Rows:
        """Return the gradients at the decision, shape (..., n, d); sparse for sparse features."""


@dataclass(frozen=True, slots=True)
class RangeLoss:
    """1/2 | ||s - x|| - distance |^2: features are the sensor's position s, the label its distance.

    Not convex (Zhou, Li 2025, section 5). The gradient is 0 at x = s.
    """

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return 1/2 | ||s - x|| - distance |^2, shape (..., n)."""
        offsets = decision[..., None, :] - dense(observations.features)
        residuals = np.sqrt(np.add.reduce(offsets * offsets, -1)) - observations.labels
        return np.where(observations.present, 0.5 * residuals * residuals, 0.0)

    def gradients(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return (1 - distance/||x - s||) (x - s), shape (..., n, d)."""
        offsets = decision[..., None, :] - dense(observations.features)
        norms = np.sqrt(np.add.reduce(offsets * offsets, -1))
        counts = observations.present & (norms > 0.0)
        ratios = observations.labels / np.where(counts, norms, 1.0)
        gradients: FloatArray = np.where(counts, 1.0 - ratios, 0.0)[..., None] * offsets
        return gradients


class _OfTheScore(ABC):
    """A loss of the score <x, a> alone, a the features: the gradient is slope * a."""

    __slots__ = ()

    @abstractmethod
    def _curve(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the loss at the score."""

    @abstractmethod
    def _slope(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        """Return its derivative in the score."""

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the loss, shape (..., n)."""
        curve = self._curve(scores(decision, observations.features), observations.labels)
        return np.where(observations.present, curve, 0.0)

    def gradients(self, decision: FloatArray, observations: Observations) -> Rows:
        """Return slope * a, shape (..., n, d)."""
        features = observations.features
        slope = self._slope(scores(decision, features), observations.labels)
        slope = np.where(observations.present, slope, 0.0)
        if isinstance(features, SparseRows):
            return features.scaled(slope)
        return slope[..., None] * features


@dataclass(frozen=True, slots=True)
class Hinge(_OfTheScore):
    """max(0, 1 - y <x, a>), labels y = +-1; at the kink the gradient is 0."""

    def _curve(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        return np.maximum(0.0, 1.0 - labels * scores)

    def _slope(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        return np.where(labels * scores < 1.0, -labels, 0.0)


@dataclass(frozen=True, slots=True)
class Logistic(_OfTheScore):
    """log(1 + exp(-y <x, a>)), labels y = +-1."""

    def _curve(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        curve: FloatArray = np.logaddexp(0.0, -labels * scores)
        return curve

    def _slope(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        # 1/(1 + e^m) = exp(-log(1 + e^m)): no overflow at any margin m
        slope: FloatArray = -labels * np.exp(-np.logaddexp(0.0, labels * scores))
        return slope


@dataclass(frozen=True, slots=True)
class Squared(_OfTheScore):
    """1/2 (<x, a> - y)^2."""

    def _curve(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        residuals = scores - labels
        return 0.5 * residuals * residuals

    def _slope(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        return scores - labels


@dataclass(frozen=True, slots=True)
class Absolute(_OfTheScore):
    """|<x, a> - y|; at the kink the gradient is 0."""

    def _curve(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        return np.abs(scores - labels)

    def _slope(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        return np.sign(scores - labels)


@dataclass(frozen=True, slots=True)
class Huber(_OfTheScore):
    """1/2 r^2 up to |r| = k, then k (|r| - k/2), with r = <x, a> - y (Huber 1964).

    `k` > 0, in the label's unit (ValueError otherwise).
    """

    k: float

    def __post_init__(self) -> None:
        positive("k", self.k)

    def _curve(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        sizes = np.abs(scores - labels)
        near = np.minimum(sizes, self.k)
        return near * (sizes - 0.5 * near)

    def _slope(self, scores: FloatArray, labels: FloatArray) -> FloatArray:
        return np.minimum(np.maximum(scores - labels, -self.k), self.k)


@dataclass(frozen=True, slots=True)
class Linear(_OfTheScore):
    """<x, a>: a holds the cost of each expert or asset, x the share of each. The label is not used."""

    def _curve(self, scores: FloatArray, labels: FloatArray) -> FloatArray:  # noqa: ARG002 # the label is not used
        return scores

    def _slope(self, scores: FloatArray, labels: FloatArray) -> FloatArray:  # noqa: ARG002 # the label is not used
        return np.ones_like(scores)


def scores(decision: FloatArray, features: Rows) -> FloatArray:
    """Return <x, a> of each observation, shape (..., n), without BLAS."""
    if isinstance(features, SparseRows):
        return features.reduced(np.add, decision[features.indices] * features.values)
    products: FloatArray = np.add.reduce(decision[..., None, :] * features, -1)
    return products


# Multi-class cross-entropy: one score per class, d = classes x features.


@dataclass(frozen=True, slots=True)
class Softmax:
    """log(sum_c exp <x_c, a>) - <x_y, a>, labels y = 0, ..., C - 1 (Bishop 2006, equations 4.104 to 4.109).

    The decision (..., d) is read as (..., C, p), row-major: x_c weighs the p features a for class c. A label
    outside the classes has value 0 and a zero gradient. Raises ValueError for fewer than two classes.
    """

    classes: int

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ValueError(f"classes is {self.classes!r}: must be at least 2")

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the cross-entropy in nats, shape (..., n)."""
        logarithms = self._logarithms(decision, observations.features)
        is_label = self._is_label(observations)
        values: FloatArray = np.add.reduce(np.where(is_label, -logarithms, 0.0), -1)
        return values

    def gradients(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return (softmax_c - [c = y]) a for each class c, shape (..., n, C p)."""
        features = dense(observations.features)
        is_label = self._is_label(observations)
        has_label = np.logical_or.reduce(is_label, -1, keepdims=True)
        slopes = np.exp(self._logarithms(decision, features)) - is_label
        products = np.where(has_label, slopes, 0.0)[..., None] * features[..., None, :]
        gradients: FloatArray = products.reshape(*products.shape[:-2], self.classes * features.shape[-1])
        return gradients

    def scores(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return <x_c, a> for each class, shape (..., n, C), without BLAS."""
        features = dense(features)
        rows = decision.reshape(*decision.shape[:-1], 1, self.classes, features.shape[-1])
        scores: FloatArray = np.add.reduce(rows * features[..., None, :], -1)
        return scores

    def _logarithms(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return log softmax_c, shape (..., n, C); subtracting the largest score first avoids overflow."""
        scores = self.scores(decision, features)
        below = scores - np.maximum.reduce(scores, -1, keepdims=True)
        logarithms: FloatArray = below - np.log(np.add.reduce(np.exp(below), -1, keepdims=True))
        return logarithms

    def _is_label(self, observations: Observations) -> BoolArray:
        """Return whether c is the record's label, shape (..., n, C); false for labels outside the classes."""
        is_label: BoolArray = observations.labels[..., None] == np.arange(float(self.classes))
        return is_label & observations.present[..., None]


# A loss with weighted labels.


@dataclass(frozen=True, slots=True)
class Clipped:
    """A loss whose gradients are clipped to `bound` in `norm`, so that a weight below 1 still tells after it.

    It bounds nothing that a release rests on: the mechanism clips again. A gradient that is not finite is 0.
    """

    loss: Loss
    bound: float
    norm: Norm

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the loss, shape (..., n)."""
        return self.loss.value(decision, observations)

    def gradients(self, decision: FloatArray, observations: Observations) -> Rows:
        """Return the clipped gradients, shape (..., n, d); sparse where the loss's are."""
        clipped, _, _ = clip(self.loss.gradients(decision, observations), self.bound, self.norm)
        return clipped


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """The loss of each record times the weight of its label; a label without a weight counts 0.

    `labels` and `weights` have shape (k,). The mechanism clips after weighting, so a heavy record's gradient
    has the same bound. Raises ValueError unless all are finite, weights above 0, with one for each label.
    """

    loss: Loss
    labels: FloatArray
    weights: FloatArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", finite_array("labels", self.labels))
        object.__setattr__(self, "weights", finite_array("weights", self.weights))
        if self.weights.shape != self.labels.shape or not (self.weights > 0).all():
            raise ValueError(
                f"weights is {self.weights.tolist()}: must be {self.labels.size} numbers above 0"
            )

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the weighted loss, shape (..., n)."""
        return self._of(observations) * self.loss.value(decision, observations)

    def gradients(self, decision: FloatArray, observations: Observations) -> Rows:
        """Return the weighted gradients, shape (..., n, d); sparse where the loss's are."""
        weights, gradients = self._of(observations), self.loss.gradients(decision, observations)
        if isinstance(gradients, SparseRows):
            return gradients.scaled(weights)
        return weights[..., None] * gradients

    def _of(self, observations: Observations) -> FloatArray:
        matches = observations.labels[..., None] == self.labels
        weights: FloatArray = np.add.reduce(np.where(matches, self.weights, 0.0), -1)
        return weights


@dataclass(frozen=True, slots=True)
class Scaled:
    """A loss of numbers, of labels scaled from public bounds to [0, 1]; labels beyond count as at the bound.

    Decisions predict scaled labels. Everything else, labels of observations too, is in the label's unit.
    Raises ValueError unless low < high.
    """

    loss: Absolute | Huber | Squared
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0.0 < self.high - self.low < math.inf:
            raise ValueError(f"bounds are {self.low!r} and {self.high!r}: must be ascending")

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the loss of the scaled labels, shape (..., n)."""
        return self.loss.value(decision, self._scaled(observations))

    def gradients(self, decision: FloatArray, observations: Observations) -> Rows:
        """Return the gradients of the scaled labels' loss, shape (..., n, d)."""
        return self.loss.gradients(decision, self._scaled(observations))

    def scaled(self, labels: FloatArray) -> FloatArray:
        """Return labels in [0, 1], of the shape of `labels`."""
        scaled: FloatArray = (np.clip(labels, self.low, self.high) - self.low) / (self.high - self.low)
        return scaled

    def in_unit(self, predictions: FloatArray) -> FloatArray:
        """Return predictions of scaled labels in the label's unit."""
        return self.low + (self.high - self.low) * predictions

    def losses(self, predictions: FloatArray, labels: FloatArray) -> FloatArray:
        """Return the loss of predictions (n,) of labels (n,), in the label's unit and not held at bounds."""
        loss = Huber(self.loss.k * (self.high - self.low)) if isinstance(self.loss, Huber) else self.loss
        observations = Observations(predictions[:, None], labels, np.ones(labels.shape, np.bool_))
        return loss.value(np.ones(1), observations)

    def _scaled(self, observations: Observations) -> Observations:
        return observations._replace(labels=self.scaled(observations.labels))


# Losses of a residual: a sensor's measurement of a target against the measurement expected at the decision.
#
# A residual r counts r^2/2; with `k`, from |r| = k on, k (|r| - k/2) (Huber 1964): then one record's gradient
# is at most k times the measured quantity's, however wrong the measurement. None of them is convex. The
# slopes of bearings have no bound near a sensor, where the clip holds them; those of a difference jump there.
# Features are the sensor's position s (d,), the label is the measurement.

PLAIN = math.inf
"""The `k` of a residual that is always squared."""


@dataclass(frozen=True, slots=True)
class OfAResidual(ABC):
    """A loss of one residual. `k` is in the label's unit; raises ValueError unless it is above 0."""

    k: float = PLAIN

    def __post_init__(self) -> None:
        if not self.k > 0:
            raise ValueError(f"k is {self.k!r}: must be above 0")

    @abstractmethod
    def expected(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return what sensors would measure if the target were at the decision (..., d), shape (..., n)."""

    @abstractmethod
    def _slopes(self, decision: FloatArray, features: FloatArray) -> FloatArray:
        """Return the gradient of `expected`, shape (..., n, d); 0 where it has none."""

    def _residuals(self, decision: FloatArray, observations: Observations) -> FloatArray:
        return self.expected(decision, observations.features) - observations.labels

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the loss, shape (..., n)."""
        sizes = np.abs(self._residuals(decision, observations))
        near = np.minimum(sizes, self.k)
        return np.where(observations.present, near * (sizes - 0.5 * near), 0.0)

    def gradients(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the residual, between -k and k, times the gradient of `expected`, shape (..., n, d)."""
        residuals = self._residuals(decision, observations)
        pulls = np.where(observations.present, np.minimum(np.maximum(residuals, -self.k), self.k), 0.0)
        gradients: FloatArray = pulls[..., None] * self._slopes(decision, dense(observations.features))
        return gradients


@dataclass(frozen=True, slots=True)
class RobustRange(OfAResidual):
    """Of r = ||x - s|| - distance. At x = s the gradient is 0."""

    def expected(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return the distances ||x - s||, shape (..., n)."""
        return _lengths(_offsets(decision, dense(features)))

    def _slopes(self, decision: FloatArray, features: FloatArray) -> FloatArray:
        return _units(_offsets(decision, features))


@dataclass(frozen=True, slots=True, eq=False)
class RangeFrom(OfAResidual):
    """Of r = ||(x, height) - place|| - distance, with the sensor's public place (p,) in place of features.

    `height`: what the place has more coordinates than x. Raises ValueError unless the place is finite.
    """

    place: FloatArray = field(kw_only=True)
    height: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        OfAResidual.__post_init__(self)  # slots make another class, of which super() does not know
        object.__setattr__(self, "place", finite_array("place", self.place))

    def expected(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return the distances ||(x, height) - place||, shape (..., n)."""
        distances = _lengths(self._from_place(decision))
        return np.broadcast_to(distances, (*distances.shape[:-1], features.shape[-2]))

    def _slopes(self, decision: FloatArray, features: FloatArray) -> FloatArray:
        slopes = _units(self._from_place(decision))[..., : decision.shape[-1]]
        return np.broadcast_to(slopes, (*slopes.shape[:-2], features.shape[-2], slopes.shape[-1]))

    def _from_place(self, decision: FloatArray) -> FloatArray:
        above = np.broadcast_to(self.height, (*decision.shape[:-1], len(self.height)))
        return _offsets(np.concatenate((decision, above), -1), self.place[None])


@dataclass(frozen=True, slots=True)
class Bearing(OfAResidual):
    """The residual is the angle from the measured direction to that of x - s, from -pi to pi, in the plane.

    Angles are in radians from the first axis to the second; any label is read as one. At x = s there is no
    direction, and value and gradient are 0. Where the target is right behind, at pi, the loss has its largest
    value and a kink; the gradient there is the slope of one of its sides. Raises ValueError for another d.
    """

    def expected(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return the angles of x - s, from -pi to pi, shape (..., n); 0 at x = s."""
        offsets = _offsets(decision, dense(features))
        if offsets.shape[-1] != 2:
            raise ValueError(f"bearings are in the plane: must be 2 dimensions, not {offsets.shape[-1]}")
        angles: FloatArray = np.arctan2(offsets[..., 1], offsets[..., 0])
        return angles

    def _residuals(self, decision: FloatArray, observations: Observations) -> FloatArray:
        turn = 2 * math.pi
        residuals = self.expected(decision, observations.features) - np.remainder(observations.labels, turn)
        residuals = np.where(residuals < -math.pi, residuals + turn, residuals)  # from -3 pi on
        offsets = _offsets(decision, dense(observations.features))
        return np.where(np.logical_or.reduce(offsets != 0.0, -1), residuals, 0.0)

    def _slopes(self, decision: FloatArray, features: FloatArray) -> FloatArray:
        """Return (-(x_2 - s_2), x_1 - s_1)/||x - s||^2."""
        offsets = _offsets(decision, features)
        squares = np.add.reduce(offsets * offsets, -1)
        is_positive = squares > 0.0
        across = np.stack((-offsets[..., 1], offsets[..., 0]), -1)
        return np.where(is_positive[..., None], across / np.where(is_positive, squares, 1.0)[..., None], 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class RangeDifference(OfAResidual):
    """Of r = ||x - s|| - ||x - reference|| - difference: two places measured against each other (TDOA).

    The gradient of one of the two distances is 0 at its place. `reference` (d,) is public. Raises ValueError
    unless it is finite.
    """

    reference: FloatArray = field(kw_only=True)

    def __post_init__(self) -> None:
        OfAResidual.__post_init__(self)  # slots make another class, of which super() does not know
        object.__setattr__(self, "reference", finite_array("reference", self.reference))

    def expected(self, decision: FloatArray, features: Rows) -> FloatArray:
        """Return ||x - s|| - ||x - reference||, shape (..., n)."""
        away = _lengths(_offsets(decision, self.reference[None]))
        return _lengths(_offsets(decision, dense(features))) - away

    def _slopes(self, decision: FloatArray, features: FloatArray) -> FloatArray:
        return _units(_offsets(decision, features)) - _units(_offsets(decision, self.reference[None]))


def _offsets(decision: FloatArray, places: FloatArray) -> FloatArray:
    """Return x - s, shape (..., n, d)."""
    offsets: FloatArray = decision[..., None, :] - places
    return offsets


def _lengths(offsets: FloatArray) -> FloatArray:
    """Return the L2 norms of the rows, without BLAS."""
    lengths: FloatArray = np.sqrt(np.add.reduce(offsets * offsets, -1))
    return lengths


def _units(offsets: FloatArray) -> FloatArray:
    """Return the rows over their norms; 0 for 0."""
    lengths = _lengths(offsets)
    is_positive = lengths > 0.0
    return np.where(is_positive[..., None], offsets / np.where(is_positive, lengths, 1.0)[..., None], 0.0)
