"""Multi-class cross-entropy: one score per class, d = classes x features."""

from dataclasses import dataclass

import numpy as np

from nodes.sparse import Rows, dense
from nodes.values import BoolArray, FloatArray, Observations


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
