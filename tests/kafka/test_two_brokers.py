"""Data on one broker, the mesh on the other: nothing of a record gets to the second, nor into a log."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams.bus.topic_specs import mesh_specs
from tests.support.brokers.development import Client
from tests.support.brokers.topics import PATIENCE, connection
from tests.support.meshes.on_broker import PATIENT, small_mesh_file
from tests.support.oracles.canaries import Canaries, held
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 60
MALFORMED = 7
"""Every so many lines one that cannot be decoded."""
MECHANISMS = {"laplace": (1, {}), "gaussian-bisr": (3, {"delta": 1e-6, "bands": 4})}
"""By name: how many records a slot holds, and what else is set. One has a secret, and one has none.

The others run in tests/simulation/test_canaries.py.
"""
SCHEMA = {
    "features": {"x": "number", "y": {"bounds": [0, 1]}},
    "label": {"column": "z"},
    "truth": ["u", "v"],
}


def record(canaries, number):
    """A line full of canaries; some of them cannot be decoded."""
    numbers = {column: canaries.number() for column in "xyzuv"}
    good = numbers | {canaries.word(): 1}
    bad = {"x": canaries.word(), "z": canaries.number(), "why": canaries.word()}
    if number % (2 * MALFORMED) == 0:
        return canaries.word().encode() + b"\xff{"
    return json.dumps(bad if number % MALFORMED == 0 else good).encode()


def sources(folder, canaries):
    """A file of such lines for two nodes; the records of the third come from its broker alone."""
    made = {name: {"kind": "json-lines", "schema": SCHEMA} for name in "abc"}
    for name in "ab":
        lines = [record(canaries, number) for number in range(1, RECORDS + 1)]
        path = folder / f"{name}.jsonl"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        made[name]["path"] = str(path)
    return made


def produce(address, topic, canaries):
    """Write to a data topic as any tool may: with keys and headers, and what is no record at all."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(1, RECORDS + 1):
        value = None if number == 1 else record(canaries, number)
        headers = {canaries.word(): canaries.word().encode()}
        producer.produce(topic, value, canaries.word().encode(), headers=headers)
    assert producer.flush(PATIENCE) == 0


def command_lines(mesh):
    """What everybody on the machine may see of the processes that run, under whatever title."""
    running = [process._process.pid for process in mesh.processes.values() if process.running]
    assert running
    return b"\n".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in running)


def draws(state, node):
    """Canaries that are the draws in a node's journal; none where its mechanism has no secret."""
    found = Canaries(0)
    path = state / f"{node}.journal"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        for (draw,) in connection.execute("SELECT draw FROM secret_draws"):
            for number in memoryview(draw).cast("q"):
                found.forms |= dict.fromkeys(
                    (number.to_bytes(8, "little", signed=True), b"%d" % number), node
                )
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_mesh_broker_never_sees_a_byte_of_data(tmp_path, broker, new_broker, mechanism):
    shared, canaries = new_broker("mesh"), Canaries(0)
    size, more = MECHANISMS[mechanism]
    rounds = RECORDS // size
    path = small_mesh_file(
        tmp_path,
        shared.address,
        broker.address,
        sources(tmp_path, canaries),
        rounds=rounds,
        loss="squared",
        slots=PATIENT["slots"] | {"size": size},
        privacy={"mechanism": mechanism, "epsilon": 1, "gradient_bound": 0.5, "noise": "exact"} | more,
    )
    with LiveMesh(path) as mesh:
        specs = {spec.name for spec in mesh_specs(mesh.file.resolved)}
        *fed, other = mesh.file.mesh.nodes
        for name in fed:
            mesh.feed(name)
        produce(broker.address, mesh.file.data_topics(other).records, canaries)
        for name in mesh.file.mesh.nodes:
            mesh.node(name, "--log-level", "debug", "--log", "json")
        wait_until(lambda: all("goes on" in mesh.processes[name].log for name in mesh.file.mesh.nodes))
        seen = command_lines(mesh)
        mesh.start("scheduler", "scheduler", path, "--log-level", "debug")
        secrets = {name: Canaries(0) for name in mesh.file.mesh.nodes}

        def ended():
            for name, secret in secrets.items():
                secret.forms |= draws(tmp_path / "state", name).forms
            return not any(process.running for process in mesh.processes.values())

        wait_until(ended)
        mesh.finish()
    for name in mesh.file.mesh.nodes:  # what is looked for can be found: here it is
        assert (
            len(canaries.among(held(connection(broker.address), mesh.file.data_topics(name).records)))
            > RECORDS
        )
    unseen_by_the_mesh(shared, specs, canaries, rounds)
    assert canaries.among(seen) == set()
    # logs, journals, and the disk of the mesh's broker: nothing but what was there to be fed
    assert canaries.in_files(tmp_path).keys() == {"a.jsonl", "b.jsonl"}
    for secret in secrets.values():  # what was in the journal alone is in nothing now
        assert bool(secret.forms) == (mechanism == "gaussian-bisr")
        unseen_by_the_mesh(shared, specs, secret, rounds)
        assert secret.in_files(tmp_path).keys() == set()


def unseen_by_the_mesh(shared, specs, canaries, rounds):
    """Assert that a broker has the mesh's topics alone, no group, and no canary in any topic."""
    client = Client(shared)
    there = client.topics()
    assert specs <= there
    assert there - specs <= {"__consumer_offsets", "__transaction_state"}
    groups = client.admin.list_consumer_groups().result(PATIENCE)
    assert (groups.valid, groups.errors) == ([], [])
    kept = {topic: held(connection(shared.address), topic) for topic in there}
    assert all(len(kept[topic]) > rounds * 8 for topic in specs if ".edge." in topic)
    assert {topic: found for topic, value in kept.items() if (found := canaries.among(value))} == {}
