"""Losses of a residual: what a sensor measured of a target against what the decision says it measures.

A residual r counts r^2/2; with `k`, from |r| = k on, k (|r| - k/2) (Huber 1964): then one record's gradient
is at most k times the measured quantity's, however wrong the measurement. None of them is convex. The slopes
of bearings have no bound near a sensor, where the clip holds them; those of a difference jump there. Features
are the sensor's position s (d,), the label is the measurement.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from nodes.checks import finite_array
from nodes.sparse import Rows, dense
from nodes.values import FloatArray, Observations

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


@dataclass(frozen=True, slots=True)
class Bearing(OfAResidual):
    """Of the angle from the measured direction to that of x - s, from -pi to pi, in the plane.

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
