"""Evaluates a loss: the gradients of a slot, and predictions of labels.

Gradients are total: any record and any loss give one.
"""

import math

import numpy as np

from nodes.losses.losses import (
    Hinge,
    Logistic,
    Loss,
    OfAResidual,
    RangeLoss,
    RobustRange,
    Scaled,
    Softmax,
    Weighted,
    scores,
)
from nodes.losses.own_loss import OwnLoss
from nodes.sparse import Rows, SparseRows, dense
from nodes.values import BoolArray, FloatArray, Observations

_FLOAT = np.dtype(np.float64)


def slot_gradients(loss: Loss, point: FloatArray, observations: Observations) -> Rows:
    """Return each observation's gradient at the public `point`, shape (n, d); sparse for sparse features.

    A row is NaN where the loss fails (it raises, or returns another shape): the mechanism's clip counts it as
    broken and takes zero instead. No exception carries anything of a record.
    """
    if isinstance(observations.features, SparseRows):
        return _sparse_gradients(loss, point, observations, observations.features)
    shape = observations.features.shape[:-1] + point.shape[-1:]
    rows = _attempted(loss, point, observations, shape)
    return rows if rows is not None else _row_by_row(loss, point, observations, shape)


def mean_gradient(gradients: Rows, batch_size: int) -> FloatArray:
    """Return g_t, shape (d,): the sum of the finite rows over the public batch size, before any clip."""
    if isinstance(gradients, SparseRows):
        return _finite_sum(gradients) / batch_size
    total: FloatArray = np.add.reduce(gradients, -2)
    if not math.isfinite(np.add.reduce(total, None)):
        finite = np.isfinite(gradients).all(-1, keepdims=True)
        total = np.add.reduce(np.where(finite, gradients, 0.0), -2)
    return total / batch_size


def _attempted(
    loss: Loss, point: FloatArray, observations: Observations, shape: tuple[int, ...]
) -> FloatArray | None:
    try:
        rows: object = loss.gradients(point, observations)
    except Exception:  # noqa: BLE001 # the step is total: a loss that raises gives no gradient
        return None
    if not isinstance(rows, np.ndarray) or rows.shape != shape:
        return None
    if rows.dtype == _FLOAT:
        return rows
    return rows.astype(np.float64) if np.can_cast(rows.dtype, np.float64) else None


def _row_by_row(
    loss: Loss, point: FloatArray, observations: Observations, shape: tuple[int, ...]
) -> FloatArray:
    rows = np.full(shape, np.nan)
    for k in range(shape[-2]):
        row = _attempted(loss, point, _one(observations, k), (1, shape[-1]))
        if row is not None:
            rows[k] = row[0]
    return rows


def _one(observations: Observations, k: int) -> Observations:
    features, labels, present = observations
    row = features.row(k) if isinstance(features, SparseRows) else features[k : k + 1]
    return Observations(row, labels[k : k + 1], present[k : k + 1])


def _sparse_gradients(
    loss: Loss, point: FloatArray, observations: Observations, features: SparseRows
) -> SparseRows:
    shape = (features.shape[0], point.size)
    rows = _sparse_attempt(loss, point, observations, shape)
    if rows is not None:
        return rows
    gradients = []
    for k in range(shape[0]):
        row = _sparse_attempt(loss, point, _one(observations, k), (1, point.size))
        gradients.append(
            (np.zeros(1, np.int64), np.full(1, np.nan)) if row is None else (row.indices, row.values)
        )
    return SparseRows.of(gradients, point.size)


def _sparse_attempt(
    loss: Loss, point: FloatArray, observations: Observations, shape: tuple[int, int]
) -> SparseRows | None:
    """Return the loss's sparse gradients; None if it fails or makes an array (n, d), which may not fit."""
    try:
        rows: object = loss.gradients(point, observations)
    except Exception:  # noqa: BLE001 # the step is total: a loss that raises gives no gradient
        return None
    return rows if isinstance(rows, SparseRows) and rows.shape == shape else None


def _finite_sum(gradients: SparseRows) -> FloatArray:
    values = gradients.values
    total = gradients.summed(values)
    if math.isfinite(np.add.reduce(total, None)):
        return total
    broken = np.zeros(gradients.shape[0], dtype=np.bool_)
    broken[gradients.rows[~np.isfinite(values)]] = True
    return gradients.summed(np.where(broken[gradients.rows], 0.0, values))


# Predicts labels of records from a decision.


def unweighted(loss: Loss) -> Loss:
    """Return the loss without the weights of its labels."""
    return loss.loss if isinstance(loss, Weighted) else loss


def curve_of(loss: Loss) -> Loss:
    """Return the loss without weights of labels and without their scale."""
    loss = unweighted(loss)
    return loss.loss if isinstance(loss, Scaled) else loss


def predicted(loss: Loss, decision: FloatArray, features: Rows) -> FloatArray:
    """Return the decision's (..., d) predictions for features (..., n, p), shape (..., n).

    Softmax: the class of the largest score, the first of equals. Range: the distance ||s - x||; bearing and
    range-difference: the angle and the difference that a sensor at s would measure. An own loss: the answer
    of its `predict`, if it has one. Otherwise the score <x, a>, whose sign is the class for hinge
    and logistic. Numbers are in the label's unit. Raises ValueError for an own loss with p != d that has no
    `predict`.
    """
    loss = unweighted(loss)
    if isinstance(loss, Scaled):
        return loss.in_unit(predicted(loss.loss, decision, features))
    if isinstance(loss, Softmax):
        classes: FloatArray = np.argmax(loss.scores(decision, features), -1).astype(np.float64)
        return classes
    if isinstance(loss, RangeLoss):
        return RobustRange().expected(decision, features)
    if isinstance(loss, OfAResidual):
        return loss.expected(decision, features)
    own_predictions = loss.predict(decision, dense(features)) if isinstance(loss, OwnLoss) else None
    if own_predictions is not None:
        return own_predictions
    if features.shape[-1] != decision.shape[-1]:
        sizes = f"{features.shape[-1]} features at dimension {decision.shape[-1]}"
        raise ValueError(f"{sizes}: the own loss must have a `predict`")
    return scores(decision, features)


def right(loss: Loss, decision: FloatArray, features: Rows, labels: FloatArray) -> BoolArray | None:
    """Return which records (..., n, p) have the class that the decision (..., d) predicts, shape (..., n).

    None for a loss without classes. A score of 0 predicts -1.
    """
    loss = unweighted(loss)
    if isinstance(loss, Hinge | Logistic):
        signs: BoolArray = np.where(predicted(loss, decision, features) > 0.0, 1.0, -1.0) == labels
        return signs
    if isinstance(loss, Softmax):
        classes: BoolArray = predicted(loss, decision, features) == labels
        return classes
    return None
