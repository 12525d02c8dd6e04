"""Predicts labels of records from a decision."""

import numpy as np

from nodes.losses.losses import Hinge, Logistic, Loss, RangeLoss, Softmax, Weighted, scores
from nodes.losses.own_loss import OwnLoss
from nodes.losses.residuals import OfAResidual, RobustRange
from nodes.sparse import Rows, dense
from nodes.values import BoolArray, FloatArray


def unweighted(loss: Loss) -> Loss:
    """Return the loss without the weights of its labels."""
    return loss.loss if isinstance(loss, Weighted) else loss


def predicted(loss: Loss, decision: FloatArray, features: Rows) -> FloatArray:
    """Return the decision's (..., d) predictions for features (..., n, p), shape (..., n).

    Softmax: the class of the largest score, the first of equals. Range: the distance ||s - x||; bearing and
    range-difference: the angle and the difference that a sensor at s would measure. An own loss: the answer
    of its `predict`, if it has one. Otherwise the score <x, a>, whose sign is the class for hinge
    and logistic. Raises ValueError for an own loss with p != d that has no `predict`.
    """
    loss = unweighted(loss)
    if isinstance(loss, Softmax):
        classes: FloatArray = np.argmax(loss.scores(decision, features), -1).astype(np.float64)
        return classes
    if isinstance(loss, RangeLoss):
        return RobustRange().expected(decision, features)
    if isinstance(loss, OfAResidual):
        return loss.expected(decision, features)
    own_predictions = loss.predict(decision, dense(features)) if isinstance(loss, OwnLoss) else None
    if own_predictions is not None:
        return own_predictions
    if features.shape[-1] != decision.shape[-1]:
        sizes = f"{features.shape[-1]} features at dimension {decision.shape[-1]}"
        raise ValueError(f"{sizes}: the own loss must have a `predict`")
    return scores(decision, features)


def right(loss: Loss, decision: FloatArray, features: Rows, labels: FloatArray) -> BoolArray | None:
    """Return which records (..., n, p) have the class that the decision (..., d) predicts, shape (..., n).

    None for a loss without classes. A score of 0 predicts -1.
    """
    loss = unweighted(loss)
    if isinstance(loss, Hinge | Logistic):
        signs: BoolArray = np.where(predicted(loss, decision, features) > 0.0, 1.0, -1.0) == labels
        return signs
    if isinstance(loss, Softmax):
        classes: BoolArray = predicted(loss, decision, features) == labels
        return classes
    return None
