"""A new run over data that was read before, with and without the state folder of the first."""

import json
import shutil

import pytest
import yaml

from streams.mesh.settings.files import read_yaml
from tests.kafka.test_equality import SIMULATED
from tests.support.meshes.on_broker import decisions
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, mesh_file, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

QUICK = {"rounds": 20, "slots": {"by": "count", "size": 1, "timeout": 0.2}, "privacy": SIMULATED}
EXACT = QUICK | {"privacy": SIMULATED | {"noise": "exact", "epsilon": 1}}


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


def test_a_killed_run_whose_folder_is_lost_is_known_to_the_data_broker(tmp_path, broker):
    slots = QUICK["slots"] | {"timeout": "none"}  # so that the run is not over when it is killed
    path = mesh_file(tmp_path, "deploy/meshes/tracking.yaml", broker.address, **EXACT | {"slots": slots})
    with LiveMesh(path) as mesh:
        mesh.feed_all("--records", "5")
        mesh.scheduler()
        name = next(iter(mesh.nodes()))
        wait_until(lambda: decisions(broker.address, mesh.file.data_topics(name)))
    shutil.rmtree(tmp_path / "state")
    again = finished(another_run(path), state="state")
    assert "Run run-1 learnt from some of the same records" in again
    assert "epsilon = 2 (pure)" in again
    told = Process(tmp_path, "budget", "budget", path, name, "--state", tmp_path / "state", "--json")
    assert told.ends() == 0
    (found,) = json.loads(told.log)["nodes"]
    assert found["all_runs"]["epsilon"] == 2
    assert found["all_runs"]["stream_epsilon"] is None  # nobody knows how many rounds the killed run charged
