"""What is no number is a zero gradient, counted for the owner alone: in every mechanism, in every place."""

import math
from fractions import Fraction

import numpy as np
import pytest

from nodes.constraints import L2Ball
from nodes.mirror_maps import Euclidean
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.laplace_schedule import LaplaceSchedule
from nodes.privacy.opening import opened
from nodes.privacy.private import Private
from nodes.privacy.schedule import GrowingEpsilon
from nodes.privacy.simulated import SimulatedSampler
from nodes.step_sizes import Constant

ONE, THETA, DELTA = Fraction(1), 0.5, 1e-6
NOISE = SimulatedSampler(0, "a")
MECHANISMS = {
    "laplace": lambda h: LaplaceGradient(THETA, ONE, h, 2, NOISE),
    "laplace, growing": lambda h: LaplaceSchedule(THETA, GrowingEpsilon(ONE, 9, h), 2, NOISE),
    "gaussian": lambda h: GaussianGradient(THETA, ONE, DELTA, h, 2, NOISE),
    "l2-sphere": lambda h: L2Sphere(THETA, ONE, h, 2, NOISE),
    "gaussian-bisr": lambda h: GaussianBisr(THETA, ONE, DELTA, h, 2, NOISE, 4),
    "laplace on parameters": lambda h: LaplaceParameters(
        THETA, "l2", ONE, Euclidean(), L2Ball(2, 3.0), Constant(0.5), NOISE
    ),
}
BROKEN = {
    "nan": [math.nan, 0.1],
    "inf": [0.1, math.inf],
    "-inf": [-math.inf, math.inf],
    "overflow": [1.7e308, 1.7e308],
}


def privatised(mechanism, rows):
    """The release, and how many rows were broken."""
    made = mechanism.privatise(1, Private(np.array(rows)), lambda gradient: -0.5 * gradient)
    return made.release.tobytes(), opened(made.broken)


@pytest.mark.parametrize("row", BROKEN)
@pytest.mark.parametrize("name", MECHANISMS)
def test_it_is_a_zero_gradient(name, row):
    mechanism = MECHANISMS[name](1)
    assert privatised(mechanism, [BROKEN[row]]) == (privatised(mechanism, [[0.0, 0.0]])[0], 1)
    assert privatised(mechanism, [[0.3, -0.1]])[1] == 0


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "laplace on parameters"])
def test_it_takes_nothing_from_the_others_in_its_slot(name, place):
    mechanism = MECHANISMS[name](3)
    rows = [[0.3, -0.1], [0.2, 0.1], [-0.1, 0.4]]
    for broken in BROKEN.values():
        some, zero = list(rows), list(rows)
        some[place], zero[place] = broken, [0.0, 0.0]
        assert privatised(mechanism, some) == (privatised(mechanism, zero)[0], 1)
