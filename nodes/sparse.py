"""Sparse rows: a slot's features and gradients in O(stored + d) memory, never as a dense array (n, d).

Every result has the same bits as for the dense array, except the sign of a zero. So a mechanism's integers,
and its guarantee, are those of dense rows. Which coordinates are stored depends on data, as their values do.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparseRows:
    """n rows of `dimension` d coordinates in compressed form (CSR); coordinates that are not stored are 0.

    Row k holds `values[indptr[k]:indptr[k + 1]]` at the coordinates `indices[indptr[k]:indptr[k + 1]]`, which
    ascend, each once. Values may be any floats. `rows` is the row of each stored value. Raises ValueError,
    without showing any content, for arrays that break these rules.
    """

    indptr: _Integers
    indices: _Integers
    values: _Floats
    dimension: int
    rows: _Integers = field(init=False)

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError(f"dimension is {self.dimension!r}: must be at least 1")
        indptr, indices = np.asarray(self.indptr, np.int64), np.asarray(self.indices, np.int64)
        values = np.asarray(self.values, np.float64)
        lengths = np.diff(indptr)
        if indptr.ndim != 1 or indptr.size < 1 or indptr[0] != 0 or np.count_nonzero(lengths < 0):
            raise ValueError("indptr must be of shape (n + 1,), from 0 on and never falling")
        if not indices.shape == values.shape == (int(indptr[-1]),):
            raise ValueError("indices and values must be of one shape, as many as indptr says")
        if np.count_nonzero((indices < 0) | (indices >= self.dimension)):
            raise ValueError(f"an index is out of range: must be from 0 to {self.dimension - 1}")
        rows = np.repeat(np.arange(lengths.size), lengths)
        if np.count_nonzero(np.diff(rows * self.dimension + indices) <= 0):
            raise ValueError("the indices of a row must ascend, each once")
        for name, array in (("indptr", indptr), ("indices", indices), ("values", values), ("rows", rows)):
            object.__setattr__(self, name, array)

    @classmethod
    def of(cls, rows: Iterable[tuple[_Integers, _Floats]], dimension: int) -> "SparseRows":
        """Return rows, each given as (indices, values)."""
        pairs = list(rows)
        indptr = np.cumsum([0, *(indices.size for indices, _ in pairs)])
        indices = np.concatenate([np.zeros(0, np.int64), *(indices for indices, _ in pairs)])
        return cls(
            indptr, indices, np.concatenate([np.zeros(0), *(values for _, values in pairs)]), dimension
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d), the shape of the dense array."""
        return self.indptr.size - 1, self.dimension

    def row(self, k: int) -> "SparseRows":
        """Return row k as sparse rows of one row."""
        first, end = int(self.indptr[k]), int(self.indptr[k + 1])
        part = slice(first, end)
        return SparseRows(np.array([0, end - first]), self.indices[part], self.values[part], self.dimension)

    def with_values(self, values: _Floats) -> "SparseRows":
        """Return rows with these values at the same coordinates."""
        return replace(self, values=values)

    def scaled(self, factors: _Floats) -> "SparseRows":
        """Return row k times factors[k], factors (n,)."""
        return self.with_values(self.values * factors[self.rows])

    def reduced(self, operation: np.ufunc, values: _Floats) -> _Floats:
        """Return operation.reduce over each row of values (stored,), shape (n,), with the dense array's bits.

        Makes one row at a time dense, (d,), as numpy's sum depends on where the zeros are.
        """
        line, reduced = np.zeros(self.dimension), np.empty(self.shape[0])
        for k in range(reduced.size):
            part = slice(self.indptr[k], self.indptr[k + 1])
            line[self.indices[part]] = values[part]
            reduced[k] = operation.reduce(line)
            line[self.indices[part]] = 0.0
        return reduced

    def totals(self, integers: _Integers) -> _Integers:
        """Return the exact sum of its row for each of the integers (stored,), same shape."""
        sums = np.zeros(self.shape[0], np.int64)
        np.add.at(sums, self.rows, integers)
        return sums[self.rows]

    def summed(self, values: _Floats) -> _Floats:
        """Return the dense sum over the rows of values (stored,), shape (d,), added in the rows' order."""
        total = np.zeros(self.dimension)
        np.add.at(total, self.indices, values)
        return total

    def counted(self, integers: _Integers) -> _Integers:
        """Return the dense, exact sum over the rows of integers (stored,), shape (d,)."""
        total = np.zeros(self.dimension, np.int64)
        np.add.at(total, self.indices, integers)
        return total

    def dense(self) -> _Floats:
        """Return the array (n, d)."""
        array = np.zeros(self.shape)
        array[self.rows, self.indices] = self.values
        return array


Rows = _Floats | SparseRows
"""Rows (..., n, d), dense, or (n, d), sparse."""


def dense(rows: Rows) -> _Floats:
    """Return the rows as an array: O(n d) memory."""
    return rows.dense() if isinstance(rows, SparseRows) else rows
