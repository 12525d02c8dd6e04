"""Each round's decision is on the party's own broker, for its application; or not, if it is not wanted."""

import pytest

from streams.local.run import LocalRun, mesh_parts
from tests.support.processes import LiveMesh
from tests.support.small_mesh import decisions, small_mesh_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 40


def test_every_decision_is_there_once_in_order_as_in_memory(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=ROUNDS)
    with LiveMesh(path) as mesh:
        quiet, *speaking = mesh.file.mesh.nodes
        mesh.feed_all()
        mesh.scheduler()
        mesh.node(quiet, "--no-decisions")
        for name in speaking:
            mesh.node(name)
        mesh.finish()
        assert decisions(broker.address, quiet) == []
        local = LocalRun(mesh_parts(mesh.file))
    local.mesh.run()
    local.mesh.close()
    for name in speaking:
        made = local.recorder.nodes[name].decisions
        expected = [{"run": "run-1", "round": t, "x": x.tolist()} for t, x in enumerate(made, 1)]
        assert len(expected) == ROUNDS
        assert decisions(broker.address, name) == expected
