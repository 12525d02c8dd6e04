"""Weighted averages of releases, always summed in one order, so that results are equal bit for bit."""

from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from nodes.values import FloatArray, IntArray
from topology.weights import Weights

Term = tuple[str, float, FloatArray]
"""A node's id, its weight, its value (..., d)."""
_BY_ID = itemgetter(0)


def mixed(terms: Iterable[Term]) -> FloatArray:
    """Return sum_k weight_k value_k, shape (..., d), summed in the order of the nodes' ids (bytes).

    z_t^i = sum_j a_ij(t) q_t^j (Zhou, Li 2025, Alg. 1).
    """
    (_, weight, value), *others = sorted(terms, key=_BY_ID)
    total: FloatArray = weight * value
    for _, weight, value in others:
        total = total + weight * value
    return total


class Mixing:
    """z_t^i = sum_j a_ij q_t^j for every i, with the same bits as `nodes.mixing.mixed`.

    Rows are nodes in bytes order. Time and memory are linear in the edges: k-th terms are added in one go.
    """

    __slots__ = ("_terms",)

    def __init__(self, weights: Weights) -> None:
        size = len(weights.nodes)
        everyone = np.arange(size)
        rest = np.bincount(weights.targets, weights.values, size)  # adds in the order of the edges
        sources = np.concatenate([weights.sources, everyone])
        targets = np.concatenate([weights.targets, everyone])
        values = np.concatenate([weights.values, np.maximum(0.0, 1.0 - rest)])
        order = np.lexsort((sources, targets))
        sources, targets, values = sources[order], targets[order], values[order]
        starts = np.searchsorted(targets, everyone)
        ranks = np.arange(len(targets)) - starts[targets]
        self._terms: list[tuple[IntArray | None, IntArray, FloatArray]] = []
        for rank in range(int(ranks.max()) + 1):
            chosen = ranks == rank
            rows = None if chosen.sum() == size else targets[chosen]
            self._terms.append((rows, sources[chosen], values[chosen][:, None]))

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return A values, both of shape (N, d)."""
        (_, first, weight), *others = self._terms
        total: FloatArray = weight * values.take(first, 0)
        for rows, sources, weight in others:
            if rows is None:
                total = total + weight * values.take(sources, 0)
            else:
                total[rows] += weight * values.take(sources, 0)
        return total
