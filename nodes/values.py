"""The values of one node, in the field's terms (notation: docs/reference/notation.md).

`Release`, `Consensus` and `Decision` are public: functions of releases, plans and settings. Values that
depend on data are wrapped in `nodes.privacy.private.Private`; only `nodes/privacy/` turns them into releases.
"""

from typing import NamedTuple, NewType

import numpy as np
from numpy.typing import NDArray

from nodes.sparse import Rows

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
WordArray = NDArray[np.uint64]

Release = NewType("Release", FloatArray)
"""q_t, shape (d,): the value that a node publishes for round t."""
Consensus = NewType("Consensus", FloatArray)
"""z_t, shape (d,): the weighted average of releases, own included."""
Decision = NewType("Decision", FloatArray)
"""x_t = decide(z_t), shape (d,): the point that a node acts on, and is scored on, in round t."""


class Observations(NamedTuple):
    """The n <= batch_size records of a slot: `features` (..., n, d), `labels` (..., n), `present` (..., n).

    A record that could not be decoded keeps its place, with `present` false and zeros: its gradient is zero.
    Features may be sparse rows (n, d).
    """

    features: Rows
    labels: FloatArray
    present: BoolArray


class Average(NamedTuple):
    """The mean of `rounds` >= 1 decisions of one journal life, shape (d,), read-only.

    w^_T = (1/T) (x_1 + ... + x_T) (Li et al. 2018, Theorems 9 and 10). Public, as decisions are; O(d) memory.
    """

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
