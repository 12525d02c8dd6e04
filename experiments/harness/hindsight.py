"""The best fixed decision in hindsight, for convex losses, with a certificate of how good it is."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nodes.geometry.constraints import Constraint
from nodes.losses.losses import Loss
from nodes.sparse import dense
from nodes.values import FloatArray, Observations

_CHUNK = 1 << 20  # gradient entries held at a time


@dataclass(frozen=True, slots=True, eq=False)
class BestDecision:
    """A decision (d,), F at it, and `gap` >= F(decision) - min F over the constraint, for a convex loss."""

    decision: FloatArray
    value: float
    gap: float


class Mean(Protocol):
    """F and its gradient at x (d,)."""

    def value(self, x: FloatArray) -> float:
        """Return F(x)."""

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return a gradient of F at x, shape (d,)."""


def best_fixed_decision(
    loss: Loss,
    constraint: Constraint,
    observations: Observations,
    tolerance: float = 1e-6,
    turns: int = 10_000,
) -> BestDecision:
    """Minimise F, the mean loss over all the observations' places (any leading shape), on the constraint."""
    return minimised(_Mean(loss, observations), constraint, tolerance, turns)


def minimised(mean: Mean, constraint: Constraint, tolerance: float, turns: int) -> BestDecision:
    """Minimise a mean of losses on the constraint.

    The universal fast gradient method (Nesterov 2015, section 4), for smooth losses and kinks alike. It ends
    at a gap of `tolerance`, or after so many turns: look at the gap. Its lower bound is the least value of
    the gradients' linear bounds, in the method's own weights; a loss that is not convex has no such bounds.
    """
    start = y = v = best = constraint.project(np.zeros(constraint.dimension))
    value = mean.value(y)
    pushed, constant, weight, bound, curvature = np.zeros_like(y), 0.0, 0.0, -math.inf, 1.0
    for _ in range(turns):
        a = (1.0 + math.sqrt(1.0 + 4.0 * curvature * weight)) / (2.0 * curvature)
        tau = a / (weight + a)
        x = tau * v + (1.0 - tau) * y
        at_x, gradient = mean.value(x), mean.gradient(x)
        trial = tau * constraint.project(v - a * gradient) + (1.0 - tau) * y
        at_trial, move = mean.value(trial), trial - x
        model = at_x + (gradient * move).sum() + 0.5 * curvature * (move * move).sum()
        if at_trial > model + 0.5 * tau * tolerance + 1e-13 * abs(at_x):
            curvature *= 2.0
            continue
        weight, pushed = weight + a, pushed + a * gradient
        constant += a * (at_x - float((gradient * x).sum()))
        y, v, curvature = trial, constraint.project(start - pushed), curvature / 2.0
        if at_trial < value:
            best, value = trial, at_trial
        bound = max(bound, (constant - float(constraint.support(-pushed))) / weight)
        if value - bound <= tolerance:
            break
    return BestDecision(best, value, max(0.0, value - bound))


class _Mean:
    """F and its gradient, in pieces that fit the memory."""

    def __init__(self, loss: Loss, observations: Observations) -> None:
        features = dense(observations.features)
        features = features.reshape(-1, features.shape[-1])
        labels, present = observations.labels.reshape(-1), observations.present.reshape(-1)
        rows = max(1, _CHUNK // features.shape[-1])
        parts = [slice(first, first + rows) for first in range(0, len(features), rows)]
        self._parts = [Observations(features[part], labels[part], present[part]) for part in parts]
        self._loss = loss
        self._count = len(features)

    def value(self, x: FloatArray) -> float:
        return sum(float(self._loss.value(x, part).sum()) for part in self._parts) / self._count

    def gradient(self, x: FloatArray) -> FloatArray:
        total = np.zeros_like(x)
        for part in self._parts:
            total += dense(self._loss.gradients(x, part)).sum(0)
        return total / self._count
