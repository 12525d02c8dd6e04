"""Sparse DOLA by hand, and the rules that learner and machine ask of every algorithm."""

import math

import numpy as np
import pytest

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import Constant, InverseSqrt, SparseDola, soft
from nodes.geometry.constraints import L2Ball
from nodes.learner import Learner
from nodes.losses.losses import Hinge
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.unprotected import Unprotected
from nodes.regret import LocalRegret
from nodes.sparse import SparseRows
from nodes.values import Consensus, Observations


def algorithm(rho=0.5, radius=10.0, d=3):
    return SparseDola(L2Ball(d, radius), InverseSqrt(1.0), rho)


def consensus(*z):
    return Consensus(np.array(z))


def test_by_hand():
    """alpha_4 = 1/2, rho_4 = 1/4: (1, -0.2, -0.5) -> (0.75, 0, -0.25); theta = z - g/2."""
    made, z = algorithm(), consensus(1.0, -0.2, -0.5)
    w = made.decide(4, z)
    assert w.tolist() == [0.75, 0.0, -0.25]
    assert made.gradient_point(z, w) is w
    assert made.update(4, z, np.array([1.0, 1.0, 0.0])).tolist() == [0.5, -0.7, -0.5]


def test_the_threshold_is_the_lasso_steps_minimum():
    random = np.random.default_rng(0)
    for p in random.normal(size=(50, 1)):
        grid = np.linspace(-3, 3, 60_001)
        best = grid[(0.5 * (p - grid) ** 2 + 0.4 * np.abs(grid)).argmin()]
        assert soft(p, 0.4)[0] == pytest.approx(best, abs=2e-4)


def test_the_dual_state_starts_at_0_and_stays_in_the_ball():
    made = algorithm(radius=1.0)
    assert made.start.tolist() == [0.0] * 3
    assert made.decide(1, Consensus(made.start)).tolist() == [0.0] * 3
    assert (made.dimension, made.reach) == (3, 1.0)
    out = made.update(1, consensus(0.6, 0.0, 0.8), np.array([-6.0, 0.0, -8.0]))
    assert out.tolist() == pytest.approx([0.6, 0.0, 0.8])
    assert made.contain(np.array([3.0, 0.0, 4.0])).tolist() == pytest.approx([0.6, 0.0, 0.8])
    assert np.linalg.norm(made.decide(9, consensus(3.0, 0.0, 4.0))) < 1.0


def test_a_relay_passes_the_consensus_on():
    made = algorithm()
    z = consensus(0.3, 0.0, -0.4)
    learner = Learner(made, Hinge(), Unprotected(1.0, "l2", 1, 3), Ledger(None, 1), 1)
    nothing = Observations(SparseRows([0], [], [], 3), np.zeros(0), np.zeros(0, dtype=np.bool_))
    lesson = learner.learn(2, z, made.decide(2, z), Private(nothing), 0)
    assert lesson.release.tolist() == z.tolist()
    assert learner.release_bound == pytest.approx(10.0)


def test_regret_is_against_the_ball_that_decisions_live_in():
    made = algorithm(rho=0.0, radius=2.0)
    regret = LocalRegret(made.constraint)
    regret.add(Private(np.array([3.0, 0.0, 4.0])), made.decide(1, consensus(1.0, 0.0, 0.0)))
    assert opened(regret.value()) == pytest.approx(3.0 + 2.0 * 5.0)


def test_rows_are_equal_bit_for_bit():
    made = SparseDola(L2Ball(9, 1.0), InverseSqrt(0.7), 0.1)
    random = np.random.default_rng(0)
    z, g = Consensus(random.normal(size=(6, 9))), random.normal(size=(6, 9))
    moved, decided = made.update(7, z, g), made.decide(7, z)
    for i in range(6):
        assert moved[i].tobytes() == made.update(7, Consensus(z[i]), g[i]).tobytes()
        assert decided[i].tobytes() == made.decide(7, Consensus(z[i])).tobytes()


@pytest.mark.parametrize("rho", [-1.0, math.nan, math.inf])
def test_a_lasso_that_is_no_weight_is_refused(rho):
    with pytest.raises(ValueError, match="lasso is"):
        SparseDola(L2Ball(2, 1.0), Constant(1.0), rho)
