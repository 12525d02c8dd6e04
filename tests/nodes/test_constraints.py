import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq

from nodes.geometry.constraints import Box, Constraint, L1Ball, L2Ball, LinfBall, Simplex

FINITE = st.floats(-100, 100, allow_subnormal=False)


def sets(d):
    lower = np.linspace(-1.0, 0.5, d)
    return [L1Ball(d, 3.0), L2Ball(d, 0.7), LinfBall(d, 1.5), Box(lower, lower + 2.0), Simplex(d)]


NAMED = pytest.mark.parametrize("index", range(5), ids=["l1", "l2", "linf", "box", "simplex"])


def corners(constraint: Constraint) -> np.ndarray:
    """The corners of a set that is the hull of finitely many points."""
    d = constraint.dimension
    match constraint:
        case L1Ball(radius=r):
            return np.concatenate([r * np.eye(d), -r * np.eye(d)])
        case LinfBall(radius=r):
            return np.array(list(itertools.product([-r, r], repeat=d)))
        case Box(lower=lower, upper=upper):
            return np.array(list(itertools.product(*zip(lower, upper, strict=True))))
        case _:
            return np.eye(d)


def test_projections_by_hand():
    x = np.array([3.0, -1.0])
    assert L1Ball(2, 2.0).project(x).tolist() == [2.0, 0.0]
    assert L1Ball(2, 3.0).project(x).tolist() == [2.5, -0.5]
    assert L2Ball(2, 5.0).project(np.array([6.0, -8.0])).tolist() == [3.0, -4.0]
    assert LinfBall(2, 2.0).project(x).tolist() == [2.0, -1.0]
    assert Box(np.array([0.0, 0.0]), np.array([1.0, 5.0])).project(x).tolist() == [1.0, 0.0]
    assert Simplex(3).project(np.array([0.9, 0.5, -2.0])).tolist() == pytest.approx(
        [0.7, 0.3, 0.0], abs=1e-15
    )


def test_supports_by_hand():
    v = np.array([3.0, -4.0])
    found = [s.support(v).item() for s in (L1Ball(2, 2.0), L2Ball(2, 2.0), LinfBall(2, 2.0), Simplex(2))]
    assert found == [8.0, 10.0, 14.0, 3.0]
    assert Box(np.array([-1.0, -2.0]), np.array([5.0, 7.0])).support(v) == 15.0 + 8.0


def test_reach_by_hand():
    assert [s.reach for s in (L1Ball(4, 2.0), L2Ball(4, 2.0), LinfBall(4, 2.0), Simplex(4))] == [2, 2, 4, 1]
    assert Box(np.array([-3.0, 0.0]), np.array([1.0, 4.0])).reach == 5.0


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("index", [0, 2, 3, 4])
def test_support_and_reach_are_the_corners_maxima(index, d):
    constraint = sets(d)[index]
    points = corners(constraint)
    v = np.random.default_rng(d).normal(size=(20, d))
    expected = (v[:, None, :] * points).sum(-1).max(-1)
    np.testing.assert_allclose(constraint.support(v), expected, rtol=1e-13)
    assert constraint.reach == pytest.approx(np.sqrt((points * points).sum(-1)).max(), rel=1e-15)


def threshold_of(total, high, target):
    """Return tau with total(tau) = target by bisection: total falls, and is 0 at `high`."""
    return brentq(lambda tau: total(tau) - target, high - 1e3, high, xtol=1e-15, rtol=1e-15)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 55])
def test_l1_and_simplex_projection_against_bisection(d):
    rng = np.random.default_rng(d)
    for _ in range(20):
        x = rng.normal(size=d) * 4
        tau = max(0.0, threshold_of(lambda tau, x=x: sum(max(abs(c) - tau, 0) for c in x), max(abs(x)), 0.9))
        expected = [math.copysign(max(abs(c) - tau, 0), c) for c in x]
        np.testing.assert_allclose(L1Ball(d, 0.9).project(x), expected, atol=1e-12, rtol=0)
        tau = threshold_of(lambda tau, x=x: sum(max(c - tau, 0) for c in x), max(x), 1.0)
        np.testing.assert_allclose(Simplex(d).project(x), [max(c - tau, 0) for c in x], atol=1e-12, rtol=0)


