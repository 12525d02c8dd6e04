"""`check_loss` finds nothing in a sound loss, and each planted fault."""

import itertools

import numpy as np
import pytest

from nodes.losses.check_loss import check_loss
from nodes.losses.losses import Hinge, Logistic, RangeLoss, Softmax, Squared, Weighted
from nodes.losses.own_loss import OwnLoss

SIGNS, CLASSES = (-1.0, 1.0), (0.0, 1.0, 2.0)
SOUND = {
    "range": (RangeLoss(), 3, None, None),
    "hinge": (Hinge(), 3, None, SIGNS),
    "logistic": (Logistic(), 70, None, SIGNS),
    "squared": (Squared(), 1, None, None),
    "softmax": (Softmax(3), 6, 2, CLASSES),
    "weighted": (Weighted(Hinge(), np.array(SIGNS), np.array([1.0, 20.0])), 4, None, SIGNS),
    "own": (OwnLoss(Softmax(3)), 6, 2, CLASSES),
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_found_in_a_sound_loss(name, seed):
    loss, dimension, width, labels = SOUND[name]
    assert check_loss(loss, dimension, width, labels=labels, seed=seed) == []


class Faulty:
    """A squared loss with a fault in its gradients, or its values."""

    def __init__(self, value=None, gradients=None):
        self._value, self._gradients = value, gradients

    def value(self, decision, observations):
        found = Squared().value(decision, observations)
        return self._value(found, decision, observations) if self._value else found

    def gradients(self, decision, observations):
        found = Squared().gradients(decision, observations)
        return self._gradients(found, decision, observations) if self._gradients else found


def _raise(*_):
    raise KeyError("no label")


def _changed(found, decision, observations):
    decision += 1.0
    return found


def _unsteady():
    answers = itertools.count()
    return lambda found, x, o: found * (1.0 + 1e-15 * next(answers))


def nan_at_zero(found, decision, observations):
    return found * (np.abs(decision).sum() / np.abs(decision).sum())


FAULTS = {
    "a wrong factor": ({"gradients": lambda g, x, o: 1.01 * g}, "the gradient's coordinate"),
    "a wrong sign": ({"gradients": lambda g, x, o: -g}, "slopes to the left and to the right are"),
    "one wrong coordinate": (
        {"gradients": lambda g, x, o: g * np.array([1, 1, 1.001])},
        "the gradient's coordinate 2",
    ),
    "NaN": ({"gradients": lambda g, x, o: g * np.nan}, "gradients is not finite at a random decision"),
    "NaN at 0": ({"gradients": nan_at_zero}, "gradients is not finite at a decision of zeros"),
    "infinity": ({"value": lambda f, x, o: f + np.inf}, "value is not finite"),
    "a sum": ({"value": lambda f, x, o: f.sum(-1)}, "value gives a float64: must be a numpy array"),
    "transposed": (
        {"gradients": lambda g, x, o: np.swapaxes(g, -1, -2)},
        "gradients gives the shape (3, 0) for 0 records: must be (0, 3)",
    ),
    "no leading axes": (
        {"value": lambda f, x, o: f.reshape(-1)},
        "value gives the shape (2,) for 1 records and two decisions: must be (2, 1)",
    ),
    "a list": ({"gradients": lambda g, x, o: g.tolist()}, "gradients gives a list: must be a numpy array"),
    "complex": ({"value": lambda f, x, o: f * 1j}, "value gives the dtype complex128: must be float64"),
    "raises": ({"gradients": _raise}, "gradients raised KeyError for 0 records: 'no label'"),
    "mixes records": (
        {"gradients": lambda g, x, o: g.mean(-2, keepdims=True) + 0 * g},
        "gradients of a record depends on the records beside it",
    ),
    "absent records": ({"value": lambda f, x, o: f + 1.0}, "value of an absent record is not 0"),
    "changes arguments": ({"gradients": _changed}, "gradients changes its arguments"),
    "unsteady": ({"gradients": _unsteady()}, "gradients gives another answer when called again"),
}


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_said(name):
    fault, words = FAULTS[name]
    found = check_loss(Faulty(**fault), 3)
    assert any(words in line for line in found), found
    assert all("\n" not in line for line in found)


def test_the_clip_is_looked_at_in_its_own_norm():
    for norm in ("l1", "l2", "linf"):
        assert check_loss(Squared(), 3, gradient_bound=1e-3, norm=norm) == []
