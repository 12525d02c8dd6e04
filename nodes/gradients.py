"""Gradients of a slot, totally: any record, and any loss, gives a gradient."""

import math

import numpy as np

from nodes.losses import Loss
from nodes.values import FloatArray, Observations

_FLOAT = np.dtype(np.float64)


def slot_gradients(loss: Loss, point: FloatArray, observations: Observations) -> FloatArray:
    """Return one gradient an observation at the public `point`, shape (n, d).

    A row that the loss cannot make (it raises, or returns another shape) is NaN, so that the mechanism's clip
    counts it as broken and takes zero instead. Nothing of the record gets into an exception.
    """
    shape = observations.features.shape[:-1] + point.shape[-1:]
    rows = _attempted(loss, point, observations, shape)
    return rows if rows is not None else _row_by_row(loss, point, observations, shape)


def mean_gradient(gradients: FloatArray, batch_size: int) -> FloatArray:
    """Return g_t, shape (d,): the sum of the finite rows over the public batch size, before any clip."""
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
        one = Observations(
            observations.features[k : k + 1],
            observations.labels[k : k + 1],
            observations.present[k : k + 1],
        )
        row = _attempted(loss, point, one, (1, shape[-1]))
        if row is not None:
            rows[k] = row[0]
    return rows
