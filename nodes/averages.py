"""The running average of a node's decisions, for stochastic optimisation.

w^_T = (1/T) (x_1 + ... + x_T) (Li et al. 2018, Theorems 9 and 10). Public, as decisions are; O(d) memory.
"""

from typing import NamedTuple

import numpy as np

from nodes.values import Decision, FloatArray


class Average(NamedTuple):
    """The mean of `rounds` >= 1 decisions of one journal life, shape (d,), read-only."""

    rounds: int
    mean: FloatArray


def averaged(before: Average | None, decision: Decision) -> Average:
    """Return the average with one more decision (d,), in the order of the rounds; `before` is None at first.

    The mean moves by (x - mean)/T (Welford 1962), as a sum would grow without end.
    """
    if before is None:
        rounds, mean = 1, np.array(decision)
    else:
        rounds = before.rounds + 1
        mean = before.mean + (decision - before.mean) / rounds
    mean.flags.writeable = False
    return Average(rounds, mean)
