"""Scores a decision on records that no node has learnt from."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nodes.losses.losses import Absolute, Huber, Loss, Squared
from nodes.losses.predictions import predicted, right, unweighted
from nodes.losses.softmax import Softmax
from nodes.sparse import Rows
from nodes.values import FloatArray, Observations

_NUMBERS = (Absolute, Huber, Squared)


@dataclass(frozen=True, slots=True)
class Score:
    """The scores that fit the task; others are None.

    `accuracy`: for classes. `auc`: for two classes, None if all records have the same one. `rmse`: for
    numbers. `loss`: the mean loss, without weights of labels; None if it is not finite.
    """

    task: Literal["two classes", "classes", "numbers", "other"]
    records: int
    loss: float | None
    accuracy: float | None = None
    auc: float | None = None
    rmse: float | None = None


@np.errstate(all="ignore")
def score(loss: Loss, decision: FloatArray, features: Rows, labels: FloatArray) -> Score:
    """Score the decision (d,) on records (n, p) with labels (n,), by the loss's predictions."""
    loss = unweighted(loss)
    records = Observations(features, labels, np.ones(labels.shape, dtype=np.bool_))
    mean = _finite(loss.value(decision, records).mean())
    classes = right(loss, decision, features, labels)
    if classes is not None:
        accuracy = float(classes.mean())
        if isinstance(loss, Softmax):
            return Score("classes", labels.size, mean, accuracy)
        return Score(
            "two classes", labels.size, mean, accuracy, auc(predicted(loss, decision, features), labels)
        )
    if isinstance(loss, _NUMBERS):
        errors = predicted(loss, decision, features) - labels
        return Score("numbers", labels.size, mean, rmse=_finite(np.sqrt((errors * errors).mean())))
    return Score("other", labels.size, mean)


def _finite(number: np.floating[Any]) -> float | None:
    return float(number) if np.isfinite(number) else None


def auc(margins: FloatArray, labels: FloatArray) -> float | None:
    """Return the chance that a positive record scores above a negative one, ties counting half.

    The rank statistic (Mann, Whitney 1947), with mean ranks for ties. None if one class is missing.
    """
    positive = labels > 0.0
    positives = int(positive.sum())
    negatives = labels.size - positives
    if positives == 0 or negatives == 0:
        return None
    _, place, counts = np.unique(margins, return_inverse=True, return_counts=True)
    ranks = np.add.accumulate(counts) - (counts - 1) / 2
    above = float(ranks[place][positive].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)
