"""Measures how well scores rank positive records above negative ones; for rare classes, at the top too.

Every measure takes scores (n,) and labels (n,), positive ones above 0, and is None if one class is missing.
Records with equal scores are not put in an order: each measure is the same for all their orders.
"""

import math
from dataclasses import dataclass

import numpy as np

from nodes.values import FloatArray

TOP = 100
"""One record of that many is at the top: 1 %."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The measures of one ranking.

    `auc`: the area under the ROC curve; 0.5 for a ranking by chance. `auprc`: the average precision; the
    share of positive records for a ranking by chance. `top`: the share of all positive records that are among
    the top 1 %.
    """

    auc: float
    auprc: float
    top: float


def ranking(scores: FloatArray, labels: FloatArray) -> Ranking | None:
    """Return the measures of a ranking by score."""
    positive = labels > 0.0
    if positive.all() or not positive.any():
        return None
    _, place, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    # of each group of equal scores, best first: its positives and its records
    hits = np.bincount(place[positive], minlength=sizes.size).astype(np.float64)
    counts = sizes.astype(np.float64)
    return Ranking(_auc(counts, hits), _average_precision(counts, hits), _top(counts, hits))


def auc(scores: FloatArray, labels: FloatArray) -> float | None:
    """Return the chance that a positive record scores above a negative one, ties counting half."""
    measures = ranking(scores, labels)
    return None if measures is None else measures.auc


def _auc(counts: FloatArray, hits: FloatArray) -> float:
    """The rank statistic (Mann, Whitney 1947)."""
    misses = counts - hits
    below = misses.sum() - np.add.accumulate(misses)
    return float((hits * (below + misses / 2)).sum() / (hits.sum() * misses.sum()))


def _average_precision(counts: FloatArray, hits: FloatArray) -> float:
    """Sum over thresholds of the recall gained times the precision there (Buckley, Voorhees 2000)."""
    positives, records = np.add.accumulate(hits), np.add.accumulate(counts)
    return float((hits * positives / records).sum() / positives[-1])


def _top(counts: FloatArray, hits: FloatArray) -> float:
    """The recall of the top records; a group that the limit cuts counts by its share of positives."""
    positives, records = np.add.accumulate(hits), np.add.accumulate(counts)
    limit = math.ceil(records[-1] / TOP)
    last = int(np.searchsorted(records, limit))
    beyond = (records[last] - limit) * hits[last] / counts[last]
    return float((positives[last] - beyond) / positives[-1])
