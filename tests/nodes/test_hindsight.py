import numpy as np
import pytest
from scipy.optimize import linprog, lsq_linear

from experiments.harness.hindsight import best_fixed_decision
from nodes.geometry.constraints import Box, L1Ball, L2Ball, LinfBall, Simplex
from nodes.losses.losses import Hinge, Logistic, Squared
from nodes.values import Observations


def records(shape, d, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(*shape, d))
    labels = np.sign(features @ np.linspace(1, -1, d) + 0.5 * rng.normal(size=shape))
    return Observations(features, labels, np.ones(shape, bool))


def test_squared_loss_in_a_box_against_least_squares():
    o = records((300,), 5)
    found = best_fixed_decision(Squared(), LinfBall(5, 0.3), o, tolerance=1e-6)
    exact = lsq_linear(o.features, o.labels, bounds=(-0.3, 0.3), tol=1e-14).x
    assert found.gap <= 1e-6
    np.testing.assert_allclose(found.decision, exact, atol=2e-3)
    assert found.value - Squared().value(exact, o).mean() <= found.gap


def test_hinge_loss_on_the_l1_ball_against_a_linear_programme():
    n, d, radius = 120, 4, 1.5
    o = records((n,), d)
    # x = p - q; min mean(u), u >= 1 - y <a, x>, p, q, u >= 0, sum(p + q) <= radius
    margins = o.labels[:, None] * o.features
    rows = np.concatenate([np.concatenate([-margins, margins, -np.eye(n)], 1), [[1.0] * 2 * d + [0.0] * n]])
    exact = linprog(np.r_[np.zeros(2 * d), np.full(n, 1 / n)], A_ub=rows, b_ub=np.r_[-np.ones(n), radius]).fun
    found = best_fixed_decision(Hinge(), L1Ball(d, radius), o, tolerance=1e-3)
    assert found.gap <= 1e-3
    assert exact - 1e-12 <= found.value <= exact + found.gap


SETS = [L1Ball(3, 0.8), L2Ball(3, 0.8), Simplex(3), Box(np.zeros(3), np.array([0.5, 1.0, 2.0]))]


@pytest.mark.parametrize("constraint", SETS, ids=lambda c: c.name)
@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Squared()], ids=lambda x: type(x).__name__)
def test_the_gap_is_true(loss, constraint):
    """No member is better than the value by more than the gap, also when stopped early."""
    o = records((5, 2, 8), 3)
    flat = Observations(o.features.reshape(-1, 3), o.labels.ravel(), o.present.ravel())
    members = constraint.project(np.random.default_rng(1).normal(size=(3000, 3)))
    least = loss.value(members, Observations(flat.features[None], flat.labels, flat.present)).mean(-1).min()
    for turns in (1, 5, 400):
        found = best_fixed_decision(loss, constraint, o, tolerance=1e-3, turns=turns)
        assert found.value == pytest.approx(loss.value(found.decision, flat).mean(), rel=1e-12)
        assert found.value - found.gap <= least + 1e-12
        np.testing.assert_allclose(constraint.project(found.decision), found.decision, atol=1e-12)
    assert found.gap <= 1e-3


def test_records_in_pieces_and_in_one():
    """More than one piece of 2^20 entries, and the same records twice have the same mean."""
    o = records((3000,), 200)
    once = best_fixed_decision(Squared(), L2Ball(200, 1.0), o, turns=30)
    features, labels = np.concatenate([o.features] * 2), np.concatenate([o.labels] * 2)
    twice = Observations(features, labels, np.ones(6000, bool))
    again = best_fixed_decision(Squared(), L2Ball(200, 1.0), twice, turns=30)
    assert again.value == pytest.approx(once.value, rel=1e-9)
    np.testing.assert_allclose(again.decision, once.decision, atol=1e-9)
