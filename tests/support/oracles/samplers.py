"""Oracles of the exact sampler, and words that a test has planted."""

import numpy as np
import opendp.prelude as dp
from scipy.stats import chi2, norm

from nodes.privacy import exact
from nodes.privacy.exact import entropy


def opendp_laplace(scale):
    """OpenDP's measurement with discrete Laplace noise."""
    return dp.m.make_laplace(_integers(), dp.l1_distance(T="i64"), scale=scale)


def opendp_gaussian(scale):
    """OpenDP's measurement with discrete Gaussian noise."""
    return dp.m.make_gaussian(_integers(), dp.l2_distance(T="i64"), scale=scale)


def _integers():
    dp.enable_features("contrib")
    return dp.vector_domain(dp.atom_domain(T="i64"))


class Planted:
    """Words from a seed, or those given first; `given` holds every array that was handed out."""

    def __init__(self, seed=0, first=()):
        self._random = np.random.default_rng(seed)
        self._first = list(first)
        self.given = []

    def __call__(self, count):
        planted, self._first = self._first[:count], self._first[count:]
        rest = self._random.integers(0, 2**64, count - len(planted), dtype=np.uint64)
        self.given.append(np.concatenate([np.array(planted, dtype=np.uint64), rest]))
        return self.given[-1]


def probabilities(kind, scale, most):
    """The law of -most..most; what is beyond must be negligible."""
    k = np.arange(-most, most + 1)
    weights = np.exp(-np.abs(k) / scale) if kind == "laplace" else np.exp(-(k**2) / (2 * scale**2))
    return weights / weights.sum()


def unlikely(counts, expected):
    """The normal deviate of chi-square's tail; neighbours are joined to 20 expected.

    Chi-square itself has a long tail where few cells are left: at two degrees of freedom it is 6 of its own
    standard deviations above its mean once in a thousand draws.
    """
    cells = [[0.0, 0.0]]
    for count, share in zip(counts, expected, strict=True):
        if cells[-1][1] >= 20:
            cells.append([0.0, 0.0])
        cells[-1] = [cells[-1][0] + count, cells[-1][1] + share]
    if len(cells) > 1 and cells[-1][1] < 20:
        count, share = cells.pop()
        cells[-1] = [cells[-1][0] + count, cells[-1][1] + share]
    freedom = len(cells) - 1
    assert freedom > 0
    counts, expected = np.array(cells).T
    return norm.isf(chi2.sf(((counts - expected) ** 2 / expected).sum(), freedom))


def summed(kind, size, count, scale):
    """`count` draws of the exact sampler, `size` a call."""
    draw = getattr(exact, kind)
    return np.concatenate([draw(size, scale, entropy) for _ in range(count // size)])
