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
