"""How well a decision classifies records that no node has learnt from."""

from dataclasses import dataclass

import numpy as np

from nodes.losses import scores
from nodes.sparse import Rows
from nodes.values import FloatArray


@dataclass(frozen=True, slots=True)
class Score:
    """`auc` is None where the records are all of one class."""

    records: int
    accuracy: float
    auc: float | None


def score(decision: FloatArray, features: Rows, labels: FloatArray) -> Score:
    """Score the linear classifier sign(<x, a>), x = `decision` (d,), on records (n, d), labels +-1 (n,)."""
    margins = scores(decision, features)
    right = np.where(margins > 0.0, 1.0, -1.0) == labels
    return Score(labels.size, float(right.mean()), auc(margins, labels))


def auc(margins: FloatArray, labels: FloatArray) -> float | None:
    """Return the chance that a positive record scores above a negative one, ties counting half.

    The rank statistic (Mann, Whitney 1947), with mean ranks for ties. None where one class is missing.
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
