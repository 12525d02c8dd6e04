"""Decodes libsvm lines, `label index:value ...`, into sparse features and a label."""

import math
from collections.abc import Sequence

import numpy as np

from nodes.sparse import Rows, SparseRows
from nodes.values import FloatArray, Observations
from streams.mesh.settings.sparse import SparseLabelSettings, SparseSettings
from streams.records.columns import bounded
from streams.records.record import SparseRow, TotalDecoder

_ABSENT = SparseRow(np.zeros(0, np.int64), np.zeros(0)), 0.0


class LibsvmDecoder(TotalDecoder[SparseRow]):
    """Decodes the lines of one source. Total: it returns an observation or None for any bytes.

    None for a value that is not finite, an index beyond the dimension or not above the one before it, and a
    label that is neither positive nor negative.
    """

    def __init__(self, settings: SparseSettings, dimension: int) -> None:
        super().__init__(dimension, settings.max_record_bytes)
        self._label, self._norm, self._base = settings.label, settings.norm, settings.index_base

    def _decoded(self, value: bytes) -> tuple[SparseRow, float] | None:
        if b"_" in value:  # Python would read 1_0 as ten
            return None
        try:
            first, *pairs = value.split()
            found = [pair.split(b":") for pair in pairs]
            indices = np.array([int(index) for index, _ in found], dtype=np.int64) - self._base
            values = np.array([float(number) for _, number in found], dtype=np.float64)
            label = _label(self._label, float(first))
        except (ValueError, OverflowError):
            return None
        # checked one by one, before any difference: differences of indices out of range may wrap
        if label is None or np.count_nonzero((indices < 0) | (indices >= self.dimension)):
            return None
        if np.count_nonzero(np.diff(indices) <= 0) or not np.isfinite(values).all():
            return None
        return SparseRow(indices, bounded(values, self._norm)), label


def _label(settings: SparseLabelSettings, number: float) -> float | None:
    if not math.isfinite(number):
        return None
    if settings.positive is None:
        return number
    if number in settings.positive:
        return 1.0
    return -1.0 if settings.negative is None or number in settings.negative else None


def rows_of(rows: Sequence[FloatArray | SparseRow], dimension: int) -> Rows:
    """Return the features of decoded records as rows (n, d), sparse where the records are."""
    sparse = [row for row in rows if isinstance(row, SparseRow)]
    return SparseRows.of(sparse, dimension) if sparse else np.array(rows, dtype=np.float64)


def sparse_observations(decoded: Sequence[tuple[SparseRow, float] | None], dimension: int) -> Observations:
    """Return the decoded lines as observations, in order; None becomes absent and empty in its place."""
    found = [_ABSENT if pair is None else pair for pair in decoded]
    labels: FloatArray = np.array([label for _, label in found], dtype=np.float64)
    present = np.array([pair is not None for pair in decoded], dtype=np.bool_)
    return Observations(SparseRows.of([row for row, _ in found], dimension), labels, present)
