import math

import numpy as np
import pytest

from nodes.algorithms import Constant, InverseSqrt, MirrorDescent, dola, dpdo_nc
from nodes.geometry.constraints import L1Ball, L2Ball, Simplex
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis
from nodes.geometry.mirror_step import mirror_step
from nodes.values import Consensus

EUCLIDEAN = mirror_step(Euclidean(), L2Ball(2, 1.0))


def consensus(*z):
    return Consensus(np.array(z))


def test_dpdo_nc_by_hand():
    """alpha_4 = 1/2: z - g/2 = (0.3, -0.4) stays; z - g/2 = (3, 4) goes to the sphere."""
    algorithm = dpdo_nc(EUCLIDEAN, InverseSqrt(1.0))
    z = consensus(0.5, 0.0)
    np.testing.assert_allclose(algorithm.update(4, z, np.array([0.4, 0.8])), [0.3, -0.4], rtol=1e-15)
    np.testing.assert_allclose(algorithm.update(4, z, np.array([-5.0, -8.0])), [0.6, 0.8], rtol=1e-15)
    assert algorithm.decide(1, consensus(6.0, 8.0)).tolist() == pytest.approx([0.6, 0.8])


def test_where_the_gradient_is_taken():
    z = consensus(6.0, 8.0)
    for make, point in ((dpdo_nc, [0.6, 0.8]), (dola, [6.0, 8.0])):
        algorithm = make(EUCLIDEAN, Constant(0.1))
        assert algorithm.gradient_point(z, algorithm.decide(1, z)).tolist() == pytest.approx(point)


def test_the_step_starts_at_the_unprojected_consensus():
    """L, Algorithm 1: Proj[b - alpha g]; projecting b first would give (0, 0.8)."""
    algorithm = dola(EUCLIDEAN, Constant(1.0))
    x = algorithm.update(1, consensus(6.0, 8.0), np.array([6.0, 7.4]))
    assert x.tolist() == pytest.approx([0.0, 0.6])


def test_the_regulariser_pulls_from_the_consensus():
    """z - alpha (eta z + g) = (0.5, 0) - 0.1 ((1, 0) + (0, 2)) = (0.4, -0.2)."""
    algorithm = dola(EUCLIDEAN, Constant(0.1), regulariser=2.0)
    assert algorithm.update(1, consensus(0.5, 0.0), np.array([0.0, 2.0])).tolist() == pytest.approx(
        [0.4, -0.2]
    )


def test_start_and_reach():
    algorithm = MirrorDescent(mirror_step(Euclidean(), Simplex(4)), Constant(1.0))
    assert algorithm.start.tolist() == [0.25] * 4
    assert (algorithm.dimension, algorithm.reach) == (4, 1.0)
    given = MirrorDescent(EUCLIDEAN, Constant(1.0), x_1=np.array([0.0, 1.0]))
    assert given.start.tolist() == [0.0, 1.0]


def test_contain_is_the_projection_in_the_maps_own_metric():
    q = np.array([1.0, 4.0])
    algorithm = MirrorDescent(mirror_step(Mahalanobis(q), L1Ball(2, 1.0)), Constant(1.0))
    contained = algorithm.contain(np.array([1.0, 1.0]))
    assert contained.tolist() == pytest.approx([0.2, 0.8])  # 1 - tau, 1 - tau/4, tau = 4/5
    corner = MirrorDescent(mirror_step(Entropy(), Simplex(2)), Constant(1.0), x_1=np.array([1.0, 0.0]))
    assert 0.0 < corner.start[1] < 1e-11


def test_a_release_that_is_a_member_is_decided_as_it_is():
    algorithm = dpdo_nc(mirror_step(Euclidean(), L1Ball(2, 3.0)), Constant(0.1))
    z = consensus(0.8, -0.95)
    assert algorithm.decide(1, z).tobytes() == algorithm.contain(z).tobytes() == z.tobytes()


def test_rows_are_equal_bit_for_bit():
    algorithm = dola(mirror_step(Euclidean(), L1Ball(9, 1.0)), InverseSqrt(0.7), regulariser=0.1)
    rng = np.random.default_rng(0)
    z, g = Consensus(rng.normal(size=(6, 9))), rng.normal(size=(6, 9))
    sum_epsilons = algorithm.update(7, z, g)
    for i in range(6):
        assert sum_epsilons[i].tobytes() == algorithm.update(7, Consensus(z[i]), g[i]).tobytes()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"regulariser": -1.0}, "regulariser is -1.0: must be finite and at least 0"),
        ({"regulariser": math.inf}, "regulariser is inf"),
        ({"gradient_at": "private"}, "gradient_at is 'private': must be 'decision' or 'consensus'"),
        ({"x_1": np.zeros(3)}, r"x_1 has shape \(3,\): must be \(2,\)"),
        ({"x_1": np.array([1.0, 0.1])}, r"x_1 is \[1.0, 0.1\]: must be in the l2-ball"),
        ({"x_1": np.array([math.nan, 0.0])}, "x_1 holds a value that is not finite"),
    ],
)
def test_broken_settings_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        MirrorDescent(EUCLIDEAN, Constant(1.0), **settings)
