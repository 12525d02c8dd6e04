"""The values of one node, in the field's terms (notation: docs/reference/notation.md).

`Release`, `Consensus` and `Decision` are public: functions of releases, plans and settings. Values that
depend on data are wrapped in `nodes.privacy.private.Private`; only `nodes/privacy/` turns them into releases.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple, NewType

import numpy as np
from numpy.typing import NDArray

from nodes.sparse import Rows
from topology.weights import Weights

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
WordArray = NDArray[np.uint64]

Release = NewType("Release", FloatArray)
"""q_t, shape (d,): the value that a node publishes for round t."""
Consensus = NewType("Consensus", FloatArray)
"""z_t, shape (d,): the weighted average of releases, own included."""
Decision = NewType("Decision", FloatArray)
"""x_t = decide(z_t), shape (d,): the point that a node acts on, and is scored on, in round t."""


class Observations(NamedTuple):
    """The n <= batch_size records of a slot: `features` (..., n, d), `labels` (..., n), `present` (..., n).

    A record that could not be decoded keeps its place, with `present` false and zeros: its gradient is zero.
    Features may be sparse rows (n, d).
    """

    features: Rows
    labels: FloatArray
    present: BoolArray


class Average(NamedTuple):
    """The mean of `rounds` >= 1 decisions of one journal life, shape (d,), read-only.

    w^_T = (1/T) (x_1 + ... + x_T) (Li et al. 2018, Theorems 9 and 10). Public, as decisions are; O(d) memory.
    """

    rounds: int
    mean: FloatArray


def averaged(before: Average | None, decision: Decision) -> Average:
    """Return the average with one more decision (d,), in the order of the rounds; `before` is None at first.

    The mean moves by (x - mean)/T (Welford 1962), as a sum would grow without end.
    """
    if before is None:
        rounds, mean = 1, np.array(decision)
    else:
        rounds = before.rounds + 1
        mean = before.mean + (decision - before.mean) / rounds
    mean.flags.writeable = False
    return Average(rounds, mean)


# Mixing: weighted averages of releases, always summed in one order, so that results are equal bit for bit.

Term = tuple[str, float, FloatArray]
"""A node's id, its weight, its value (..., d)."""
_BY_ID = itemgetter(0)


def mixed(terms: Iterable[Term]) -> FloatArray:
    """Return sum_k weight_k value_k, shape (..., d), summed in the order of the nodes' ids (bytes).

    z_t^i = sum_j a_ij(t) q_t^j (Zhou, Li 2025, Alg. 1).
    """
    (_, weight, value), *more_terms = sorted(terms, key=_BY_ID)
    total: FloatArray = weight * value
    for _, weight, value in more_terms:
        total = total + weight * value
    return total


def ordered_terms(weights: Weights) -> tuple[IntArray, FloatArray, IntArray]:
    """Return the terms of every row in order: their sources and weights, and how many each row has, (N,)."""
    size = len(weights.nodes)
    everyone = np.arange(size)
    rest = np.bincount(weights.targets, weights.values, size)  # adds in the order of the edges
    sources = np.concatenate([weights.sources, everyone])
    targets = np.concatenate([weights.targets, everyone])
    values = np.concatenate([weights.values, np.maximum(0.0, 1.0 - rest)])
    order = np.lexsort((sources, targets))
    return sources[order], values[order], np.bincount(targets)


_Group = tuple[IntArray, IntArray, FloatArray]
"""Rows (n,), the sources of their terms (k, n), and the terms' weights (k, n, 1)."""
_BLOCK = 1 << 15
"""Numbers mixed at a time: a quarter MiB."""


class Mixing:
    """z_t^i = sum_j a_ij q_t^j for every i, with the same bits as `nodes.values.mixed`.

    Rows are nodes in bytes order. Time and memory are linear in the edges: rows with the same number of terms
    are mixed together, in blocks that fit a processor's cache.
    """

    __slots__ = ("_groups", "_size")

    def __init__(self, weights: Weights) -> None:
        sources, values, counts = ordered_terms(weights)
        starts = np.cumsum(counts) - counts
        self._groups: list[_Group] = []
        self._size = len(counts)
        for count in np.flatnonzero(np.bincount(counts)).tolist():
            rows = np.flatnonzero(counts == count)
            terms = starts[rows] + np.arange(count)[:, None]
            self._groups.append((rows, sources[terms], values[terms][..., None]))

    @property
    def shares(self) -> FloatArray:
        """The sum of squares of each row's weights, (N,), with the same bits as `mixed` of the weights."""
        shares = np.empty(self._size)
        for rows, _, weights in self._groups:
            shares[rows] = _mixed(weights, weights.copy())[:, 0]
        return shares

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return A values, both of shape (N, d)."""
        (_, sources, weights), *more_groups = self._groups
        if not more_groups and sources.size * values.shape[1] <= _BLOCK:
            return _mixed(weights, values.take(sources, 0))
        total = np.empty_like(values)
        for rows, sources, weights in self._groups:
            step = max(1, _BLOCK // (len(sources) * values.shape[1]))
            for start in range(0, len(rows), step):
                block = slice(start, start + step)
                total[rows[block]] = _mixed(weights[:, block], values.take(sources[:, block], 0))
        return total


# How far a consensus is mixed, for decisions that go by its noise.
#
# Of what was learnt last, node j's part in node i's consensus is row i, column j of A(t) ... A(f), where f is
# the first closing round. Earlier mixing only makes the noise smaller, so a decision that leaves it out is of
# more noise than there is.

MOST_ROWS = 256
"""The most nodes for which a product of weights is kept."""


def rows_after(before: FloatArray | None, weights: Weights) -> FloatArray | None:
    """Return A(t) P, shape (N, N), of the product P of the weights `before` (None: no round of them).

    Its rows have the bits of `mixed` of the rows of P. None: for more than `MOST_ROWS` nodes.
    """
    size = len(weights.nodes)
    if size > MOST_ROWS:
        return None
    return Mixing(weights)(np.eye(size) if before is None else before)


def squares_of(rows: FloatArray) -> FloatArray:
    """Return the sum of squares of each row (..., N), shape (...): 1/N_eff of its node."""
    return (
        np.array([np.add.reduce(row * row) for row in rows]) if rows.ndim > 1 else np.add.reduce(rows * rows)
    )


def _mixed(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return sum_k weight_k value_k, shape (rows, d), in order. `values` (k, rows, d) are overwritten."""
    products = np.multiply(values, weights, out=values)
    total: FloatArray
    if products.size == len(products):  # a single column, which `reduce` would add in pairs
        total = np.add.accumulate(products, 0)[-1]
    else:
        total = np.add.reduce(products, 0, initial=-0.0)  # as -0 + -0 = -0
    return total
