"""Weighted averages of releases, in one order everywhere, so that results are equal bit for bit."""

from collections.abc import Iterable, Sequence

from nodes.values import FloatArray


def own_weight(others: Iterable[float]) -> float:
    """Return a_ii = 1 - the sum of the row's other weights, summed in their order; at least 0."""
    rest = 0.0
    for weight in others:
        rest += weight
    return max(0.0, 1.0 - rest)


def mixed(terms: Sequence[tuple[float, FloatArray]]) -> FloatArray:
    """Return sum_k weight_k value_k, summed from the first term to the last; values (..., d).

    Callers order the terms by the node's id (bytes). z_t^i = sum_j a_ij(t) q_t^j (Zhou, Li 2025, Alg. 1).
    """
    weight, value = terms[0]
    total: FloatArray = weight * value
    for weight, value in terms[1:]:
        total = total + weight * value
    return total
