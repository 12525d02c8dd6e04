"""Scores a decision on records that no node has learnt from."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nodes.losses.losses import Absolute, Huber, Loss, Softmax, Squared
from nodes.losses.predictions import predicted, right, unweighted
from nodes.sparse import Rows
from nodes.values import FloatArray, Observations
from streams.local.ranking import ranking

_NUMBERS = (Absolute, Huber, Squared)


@dataclass(frozen=True, slots=True)
class Score:
    """The scores that fit the task; others are None.

    `accuracy`: for classes, beside `majority`, the share of the most frequent class: the accuracy of always
    predicting that class. `auc`, `auprc` (average precision) and `recall_at_top` (in the top 1 %): for two
    classes, None if all records have the same one. `rmse`: for numbers. `loss`: the mean loss, without
    weights of labels; None if it is not finite.
    """

    task: Literal["two classes", "classes", "numbers", "other"]
    records: int
    loss: float | None
    accuracy: float | None = None
    majority: float | None = None
    auc: float | None = None
    auprc: float | None = None
    recall_at_top: float | None = None
    rmse: float | None = None


@np.errstate(all="ignore")
def score(loss: Loss, decision: FloatArray, features: Rows, labels: FloatArray) -> Score:
    """Score the decision (d,) on records (n, p) with labels (n,), by the loss's predictions."""
    loss = unweighted(loss)
    records = Observations(features, labels, np.ones(labels.shape, dtype=np.bool_))
    mean = _finite(loss.value(decision, records).mean())
    classes = right(loss, decision, features, labels)
    if classes is not None:
        rates = float(classes.mean()), majority(labels)
        if isinstance(loss, Softmax):
            return Score("classes", labels.size, mean, *rates)
        ranked = ranking(predicted(loss, decision, features), labels)
        measures = (None, None, None) if ranked is None else (ranked.auc, ranked.auprc, ranked.top)
        return Score("two classes", labels.size, mean, *rates, *measures)
    if isinstance(loss, _NUMBERS):
        errors = predicted(loss, decision, features) - labels
        return Score("numbers", labels.size, mean, rmse=_finite(np.sqrt((errors * errors).mean())))
    return Score("other", labels.size, mean)


def majority(labels: FloatArray) -> float:
    """Return the share of the most frequent label."""
    return float(np.unique(labels, return_counts=True)[1].max() / labels.size)


def _finite(number: np.floating[Any]) -> float | None:
    return float(number) if np.isfinite(number) else None
