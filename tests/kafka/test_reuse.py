"""A new run over data that was read before, with and without the state folder of the first."""

import json
import shutil
from contextlib import closing

import pytest
import yaml
from confluent_kafka import Consumer, TopicPartition

from streams.bus.connection import consumer_settings
from streams.codec.topics import DataTopics
from streams.mesh.settings.files import read_yaml
from tests.kafka.test_equality import SIMULATED
from tests.support.brokers.topics import connection
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


def test_without_a_line_of_who_has_read_the_records_a_node_asks_what_was_spent(tmp_path, broker):
    path = mesh_file(tmp_path, "deploy/meshes/tracking.yaml", broker.address, **QUICK)
    with LiveMesh(path) as mesh:
        names = list(mesh.file.mesh.nodes)
        for name in names:  # what other programs leave, and brokers forget
            note_offset(connection(broker.address), name)
        node = mesh.node(names[0], state="elsewhere", label="asked")
        assert node.ends() == 2
        assert "Give --spent N" in node.log
    said = finished(path, "--spent", "20", "--from", "end", state="elsewhere")
    assert "20" in said


def note_offset(at, name):
    """Commit an offset of a node's data topic."""
    topics = DataTopics(name)
    with closing(Consumer(consumer_settings(at) | {"group.id": topics.group})) as consumer:
        consumer.commit(offsets=[TopicPartition(topics.records, 0, 7)], asynchronous=False)


def test_a_killed_run_whose_folder_is_lost_is_known_to_the_data_broker(tmp_path, broker):
    path = mesh_file(tmp_path, "deploy/meshes/tracking.yaml", broker.address, **EXACT)
    with LiveMesh(path) as mesh:
        mesh.feed_all()
        mesh.scheduler()
        name = next(iter(mesh.nodes()))
        wait_until(lambda: decisions(broker.address, name))
    shutil.rmtree(tmp_path / "state")
    again = finished(another_run(path), state="state")
    assert "Run run-1 learnt from some of the same records" in again
    assert "epsilon = 2 (pure)" in again
    told = Process(tmp_path, "budget", "budget", path, name, "--state", tmp_path / "state", "--json")
    assert told.ends() == 0
    (found,) = json.loads(told.log)["nodes"]
    assert found["all_runs"]["epsilon"] == 2
    assert found["all_runs"]["stream_epsilon"] is None  # nobody knows how many rounds the killed run charged
