"""What all mechanisms have in common at their edges: gradients that are no numbers, settings out of range."""

import math
from fractions import Fraction

import numpy as np
import pytest

from nodes.accounting.releases import GrowingEpsilon
from nodes.algorithms import Constant
from nodes.geometry.constraints import L2Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.privacy.bisr import GaussianBisr
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient, LaplaceSchedule
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened

USUAL = {"theta": 0.5, "epsilon": Fraction(1), "batch_size": 1, "dimension": 2}
DELTA = {"delta": 1e-6}
ON_GRADIENTS = {
    "laplace": (LaplaceGradient, USUAL),
    "gaussian": (GaussianGradient, USUAL | DELTA),
    "l2-sphere": (L2Sphere, USUAL),
    "gaussian-bisr": (GaussianBisr, USUAL | DELTA | {"bands": 4}),
}
OTHERS = {
    "laplace, growing": lambda noise, h: LaplaceSchedule(0.5, GrowingEpsilon(Fraction(1), 9, h), 2, noise),
    "laplace on parameters": lambda noise, h: LaplaceParameters(
        0.5, "l2", Fraction(1), Euclidean(), L2Ball(2, 3.0), Constant(0.5), noise
    ),
}
NOISE = SimulatedSampler(0, "a")
BROKEN = {
    "nan": [math.nan, 0.1],
    "inf": [0.1, math.inf],
    "-inf": [-math.inf, math.inf],
    "overflow": [1.7e308, 1.7e308],
}
ROWS = [(row, (0, 1)) for row in BROKEN.values()] + [
    ([0.0, 0.0], (0, 0)),
    ([0.1, 0.0], (0, 0)),
    ([3.0, 0.0], (1, 0)),
]
REFUSED = [
    ({"theta": 0.0}, "theta is 0.0"),
    ({"theta": math.nan}, "theta is nan"),
    ({"theta": math.inf}, "theta is inf"),
    ({"theta": 1e101}, "the clip's bound is 1e\\+101: must be from 1e-100 to 1e\\+100"),
    ({"epsilon": Fraction(0)}, "epsilon is 0: must be above"),
    ({"epsilon": Fraction(-1)}, "epsilon is -1: must be above"),
    ({"epsilon": Fraction("1e-9")}, "epsilon is 1e-09: must be above"),
    ({"epsilon": Fraction(10**10)}, "epsilon is 10000000000: must be above"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"batch_size": 2**33}, "batch_size is 8589934592: must be at most"),
    ({"dimension": 0}, "dimension is 0"),
    ({"dimension": 2**24 + 1}, "dimension is 16777217: must be from 1 to 16777216"),
]
REFUSED_DELTAS = [
    ({"delta": 0.0}, "delta is 0.0: must be at least 1e-300 and below 1"),
    ({"delta": 1.0}, "delta is 1.0"),
    ({"delta": math.nan}, "delta is nan"),
    ({"delta": -1e-6}, "delta is -1e-06"),
]
CASES = [
    (name, changes, text)
    for name, (_, usual) in ON_GRADIENTS.items()
    for changes, text in REFUSED + (REFUSED_DELTAS if "delta" in usual else [])
]


def made(name, sampler=None, **changes):
    """A mechanism of that name, with some settings changed."""
    sampler = sampler or ExactSampler()
    if name in OTHERS:
        return OTHERS[name](sampler, changes.get("batch_size", 1))
    cls, usual = ON_GRADIENTS[name]
    return cls(**usual | {"sampler": sampler} | changes)


def privatised(mechanism, rows):
    """The release, how many rows were clipped, and how many were broken."""
    private = mechanism.privatise(1, Private(np.array(rows)), lambda gradient: -0.5 * gradient)
    return private.release.tobytes(), opened(private.clipped), opened(private.broken)


@pytest.mark.parametrize(("row", "counts"), ROWS, ids=[str(row) for row, _ in ROWS])
@pytest.mark.parametrize("name", [*ON_GRADIENTS, *OTHERS])
def test_what_is_no_number_is_a_zero_gradient_and_is_counted(name, row, counts):
    mechanism = made(name, NOISE)
    release, *counted = privatised(mechanism, [row])
    assert tuple(counted) == counts
    if row in BROKEN.values():
        assert release == privatised(mechanism, [[0.0, 0.0]])[0]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("name", [*ON_GRADIENTS, "laplace, growing"])
def test_it_takes_nothing_from_the_others_in_its_slot(name, place):
    mechanism = made(name, NOISE, batch_size=3)
    rows = [[0.3, -0.1], [0.2, 0.1], [-0.1, 0.4]]
    for broken in BROKEN.values():
        some, zero = list(rows), list(rows)
        some[place], zero[place] = broken, [0.0, 0.0]
        assert privatised(mechanism, some) == (*privatised(mechanism, zero)[:2], 1)


@pytest.mark.parametrize("name", [*ON_GRADIENTS, "laplace, growing"])
def test_a_short_slot_has_the_noise_and_the_divisor_of_a_full_one(name):
    """So its sensitivity is that of any slot: it is one whose last gradients are zero."""
    mechanism, rows = made(name, NOISE, batch_size=5), [[0.3, -0.1], [0.2, 0.1]]
    assert privatised(mechanism, rows) == privatised(mechanism, [*rows, *[[0.0, 0.0]] * 3])


@pytest.mark.parametrize(
    ("name", "changes", "text"), CASES, ids=[f"{name}-{changes}" for name, changes, _ in CASES]
)
def test_settings_out_of_range_are_refused(name, changes, text):
    with pytest.raises(ValueError, match=text):
        made(name, **changes)


@pytest.mark.parametrize("shape", [(2,), (5, 2), (1, 3)])
@pytest.mark.parametrize("name", ON_GRADIENTS)
def test_other_shapes_are_refused(name, shape):
    with pytest.raises(ValueError, match="gradients must be of shape"):
        privatised(made(name, batch_size=4), np.zeros(shape))


@pytest.mark.parametrize("name", ON_GRADIENTS)
def test_what_it_says_of_itself(name):
    mechanism = made(name)
    said = (mechanism.name, mechanism.epsilon, mechanism.delta, mechanism.simulated, mechanism.release_slack)
    assert said == (name, 1, ON_GRADIENTS[name][1].get("delta", 0.0), False, 0.0)
    assert made(name, NOISE).simulated
