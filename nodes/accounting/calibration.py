r"""The scale of discrete Gaussian noise for an (epsilon, delta), with the cost of discretisation.

Continuous noise N(0, sigma^2) on a sensitivity of Delta in L2 is (epsilon, delta) exactly for delta >=
G(epsilon, mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), mu = Delta/sigma (Balle, Wang
2018, theorem 8). The noise that is drawn is discrete, P(k) = e^(-k^2/2 sigma^2)/Z on d integers, and its
delta is at most

    e^(d/24 sigma^2) G(epsilon - sqrt(d) Delta/(2 sigma^2), Delta/sigma).

Proof. Let v be the integer vector by which neighbours differ, ||v||_2 <= Delta, f(k) = P(k_1)...P(k_d).
(1) Z is the same for both, as v is integer, so the privacy loss at k is L(k) = (||v||^2 - 2 <k, v>)/2 sigma^2
as in the continuous case (Canonne, Kamath, Steinke 2020, theorem 7), and delta = E_f (1 - e^(epsilon - L))^+.
(2) Z >= sqrt(2 pi) sigma (Poisson summation), so f is at most the normal density, phi. (3) The normal
probability of the unit cube around k is phi(k) times a product of int e^(-u^2/2s^2) cosh(k_i u/s^2) du over
|u| <= 1/2, each at least e^(-1/24 s^2): cosh >= 1, and Jensen with E u^2 = 1/12. So f(k) <= e^(d/24 sigma^2)
P(round(X) = k), X normal. (4) L is affine: |L(round(X)) - L(X)| <= ||v||_1/(2 sigma^2) <= sqrt(d) Delta/(2
sigma^2), and (1 - e^(epsilon - L))^+ grows with L. The four together give the bound. With Delta = 2^31 it
moves epsilon by about 1e-11.

All formulas are evaluated in doubles, with a margin far above their rounding errors.
"""

import math
from fractions import Fraction

from nodes.checks import OutOfRange, rounded_up

LEAST_DELTA = 1e-300

_MARGIN = 2.0**-38
_FAR = 5.0


def delta_in_range(delta: float) -> None:
    """Raise OutOfRange unless 1e-300 <= delta < 1: floats lose digits below."""
    if not LEAST_DELTA <= delta < 1.0:
        raise OutOfRange("delta", delta, f"must be at least {LEAST_DELTA:g} and below 1")


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return G(epsilon, mu), rounded up: the delta of continuous Gaussian noise; mu above 0."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    tail = math.erfc(near / math.sqrt(2)) / 2
    # e^epsilon Phi(-far) = density(near) Phi(-far)/density(far), without the overflow
    return tail * (1 + _MARGIN) - _density(near) * _mills(far)


def discrete_delta(epsilon: float, sensitivity: float, scale: float, coordinates: int) -> float:
    """Return a delta that holds for discrete Gaussian noise of that scale on `coordinates` integers.

    `sensitivity`, in L2, and `scale` are in integer steps. The module has the proof.
    """
    if says_nothing(scale, coordinates):
        return 1.0
    shift = math.sqrt(coordinates) * sensitivity / (2 * scale * scale)
    spread = math.exp(coordinates / (24 * scale * scale))
    return spread * gaussian_delta(epsilon - shift, sensitivity / scale)


def says_nothing(scale: float, coordinates: int) -> bool:
    """Return whether discretisation costs so much that the bound is useless, and would overflow."""
    return coordinates > 1000 * scale * scale


def analytic_scale(
    epsilon: Fraction, delta: float, sensitivity: int, coordinates: int, largest: float
) -> float:
    """Return, with a relative accuracy of 1e-12, the least scale whose `discrete_delta` is at most `delta`.

    Raises OutOfRange if it is more than `largest`, or less than one step.
    """
    claimed = -rounded_up(-epsilon)  # rounded down

    def enough(scale: float) -> bool:
        return discrete_delta(claimed, sensitivity, scale, coordinates) <= delta

    low, high = 1.0, largest
    if not enough(high):
        raise _too_small(epsilon, delta)
    if enough(low):
        little = f"with delta {delta!r} so little noise falls below the grid: must be smaller"
        raise OutOfRange("epsilon", epsilon, little)
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def classic_scale(
    epsilon: Fraction, delta: float, sensitivity: int, coordinates: int, largest: float
) -> float:
    """Return sqrt(2 ln(2/delta)) * sensitivity/epsilon, which holds for epsilon <= 1 (Dwork, Roth 2014, A.1).

    For comparison with papers that use it. Raises OutOfRange above epsilon 1, where it does not hold, if the
    scale is more than `largest`, or if discretisation costs more than its slack.
    """
    if epsilon > 1:
        raise OutOfRange("epsilon", epsilon, "must be at most 1 with calibration classic; analytic takes any")
    claimed = -rounded_up(-epsilon)
    scale = math.sqrt(2 * math.log(2 / delta)) * sensitivity / claimed * (1 + 1e-12)
    if scale > largest or discrete_delta(claimed, sensitivity, scale, coordinates) > delta:
        raise _too_small(epsilon, delta)
    return scale


def _too_small(epsilon: Fraction, delta: float) -> OutOfRange:
    return OutOfRange(
        "epsilon", epsilon, f"with delta {delta!r} so much noise leaves 64 bits: must be larger"
    )


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon >= 0, to a relative 1e-12, for which G(epsilon, mu) <= delta."""
    low, high = 0.0, 1.0
    if gaussian_delta(low, mu) <= delta:
        return low
    while gaussian_delta(high, mu) > delta:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_delta(middle, mu) <= delta else (middle, high)
    return high


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _mills(x: float) -> float:
    """Return Phi(-x)/density(x): Laplace's continued fraction far out, where both underflow."""
    if x < _FAR:
        return math.erfc(x / math.sqrt(2)) / 2 / _density(x)
    fraction = x
    for k in range(100, 0, -1):
        fraction = x + k / fraction
    return 1 / fraction
