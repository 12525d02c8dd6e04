"""With noise on the gradient DPDO-NC and DOLA are one algorithm, wherever the consensus stays in the set.

DOLA takes the gradient at the consensus, DPDO-NC at its projection. Releases lie in the set then, and so
does their average: the projection has nothing to do.
"""

import numpy as np
import pytest

from experiments.harness.localisation import NODES, measured, mesh_of
from experiments.harness.meshes import engine, slots

ROUNDS = 50
GRADIENT = {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5}
PARAMETERS = GRADIENT | {"on": "parameters", "norm": "l2", "gradient_bound": 3.0}
SETS = [{"l1-ball": 3}, {"l2-ball": 2}, {"linf-ball": 1.5}, {"box": {"lower": [-2, -2], "upper": [2, 2]}}]
MAPS = ["euclidean", {"mahalanobis": [[2, 0.5], [0.5, 1]]}]


def steps(name, privacy, step, constraint, mirror_map="euclidean"):
    mesh = mesh_of(privacy, step, {"name": name, "constraint": constraint, "mirror_map": mirror_map})
    return list(engine(mesh, 3).steps(slots(*measured(3, ROUNDS))))


def releases(run):
    return np.stack([step.releases for step in run])


@pytest.mark.parametrize("constraint", SETS, ids=lambda one: next(iter(one)))
@pytest.mark.parametrize("mirror_map", MAPS, ids=["euclidean", "mahalanobis"])
def test_inside_the_set_they_are_one_algorithm_bit_for_bit(constraint, mirror_map):
    first, second = (steps(name, GRADIENT, 0.05, constraint, mirror_map) for name in ("dpdo-nc", "dola"))
    assert all(step.decision.tobytes() == step.consensus.tobytes() for step in first)  # inside
    assert len(np.unique(releases(first)[-1], axis=0)) == NODES  # noise, and learning
    assert releases(first).tobytes() == releases(second).tobytes()


def test_on_the_edge_of_the_set_they_differ_by_rounding_at_most():
    """Long steps throw releases to the edge, and an average of edge points may round to outside."""
    first, second = (steps(name, GRADIENT, 20.0, {"l1-ball": 3}) for name in ("dpdo-nc", "dola"))
    assert (np.abs(releases(first)).sum(-1) > 3 - 1e-12).mean() > 0.5
    assert any(step.decision.tobytes() != step.consensus.tobytes() for step in first)
    np.testing.assert_allclose(releases(first), releases(second), rtol=0, atol=1e-12)


def test_with_noise_on_the_parameters_they_are_two_algorithms():
    first, second = (steps(name, PARAMETERS, 0.5, {"l1-ball": 3}) for name in ("dpdo-nc", "dola"))
    outside = [np.abs(step.consensus - step.decision).max() for step in first]
    assert max(outside) > 0.1
    assert np.abs(releases(first) - releases(second)).max() > 1e-3
