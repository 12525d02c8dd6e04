"""Gradients of a slot. Total: any record and any loss give a gradient."""

import math

import numpy as np

from nodes.losses.losses import Loss
from nodes.sparse import Rows, SparseRows
from nodes.values import FloatArray, Observations

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
