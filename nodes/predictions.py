"""What a decision says of records before their labels are known."""

import numpy as np

from nodes.losses import Loss, RangeLoss, scores
from nodes.values import FloatArray


def predicted(loss: Loss, decision: FloatArray, features: FloatArray) -> FloatArray:
    """Return what the decision (..., d) says of each record, features (..., n, d), shape (..., n).

    For the range loss the distance from the sensor; else the score <x, a>: its sign is the class where there
    are two.
    """
    if isinstance(loss, RangeLoss):
        offsets = decision[..., None, :] - features
        distances: FloatArray = np.sqrt(np.add.reduce(offsets * offsets, -1))
        return distances
    return scores(decision, features)
