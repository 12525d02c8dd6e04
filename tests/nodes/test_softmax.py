import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from experiments.harness.hindsight import best_fixed_decision
from nodes.geometry.constraints import L2Ball
from nodes.losses.losses import Logistic, Softmax
from nodes.regret import network_regret
from nodes.values import Observations

FINITE = st.floats(-5, 5, allow_subnormal=False)


def records(features, labels, present=None):
    labels = np.asarray(labels, dtype=float)
    here = np.ones(labels.shape, bool) if present is None else np.asarray(present)
    return Observations(np.asarray(features, dtype=float), labels, here)


def plain(x, a, y, classes):
    """(value, gradient) of one record, from the formulas."""
    rows = [x[c * len(a) : (c + 1) * len(a)] for c in range(classes)]
    powers = [math.exp(sum(p * q for p, q in zip(row, a, strict=True))) for row in rows]
    shares = [power / sum(powers) for power in powers]
    return -math.log(shares[y]), [(shares[c] - (c == y)) * q for c in range(classes) for q in a]


@given(data=st.data(), p=st.integers(1, 3), classes=st.integers(2, 4), n=st.integers(1, 4))
@settings(max_examples=60)
def test_against_plain_loops(data, p, classes, n):
    x = data.draw(arrays(float, classes * p, elements=FINITE))
    a = data.draw(arrays(float, (n, p), elements=FINITE))
    y = data.draw(st.lists(st.integers(0, classes - 1), min_size=n, max_size=n))
    values, gradients = Softmax(classes).value(x, records(a, y)), Softmax(classes).gradients(x, records(a, y))
    assert (values.shape, gradients.shape) == ((n,), (n, classes * p))
    for k in range(n):
        value, gradient = plain(x.tolist(), a[k].tolist(), y[k], classes)
        assert values[k] == pytest.approx(value, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(gradients[k], gradient, rtol=1e-9, atol=1e-12)


def test_two_classes_are_logistic_regression():
    rng = np.random.default_rng(0)
    a, x, y = rng.normal(size=(20, 3)), rng.normal(size=3), rng.integers(0, 2, 20)
    both = records(a, y)
    decision = np.concatenate([np.zeros(3), x])
    signed = records(a, 2 * y - 1)
    np.testing.assert_allclose(Softmax(2).value(decision, both), Logistic().value(x, signed), rtol=1e-12)
    slopes = Softmax(2).gradients(decision, both)[:, 3:]
    np.testing.assert_allclose(slopes, Logistic().gradients(x, signed), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("label", [-1.0, 3.0, 0.5, math.nan, math.inf, 1e300])
def test_a_label_outside_the_classes_says_nothing(label):
    o = records([[1.0, 2.0], [1.0, 2.0]], [label, 1.0])
    x = np.arange(6.0)
    assert Softmax(3).value(x, o)[0] == 0.0
    assert Softmax(3).gradients(x, o)[0].tolist() == [0.0] * 6
    assert Softmax(3).gradients(x, o)[1].any()


def test_an_absent_record_and_an_empty_slot():
    o = records([[1.0, 2.0]], [0.0], [False])
    assert Softmax(2).value(np.ones(4), o).tolist() == [0.0]
    assert Softmax(2).gradients(np.ones(4), o).tolist() == [[0.0] * 4]
    empty = records(np.zeros((0, 2)), np.zeros(0))
    assert Softmax(2).value(np.ones(4), empty).shape == (0,)
    assert Softmax(2).gradients(np.ones(4), empty).shape == (0, 4)


def test_huge_scores_do_not_overflow():
    o = records([[1.0], [1.0]], [0.0, 1.0])
    x = np.array([1e4, -1e4])
    assert Softmax(2).value(x, o).tolist() == [0.0, 2e4]
    assert Softmax(2).gradients(x, o).tolist() == [[0.0, 0.0], [1.0, -1.0]]


@pytest.mark.parametrize(("classes", "p"), [(2, 1), (3, 2), (7, 55)])
def test_rows_are_equal_bit_for_bit(classes, p):
    rng = np.random.default_rng(p)
    x, labels = rng.normal(size=(5, classes * p)), rng.integers(0, classes, (5, 3))
    o = records(rng.normal(size=(5, 3, p)), labels, rng.random((5, 3)) < 0.8)
    values, gradients = Softmax(classes).value(x, o), Softmax(classes).gradients(x, o)
    for i in range(5):
        one = records(o.features[i], o.labels[i], o.present[i])
        assert values[i].tobytes() == Softmax(classes).value(x[i], one).tobytes()
        assert gradients[i].tobytes() == Softmax(classes).gradients(x[i], one).tobytes()


def test_regret_and_hindsight_take_fewer_features_than_numbers_learnt():
    rng = np.random.default_rng(1)
    decisions = rng.normal(size=(4, 2, 6))
    o = records(rng.normal(size=(4, 2, 5, 2)), rng.integers(0, 3, (4, 2, 5)))
    regret = network_regret(Softmax(3), L2Ball(6, 2.0), decisions, o)
    total = np.zeros(6)
    linear = 0.0
    for t in range(4):
        for j in range(2):
            one = records(o.features[t, j], o.labels[t, j])
            gradient = Softmax(3).gradients(decisions[t, 0], one).sum(0) / 5
            linear, total = linear + gradient @ decisions[t, 0], total + gradient
    assert regret[-1, 0] == pytest.approx(linear + 2.0 * np.sqrt(total @ total))
    best = best_fixed_decision(Softmax(3), L2Ball(6, 2.0), o)
    assert best.gap <= 1e-6
    assert best.value < math.log(3)


def test_one_class_is_none():
    with pytest.raises(ValueError, match="classes is 1: must be at least 2"):
        Softmax(1)
