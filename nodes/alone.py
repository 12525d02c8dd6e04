"""The model that an owner could fit to its own records alone, without noise, to compare a mesh's model with.

The model costs no epsilon, as nothing of it leaves the owner. For two classes it is logistic regression with
a ridge, fitted by Newton's method; for C classes, one such regression of each class against the rest; for
numbers, ridge regression. Columns are divided by their root mean squares. Then the ridge is 1, which is the
default of scikit-learn's logistic regression.

Each record is predicted by a model that has not seen it. The records are split into 20 folds. The model
without a fold is approximated by one Newton step from the fit to all records (Pregibon 1981).
"""

import math
from collections.abc import Callable

import numpy as np

from nodes.prequential import Task
from nodes.sparse import Rows, dense
from nodes.values import FloatArray, IntArray

MOST_COLUMNS = 600
"""The most columns that a model is fitted to: about a second's work."""
FOLDS = 20
SPREAD = math.sqrt(2)
"""How much wider an interval of out-of-fold predictions is than an interval of a fixed model's predictions.
The models share most of their records, so their errors are correlated: for 20 folds the variance is twice as
large (Nadeau, Bengio 2003, section 3.2)."""
_STEPS, _HALVINGS, _ENOUGH = 25, 12, 1e-8

Predict = Callable[[FloatArray], FloatArray]


def fits(columns: int) -> bool:
    """Return whether a model of so many columns is fitted."""
    return columns <= MOST_COLUMNS


def fitted(task: Task, classes: int, features: Rows, labels: FloatArray) -> Predict:
    """Fit records (n, p) with labels (n,); return what predicts other records' labels or classes' scores."""
    rows, scales = _scaled(dense(features))
    if task is Task.NUMBERS:
        middle = float(labels.mean())
        weights = least_squares(rows, labels - middle)
        return lambda others: others / scales @ weights + middle
    columns = [logistic(rows, signs) for signs in _signs(task, classes, labels)]
    stacked = np.stack(columns, -1)
    if task is Task.TWO:
        return lambda others: others / scales @ stacked[:, 0]
    return lambda others: others / scales @ stacked


def out_of_fold(task: Task, classes: int, features: Rows, labels: FloatArray) -> FloatArray:
    """Return predictions of the records by models that have not seen them: (n,), or classes' scores (n, C).

    For two classes, each model's mean score is subtracted, as scores of two models do not compare.
    """
    rows, _ = _scaled(dense(features))
    folds = np.arange(len(rows)) * FOLDS // max(1, len(rows))
    if task is Task.NUMBERS:
        middle = float(labels.mean())
        return _numbers_left_out(rows, labels - middle, folds) + middle
    centre = rows.mean(0) if task is Task.TWO else np.zeros(rows.shape[1])
    scores = [_left_out(rows, signs, folds, centre) for signs in _signs(task, classes, labels)]
    return scores[0] if task is Task.TWO else np.stack(scores, -1)


def _scaled(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    lengths = np.sqrt((rows * rows).mean(0))
    scales: FloatArray = np.where((lengths > 0.0) & np.isfinite(lengths), lengths, 1.0)
    scaled: FloatArray = np.nan_to_num(rows / scales, posinf=0.0, neginf=0.0)
    return scaled, scales


def _signs(task: Task, classes: int, labels: FloatArray) -> list[FloatArray]:
    if task is Task.TWO:
        return [np.where(labels > 0.0, 1.0, -1.0)]
    return [np.where(labels == kind, 1.0, -1.0) for kind in range(classes)]


def least_squares(rows: FloatArray, labels: FloatArray, ridge: float = 1.0) -> FloatArray:
    """Return the weights (d,) of ridge regression: ||rows w - labels||^2 + ridge ||w||^2 is least."""
    return _solved(rows.T @ rows, rows.T @ labels, ridge)


def _numbers_left_out(rows: FloatArray, labels: FloatArray, folds: IntArray) -> FloatArray:
    gram, moments, predictions = rows.T @ rows, rows.T @ labels, np.empty(labels.size)
    for fold in range(FOLDS):
        out = folds == fold
        part = rows[out]
        predictions[out] = part @ _solved(gram - part.T @ part, moments - part.T @ labels[out])
    return predictions


def logistic(
    rows: FloatArray, signs: FloatArray, ridge: float = 1.0, offsets: FloatArray | float = 0.0
) -> FloatArray:
    """Return the weights (d,) at which the sum of logistic losses, plus ridge/2 ||w||^2, is least.

    A record's score is rows w + offsets.
    """
    weights = np.zeros(rows.shape[1])
    best = _objective(rows, signs, weights, ridge, offsets)
    for _ in range(_STEPS):
        slopes, curvature = _derivatives(rows, signs, weights, offsets)
        step = _solved((rows * curvature[:, None]).T @ rows, rows.T @ slopes + ridge * weights, ridge)
        size = 1.0
        for _ in range(_HALVINGS):
            value = _objective(rows, signs, weights - size * step, ridge, offsets)
            if value <= best:
                break
            size /= 2
        else:
            return weights
        weights = weights - size * step
        if best - value <= _ENOUGH * abs(best):
            return weights
        best = value
    return weights


def _left_out(rows: FloatArray, signs: FloatArray, folds: IntArray, centre: FloatArray) -> FloatArray:
    """Return each record's score minus that of `centre`, both by a model that has not seen the record."""
    weights = logistic(rows, signs)
    slopes, curvature = _derivatives(rows, signs, weights, 0.0)
    curved = rows * curvature[:, None]
    second, first = curved.T @ rows, rows.T @ slopes + weights
    scores = np.empty(signs.size)
    for fold in range(FOLDS):
        out = folds == fold
        part = rows[out]
        step = _solved(second - curved[out].T @ part, first - part.T @ slopes[out])
        without = weights - step
        scores[out] = part @ without - centre @ without
    return scores


def _objective(
    rows: FloatArray, signs: FloatArray, weights: FloatArray, ridge: float, offsets: FloatArray | float
) -> float:
    scores = rows @ weights + offsets
    return float(np.logaddexp(0.0, -signs * scores).sum() + ridge * (weights @ weights) / 2)


def _derivatives(
    rows: FloatArray, signs: FloatArray, weights: FloatArray, offsets: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Return the first and second derivatives of each record's loss by its score, both (n,)."""
    odds: FloatArray = np.exp(-np.logaddexp(0.0, signs * (rows @ weights + offsets)))
    return -signs * odds, odds * (1.0 - odds)


def _solved(second: FloatArray, first: FloatArray, ridge: float = 1.0) -> FloatArray:
    """Return (second + ridge I)^-1 first."""
    return np.linalg.solve(second + ridge * np.eye(len(second)), first).astype(np.float64)
