import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nodes.losses.losses import Absolute, Hinge, Huber, Linear, Logistic, RangeLoss, Squared, scores
from nodes.values import Observations

LOSSES = pytest.mark.parametrize(
    "loss",
    [RangeLoss(), Hinge(), Logistic(), Squared(), Absolute(), Huber(0.7), Linear()],
    ids=lambda x: type(x).__name__,
)
FINITE = st.floats(-5, 5, allow_subnormal=False)


def records(features, labels, present=None):
    labels = np.asarray(labels, dtype=float)
    here = np.ones(labels.shape, bool) if present is None else np.asarray(present)
    return Observations(np.asarray(features, dtype=float), labels, here)


def plain(loss, x, a, y):
    """(value, gradient) of one record, from the formulas."""
    score = sum(p * q for p, q in zip(x, a, strict=True))
    match loss:
        case RangeLoss():
            norm = math.dist(x, a)
            slope = (norm - y) / norm if norm else 0.0
            return 0.5 * (norm - y) ** 2, [slope * (p - q) for p, q in zip(x, a, strict=True)]
        case Hinge():
            return max(0.0, 1.0 - y * score), [(-y * q if y * score < 1 else 0.0) for q in a]
        case Logistic():
            return math.log1p(math.exp(-y * score)), [-y * q / (1.0 + math.exp(y * score)) for q in a]
        case Absolute():
            return abs(score - y), [((score > y) - (score < y)) * q for q in a]
        case Huber(k=k):
            size = abs(score - y)
            slope = score - y if size <= k else math.copysign(k, score - y)
            return (0.5 * size**2 if size <= k else k * (size - k / 2)), [slope * q for q in a]
        case Linear():
            return score, a
        case _:
            return 0.5 * (score - y) ** 2, [(score - y) * q for q in a]


def test_by_hand():
    x = np.array([3.0, 4.0])
    far = records([[0.0, 0.0], [0.0, 0.0]], [2.0, 7.0])
    assert RangeLoss().value(x, far).tolist() == [4.5, 2.0]
    np.testing.assert_allclose(RangeLoss().gradients(x, far), [[1.8, 2.4], [-1.2, -1.6]], rtol=1e-15)
    pair = records([[1.0, 0.0], [0.0, 0.125], [0.0, 0.25]], [1.0, 1.0, 1.0])
    assert Hinge().value(x, pair).tolist() == [0.0, 0.5, 0.0]
    assert Hinge().gradients(x, pair).tolist() == [[0.0, 0.0], [0.0, -0.125], [0.0, 0.0]]
    assert Squared().value(x, pair).tolist() == [2.0, 0.125, 0.0]
    assert Squared().gradients(x, pair).tolist() == [[2.0, 0.0], [0.0, -0.0625], [0.0, 0.0]]
    even = records([[0.0, 0.0]], [-1.0])
    assert Logistic().value(x, even).tolist() == pytest.approx([math.log(2.0)])