@NAMED
@given(data=st.data(), d=st.integers(1, 6))
@settings(max_examples=60)
def test_projection_is_the_nearest_member(index, data, d):
    """x - p is normal to the set at p: <x - p, m - p> <= 0 for every member m; and p is a member."""
    constraint = sets(d)[index]
    x, v = data.draw(arrays(float, d, elements=FINITE)), data.draw(arrays(float, d, elements=FINITE))
    p = constraint.project(x)
    assert constraint.support(x - p) <= (p * (x - p)).sum() + 1e-10
    assert (p * v).sum() <= constraint.support(v) + 1e-10
    assert math.sqrt((p * p).sum()) <= constraint.reach * (1 + 1e-12)
    np.testing.assert_allclose(constraint.project(p), p, atol=1e-13, rtol=0)


@NAMED
@pytest.mark.parametrize("d", [1, 2, 9, 55])
def test_a_member_comes_back_unchanged(index, d):
    constraint = sets(d)[index]
    rng = np.random.default_rng(1)
    members = constraint.project(rng.normal(size=(50, d)) * 5)
    if index != 4:  # in the middle between two members; the simplex has no inside
        members = 0.5 * (members[:25] + members[25:]) * (1.0 if index == 3 else 0.999)
    assert (constraint.project(members) == members).all()


@NAMED
@pytest.mark.parametrize("d", [1, 2, 3, 8, 9, 55, 200])
def test_rows_are_equal_bit_for_bit(index, d):
    constraint = sets(d)[index]
    x = np.random.default_rng(d).normal(size=(4, 6, d)) * np.array([0.01, 0.3, 1.0, 10.0])[:, None, None]
    projected, supports = constraint.project(x), constraint.support(x)
    for i, j in np.ndindex(4, 6):
        assert projected[i, j].tobytes() == constraint.project(x[i, j]).tobytes()
        assert supports[i, j].tobytes() == np.asarray(constraint.support(x[i, j])).tobytes()


def test_a_sum_of_one_is_not_enough_for_the_simplex():
    assert Simplex(2).project(np.array([1.5, -0.5])).tolist() == [1.0, 0.0]


def test_a_row_on_the_rim_does_not_depend_on_the_others():
    """The plain sum and the sorted sum of this row round to different sides of the radius."""
    rng = np.random.default_rng(0)
    x = rng.dirichlet(np.ones(5), size=2000)
    for constraint in (L1Ball(5, 1.0), Simplex(5)):
        sum_epsilons = constraint.project(np.concatenate([x, np.full((1, 5), 9.0)]))[:-1]
        assert all(sum_epsilons[k].tobytes() == constraint.project(x[k]).tobytes() for k in range(2000))
        assert (np.abs(sum_epsilons) <= np.abs(x)).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: L1Ball(0, 1.0), "dimension is 0: must be a whole number of at least 1"),
        (lambda: L2Ball(2, 0.0), "radius is 0.0: must be finite and above 0"),
        (lambda: LinfBall(2, math.inf), "radius is inf"),
        (lambda: L1Ball(2, math.nan), "radius is nan"),
        (lambda: L1Ball(2, -1.0), "radius is -1.0"),
        (lambda: Simplex(-3), "dimension is -3"),
        (lambda: Box(np.zeros(2), np.zeros(3)), r"lower has shape \(2,\), upper \(3,\)"),
        (lambda: Box(np.zeros(0), np.zeros(0)), "d >= 1"),
        (lambda: Box(np.array([0.0, 2.0]), np.ones(2)), r"lower\[1\] is 2.0, upper\[1\] is 1.0"),
        (lambda: Box(np.array([0.0, math.nan]), np.ones(2)), "lower holds a value that is not finite"),
    ],
)
def test_broken_settings_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_box_keeps_its_own_copy():
    upper = np.ones(2)
    box = Box(np.zeros(2), upper)
    upper[0] = 9.0
    assert box.project(np.array([5.0, 5.0])).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        box.upper[0] = 9.0
