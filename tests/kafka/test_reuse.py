"""A new run over data that was read before, with and without the state folder of the first."""

import pytest
import yaml

from streams.mesh_file.settings.yaml_file import read_yaml
from tests.kafka.test_equality import SIMULATED
from tests.support.processes import LiveMesh, mesh_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

QUICK = {"rounds": 20, "slots": {"by": "count", "size": 1, "timeout": 0.2}, "privacy": SIMULATED}


def another_run(path):
    """The same mesh file, for a run of another name."""

    tree = read_yaml(path)
    tree["mesh"]["run"] = "run-2"
    path.write_text(yaml.safe_dump(tree))
    return path


def finished(path, *options, state):
    """Run the mesh to its end; return what each node has said."""
    with LiveMesh(path) as mesh:
        mesh.feed_all()
        mesh.scheduler()
        names = list(mesh.file.mesh.nodes)
        for name in names:
            mesh.node(name, *options, state=state)
        mesh.finish("scheduler", *names)
        return mesh.processes[names[0]].log


def test_a_run_over_the_same_data_says_what_was_spent_before(tmp_path, broker):
    path = mesh_file(tmp_path, "deploy/meshes/tracking.yaml", broker.address, **QUICK)
    finished(path, state="state")
    again = finished(another_run(path), state="state")
    assert "run-1" in again


def test_without_the_folder_a_node_asks_what_was_spent(tmp_path, broker):
    path = mesh_file(tmp_path, "deploy/meshes/tracking.yaml", broker.address, **QUICK)
    finished(path, state="state")
    with LiveMesh(another_run(path)) as mesh:
        name = next(iter(mesh.file.mesh.nodes))
        node = mesh.node(name, state="elsewhere", label="asked")
        assert node.ends() == 2
        assert "say --spent N" in node.log
    said = finished(path, "--spent", "20", "--from", "end", state="elsewhere")
    assert "20" in said
