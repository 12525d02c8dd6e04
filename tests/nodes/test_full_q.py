"""The full Q on the L2 ball and the box where it is hard: ties, tiny sets, ill-conditioned Q, no room."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq, lsq_linear

from nodes.geometry.mirror_step import Eigenbasis, project_full_box, project_full_l2

SMALL = st.integers(-4, 4).map(float)
PLANE = np.array([[2.0, 1.0], [1.0, 2.0]])


def onto_l2(q, radius, y):
    return project_full_l2(Eigenbasis.of(q), radius, y)


def rotated(rng, values):
    """A Q with these eigenvalues."""
    turn = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    q = turn @ np.diag(values) @ turn.T
    return (q + q.T) / 2


def size(q, y, most):
    return np.abs(q).max() * max(np.abs(y).max() + most, 1e-300)


def l2_gap(q, radius, x, y):
    """max over members m of <Q(y - x), m - x>, against the gradient's size and the set's."""
    descent = q @ (y - x)
    return (radius * np.sqrt((descent**2).sum()) - (descent * x).sum()) / (size(q, y, radius) * radius)


def box_gap(q, lower, upper, x, y):
    descent = q @ (y - x)
    most = np.abs([lower, upper]).max()
    return (np.maximum(descent * lower, descent * upper) - descent * x).sum() / size(q, y, most)


def test_the_l2_ball_by_hand():
    # eigenvectors (1, 1) and (1, -1), values 3 and 1: y along one of them is only scaled
    np.testing.assert_allclose(onto_l2(PLANE, 5.0, np.array([6.0, 8.0])), _multiplied(5.0), atol=1e-13)
    np.testing.assert_allclose(onto_l2(PLANE, np.sqrt(2.0), np.array([3.0, -3.0])), [1, -1], atol=1e-15)


def _multiplied(radius):
    def at(m):
        return np.linalg.solve(PLANE + m * np.eye(2), PLANE @ np.array([6.0, 8.0]))

    return at(brentq(lambda m: np.linalg.norm(at(m)) - radius, 0, 100, xtol=1e-14))


def test_the_box_by_hand():
    # x_1 held at 1: x_2 = y_2 - (1 - y_1)/2 = 1 frees nothing; with y_2 = -1 it is 0
    one = np.ones(2)
    assert project_full_box(PLANE, -one, one, np.array([3.0, 0.0])).tolist() == [1.0, 1.0]
    assert project_full_box(PLANE, -one, one, np.array([3.0, -1.0])).tolist() == [1.0, 0.0]
    # clipping y coordinate by coordinate would give (1, 0)
    assert project_full_box(PLANE, -one, one, np.array([2.0, 0.0])).tolist() == [1.0, 0.5]


@given(data=st.data(), d=st.integers(1, 6), radius=st.sampled_from([1e-9, 0.5, 1.0, 3.0]))
@settings(max_examples=200)
def test_the_l2_ball_with_repeated_eigenvalues_and_zeros(data, d, radius):
    a = data.draw(arrays(float, (d, d), elements=SMALL))
    q, y = a @ a.T + np.eye(d), data.draw(arrays(float, d, elements=SMALL))
    x = onto_l2(q, radius, y)
    if np.sqrt((y * y).sum()) <= radius:
        assert x is y
    else:
        assert np.sqrt((x * x).sum()) == pytest.approx(radius, rel=1e-14)
    assert l2_gap(q, radius, x, y) <= 1e-12


@given(data=st.data(), d=st.integers(1, 6))
@settings(max_examples=300)
def test_the_box_with_ties_and_sides_of_no_length(data, d):
    """Integers make ties: y on a side, gradients of 0 at a bound, coordinates that reach one together."""
    a = data.draw(arrays(float, (d, d), elements=SMALL))
    q, y = a @ a.T + np.eye(d), data.draw(arrays(float, d, elements=SMALL))
    lower = data.draw(arrays(float, d, elements=SMALL))
    upper = lower + np.abs(data.draw(arrays(float, d, elements=SMALL)))
    x = project_full_box(q, lower, upper, y)
    assert (lower <= x).all()
    assert (x <= upper).all()
    assert box_gap(q, lower, upper, x, y) <= 1e-12


@pytest.mark.parametrize("d", [2, 3, 7])
def test_against_solvers_of_others(d):
    rng = np.random.default_rng(d)
    for _ in range(100):
        q, y = rotated(rng, rng.uniform(0.2, 5.0, d)), rng.normal(size=d) * 4
        lower = rng.normal(size=d)
        upper = lower + rng.uniform(0.1, 2.0, d)
        root = np.linalg.cholesky(q).T
        other = lsq_linear(root, root @ y, (lower, upper), method="bvls", tol=1e-15).x
        np.testing.assert_allclose(project_full_box(q, lower, upper, y), other, atol=1e-9, rtol=0)

        def at(m, q=q, y=y):
            return np.linalg.solve(q + m * np.eye(len(y)), q @ y)

        if np.linalg.norm(y) > 1.0:
            root = brentq(lambda m, at=at: np.linalg.norm(at(m)) - 1.0, 0.0, 1e3, xtol=1e-15, rtol=1e-15)
            np.testing.assert_allclose(onto_l2(q, 1.0, y), at(root), atol=1e-9, rtol=0)


@pytest.mark.parametrize("decades", [2, 5, 8])
def test_an_ill_conditioned_q(decades):
    rng = np.random.default_rng(decades)
    for k in range(40):
        q, y = rotated(rng, np.logspace(-decades, 0, 6)), rng.normal(size=6) * 10.0 ** rng.integers(-2, 5)
        radius, lower = 10.0 ** rng.integers(-4, 2), rng.normal(size=6)
        upper = lower + (k % 2) * rng.uniform(0.0, 2.0, 6)
        x = onto_l2(q, radius, y)
        assert np.sqrt((x * x).sum()) <= radius * (1 + 1e-13)
        assert l2_gap(q, radius, x, y) <= 1e-12
        x = project_full_box(q, lower, upper, y)
        assert box_gap(q, lower, upper, x, y) <= 1e-12


@pytest.mark.parametrize("d", [55, 200])
@pytest.mark.parametrize("reach", [0.01, 0.3, 1.0])
def test_many_coordinates(d, reach):
    rng = np.random.default_rng(d)
    a = rng.normal(size=(d, d))
    q, y, corner = a @ a.T / d + 0.01 * np.eye(d), rng.normal(size=d), np.full(d, reach)
    assert box_gap(q, -corner, corner, project_full_box(q, -corner, corner, y), y) <= 1e-12
    assert l2_gap(q, reach, onto_l2(q, reach, y), y) <= 1e-12


def test_a_box_without_room_is_its_one_point():
    q = rotated(np.random.default_rng(1), np.array([1.0, 2.0, 3.0]))
    at = np.array([0.1, -0.2, 0.3])
    assert project_full_box(q, at, at, np.array([5.0, -0.2, 0.3])).tolist() == at.tolist()


def test_members_come_back_unchanged_and_the_input_is_kept():
    y = np.array([[0.25, -0.5], [3.0, 1.0], [-0.3, 0.1]])
    before, one = y.copy(), np.ones(2)
    for x in (onto_l2(PLANE, 1.0, y), project_full_box(PLANE, -one, one, y)):
        assert x[[0, 2]].tolist() == y[[0, 2]].tolist()
        assert x[1].tolist() != y[1].tolist()
    assert (y == before).all()
