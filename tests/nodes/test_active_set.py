"""The full Q on the L1 ball where it is hard: ties, corners, ill-conditioned Q, many coordinates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nodes.geometry.mirror_step import project_full_l1

SMALL = st.integers(-4, 4).map(float)


def gap(q, radius, x, y):
    """How far the optimality of x is from holding, against the size of the gradient."""
    descent = q @ (y - x)
    size = np.abs(q).max() * (np.abs(y).max() + radius)
    return (radius * np.abs(descent).max() - (descent * x).sum()) / size


def test_by_hand():
    q = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert project_full_l1(q, 1.0, np.array([1.0, 1.0])).tolist() == pytest.approx([0.5, 0.5])
    assert project_full_l1(q, 1.0, np.array([3.0, 0.0])).tolist() == pytest.approx([1.0, 0.0])
    # on the side (u, u - 1) of the ball the gradient's two parts differ by a sign at u = 2/3
    assert project_full_l1(q, 1.0, np.array([1.0, -2 / 3])).tolist() == pytest.approx([2 / 3, -1 / 3])


@given(data=st.data(), d=st.integers(2, 6), radius=st.sampled_from([0.5, 1.0, 3.0]))
@settings(max_examples=300)
def test_ties_of_small_integers(data, d, radius):
    """Integers make ties: equal gradients, coordinates that meet 0 together, minima on corners."""
    a = data.draw(arrays(float, (d, d), elements=SMALL))
    q = a @ a.T + np.eye(d)
    y = data.draw(arrays(float, d, elements=SMALL))
    x = project_full_l1(q, radius, y)
    assert np.abs(x).sum() <= radius * (1 + 1e-12) or (x == y).all()
    assert gap(q, radius, x, y) <= 1e-12


def test_a_corner_that_is_at_zero_already_goes_without_a_step():
    a = np.array([[-1, 1, 4, 1], [0, 1, 1, 1], [1, 0, 3, -3], [1, 1, -1, 2]], dtype=float)
    q, y = a @ a.T + np.eye(4), np.array([0.0, 1.0, 0.0, -3.0])
    assert gap(q, 3.0, project_full_l1(q, 3.0, y), y) <= 1e-12


def test_all_coordinates_tie():
    d = 12
    q = np.eye(d) * 2.0 + np.ones((d, d))
    x = project_full_l1(q, 1.0, np.full(d, 3.0))
    np.testing.assert_allclose(x, np.full(d, 1.0 / d), atol=1e-15)


@pytest.mark.parametrize("decades", [2, 6, 9])
def test_an_ill_conditioned_q(decades):
    rng = np.random.default_rng(decades)
    for _ in range(20):
        turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
        q = turn @ np.diag(np.logspace(-decades, 0, 6)) @ turn.T
        q = (q + q.T) / 2
        y = rng.normal(size=6) * 3
        x = project_full_l1(q, 1.0, y)
        assert np.abs(x).sum() <= 1.0 + 1e-9
        assert gap(q, 1.0, x, y) <= 1e-12


def test_where_the_way_leaves_the_side_of_the_ball_again():
    """On the way all four coordinates are on a side whose minimum is inside: it must let go of it."""
    q = np.array(
        [
            [0.08903481, -0.07573679, -0.08954072, -0.00967959],
            [-0.07573679, 0.07139922, 0.08379285, 0.01076834],
            [-0.08954072, 0.08379285, 0.1110158, 0.02804572],
            [-0.00967959, 0.01076834, 0.02804572, 0.0214437],
        ]
    )
    y = np.linalg.solve(q, [0.37529678, -0.33876886, -0.39082251, -0.03823191])
    x = project_full_l1(q, 6.2, y)
    assert np.abs(x).sum() == pytest.approx(6.2, rel=1e-12)
    assert gap(q, 6.2, x, y) <= 1e-12


@pytest.mark.parametrize("d", [55, 200])
@pytest.mark.parametrize("radius", [0.01, 1.0, 30.0])
def test_many_coordinates(d, radius):
    rng = np.random.default_rng(d)
    a = rng.normal(size=(d, d))
    q = a @ a.T / d + 0.01 * np.eye(d)
    y = rng.normal(size=d)
    x = project_full_l1(q, radius, y)
    assert np.abs(x).sum() == pytest.approx(radius, rel=1e-12)
    assert gap(q, radius, x, y) <= 1e-12


def test_a_member_comes_back_unchanged_and_the_input_is_kept():
    q = np.array([[2.0, 0.5], [0.5, 1.0]])
    y = np.array([[0.25, -0.5], [3.0, 1.0]])
    before = y.copy()
    assert project_full_l1(q, 1.0, y)[0].tolist() == [0.25, -0.5]
    assert (y == before).all()
