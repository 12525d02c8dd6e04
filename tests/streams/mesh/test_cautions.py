"""Each caution about settings alone is given where it is due, and not beside it."""

import pytest

from streams.mesh.mesh import Mesh
from tests.streams.mesh.test_build import mesh

FEATURES = {
    "features": {"x": "number", "y": "number"},
    "label": {"column": "z", "positive": ["1"]},
    "norm": 1.0,
}


def cautions(*, features=FEATURES, dimension=2, **settings):
    """The cautions of a mesh of classes."""
    dimension += bool(features.get("intercept"))
    return Mesh(mesh(loss="hinge", features=features, dimension=dimension, **settings)).cautions


@pytest.mark.parametrize(
    ("bound", "mechanism", "weights", "is_told"),
    [
        (5, "l2-sphere", None, True),
        (2, "l2-sphere", None, False),
        (5, "l2-sphere", [1, 4], False),
        (5, "l2-sphere", {"within": "clip", "weights": [1, 4]}, True),
        (5, "none", None, False),
        (2.5, "laplace", None, False),  # in L1 a row of length 1 has up to root 2
        (5, "laplace", None, True),
    ],
)
def test_a_clip_that_no_gradient_reaches(bound, mechanism, weights, is_told):
    privacy = {"mechanism": mechanism, "gradient_bound": bound, "epsilon": 10.0}
    settings = {} if weights is None else {"class_weights": weights}
    lines = [line for line in cautions(privacy=privacy, **settings) if "longer than" in line]
    assert bool(lines) == is_told
    assert all(line.startswith(f"mesh.privacy.gradient_bound: {bound}: no record's") for line in lines)


@pytest.mark.parametrize(
    ("intercept", "norm", "is_told"), [(True, 1.0, True), (True, None, False), ("outside", 1.0, False)]
)
def test_an_intercept_that_its_row_scales(intercept, norm, is_told):
    features = {**FEATURES, "intercept": intercept, "norm": norm}
    lines = [line for line in cautions(features=features) if line.startswith("mesh.features.intercept")]
    assert bool(lines) == is_told


def test_noise_that_moves_decisions_through_the_whole_set_to_the_end():
    def told(epsilon, a):
        step = {"rule": "constant", "a": a}
        algorithm = {"constraint": {"l2-ball": 1.0}, "step_size": step}
        found = cautions(algorithm=algorithm, privacy={"epsilon": epsilon}, rounds=20)
        return [line for line in found if line.startswith("mesh.privacy: even in round 20")]

    assert told(0.01, 1.0)
    assert not told(0.01, 1e-4)
    assert not told(10.0, 1.0)
    assert "nothing is learnt" in told(0.01, 1.0)[0]
