"""A loss with weighted labels."""

from dataclasses import dataclass

import numpy as np

from nodes.checks import finite_array
from nodes.losses.losses import Loss
from nodes.sparse import Rows, SparseRows
from nodes.values import FloatArray, Observations


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
