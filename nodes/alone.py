"""The model that an owner could fit to its own records alone, without noise: the rival of a mesh's model.

It costs no epsilon, as nothing of it leaves the owner. Two classes: logistic regression with a ridge, by
Newton's method; C classes: one against the rest; numbers: ridge regression. Columns are divided by their root
mean squares, then the ridge is 1, as scikit-learn's logistic regression has it by default.

Records are predicted by a model that has not seen them: of 20 folds, each is left out once by one step of
Newton's from the fit to all, which is how far one twentieth of the records moves it (Pregibon 1981).
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
"""How much wider an interval of such predictions is than one of a fixed model's, as models of overlapping
records err together: the variance is twice as large for 20 folds (Nadeau, Bengio 2003, section 3.2)."""
_STEPS, _HALVINGS, _ENOUGH = 25, 12, 1e-8

Predict = Callable[[FloatArray], FloatArray]


def fits(columns: int) -> bool:
    """Return whether a model of so many columns is fitted."""
    return columns <= MOST_COLUMNS


def fitted(task: Task, classes: int, features: Rows, labels: FloatArray) -> Predict:
    """Fit records (n, p) with labels (n,); return what predicts the labels, or classes' scores, of others."""
    rows, scales = _scaled(dense(features))
    if task is Task.NUMBERS:
        middle = float(labels.mean())
        weights = _least_squares(rows, labels - middle)
        return lambda others: others / scales @ weights + middle
    columns = [_logistic(rows, signs) for signs in _signs(task, classes, labels)]
    stacked = np.stack(columns, -1)
    if task is Task.TWO:
        return lambda others: others / scales @ stacked[:, 0]
    return lambda others: others / scales @ stacked


def out_of_fold(task: Task, classes: int, features: Rows, labels: FloatArray) -> FloatArray:
    """Return predictions of the records by models that have not seen them: (n,), or classes' scores (n, C).

    Scores of two classes are less their model's mean score, as those of two models do not compare.
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


def _least_squares(rows: FloatArray, labels: FloatArray) -> FloatArray:
    return _solved(rows.T @ rows, rows.T @ labels)


def _numbers_left_out(rows: FloatArray, labels: FloatArray, folds: IntArray) -> FloatArray:
    gram, moments, predictions = rows.T @ rows, rows.T @ labels, np.empty(labels.size)
    for fold in range(FOLDS):
        out = folds == fold
        part = rows[out]
        predictions[out] = part @ _solved(gram - part.T @ part, moments - part.T @ labels[out])
    return predictions


def _logistic(rows: FloatArray, signs: FloatArray) -> FloatArray:
    weights = np.zeros(rows.shape[1])
    best = _objective(rows, signs, weights)
    for _ in range(_STEPS):
        slopes, curvature = _derivatives(rows, signs, weights)
        step = _solved((rows * curvature[:, None]).T @ rows, rows.T @ slopes + weights)
        size = 1.0
        for _ in range(_HALVINGS):
            value = _objective(rows, signs, weights - size * step)
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
    """Return each record's score less that of `centre`, by a model that has not seen it."""
    weights = _logistic(rows, signs)
    slopes, curvature = _derivatives(rows, signs, weights)
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


def _objective(rows: FloatArray, signs: FloatArray, weights: FloatArray) -> float:
    return float(np.logaddexp(0.0, -signs * (rows @ weights)).sum() + weights @ weights / 2)


def _derivatives(rows: FloatArray, signs: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each record's first and second derivative in its score, (n,)."""
    odds: FloatArray = np.exp(-np.logaddexp(0.0, signs * (rows @ weights)))
    return -signs * odds, odds * (1.0 - odds)


def _solved(second: FloatArray, first: FloatArray) -> FloatArray:
    """Return (second + I)^-1 first; the ridge is 1."""
    return np.linalg.solve(second + np.eye(len(second)), first).astype(np.float64)
