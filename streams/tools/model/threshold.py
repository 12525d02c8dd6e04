"""Decides on a class of two by a threshold, and counts what that finds."""

import math
from dataclasses import dataclass

import numpy as np

from nodes.losses.losses import Logistic, Loss
from nodes.losses.predictions import unweighted
from nodes.values import BoolArray, FloatArray
from streams.mesh.errors import UsageError
from streams.mesh.settings.loss import LossSettings


@dataclass(frozen=True, slots=True)
class Deciding:
    """The outcome of a threshold: `positive` says of each record whether it is taken for positive.

    `taken`: how many labelled records are. `precision`: the share of them that are positive; None if none is
    taken. `recall`: the share of the positive records that are taken; None if there are none.
    """

    threshold: float
    positive: list[bool]
    taken: int
    precision: float | None
    recall: float | None


def check_threshold(threshold: float, loss: LossSettings) -> None:
    """Raise UsageError for a threshold that no record can be held against."""
    if not loss.signed:
        raise UsageError(f"--threshold: is for losses of two classes, hinge and logistic, not for {loss}")
    if not math.isfinite(threshold) or (loss.logistic and not 0 <= threshold <= 1):
        allowed = "a probability from 0 to 1, for loss logistic" if loss.logistic else "a finite score"
        raise UsageError(f"--threshold is {threshold:g}: must be {allowed}")


def probabilities(loss: Loss, scores: FloatArray) -> FloatArray | None:
    """Return the logistic loss's probability of a positive label, 1/(1 + e^-score); None for other losses."""
    if not isinstance(unweighted(loss), Logistic):
        return None
    probability: FloatArray = np.exp(-np.logaddexp(0.0, -scores))  # no overflow at any score
    return probability


def decided(threshold: float, values: FloatArray, known: BoolArray, labels: FloatArray) -> Deciding:
    """Take records (n,) whose value is at or above the threshold for positive.

    `labels`: of the records that are `known` to have one.
    """
    positive = values >= threshold
    selected, hits = positive[known], labels > 0.0
    right = int((selected & hits).sum())
    return Deciding(
        threshold,
        positive.tolist(),
        int(selected.sum()),
        right / int(selected.sum()) if selected.any() else None,
        right / int(hits.sum()) if hits.any() else None,
    )
