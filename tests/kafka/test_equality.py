"""The same mesh file gives the same releases, bit for bit, in one process and on a real broker."""

import numpy as np
import pytest

from nodes.values import Consensus
from streams.tools.model.writing import public_model
from tests.support.meshes.classes import CORRELATED, MOMENTS, SUMS, tree_of
from tests.support.meshes.files import changed, written
from tests.support.meshes.following import following
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory

pytestmark = pytest.mark.kafka

WAITING = {
    "round_timeout": "none",
    "silence": 60,
    "slots": {"by": "count", "size": 1, "timeout": "none"},
}
"""Nobody is given up, and no slot closes empty: either would be another trajectory."""
MOVING = {
    "dimension": 4,
    "algorithm": {
        "name": "dpdo-nc",
        "dynamics": {"model": "constant-velocity", "dimensions": 2, "period": 1},
        "gains": [0.3, 0.01],
        "constraint": {"reach": {"position": 3, "speed": 0.1}},
        "step_size": {"rule": "constant", "a": 1},
    },
}
SIMULATED = {"mechanism": "laplace", "noise": "simulated", "epsilon": 1, "gradient_bound": 0.5}


def equal(values, reference):
    """Assert one value a (node, round) over all edges, and that it is the reference's."""
    assert {key: len(found) for key, found in values.items() if len(found) != 1} == {}
    assert {key: value for key, ((_, _, value),) in values.items()} == reference


@pytest.mark.parametrize(
    "moving", [{}, pytest.param(MOVING, marks=pytest.mark.slow)], ids=["at-rest", "a-motion-model"]
)
def test_six_processes_release_what_one_does(tmp_path, broker, moving):
    path = mesh_file(
        tmp_path,
        "deploy/meshes/tracking.yaml",
        broker.address,
        rounds=100,
        privacy=SIMULATED,
        **WAITING,
        **moving,
    )
    with LiveMesh(path) as mesh:
        mesh.run_through()
        equal(mesh.values(), released_in_memory(path))


def test_beliefs_are_released_as_in_one_process(tmp_path, broker):
    """Releases hold a covariance beside the state: on the wire, in journals and topics."""
    base = written(tmp_path, following(changed(rounds=40)))
    path = mesh_file(tmp_path, base, broker.address, **WAITING)
    with LiveMesh(path) as mesh:
        mesh.run_through()
        equal(mesh.values(), released_in_memory(path))
        model = public_model(mesh.file)
    assert len(model.newest) == len(model.average) == mesh.file.mesh.dimension == 4


@pytest.mark.parametrize(
    "form",
    [MOMENTS, pytest.param(SUMS, marks=pytest.mark.slow), pytest.param(CORRELATED, marks=pytest.mark.slow)],
    ids=["moments", "class-sums", "correlated"],
)
def test_sums_of_records_are_released_and_decided_as_in_one_process(tmp_path, broker, form):
    """Releases have more numbers than decisions, on the wire, in journals, in topics and in the model."""
    base = written(tmp_path, tree_of(tmp_path, form))
    path = mesh_file(tmp_path, base, broker.address, **WAITING | {"slots": WAITING["slots"] | {"size": 5}})
    with LiveMesh(path) as mesh:
        mesh.run_through()
        reference = released_in_memory(path)
        equal(mesh.values(), reference)
        model = public_model(mesh.file)
    last = max(round for _, round in reference)
    newest = [np.frombuffer(value) for (_, round), value in sorted(reference.items()) if round == last]
    decision = mesh.file.resolved.algorithm.decide(last, Consensus(np.mean(newest, 0)), 1 / len(newest))
    assert model.newest == pytest.approx(decision.tolist(), abs=1e-12)
    assert len(model.newest) == len(model.average) == mesh.file.mesh.dimension == 3
    assert any(model.average)
