"""The cost of T releases together: the smallest epsilon for which they are (epsilon, delta)-private.

Each function returns an upper bound, tight up to rounding (0.5 % for `laplace`, whose losses are rounded up
to a grid), and monotone in T up to that.

| releases | compose as | source |
|---|---|---|
| Laplace noise on integers | the scalar Laplace mechanism | below; sum by dp-accounting's privacy losses |
| pure mechanisms | randomised response, the worst of them | Kairouz, Oh, Viswanath 2015, theorem 3.3 |
| Gaussian noise on integers | Gaussian noise, mu sqrt(T) | Balle, Wang 2018; Dong, Roth, Su 2022 |

Why the continuous scalar Laplace pair bounds noise on d integers. Let delta(x) be the hockey-stick divergence
at e^x. On one coordinate, distance k, scale S, the discrete pair has delta(x) = 1 - e^(-j/S) at
x = (k - 2j)/S, as the continuous pair has. Between these points it is linear in e^x, and the continuous pair
at the distance k + 1/(4S) is above it (as 1/cosh(1/(2S)) >= e^(-1/(8S^2))). On d coordinates go from one
input to the other one coordinate at a time: the trade-off functions of log-concave noise compose as distances
add up (Dong, Roth, Su 2022, section 2.5), so the pair at the L1 distance bounds them all. With S >= 2^30/30
and d <= 2^24, d/(4S) is less than 1e-9 of the distance; `laplace` takes an epsilon larger by that much.
"""

import math
from typing import Any

import numpy as np

from nodes.accounting.calibration import discrete_delta, says_nothing
from nodes.values import FloatArray

_POINTS = 2000  # the grid's step is epsilon sqrt(T)/2000
_UP = 1 + 1e-9
_ADDS_UP = 30.0  # above it the loss of a release is nearly always epsilon: the sum is as good


def checked_delta(delta: float) -> float:
    """Return `delta`. Raises ValueError unless 1e-12 <= delta < 1; below that rounding would show."""
    if not 1e-12 <= delta < 1:
        raise ValueError(f"delta is {delta!r}: must be at least 1e-12 and below 1")
    return delta


def laplace(epsilon: float, releases: int, delta: float) -> float:
    """Return the epsilon of `releases` Laplace mechanisms. Raises ValueError without dp-accounting."""
    basic = releases * epsilon * _UP
    if epsilon > _ADDS_UP or releases < 2:
        return basic
    interval = epsilon * math.sqrt(releases) / _POINTS
    scale = 1 / (epsilon * _UP)
    single = _distributions().from_laplace_mechanism(scale, value_discretization_interval=interval)
    return min(basic, float(single.self_compose(releases).get_epsilon_for_delta(delta)) * _UP)


def _distributions() -> Any:
    try:
        from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415 # an extra: 150 MB, 0.8 s
    except ImportError:
        raise ValueError(
            "a budget with a delta needs dp-accounting, which is not installed: "
            "pip install 'mirrormesh[accounting]', or give the budget as a plain number, which sums epsilons"
        ) from None
    return privacy_loss_distribution


def pure(epsilon: float, releases: int, delta: float) -> float:
    """Return the epsilon of any `releases` pure mechanisms of that epsilon.

    p = e^epsilon/(1 + e^epsilon), q = 1 - p. The loss is (T - 2l) epsilon with probability
    C(T, l) p^(T-l) q^l, and delta(x) is the sum of C(T, l) (p^(T-l) q^l - e^x q^(T-l) p^l) over the losses
    above x. It is solved for x in the piece between two losses where it equals delta.
    """
    basic = releases * epsilon * _UP
    if epsilon > _ADDS_UP or releases < 2:
        return basic
    log_p = -math.log1p(math.exp(-epsilon))
    losing: FloatArray = np.arange((releases + 1) // 2, dtype=np.float64)
    ways = np.concatenate([[0.0], np.cumsum(np.log((releases - losing[:-1]) / (losing[:-1] + 1)))])
    likely = np.logaddexp.accumulate(ways + releases * log_p - losing * epsilon)
    unlikely = np.logaddexp.accumulate(ways + releases * (log_p - epsilon) + losing * epsilon)
    ends = (releases - 2 * (losing + 1)) * epsilon  # the lower end of each piece
    with np.errstate(under="ignore"):
        deltas = np.exp(likely) - np.exp(unlikely + np.maximum(ends, 0.0))
    piece = min(int(np.searchsorted(np.maximum.accumulate(deltas), delta)), len(losing) - 1)
    rest = math.exp(likely[piece]) - delta
    if rest <= 0:
        return max(0.0, float(ends[piece])) * _UP
    return min(max(0.0, math.log(rest) - float(unlikely[piece])) * (1 + 1e-7), basic)


def gaussian(sensitivity: int, scale: float, coordinates: int, releases: int, delta: float) -> float:
    """Return the epsilon of `releases` discrete Gaussian mechanisms, by bisection.

    `sensitivity`, in L2, and `scale` are in integer steps. All releases together are one with sqrt(T) times
    the sensitivity on T times the coordinates. The proof in `nodes.accounting.calibration` holds unchanged:
    its sums run over rounds too, and the pair at mu sqrt(T) bounds releases that depend on earlier rounds.
    """
    if not releases:
        return 0.0
    return gaussian_pair(sensitivity * math.sqrt(releases), scale, coordinates * releases, delta)


def gaussian_pair(sensitivity: float, scale: float, coordinates: int, delta: float) -> float:
    """Return the epsilon at delta of discrete Gaussian noise on that many coordinates, by bisection.

    Infinite if the noise is too small for the bound to say anything.
    """
    if says_nothing(scale, coordinates):
        return math.inf

    def excess(epsilon: float) -> float:
        return discrete_delta(epsilon, sensitivity, scale, coordinates)

    low, high = 0.0, 1.0
    if excess(low) <= delta:
        return low
    while excess(high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= delta else (middle, high)
    return high
