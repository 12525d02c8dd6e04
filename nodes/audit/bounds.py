"""Lower bounds on a mechanism's epsilon and mu, from samples alone.

An audit never proves that a mechanism is private. It shows, at a stated confidence, that the mechanism is not
more private than a bound. A bound above the claim refutes the claim.

A statistic is drawn on two neighbouring inputs. The first half of each sample chooses an event {statistic on
one side of a threshold}. The second half bounds its two probabilities, each at half of the allowed error, so
the choice needs no correction, and the bound holds however it is made. The event chosen is the one that gives
the best bound on the first half at a far smaller error: the best of hundreds at the same error is often a
rare event that happened by luck, and the second half proves little from it.

A probability's bounds are those p for which n KL(k/n || p) = ln(1/error) (Chernoff 1952; Hoeffding 1963,
theorem 1): right for every n, a little wider than Clopper and Pearson's. With p below the probability on one
input and q above that on the other, epsilon >= ln((p - delta)/q). For Gaussian noise mu >= Phi^-1(p) -
Phi^-1(q) (Dong, Roth, Su 2022), as events of probability delta are too rare to be seen.
"""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from nodes.values import BoolArray, FloatArray

_THRESHOLDS = 99
_STRICTER = 20_000
"""Divisor of the error when an event is chosen."""


def proportion_bounds(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return (low, high): each bounds the probability, except with a chance of `error`."""
    rate, limit = successes / trials, math.log(1 / error) / trials

    def furthest(outside: float) -> float:
        inside = rate
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if _divergence(rate, middle) <= limit else (inside, middle)
        return outside

    return furthest(0.0), furthest(1.0)


def epsilon_lower_bound(
    first: FloatArray, second: FloatArray, confidence: float = 0.95, delta: float = 0.0
) -> float:
    """Return a lower bound on epsilon, at least 0, from a statistic's values (n,) on two neighbouring inputs.

    If the mechanism has (epsilon, delta), P(bound > epsilon) <= 1 - `confidence`.
    """
    return _lower_bound(
        first, second, confidence, lambda p, q: math.log((p - delta) / q) if p > delta else -math.inf
    )


def mu_lower_bound(first: FloatArray, second: FloatArray, confidence: float = 0.95) -> float:
    """Return a lower bound on a Gaussian mechanism's mu, sensitivity over scale; as `epsilon_lower_bound`."""
    quantile = NormalDist().inv_cdf
    return _lower_bound(
        first, second, confidence, lambda p, q: quantile(p) - quantile(q) if p > 0 else -math.inf
    )


def _lower_bound(
    first: FloatArray, second: FloatArray, confidence: float, bound: Callable[[float, float], float]
) -> float:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence!r}: must be above 0 and below 1")
    if min(first.size, second.size) < 2:
        raise ValueError("an audit needs at least two draws on each input")
    error = (1 - confidence) / 2

    def of_event(ones: BoolArray, others: BoolArray, error: float) -> float:
        low, _ = proportion_bounds(int(ones.sum()), ones.size, error)
        _, high = proportion_bounds(int(others.sum()), others.size, error)
        return bound(low, high) if high < 1.0 else -math.inf

    def promise(event: tuple[int, int, float]) -> float:
        ones, zeros = _happened(choosing, *event)
        return of_event(ones, zeros, error / _STRICTER) if ones.mean() > zeros.mean() else -math.inf

    choosing, judging = (first[::2], second[::2]), (first[1::2], second[1::2])
    pooled = np.concatenate(choosing)
    thresholds = np.unique(np.quantile(pooled, np.linspace(0.005, 0.995, _THRESHOLDS), method="nearest"))
    events = [(swap, sign, level) for swap in (0, 1) for sign in (1, -1) for level in thresholds.tolist()]
    best = max(events, key=promise)
    return max(0.0, of_event(*_happened(judging, *best), error))


def _happened(
    samples: tuple[FloatArray, FloatArray], swap: int, sign: int, level: float
) -> tuple[BoolArray, BoolArray]:
    """Return where the event happened on the input where it is assumed likelier, and on the other one."""
    sample, neighbour = samples[swap], samples[1 - swap]
    return sign * sample >= sign * level, sign * neighbour >= sign * level


def _divergence(seen: float, p: float) -> float:
    """Return KL(seen || p) of two coins; infinite if p excludes what was seen."""
    total = 0.0
    for a, b in ((seen, p), (1 - seen, 1 - p)):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total
