"""How fast disagreement shrinks: the constants of the papers' lemmas, and one from measured windows.

Phi(t, s) = A(t - 1) ... A(s) tends to the matrix of 1/N. The papers bound each entry's distance from 1/N by
C lambda^(t - s), from the smallest weight alone, which says next to nothing for more than a few nodes.
"""

import math
from typing import NamedTuple


class Geometric(NamedTuple):
    """C and 1 - lambda of a bound C lambda^k on what is left after k rounds."""

    scale: float
    gap: float


def zhou_li_lemma_2(nodes: int, window: int, least_weight: float) -> Geometric:
    """Return C and 1 - lambda of Zhou, Li 2025, Lemma 2.

    `least_weight` a is below every positive weight, those on the diagonal too; the edges of any `window`
    rounds B connect all nodes. With x = a^((N - 1) B): C = 2 (1 + 1/x)/(1 - x) as in its source (Nedic,
    Ozdaglar 2009, Proposition 1). The paper prints 1 + x below, which is smaller and not what the source
    proves. One node has nothing to disagree on: C = 0.
    """
    if nodes == 1:
        return Geometric(0.0, 1.0)
    power = (nodes - 1) * window
    x = least_weight**power
    if x in {0.0, 1.0}:  # below the least float; or weights of 1, which the lemma does not allow
        return Geometric(math.inf, 0.0)
    return Geometric(2 * (1 + 1 / x) / (1 - x), -math.expm1(math.log1p(-x) / power))


def li_lemma_3(nodes: int, window: int, least_weight: float) -> Geometric:
    """Return theta and 1 - beta of Li et al. 2018, Lemma 3 (Ram, Nedic, Veeravalli 2010)."""
    share = least_weight / (4 * nodes**2)
    return Geometric((1 - share) ** -2, -math.expm1(math.log1p(-share) / window))


def left_in_all(window: int, rate: float) -> float:
    """Return sum over k >= 1 of the disagreement that is left after k rounds, of 1 at first.

    `rate` bounds what is left after any `window` rounds in a row, so after k rounds rate^floor(k/window) is.
    Infinite for a rate of 1.
    """
    return window / (1 - rate) - 1 if rate < 1 else math.inf
