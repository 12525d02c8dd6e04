"""Every command of the runbooks, typed on a mesh that has run on a real broker."""

import pytest

from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh
from tests.support.published.pages import COMMANDS

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_every_command_of_the_runbooks_runs(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=5)
    with LiveMesh(path) as mesh:
        mesh.run_through()
        given = {"MESH": path, "NODE": next(iter(mesh.file.mesh.nodes))}
        for command in COMMANDS:
            words = [given.get(word, word) for word in command]
            typed = mesh.start("-".join(command), *words)
            assert typed.ends() == 0, typed.log
            assert typed.log
