"""Losses of one observation, and their gradients in the decision.

Shapes: decision (..., d) against features (..., n, d), labels and present (..., n), leading axes broadcast.
An absent record has value 0 and a zero gradient. At a kink the gradient is a subgradient. Sparse features
(n, d), with a decision (d,), give sparse gradients if the loss depends on the score <x, a> alone.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nodes.checks import positive
from nodes.sparse import Rows, SparseRows, dense
from nodes.values import FloatArray, Observations


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
