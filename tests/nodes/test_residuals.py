"""Losses of a residual: gradients against finite differences, what is at a sensor's own place, and bits."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nodes.bounds import convex, curvature, smooth_apart
from nodes.losses.check_loss import check_loss
from nodes.losses.evaluation import predicted
from nodes.losses.losses import PLAIN, Bearing, RangeDifference, RangeLoss, RobustRange
from nodes.values import Observations

REFERENCE = np.array([0.3, -0.2])
KINDS = {
    "range, huber": RobustRange(0.3),
    "bearing": Bearing(),
    "bearing, huber": Bearing(0.2),
    "difference": RangeDifference(reference=REFERENCE),
    "difference, huber": RangeDifference(0.1, reference=REFERENCE),
}
LOSSES = pytest.mark.parametrize("loss", KINDS.values(), ids=KINDS)
PLACE = st.tuples(st.floats(-3, 3), st.floats(-3, 3))
STEP = 2.0**-20


def record(place, label, present=True):
    return Observations(np.array([place]), np.array([label]), np.array([present]))


def quotients(loss, x, o):
    """Slopes to both sides of each coordinate, (2, d)."""
    at = loss.value(x, o)[0]
    moves = STEP * np.eye(len(x))
    left = [(at - loss.value(x - move, o)[0]) / STEP for move in moves]
    return np.array([left, [(loss.value(x + move, o)[0] - at) / STEP for move in moves]])


@LOSSES
@given(x=PLACE, place=PLACE, label=st.floats(-7, 7))
@settings(max_examples=300)
def test_the_gradient_is_the_slope_of_the_value(loss, x, place, label):
    x, o = np.array(x), record(place, label)
    assume(min(math.dist(x, place), math.dist(x, REFERENCE)) > 0.05)  # slopes turn fast near a sensor
    sides, found = np.sort(quotients(loss, x, o), axis=0), loss.gradients(x, o)[0]
    slack = 1e-3 * (1 + np.abs(sides).max())
    assert (sides[0] - slack <= found).all()  # the sides differ at a kink alone: a bearing right behind
    assert (found <= sides[1] + slack).all()


@LOSSES
@pytest.mark.parametrize("seed", range(3))
def test_check_loss_finds_nothing(loss, seed):
    assert check_loss(loss, 2, seed=seed) == []


@LOSSES
@given(place=PLACE, label=st.floats(-1e6, 1e6))
@settings(max_examples=50)
def test_at_a_sensor_s_own_place_all_is_finite(loss, place, label):
    x = np.array(place)
    assert np.isfinite(loss.value(x, record(place, label))).all()
    assert np.isfinite(loss.gradients(x, record(place, label))).all()
    if not isinstance(loss, RangeDifference):
        assert not loss.gradients(x, record(place, label)).any()


def test_a_bearing_from_the_target_s_own_place_says_nothing():
    assert Bearing().value(np.array([1.0, 2.0]), record([1.0, 2.0], 3.0)).tolist() == [0.0]


def test_the_difference_still_pulls_the_other_way_at_one_of_its_two_places():
    found = RangeDifference(reference=np.zeros(2)).gradients(np.array([3.0, 4.0]), record([3.0, 4.0], -4.0))
    np.testing.assert_allclose(found, [[0.6, 0.8]], rtol=1e-15)  # -(0 - 5 + 4) times (0.6, 0.8)
    found = RangeDifference(reference=np.zeros(2)).gradients(np.zeros(2), record([3.0, 4.0], 4.0))
    np.testing.assert_allclose(found, [[-0.6, -0.8]], rtol=1e-15)


@pytest.mark.parametrize("tiny", [1e-160, 1e-170, 1e-200, 5e-324])
@LOSSES
def test_a_hair_s_breadth_from_a_sensor_all_is_finite(loss, tiny):
    for x in ([tiny, 0.0], [0.0, -tiny], [tiny, tiny]):
        assert np.isfinite(loss.gradients(np.array(x), record([0.0, 0.0], 1.0))).all()


def test_bearings_by_hand():
    ahead = record([1.0, 1.0], math.pi / 2)
    assert Bearing().value(np.array([1.0, 3.0]), ahead).tolist() == [0.0]
    aside = Bearing().gradients(np.array([3.0, 1.0]), ahead)  # at angle 0: -pi/2 off; across is (0, 1/2)
    np.testing.assert_allclose(aside, [[0.0, -math.pi / 4]], atol=1e-15)
    assert Bearing().value(np.array([3.0, 1.0]), ahead) == pytest.approx([math.pi**2 / 8])
    behind = Bearing().value(np.array([1.0, -5.0]), ahead)
    assert behind == pytest.approx([math.pi**2 / 2])


@given(angle=st.floats(-3, 3), turns=st.integers(-50, 50), off=st.floats(-3, 3))
@settings(max_examples=100)
def test_an_angle_counts_the_shorter_way_round_whatever_turns_it_has(angle, turns, off):
    x = np.array([math.cos(angle), math.sin(angle)])
    found = Bearing().value(x, record([0.0, 0.0], angle - off + 2 * math.pi * turns))
    assert found == pytest.approx([off * off / 2], abs=1e-9)


def test_a_bearing_is_in_the_plane():
    with pytest.raises(ValueError, match="must be 2 dimensions, not 3"):
        Bearing().value(np.zeros(3), record([1.0, 0.0, 0.0], 1.0))


@given(x=PLACE, place=PLACE, label=st.floats(0, 5))
@settings(max_examples=100)
def test_a_robust_range_is_the_range_loss_up_to_k(x, place, label):
    x, o = np.array(x), record(place, label)
    plain = RobustRange(PLAIN)
    np.testing.assert_allclose(plain.value(x, o), RangeLoss().value(x, o), atol=1e-12)
    np.testing.assert_allclose(plain.gradients(x, o), RangeLoss().gradients(x, o), atol=1e-12)


def test_a_wrong_measurement_pulls_no_harder_than_k():
    x, echo = np.array([1.0, 0.0]), record([0.0, 0.0], 100.0)
    assert RobustRange(0.25).gradients(x, echo).tolist() == [[-0.25, 0.0]]
    assert RobustRange(0.25).value(x, echo).tolist() == [0.25 * (99.0 - 0.125)]
    lengths = [
        np.linalg.norm(loss.gradients(x, echo)) for loss in (RangeLoss(), RangeDifference(0.25, reference=-x))
    ]
    assert lengths[0] == pytest.approx(99.0)
    assert lengths[1] <= 2 * 0.25


@pytest.mark.parametrize("k", [0.0, -1.0, math.nan])
@pytest.mark.parametrize("kind", [RobustRange, Bearing, lambda k: RangeDifference(k, reference=REFERENCE)])
def test_k_is_above_0(kind, k):
    with pytest.raises(ValueError, match=r"k is .*: must be above 0"):
        kind(k)


@LOSSES
def test_absent_records_and_empty_slots(loss):
    o = Observations(np.zeros((3, 2)), np.array([0.5, 0.0, 0.0]), np.array([True, False, False]))
    x = np.array([0.4, 0.7])
    assert loss.value(x, o)[1:].tolist() == [0.0, 0.0]
    assert not loss.gradients(x, o)[1:].any()
    assert loss.gradients(x, o)[0].any()
    empty = Observations(np.zeros((0, 2)), np.zeros(0), np.zeros(0, bool))
    assert loss.gradients(x, empty).shape == (0, 2)


@LOSSES
def test_rows_are_equal_bit_for_bit(loss):
    rng = np.random.default_rng(3)
    x, features, labels = rng.normal(size=(7, 2)), rng.normal(size=(7, 3, 2)), rng.normal(size=(7, 3))
    o = Observations(features, labels, rng.random((7, 3)) < 0.8)
    values, gradients = loss.value(x, o), loss.gradients(x, o)
    for i in range(7):
        one = Observations(o.features[i], o.labels[i], o.present[i])
        assert values[i].tobytes() == loss.value(x[i], one).tobytes()
        assert gradients[i].tobytes() == loss.gradients(x[i], one).tobytes()


def test_predictions_are_what_a_sensor_would_measure():
    x, places = np.array([3.0, 4.0]), np.array([[0.0, 0.0], [3.0, 0.0]])
    assert predicted(RobustRange(0.1), x, places).tolist() == [5.0, 4.0]
    assert predicted(RangeDifference(reference=np.zeros(2)), x, places).tolist() == [0.0, -1.0]
    assert predicted(Bearing(), x, places) == pytest.approx([math.atan2(4, 3), math.pi / 2])


@LOSSES
def test_nothing_is_claimed_but_of_ranges_away_from_a_sensor(loss):
    assert convex(loss) is False
    assert curvature(loss) is None
    assert smooth_apart(loss) is isinstance(loss, RobustRange)


@given(x=PLACE, place=PLACE, share=st.floats(0, 1.9), k=st.floats(0.01, 3))
@settings(max_examples=200)
def test_a_range_loss_is_1_smooth_where_it_claims_to_be(x, place, share, k):
    """Its Hessian's eigenvalues, by differences of the gradient, are at most 1."""
    x, away = np.array(x), math.dist(x, place)
    assume(away > 0.1)
    o, loss = record(place, share * away), RobustRange(k)
    assume(abs(abs((1 - share) * away) - k) > 1e-3)  # the gradient has a kink there
    step = 1e-6
    rows = [(loss.gradients(x + step * e, o) - loss.gradients(x - step * e, o))[0] for e in np.eye(2)]
    assert np.abs(np.linalg.eigvalsh(np.array(rows) / (2 * step))).max() <= 1 + 1e-4
