"""What no record may do on a broker either: end its node, or say what it holds."""

import re

import pytest
from confluent_kafka import Producer

from tests.kafka.test_up import Upped
from tests.support.brokers.topics import PATIENCE
from tests.support.meshes.files import written
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.meshes.sources import SCHEMA, own_module
from tests.support.processes.mesh import LiveMesh

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 24
RAISED = "SystemExit|KeyboardInterrupt|GeneratorExit|own loss|own source"
"""What no log says: that the code of a party has failed on a record is a bit of it."""
MIB = b" " * ((1 << 20) - 100)
LIBSVM = (b"1 5:1 -9223372036854775807:1", b"1 1:1 9223372036854775808:1", b"1 1:1" + MIB, b"\xff", b"")
OWN = (b"exit", b"interrupt", b"generator", b"1,2,777", b"1,2,3" + MIB, b"")


def write(broker, topic, values):
    """Write values that no feed would."""
    producer = Producer({"bootstrap.servers": broker.address, "message.max.bytes": 2 << 20})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(PATIENCE) == 0


def run(path, broker, sound, spoilt, *options):
    """Run the mesh; the first node's records are these in turn. Return the logs."""
    with LiveMesh(path) as mesh:
        first, *others = mesh.file.mesh.nodes
        write(
            broker,
            mesh.file.data_topics(first).records,
            [sound if k % 2 else spoilt[k // 2 % len(spoilt)] for k in range(ROUNDS)],
        )
        for node in others:
            write(broker, mesh.file.data_topics(node).records, [sound] * ROUNDS)
        mesh.scheduler()
        mesh.nodes(*options)
        mesh.finish()
        assert {round for _, round in mesh.values()} >= set(range(ROUNDS - 2, ROUNDS))
        return "".join(process.log for process in mesh.processes.values())


def test_sparse_records_that_wrap_or_are_long_end_no_node(tmp_path, broker):
    source = {"kind": "libsvm", "label": {}}
    path = small_mesh_file(
        tmp_path, broker.address, sources=dict.fromkeys("abc", source), loss="squared", rounds=ROUNDS
    )
    assert "Traceback" not in run(path, broker, b"1 1:1 2:2", LIBSVM)


def test_an_own_source_and_loss_that_leave_end_no_node(tmp_path, broker, monkeypatch):
    name = own_module(tmp_path, monkeypatch)
    sources = {node: {"kind": "own", "name": f"{name}:Comma"} for node in "abc"}
    path = small_mesh_file(
        tmp_path, broker.address, sources=sources, loss={"own": f"{name}:Twice"}, rounds=ROUNDS
    )
    said = run(path, broker, b"1,2,3", OWN, *(f"--code={name}:{what}" for what in ("Comma", "Twice")))
    assert not re.search(rf"Traceback|canary|\b777\b|{RAISED}", said)  # an instance's name may hold 777 too


def test_nor_one_of_up(tmp_path, broker, monkeypatch):
    name = own_module(tmp_path, monkeypatch)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rows = [f"1,2,{777 if k % 5 == 3 else k}" + " " * (20_000 if k % 5 == 4 else 0) for k in range(ROUNDS)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,y,label", *rows]) + "\n")
    mesh = Upped(tmp_path, broker.address)
    mesh.tree["mesh"] |= {"loss": {"own": f"{name}:Twice"}, "rounds": ROUNDS}
    for own in mesh.tree["nodes"].values():
        own["source"] = {"kind": "csv", "path": "rows.csv", "schema": SCHEMA}
    written(tmp_path, mesh.tree)
    try:
        mesh.up("--code", f"{name}:Twice")
        assert mesh.ends() == 0, mesh.said
        assert mesh.stepped() == ROUNDS + 1  # a closing one
    finally:
        mesh.close()
    said = mesh.said + "".join(log.read_text() for log in tmp_path.rglob("*.log"))
    assert not re.search(rf"Traceback|\[777|canary|{RAISED}", said)
