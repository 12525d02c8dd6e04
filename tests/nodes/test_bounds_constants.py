"""The constants hold on drawn points, and are reached where that is known."""

import math

import numpy as np
import pytest

from nodes.algorithms import Constant, MirrorDescent, SparseDola
from nodes.bounds import convex, curvature, diameter, geometry
from nodes.geometry.constraints import Box, L1Ball, L2Ball, LinfBall, Simplex
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis
from nodes.geometry.mirror_step import mirror_step
from nodes.losses.losses import (
    Absolute,
    Hinge,
    Huber,
    Linear,
    Logistic,
    RangeLoss,
    Softmax,
    Squared,
    Weighted,
)
from nodes.values import Observations

SETS = {
    L1Ball(3, 2.0): 4.0,
    L2Ball(3, 2.0): 4.0,
    LinfBall(4, 1.0): 4.0,
    Box(np.array([0.0, 5.0]), np.array([3.0, 9.0])): 5.0,
    Simplex(3): math.sqrt(2),
}


@pytest.mark.parametrize("constraint", SETS, ids=lambda c: c.name)
def test_the_diameter_is_the_largest_distance(constraint):
    assert diameter(constraint) == pytest.approx(SETS[constraint])
    points = constraint.project(np.random.default_rng(1).normal(scale=9, size=(300, constraint.dimension)))
    apart = np.linalg.norm(points[:, None] - points[None], axis=-1)
    assert 0.6 * SETS[constraint] < apart.max() <= SETS[constraint] * (1 + 1e-12)


def test_a_simplex_of_one_has_no_width():
    assert diameter(Simplex(1)) == 0.0


@pytest.mark.parametrize(
    ("phi", "omega"),
    [
        (Euclidean(), L1Ball(2, 3.0)),
        (Mahalanobis(np.array([[2.0, 0.5], [0.5, 1.0]])), L2Ball(2, 1.0)),
        (Mahalanobis(np.array([4.0, 0.25])), LinfBall(2, 1.0)),
        (Entropy(), Simplex(4)),
    ],
    ids=lambda one: one.name,
)
def test_map_and_set(phi, omega):
    step = mirror_step(phi, omega)
    of = geometry(MirrorDescent(step, Constant(1.0)))
    rng = np.random.default_rng(2)
    x, y = (step.project(rng.normal(scale=5, size=(500, omega.dimension))) for _ in range(2))
    divergence, squares = phi.divergence(x, y), ((x - y) ** 2).sum(-1)
    assert (divergence >= of.modulus / 2 * squares * (1 - 1e-9) - 1e-14).all()
    smooth = of.smoothness if of.smoothness < math.inf else 1e300  # D has no such bound on the simplex
    assert (divergence <= smooth / 2 * squares * (1 + 1e-9) + 1e-15).all()
    assert divergence.max() <= of.divergence
    assert divergence.max() > 0.4 * of.divergence  # and the bound is not idle


def test_the_entropy_is_not_smooth_on_the_edge():
    of = geometry(MirrorDescent(mirror_step(Entropy(), Simplex(10)), Constant(1.0)))
    assert of.smoothness == math.inf
    assert of.divergence == pytest.approx(math.log(10) + 12 * math.log(10))  # the floor is 1e-12/d


def test_sparse_dola_is_euclidean():
    assert geometry(SparseDola(L2Ball(3, 2.0), Constant(1.0), 0.1)) == (4.0, 1.0, 1.0, 8.0)


LOSSES = [Linear(), Squared(), Huber(0.3), Logistic(), Softmax(3)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_gradients_change_no_faster_than_the_curvature(loss):
    rng = np.random.default_rng(3)
    a = rng.normal(size=4)
    width = 12 if isinstance(loss, Softmax) else 4
    seen = Observations(a[None], np.array([1.0]), np.ones(1, np.bool_))
    fastest = 0.0
    for _ in range(400):
        x = rng.normal(scale=0.3, size=width)
        y = x + rng.normal(scale=1e-4, size=width)
        change = np.linalg.norm(loss.gradients(x, seen) - loss.gradients(y, seen))
        fastest = max(fastest, float(change / np.linalg.norm(x - y)) / (a @ a))
    allowed = curvature(loss)
    assert 0.5 * allowed <= fastest <= allowed * (1 + 1e-6) + 1e-12


def test_what_is_not_smooth_or_not_known():
    assert [curvature(loss) for loss in (Hinge(), Absolute(), RangeLoss())] == [None] * 3
    assert [convex(loss) for loss in (Hinge(), Absolute(), *LOSSES)] == [True] * 7
    assert convex(RangeLoss()) is False
    own = type("Own", (), {})()
    assert (convex(own), curvature(own)) == (None, None)


def test_weights_weigh():
    weighted = Weighted(Logistic(), np.array([-1.0, 1.0]), np.array([1.0, 8.0]))
    assert (convex(weighted), curvature(weighted)) == (True, 2.0)
    assert curvature(Weighted(Hinge(), np.array([-1.0, 1.0]), np.array([1.0, 8.0]))) is None
