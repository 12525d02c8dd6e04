"""Every record of a stream has its prediction, made before it was learnt from, on the party's own broker."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from nodes.losses.evaluation import predicted
from nodes.losses.losses import Softmax, Squared
from nodes.machine.events import BeforeStep
from nodes.privacy.private import Private
from nodes.values import Decision, Observations
from streams.bus.kafka import KafkaBus
from streams.bus.logs import Logs
from streams.live.outputs import Predictions, SharedBus
from streams.local.run import LocalRun, mesh_parts
from streams.tools.broker.broker import start
from tests.kafka.test_kills import killed
from tests.support.brokers.feeding import stored
from tests.support.brokers.topics import PATIENCE, connection, fresh_topics, until
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 120
SLOT = 3
KILLED = ("host", None, "host")
"""The processes that are killed in turn, None for that of a node alone."""
SCHEMA = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}


def sources(folder):
    """Records of numbers; every seventh cannot be read."""
    chance = np.random.Generator(np.random.Philox(1))
    made = {}
    for name in "abc":
        rows = [
            "{" if k % 7 == 6 else json.dumps(dict(zip("xyz", chance.normal(size=3).tolist(), strict=True)))
            for k in range(ROUNDS * SLOT)
        ]
        path = folder / f"{name}.jsonl"
        path.write_text("\n".join(rows) + "\n")
        made[name] = {"kind": "json-lines", "path": str(path), "schema": SCHEMA}
    return made


def put(address, topics, path):
    """Write the lines as they are into a node's data topic: a feed would sort out the broken ones."""
    topic = topics.records
    bus = KafkaBus(connection(address), {topic: 2**20})
    for line in Path(path).read_bytes().splitlines():
        bus.send(topic, line)
    assert bus.flush(PATIENCE)
    bus.close()


def predictions(address, topics):
    return stored(connection(address), topics.predictions)


def test_every_record_has_its_prediction_and_after_a_kill_the_same(tmp_path, broker):
    path = small_mesh_file(
        tmp_path,
        broker.address,
        sources=sources(tmp_path),
        own={"a": {"predictions": True}, "c": {"predictions": True}},
        loss="squared",
        slots={"by": "count", "size": SLOT, "timeout": "none"},
        rounds=ROUNDS,
    )
    with LiveMesh(path) as mesh:
        hosted, quiet, alone = mesh.file.mesh.nodes
        for name, source in zip(mesh.file.mesh.nodes, mesh.file.nodes.values(), strict=True):
            put(broker.address, mesh.file.data_topics(name), source.source.path)

        def start(label):
            names = (alone,) if label == alone else (hosted, quiet)
            mesh.start(label, "node", path, *names, "--state", mesh.folder / "state")

        mesh.scheduler()
        for label in ("host", alone):
            start(label)
        logs = Logs(connection(broker.address))
        for kill, label in enumerate(KILLED, 1):
            topics = mesh.file.data_topics(alone if label is None else hosted)
            wait_until(lambda topics=topics, kill=kill: logs.span(topics.predictions)[1] >= kill * 60)
            mesh.processes[label or alone].kill()
            time.sleep(0.1)
            start(label or alone)
        logs.close()
        mesh.finish()
        local = LocalRun(mesh_parts(mesh.file))
    local.mesh.run()
    local.mesh.close()
    loss = local.parts.nodes[hosted].learner.loss
    assert predictions(broker.address, mesh.file.data_topics(quiet)) == []
    for name, kills in ((hosted, KILLED.count("host")), (alone, KILLED.count(None))):
        history, wanted = local.recorder.nodes[name], {}
        for t, (decision, seen) in enumerate(zip(history.decisions, history.observations, strict=True)):
            made = predicted(loss, decision, seen.features).tolist()
            for k, (number, there) in enumerate(zip(made, seen.present, strict=True)):
                offset = t * SLOT + k
                value = {"run": "run-1", "round": t + 1, "partition": 0, "offset": offset}
                wanted[f"0:{offset}"] = value | {"prediction": number if there else None}
        found = predictions(broker.address, mesh.file.data_topics(name))
        assert len(wanted) == ROUNDS * SLOT
        assert {message.key().decode(): json.loads(message.value()) for message in found} == wanted
        values = {(message.key(), message.value()) for message in found}
        assert len(values) == len(wanted)
        assert len(found) - len(wanted) <= kills * SLOT  # those of one slot, for each kill


def slot(round, scale=1.0):
    features = np.array([[scale, 0.0], [round, scale], [1.0, 1.0]])
    seen = Observations(features, np.zeros(3), np.array([True, True, False]))
    places = tuple((1, 10 * round + k) for k in range(3))
    return BeforeStep(round, Decision(np.array([2.0, -1.0])), Private(seen), Private(places))


def test_a_broker_that_is_away_stops_nothing_and_has_them_all_when_it_is_back(new_broker, caplog):
    broker = new_broker()
    (topic,) = fresh_topics(connection(broker.address), "predictions")
    bus = KafkaBus(connection(broker.address), {topic: 2**20}, batches=True)
    writer = Predictions(SharedBus(bus), topic, "run-1", Squared())
    writer.write(slot(1))
    writer.settle()
    until(lambda: bus.flush(1.0))
    killed(broker)
    for round in range(2, 6):
        writer.write(slot(round))
        writer.settle()
    assert bus.waiting == 12
    start(broker.folder)
    until(lambda: bus.flush(1.0))
    writer.write(slot(6, scale=1e308))
    until(lambda: bus.flush(1.0))
    bus.close()
    values = [json.loads(message.value()) for message in stored(connection(broker.address), topic)]
    assert [value["prediction"] for value in values[3:6]] == [2.0, 3.0, None]
    assert [value["prediction"] for value in values[15:]] == [None, -1e308, None]
    assert [(value["partition"], value["offset"]) for value in values] == [
        (1, 10 * round + k) for round in range(1, 7) for k in range(3)
    ]


def test_a_class_is_told_by_its_place_and_its_name(broker):
    (topic,) = fresh_topics(connection(broker.address), "predictions")
    bus = KafkaBus(connection(broker.address), {topic: 2**20}, batches=True)
    foreseen = slot(1)._replace(decision=Decision(np.array([0.0, 0.0, 1.0, -2.0])))
    Predictions(SharedBus(bus), topic, "run-1", Softmax(2), ("oak", "elm")).write(foreseen)
    until(lambda: bus.flush(1.0))
    bus.close()
    values = [json.loads(message.value()) for message in stored(connection(broker.address), topic)]
    assert [(value["prediction"], value["class"]) for value in values] == [
        (1, "elm"),
        (0, "oak"),
        (None, None),
    ]


def test_a_slot_that_cannot_be_predicted_is_null_and_no_log_says_so(broker, caplog, monkeypatch):
    def shout(loss, decision, features):
        raise ValueError(f"what are {features}?")

    monkeypatch.setattr("streams.live.outputs.predicted", shout)
    (topic,) = fresh_topics(connection(broker.address), "predictions")
    bus = KafkaBus(connection(broker.address), {topic: 2**20}, batches=True)
    writer = Predictions(SharedBus(bus), topic, "run-1", Squared())
    writer.write(slot(1))
    writer.write(slot(1))
    until(lambda: bus.flush(1.0))
    bus.close()
    values = [json.loads(message.value()) for message in stored(connection(broker.address), topic)]
    assert [value["prediction"] for value in values] == [None] * 6
    assert "ValueError" not in caplog.text  # it would be a bit of a record
    assert "what are" not in caplog.text
