"""Scores a decision on records that no node has learnt from."""

import math
from dataclasses import astuple, dataclass
from typing import Any, Literal

import numpy as np

from nodes.intervals import ScoreGroups, concordance
from nodes.losses.evaluation import curve_of, predicted, right, unweighted
from nodes.losses.losses import Absolute, Huber, Loss, Scaled, Softmax, Squared
from nodes.sparse import Rows
from nodes.values import FloatArray, Observations

# Measures how well scores rank positive records above negative ones; for rare classes, at the top too.
#
# Every measure takes scores (n,) and labels (n,), positive ones above 0, and is None if one class is
# missing. Records with equal scores are not put in an order: each measure is the same for all their orders.

TOP = 100
"""One record in 100 counts as being at the top."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The measures of one ranking.

    `auc`: the area under the ROC curve; 0.5 for a ranking by chance. `auprc`: the average precision; the
    share of positive records for a ranking by chance. `top`: the share of all positive records that are among
    the top 1 %. `best_top`: the largest share that any ranking has there, as positive records may be more.
    """

    auc: float
    auprc: float
    top: float
    best_top: float


def ranking(scores: FloatArray, labels: FloatArray) -> Ranking | None:
    """Return the measures of a ranking by score."""
    positive = labels > 0.0
    positives = int(positive.sum())
    pairs = positives * (len(labels) - positives)
    if not pairs:
        return None
    groups = ScoreGroups.of(scores, positive)
    return Ranking(groups.in_order / pairs, groups.precision / positives, _top(groups), _best_top(groups))


def auc(scores: FloatArray, labels: FloatArray) -> float | None:
    """Return the chance that a positive record scores above a negative one, ties counting half."""
    in_order, pairs = concordance(scores, labels > 0.0)
    return in_order / pairs if pairs else None


def _top(groups: ScoreGroups) -> float:
    """The recall of the top records. Of a group that the limit divides its share of positives counts."""
    hits, counts = groups
    positives, records = np.add.accumulate(hits), np.add.accumulate(counts)
    limit = math.ceil(records[-1] / TOP)
    last = int(np.searchsorted(records, limit))
    beyond = (records[last] - limit) * hits[last] / counts[last]
    return float((positives[last] - beyond) / positives[-1])


def _best_top(groups: ScoreGroups) -> float:
    """Return the recall of the top records if all positive ones came first."""
    hits, counts = groups
    return min(1.0, math.ceil(int(counts.sum()) / TOP) / int(hits.sum()))


_NUMBERS = (Absolute, Huber, Squared)


@dataclass(frozen=True, slots=True)
class Score:
    """The scores that fit the task; others are None.

    `accuracy`: for classes, beside `majority`, the share of the most frequent class: the accuracy of always
    predicting that class. `auc`, `auprc` (average precision) and `recall_at_top` (in the top 1 %), beside
    `best_recall_at_top`, that of a perfect ranking: for two classes, None if all records have the same one.
    `rmse`: for numbers. `loss`: the mean loss, without weights of labels; of numbers in the label's unit.
    None if it is not finite.
    """

    task: Literal["two classes", "classes", "numbers", "other"]
    records: int
    loss: float | None
    accuracy: float | None = None
    majority: float | None = None
    auc: float | None = None
    auprc: float | None = None
    recall_at_top: float | None = None
    best_recall_at_top: float | None = None
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
        measures = (None, None, None, None) if ranked is None else astuple(ranked)
        return Score("two classes", labels.size, mean, *rates, *measures)
    if isinstance(curve_of(loss), _NUMBERS):
        predictions = predicted(loss, decision, features)
        if isinstance(loss, Scaled):
            mean = _finite(loss.losses(predictions, labels).mean())
        errors = predictions - labels
        return Score("numbers", labels.size, mean, rmse=_finite(np.sqrt((errors * errors).mean())))
    return Score("other", labels.size, mean)


def majority(labels: FloatArray) -> float:
    """Return the share of the most frequent label."""
    return float(np.unique(labels, return_counts=True)[1].max() / labels.size)


def _finite(number: np.floating[Any]) -> float | None:
    return float(number) if np.isfinite(number) else None
