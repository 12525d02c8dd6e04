"""The threshold of a projection onto a simplex or an L1 ball, without a search."""

from functools import lru_cache

import numpy as np

from nodes.values import FloatArray


def largest_mean(values: FloatArray, radius: float) -> FloatArray:
    """Return tau = max_k (v_1 + ... + v_k - radius)/k, v the values (..., d) in descending order; (..., 1).

    Duchi, Shalev-Shwartz, Singer, Chandra (2008), figure 1: the mean grows exactly as long as the next v
    exceeds it, so their search for rho is this maximum.
    """
    sums = np.add.accumulate(np.sort(values)[..., ::-1], -1)
    means = (sums - radius) / _counts(values.shape[-1])
    largest: FloatArray = np.maximum.reduce(means, -1, keepdims=True)
    return largest


@lru_cache(maxsize=16)
def _counts(dimension: int) -> FloatArray:
    return np.arange(1.0, dimension + 1.0)
