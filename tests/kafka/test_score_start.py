"""A process that scores waits at its start for what is away, and ends at once with what cannot be mended."""

import json

import pytest
from confluent_kafka import Producer

from streams.bus.provision import provision
from streams.mesh.file import load
from streams.tools.broker.broker import start
from tests.support.brokers.forgetting import cut_off
from tests.support.brokers.scoring import ScoredTopics, model, scoring, values
from tests.support.brokers.topics import PATIENCE
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.forked import Forked
from tests.support.processes.mesh import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_broker_that_is_away_at_the_start_is_waited_for(tmp_path, new_broker):
    broker = new_broker("away")
    topics, path = ScoredTopics(broker.address), model(tmp_path)
    topics.produce(values(50))
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    source = {"kind": "json-lines", "path": str(tmp_path / "r.jsonl"), "schema": schema}
    mesh = small_mesh_file(tmp_path, broker.address, sources=dict.fromkeys("abc", source), loss="squared")
    file = load(mesh)
    node = next(iter(file.mesh.nodes))
    provision(file)
    producer = Producer({"bootstrap.servers": broker.address})
    decision = {"run": "run-1", "round": 5, "x": [1.0, 1.0], "decided": 0.0}
    producer.produce(file.data_topics(node).decisions, json.dumps(decision), partition=0)
    assert producer.flush(PATIENCE) == 0
    cut_off(broker)
    place = ("--input", topics.input, "--output", topics.output)
    by_model = Forked(tmp_path, "by-model", *scoring(topics, path))
    by_node = Forked(tmp_path, "by-node", "score", mesh, node, *place)
    stopped = Forked(tmp_path, "stopped", *scoring(topics, path))
    processes = (by_model, by_node, stopped)
    wait_until(lambda: all("waiting for the broker: " in process.log for process in processes))
    assert [process.code for process in processes] == [None] * 3
    stopped.terminate()
    assert stopped.ends() == 0, stopped.log
    start(broker.folder, broker.port)
    wait_until(lambda: len(topics.numbers()) >= 100)
    for process in (by_model, by_node):
        process.terminate()
        assert process.ends() == 0, process.log
    assert topics.numbers() == sorted([*range(50), *range(50)])
    assert {json.loads(score.value())["run"] for score in topics.scores()} == {"run-1", "run-3"}
