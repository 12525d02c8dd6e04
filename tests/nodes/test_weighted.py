import numpy as np
import pytest

from nodes.losses.losses import Hinge, Logistic, Softmax, Weighted
from nodes.values import Observations

SIGNED = Weighted(Logistic(), np.array([-1.0, 1.0]), np.array([0.5, 20.0]))


@pytest.mark.parametrize(
    "weighted",
    [SIGNED, Weighted(Softmax(3), np.arange(3.0), np.array([1.0, 2.0, 0.25]))],
    ids=["logistic", "softmax"],
)
def test_a_record_counts_as_much_as_its_label(weighted):
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(4, 6, 2)), rng.choice(weighted.labels, (4, 6))
    o = Observations(features, labels, rng.random((4, 6)) < 0.8)
    x = rng.normal(size=(4, 6 if isinstance(weighted.loss, Softmax) else 2))
    values, gradients = weighted.value(x, o), weighted.gradients(x, o)
    weights = dict(zip(weighted.labels.tolist(), weighted.weights.tolist(), strict=True))
    for i, k in np.ndindex(4, 6):
        weight = weights[labels[i, k]]
        assert values[i, k] == weight * weighted.loss.value(x, o)[i, k]
        assert (gradients[i, k] == weight * weighted.loss.gradients(x, o)[i, k]).all()
    assert len(set(labels[o.present].tolist())) == len(weights)  # else not every weight was seen at work


def test_a_label_without_a_weight_counts_nothing():
    o = Observations(np.ones((1, 2)), np.array([0.5]), np.array([True]))
    assert SIGNED.value(np.ones(2), o).tolist() == [0.0]
    assert SIGNED.gradients(np.ones(2), o).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, np.inf]], ids=str)
def test_weights_that_are_none(weights):
    with pytest.raises(ValueError, match="weights"):
        Weighted(Hinge(), np.array([-1.0, 1.0]), np.array(weights))
