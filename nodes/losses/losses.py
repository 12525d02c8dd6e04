"""Losses of one observation, and their gradients in the decision.

Shapes: decision (..., d) against features (..., n, d), labels and present (..., n), leading axes broadcast.
An absent record has value 0 and a zero gradient. At a kink the gradient is a subgradient. Sparse features
(n, d), with a decision (d,), give sparse gradients if the loss depends on the score <x, a> alone.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nodes.checks import finite_array, positive
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
