import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.losses.losses import Clipped, Hinge, Logistic, Softmax, Weighted
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


LENGTHS = {"l1": lambda row: np.abs(row).sum(), "l2": lambda row: np.sqrt((row * row).sum())}
ROWS = st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=6)


@pytest.mark.parametrize("norm", LENGTHS)
@given(rows=ROWS, weights=st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), bound=st.floats(1e-3, 1e3))
def test_a_weight_within_the_clip_is_a_share_of_the_bound(norm, rows, weights, bound):
    """A gradient is never longer than the bound times its label's share, and that long if it was clipped."""
    features, shares = np.array(rows), np.array(weights) / max(weights)
    labels = np.where(np.arange(len(rows)) % 2 == 0, -1.0, 1.0)
    o = Observations(features, labels, np.ones(len(rows), bool))
    weighted = Weighted(Clipped(Hinge(), bound, norm), np.array([-1.0, 1.0]), shares)
    plain, x = Hinge(), np.zeros(3)
    for row, longest, label in zip(weighted.gradients(x, o), plain.gradients(x, o), labels, strict=True):
        length, share = LENGTHS[norm](longest), shares[int(label > 0)]
        assert LENGTHS[norm](row) == pytest.approx(share * min(length, bound), rel=1e-9, abs=1e-12)
        assert LENGTHS[norm](row) <= bound * (1 + 1e-12)
    assert (weighted.value(x, o) == shares[(labels > 0).astype(int)] * plain.value(x, o)).all()