def test_residuals_by_hand():
    x = np.array([3.0, 4.0])
    three = records([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [2.5, 7.0, 7.0])  # residuals 0.5, -3, 0
    assert Absolute().value(x, three).tolist() == [0.5, 3.0, 0.0]
    assert Absolute().gradients(x, three).tolist() == [[1.0, 0.0], [0.0, -1.0], [0.0, 0.0]]
    assert Huber(2.0).value(x, three).tolist() == [0.125, 4.0, 0.0]
    assert Huber(2.0).gradients(x, three).tolist() == [[0.5, 0.0], [0.0, -2.0], [0.0, 0.0]]
    assert Linear().value(x, three).tolist() == [3.0, 4.0, 7.0]
    assert Linear().gradients(x, three).tolist() == three.features.tolist()


@pytest.mark.parametrize("k", [0.5, 2.0])
def test_the_huber_loss_is_smooth_where_its_parts_meet(k):
    o = records([[1.0]] * 4, [k, -k, np.nextafter(k, 9), -np.nextafter(k, 9)])
    assert Huber(k).value(np.zeros(1), o) == pytest.approx([k * k / 2] * 4, rel=1e-15)
    assert Huber(k).gradients(np.zeros(1), o)[:, 0].tolist() == [-k, k, -k, k]


@pytest.mark.parametrize("k", [0.0, -1.0, math.inf, math.nan])
def test_a_huber_loss_needs_a_distance_above_0(k):
    with pytest.raises(ValueError, match=f"k is {k}: must be"):
        Huber(k)


@pytest.mark.parametrize("loss", [Absolute(), Huber(0.7), Linear()], ids=lambda x: type(x).__name__)
@given(data=st.data(), d=st.integers(1, 4))
@settings(max_examples=60)
def test_subgradients_support_the_loss_from_below(loss, data, d):
    """f(u) >= f(x) + <g, u - x> for every u, at kinks too: integers meet them."""
    whole = st.integers(-3, 3).map(float)
    x, u, a = (data.draw(arrays(float, (d,), elements=whole)) for _ in range(3))
    o = records([a], [data.draw(whole)])
    below = loss.value(x, o)[0] + (loss.gradients(x, o)[0] * (u - x)).sum()
    assert loss.value(u, o)[0] >= below - 1e-12


def test_the_range_loss_has_a_zero_gradient_at_the_sensor():
    at = records([[1.0, 2.0]], [0.7])
    assert RangeLoss().gradients(np.array([1.0, 2.0]), at).tolist() == [[0.0, 0.0]]
    assert RangeLoss().value(np.array([1.0, 2.0]), at).tolist() == pytest.approx([0.245])


@LOSSES
@given(data=st.data(), d=st.integers(1, 5), n=st.integers(1, 4))
@settings(max_examples=60)
def test_against_plain_loops(loss, data, d, n):
    x, a = data.draw(arrays(float, d, elements=FINITE)), data.draw(arrays(float, (n, d), elements=FINITE))
    if isinstance(loss, RangeLoss):
        y = data.draw(arrays(float, n, elements=st.floats(0, 5)))
    else:
        y = data.draw(arrays(float, n, elements=st.sampled_from([-1.0, 1.0])))
    values, gradients = loss.value(x, records(a, y)), loss.gradients(x, records(a, y))
    assert values.shape == (n,)
    assert gradients.shape == (n, d)
    for k in range(n):
        value, gradient = plain(loss, x.tolist(), a[k].tolist(), float(y[k]))
        assert values[k] == pytest.approx(value, rel=1e-12, abs=1e-12)
        near_kink = isinstance(loss, Hinge | Absolute) and abs(scores(x, a)[k] - y[k]) < 1e-12  # y is +-1
        tiny = isinstance(loss, RangeLoss) and np.abs(x - a[k]).max() < 1e-100  # squares underflow
        if not (near_kink or tiny):
            np.testing.assert_allclose(gradients[k], gradient, rtol=1e-12, atol=1e-12)


@LOSSES
def test_the_gradient_is_the_slope_of_the_value(loss):
    rng = np.random.default_rng(0)
    x, o = rng.normal(size=3), records(rng.normal(size=(20, 3)), np.sign(rng.normal(size=20)))
    step = 1e-6
    slopes = [(loss.value(x + step * e, o) - loss.value(x - step * e, o)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(loss.gradients(x, o), np.stack(slopes, axis=-1), atol=1e-8)


@LOSSES
def test_an_absent_record_has_value_and_gradient_zero(loss):
    o = records([[1.0, 2.0], [0.0, 0.0], [0.5, 0.0]], [1.0, 0.0, -1.0], [True, False, False])
    x = np.array([0.3, 0.2])
    assert loss.value(x, o)[1:].tolist() == [0.0, 0.0]
    assert loss.gradients(x, o)[1:].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert loss.gradients(x, o)[0].any()


@LOSSES
def test_an_empty_slot_has_no_gradients(loss):
    o = records(np.zeros((0, 2)), np.zeros(0))
    assert loss.gradients(np.array([0.3, 0.2]), o).shape == (0, 2)


@LOSSES
@pytest.mark.parametrize("d", [1, 2, 9, 55])
def test_rows_are_equal_bit_for_bit(loss, d):
    rng = np.random.default_rng(d)
    x, labels = rng.normal(size=(5, d)), np.sign(rng.normal(size=(5, 3)))
    o = records(rng.normal(size=(5, 3, d)), labels, rng.random((5, 3)) < 0.8)
    values, gradients = loss.value(x, o), loss.gradients(x, o)
    for i in range(5):
        one = records(o.features[i], o.labels[i], o.present[i])
        assert values[i].tobytes() == loss.value(x[i], one).tobytes()
        assert gradients[i].tobytes() == loss.gradients(x[i], one).tobytes()


def test_the_logistic_loss_at_huge_margins():
    o = records([[1.0], [1.0]], [1.0, -1.0])
    x = np.array([1e4])
    assert Logistic().value(x, o).tolist() == [0.0, 1e4]
    assert Logistic().gradients(x, o).tolist() == [[0.0], [1.0]]
