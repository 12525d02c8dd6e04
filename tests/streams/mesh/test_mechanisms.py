"""The mechanisms in a mesh file: what they are made of, what is refused, what the digest covers."""

from fractions import Fraction

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.l2_sphere import L2Sphere
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.private import Private
from nodes.privacy.unprotected import Unprotected
from streams.mesh.checks import shared_problems
from streams.mesh.errors import problems
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from tests.support.processes.in_process import MESH

GAUSSIAN = {"mechanism": "gaussian", "epsilon": 1, "delta": 1e-6, "gradient_bound": 0.5}
SPHERE = {"mechanism": "l2-sphere", "epsilon": 1, "gradient_bound": 0.5}
LAPLACE = {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5}


def tree(privacy, nodes=("a", "b", "c"), size=1):
    changes = {"privacy": privacy, "nodes": nodes if isinstance(nodes, dict) else list(nodes)}
    return yaml.safe_load(MESH)["mesh"] | changes | {"slots": {"by": "count", "size": size}}


def mesh(privacy, nodes=("a", "b", "c"), size=1):
    return MeshSettings.model_validate(tree(privacy, nodes, size))


def made(settings, node="a"):
    return Mesh(settings).node(node).mechanism


def refusals(privacy, **changes):
    """Return what is wrong, as a user of `check` reads it."""
    try:
        found = shared_problems("mesh.yaml", Mesh(mesh(privacy | changes)))
    except ValidationError as error:
        found = problems("mesh.yaml", ("mesh",), tree(privacy | changes), error)
    return " ".join(problem.line for problem in found)


def test_gaussian():
    mechanism = made(mesh(GAUSSIAN, size=4))
    assert isinstance(mechanism, GaussianGradient)
    assert (mechanism.theta, mechanism.epsilon, mechanism.delta) == (0.5, 1, 1e-6)
    assert (mechanism.batch_size, mechanism.dimension, mechanism.calibration) == (4, 2, "analytic")
    assert not mechanism.simulated
    classic = made(mesh(GAUSSIAN | {"calibration": "classic", "noise": "simulated"}))
    assert (classic.calibration, classic.simulated) == ("classic", True)
    assert classic.noise_scale(1) > made(mesh(GAUSSIAN)).noise_scale(1)


def test_l2_sphere():
    mechanism = made(mesh(SPHERE, size=4))
    assert isinstance(mechanism, L2Sphere)
    assert (mechanism.theta, mechanism.epsilon, mechanism.delta) == (0.5, Fraction(1), 0.0)
    assert (mechanism.batch_size, mechanism.dimension) == (4, 2)


@pytest.mark.parametrize("privacy", [LAPLACE, GAUSSIAN, SPHERE], ids=lambda privacy: privacy["mechanism"])
def test_the_noises_length_is_that_of_what_is_drawn(privacy):
    node = Mesh(mesh(privacy | {"noise": "simulated"}, size=4)).node("a")
    none = Private(np.zeros((4, 2)))
    drawn = [node.mechanism.privatise(round, none, np.array).release for round in range(1, 4_001)]
    assert np.sqrt((np.array(drawn) ** 2).sum(1).mean()) == pytest.approx(node.noise_length(1), rel=0.05)


def test_the_norm_is_the_mechanisms():
    assert [mesh(privacy).privacy.norm for privacy in (LAPLACE, GAUSSIAN, SPHERE)] == ["l1", "l2", "l2"]


def test_guarantees_say_epsilon_and_delta():
    gaussian, sphere = (Mesh(mesh(privacy)).node("a").guarantee for privacy in (GAUSSIAN, SPHERE))
    assert (gaussian.mechanism, gaussian.epsilon, gaussian.delta) == ("gaussian", 1, 1e-6)
    assert "epsilon = 1 (delta = 1e-06)" in gaussian.sentence("a")
    assert (sphere.mechanism, sphere.epsilon, sphere.delta) == ("l2-sphere", 1, 0)
    assert "epsilon = 1 (pure)" in sphere.sentence("a")


@pytest.mark.parametrize(
    ("privacy", "changes", "text"),
    [
        (GAUSSIAN, {"delta": None}, "missing: mechanism gaussian needs a number above 0 and below 1"),
        (GAUSSIAN, {"epsilon": None}, "missing: mechanism gaussian needs a number above 0"),
        (GAUSSIAN, {"calibration": "exact"}, "must be analytic or classic"),
        (GAUSSIAN, {"norm": "l1"}, "gaussian on the gradient clips in l2: must be l2"),
        (GAUSSIAN, {"on": "parameters"}, "gaussian randomises gradients: must be gradient"),
        (SPHERE, {"norm": "linf"}, "l2-sphere on the gradient clips in l2: must be l2"),
        (SPHERE, {"on": "parameters"}, "l2-sphere randomises gradients: must be gradient"),
        (SPHERE, {"delta": 1e-6}, "is for mechanism gaussian or gaussian-bisr, not for l2-sphere"),
        (SPHERE, {"calibration": "analytic"}, "is for mechanism gaussian, not for l2-sphere"),
        (LAPLACE, {"delta": 1e-6}, "is for mechanism gaussian or gaussian-bisr, not for laplace"),
        (
            LAPLACE,
            {"mechanism": ["laplace"]},
            "must be laplace, gaussian, gaussian-bisr, l2-sphere or none",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(privacy, changes, text):
    assert text in refusals(privacy, **changes)


def test_what_goes_together_is_not():
    assert [refusals(privacy) for privacy in (LAPLACE, GAUSSIAN, SPHERE)] == ["", "", ""]


def test_a_node_may_take_another_mechanism():
    nodes = {
        "a": {},
        "b": {"mechanism": "laplace"},
        "c": {"mechanism": "l2-sphere"},
        "d": {"mechanism": "none"},
    }
    settings = mesh(GAUSSIAN, nodes)
    kinds = [type(made(settings, name)) for name in "abcd"]
    assert kinds == [GaussianGradient, LaplaceGradient, L2Sphere, Unprotected]
    assert settings.privacy_of("d").norm == "l2"
    assert shared_problems("mesh.yaml", Mesh(settings)) == []


def test_a_node_may_take_a_delta_of_its_own():
    nodes = {"a": {}, "b": {"delta": 1e-9}, "c": {"mechanism": "laplace", "norm": "l1"}}
    settings = mesh(GAUSSIAN, nodes)
    assert made(settings, "b").delta == 1e-9
    settings = mesh(LAPLACE, {"a": {}, "b": {"mechanism": "gaussian", "delta": 1e-9}})
    assert (made(settings, "b").delta, made(settings, "b").calibration) == (1e-9, "analytic")
    wrong = Mesh(mesh(LAPLACE, {"a": {}, "b": {"mechanism": "gaussian"}}))
    lines = [problem.line for problem in shared_problems("m", wrong)]
    assert lines == ["m: mesh.nodes.b.delta: missing: mechanism gaussian needs a number above 0 and below 1"]


def test_the_digest_covers_what_is_new_and_nothing_that_is_not_written():
    digests = {
        mesh(privacy).digest()
        for privacy in (
            LAPLACE,
            SPHERE,
            GAUSSIAN,
            GAUSSIAN | {"delta": 1e-9},
            GAUSSIAN | {"calibration": "classic"},
        )
    }
    assert len(digests) == 5
    assert mesh(GAUSSIAN | {"calibration": "analytic", "norm": "l2"}).digest() == mesh(GAUSSIAN).digest()
    assert not {"delta", "calibration"} & set(mesh(LAPLACE).agreed["privacy"])
