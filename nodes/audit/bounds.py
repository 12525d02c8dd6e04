"""What samples alone prove of a mechanism: lower bounds on epsilon and mu, and what it was made of.

An audit never proves that a mechanism is private: it shows, at a stated confidence, that it is not more
private than a bound. A bound above the claim refutes the claim.

A statistic is drawn on two neighbouring inputs. On the first half of each sample an event {statistic on one
side of a threshold} is chosen, on the second half its two probabilities are bounded, each at half of the
allowed error, so no correction for the choice is needed. Nor does the bound depend on how it is chosen: by
the bound that the first half would give at a far smaller error, as the best of hundreds at the same error is
often a rare event that happened by luck, of which the second half proves little.

A probability's bounds are those p for which n KL(k/n || p) = ln(1/error) (Chernoff 1952; Hoeffding 1963,
theorem 1): right for every n, a little wider than Clopper and Pearson's. With p below the probability on one
input and q above that on the other, epsilon >= ln((p - delta)/q); for Gaussian noise mu >= Phi^-1(p) -
Phi^-1(q) (Dong, Roth, Su 2022), as events of probability delta are too rare to be seen.
"""

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from nodes.values import BoolArray, FloatArray

_THRESHOLDS = 99
_STRICTER = 20_000
"""By this the error is divided where an event is chosen."""


def proportion_bounds(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return (low, high): each holds for the probability but for a chance of `error`."""
    seen, limit = successes / trials, math.log(1 / error) / trials

    def furthest(outside: float) -> float:
        inside = seen
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if _divergence(seen, middle) <= limit else (inside, middle)
        return outside

    return furthest(0.0), furthest(1.0)


def epsilon_lower_bound(
    first: FloatArray, second: FloatArray, confidence: float = 0.95, delta: float = 0.0
) -> float:
    """Return a lower bound on epsilon from a statistic's values (n,) on two neighbouring inputs, at least 0.

    Where the mechanism has (epsilon, delta), it is above epsilon with probability 1 - `confidence` at most.
    """
    return _lower_bound(
        first, second, confidence, lambda p, q: math.log((p - delta) / q) if p > delta else -math.inf
    )


def mu_lower_bound(first: FloatArray, second: FloatArray, confidence: float = 0.95) -> float:
    """Return a lower bound on a Gaussian mechanism's mu, sensitivity over noise; as `epsilon_lower_bound`."""
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
        ones, others = _happened(choosing, *event)
        return of_event(ones, others, error / _STRICTER) if ones.mean() > others.mean() else -math.inf

    choosing, judging = (first[::2], second[::2]), (first[1::2], second[1::2])
    pooled = np.concatenate(choosing)
    thresholds = np.unique(np.quantile(pooled, np.linspace(0.005, 0.995, _THRESHOLDS), method="nearest"))
    events = [(swap, sign, level) for swap in (0, 1) for sign in (1, -1) for level in thresholds.tolist()]
    best = max(events, key=promise)
    return max(0.0, of_event(*_happened(judging, *best), error))


def _happened(
    samples: tuple[FloatArray, FloatArray], swap: int, sign: int, level: float
) -> tuple[BoolArray, BoolArray]:
    """Return where the event happened on the input that it is likelier on by assumption, and on the other."""
    one, other = samples[swap], samples[1 - swap]
    return sign * one >= sign * level, sign * other >= sign * level


def _divergence(seen: float, p: float) -> float:
    """Return KL(seen || p) of two coins; infinite where p excludes what was seen."""
    total = 0.0
    for a, b in ((seen, p), (1 - seen, 1 - p)):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total
