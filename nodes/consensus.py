"""Weighted averages of releases, in one order everywhere, so that results are equal bit for bit."""

from collections.abc import Iterable
from operator import itemgetter

from nodes.values import FloatArray

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
