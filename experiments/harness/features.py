"""Columns into rows as in Li et al. 2018, section 7.2: frequencies for categories, one scale for all."""

from collections.abc import Mapping, Sequence

import numpy as np

from nodes.values import FloatArray

MISSING = "?"

Table = Mapping[str, Sequence[str]]
"""A file's columns, as text."""


def complete(table: Table, columns: Sequence[str]) -> Table:
    """Return those columns, and of them the rows in which nothing is missing."""
    rows = zip(*(table[name] for name in columns), strict=True)
    kept = zip(*(row for row in rows if MISSING not in row), strict=True)
    return dict(zip(columns, kept, strict=True))


def coded(column: Sequence[str], *, numeric: bool) -> FloatArray:
    """Return a column as numbers, shape (n,): each category as its share of the rows.

    A share is taken from the records, as in the paper: outside all of the guarantees.
    """
    if numeric:
        return np.array(column, np.float64)
    _, places, counts = np.unique(np.array(column), return_inverse=True, return_counts=True)
    shares: FloatArray = counts[places] / len(column)
    return shares


def binary(column: Sequence[str]) -> FloatArray:
    """Return one column of 0 and 1 a category, shape (n, categories), in the order of their names."""
    values = np.array(column)
    columns: FloatArray = (values[:, None] == np.unique(values)).astype(np.float64)
    return columns


def scaled(columns: FloatArray) -> FloatArray:
    """Return columns (n, p), each over its largest magnitude, and then rows of L2 norm at most 1."""
    largest = np.abs(columns).max(0)
    rows = columns / np.where(largest > 0.0, largest, 1.0)
    norms = np.sqrt((rows * rows).sum(-1, keepdims=True))
    bounded: FloatArray = rows / np.maximum(norms, 1.0)
    return bounded
