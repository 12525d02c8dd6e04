"""The band of `gaussian-bisr`: the inverse square root of the summing matrix, truncated, in fixed point.

The matrix is that of Kalinin, McKenna, Upadhyay, Lampert 2025. C^-1 is lower triangular and Toeplitz. On its
diagonals it has r_0 = 1, r_k = r_{k-1} (k - 3/2)/k for 1 <= k < w (the series of (1 - x)^(1/2)), and 0 for k
>= w. For 1 <= k < w r_k is below 0, and is stored as an integer over 2^30. The proofs are about these
integers, not about the reals that they approximate.

Its inverse C has c_0 = 1 and c_k = sum_j |r_j| c_{k-j} on its diagonals. All c_k are >= 0. They sum to gain =
1/(1 - sum |r_j|), which is about sqrt(pi w). No c_k is above the largest of the w - 1 before it. Let S be the
sum of all c_k with k >= n: S/gain = sum_j |r_j| (c_{n-j} + ... + c_{n-1}). The squares of these c_k sum to at
most S times the largest of the w - 1 before c_n. All terms are >= 0, so the doubles' relative errors are at
most n w 2^-53 < 1e-8, below the margin.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb, sqrt

import numpy as np

from nodes.checks import OutOfRange, quotient_up
from nodes.values import FloatArray, IntArray

MOST_BANDS = 1024

_BITS = 30
_UNIT = 1 << _BITS
_LOW = (1 << (_BITS + 1)) - 1
_MARGIN = 1 + 1e-7
_NEGLIGIBLE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class BandMatrix:
    """C^-1 with `bands` diagonals, and quantities derived from it.

    Attributes
    ----------
    weights : IntArray
        |r_1| ... |r_{w-1}|, shape (w - 1,), times 2^30.
    column : FloatArray
        C's first column, up to where it is negligible.
    norm : float
        The norm of C's whole first column, rounded up.
    gain : float
        The sum of C's first column, rounded up.
    """

    bands: int
    weights: IntArray
    column: FloatArray
    norm: float
    gain: float
    _energies: FloatArray
    _rest: float

    @property
    def row_norm(self) -> float:
        """The norm of a row of C^-1: the ratio of a release's noise to a draw's."""
        return sqrt(1 + float(np.square(self.weights / _UNIT).sum()))

    def mixed(self, draws: IntArray) -> IntArray:
        """Return sum_{k>=1} r_k Z_{t-k}, each coordinate rounded once to an integer.

        `draws` (k, ..., d), |Z| < 2^62, the newest first. Computed in two halves, to stay within 64 bits.
        """
        weights = self.weights[: len(draws)]
        high = np.tensordot(weights, draws >> (_BITS + 1), 1)
        low = np.tensordot(weights, draws & _LOW, 1)
        rounded: IntArray = -(2 * high + ((low + _UNIT // 2) >> _BITS))
        return rounded

    def unit_norm(self, releases: int, apart: int) -> float:
        """Return a bound on the norm of the sum of `releases` columns of C, `apart` from each other or more.

        It is reached for columns exactly `apart`. The sum's squared norm is sum_ij rho(|t_i - t_j|), with
        rho(l) = sum_m c_m c_{m+l} >= 0. The j-th neighbour of a column is at least j `apart` away, so with
        rho's least non-increasing majorant it is at most k rho(0) + 2 sum_{j<k} (k - j) rho_bar(j apart). The
        rest of each column, which is not tabled, adds its norm (triangle inequality).
        """
        if releases == 1:
            return self.norm
        size, column = len(self.column), self.column
        lags = range(apart, min(size, apart * releases), apart)
        rho = np.array([float(column[: size - lag] @ column[lag:]) for lag in range(size)])
        majorant = np.maximum.accumulate(rho[::-1])[::-1]
        total = releases * float(majorant[0])
        total += 2 * sum((releases - j) * float(majorant[lag]) for j, lag in enumerate(lags, 1))
        return (sqrt(total) + releases * sqrt(self._rest)) * _MARGIN

    def stream_norm(self, releases: int) -> float:
        """Return ||C 1|| = sqrt(sum_{t<=T} (c_0 + ... + c_{t-1})^2) for T releases, rounded up."""
        tabled = min(releases, len(self._energies) - 1)
        energy = float(self._energies[tabled]) * _MARGIN + (releases - tabled) * self.gain**2
        return sqrt(energy) * _MARGIN


@lru_cache(maxsize=8)
def band_matrix(bands: int) -> BandMatrix:
    """Return the matrix with that many bands; 1 gives the identity. Raises ValueError outside 1..1,024."""
    if not 1 <= bands <= MOST_BANDS:
        raise OutOfRange("bands", bands, f"must be from 1 to {MOST_BANDS:,}")
    weights = np.array([_weight(k) for k in range(1, bands)], dtype=np.int64)
    gain = quotient_up(_UNIT, _UNIT - int(weights.sum()))
    column, rest = _column(weights, gain)
    norm = sqrt(float(column @ column) + rest) * _MARGIN
    energies = np.concatenate([[0.0], np.cumsum(np.cumsum(column) ** 2)])
    for array in (weights, column, energies):
        array.setflags(write=False)
    return BandMatrix(bands, weights, column, norm, gain, energies, rest)


def _weight(k: int) -> int:
    """Return |r_k| 2^30 = C(2k, k)/((2k - 1) 4^k) 2^30, rounded."""
    doubled = (comb(2 * k, k) << (_BITS + 1)) // ((2 * k - 1) << (2 * k))
    return (doubled + 1) >> 1


def _column(weights: IntArray, gain: float) -> tuple[FloatArray, float]:
    """Return C's first column up to a negligible rest, and a bound on the sum of the rest's squares."""
    size = len(weights)
    backwards = weights[::-1] / _UNIT
    shares = np.cumsum(backwards)  # of c_{n-1-i} in S/gain: |r_{i+1}| + ... + |r_{w-1}|, the largest i first
    column = np.append(np.zeros(size), 1.0)  # w - 1 zeros before c_0
    while size:
        grown = np.concatenate([column, np.zeros(size)])
        for n in range(len(column), len(grown)):
            grown[n] = backwards @ grown[n - size : n]
        column = grown
        last = column[-size:]
        rest = float(last.max() * (shares @ last) * gain)
        if rest < _NEGLIGIBLE:
            return column[size:], rest
    return column, 0.0
