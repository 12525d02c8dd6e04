"""Bombs and malformed records on every kind of topic of a live mesh, on topics without bounds."""

from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from streams.bus.kafka import KafkaBus
from streams.bus.provision import Admin
from streams.bus.topic_specs import LEAST_LIMIT, MIB, mesh_specs
from tests.kafka.test_equality import SIMULATED, WAITING
from tests.kafka.test_poison import poison
from tests.support.brokers.development import free_ports
from tests.support.brokers.topics import PATIENCE, connection
from tests.support.meshes.signed import PLANNER, signed_file, signing
from tests.support.nodes.metrics import refused_by
from tests.support.oracles.malformed import decoders, misplaced, noise, variants, well_formed
from tests.support.processes.in_process import Commands
from tests.support.processes.mesh import LiveMesh, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

VARIANTS = 1000
FLAT = 64 * MIB
"""By how much a process may grow: what its client keeps of records that are not handed on, and has freed."""


def made_older(at, specs):
    """Let the topics take what those without bounds take."""
    configs = {"compression.type": "producer", "max.message.bytes": str(LEAST_LIMIT)}
    with Admin(at) as admin:
        admin._client.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, one.name, configs) for one in specs]
        )


def memory(process):
    """The resident memory of a process in bytes."""
    return int(Path(f"/proc/{process._process.pid}/statm").read_text().split()[1]) * 4096


class Bad:
    """What is sent to a mesh that stands. `sent`: a topic of each kind; `counts`: the records sent to it."""

    def __init__(self, mesh, at):
        self.file, self.at, self.names = mesh.file, at, list(mesh.file.mesh.nodes)
        self.specs, self.decode = mesh_specs(mesh.file.resolved), decoders(mesh.file)
        self.bus = KafkaBus(at, {spec.name: LEAST_LIMIT for spec in self.specs})
        self.sent = {spec.kind: spec.name for spec in self.specs}
        self.counts = dict.fromkeys(self.sent, 0)

    def sender(self, topic):
        """How who writes to the topic seals its messages."""
        _, _, kind, *names = topic.split(".")
        return signing(self.file, PLANNER if kind == "topology" else names[0])

    def values(self, topic, good):
        """Malformed variants, and in a signed mesh what would be well-formed in another."""
        decode, digest = self.decode[topic], self.file.digest()
        yield from variants(decode, good, digest, VARIANTS, envelope=self.sender(topic))
        yield from misplaced(decode(good), digest, VARIANTS)

    def send(self):
        """Send bombs and bad values to a topic of each kind, and what it held before once more."""
        for kind, topic in self.sent.items():
            decoded = topic in self.decode
            good = self.bus.read(topic, 0)[-1] if decoded else bytes(range(16))
            for codec, size in (("zstd", 64), ("gzip", 8)):
                assert poison(self.at, codec, topic, bytes(size * MIB)) == [None]
                self.counts[kind] += 1
            for value in self.values(topic, good) if decoded else noise(good, VARIANTS):
                self.bus.send(topic, value)
                self.counts[kind] += 1
            if decoded:
                self.bus.send(topic, good)
        assert self.bus.flush(PATIENCE)

    def refused(self):
        """How many each process refuses. Nobody decodes the schedulers' own beats, or reads dead letters."""
        *_, source = self.sent["outbox"].split(".")
        readers = [name for name in self.names if name != source]
        plans, count = self.counts["topology"], self.counts["outbox"]
        found = {name: plans + (count if name in readers else 0) for name in self.names}
        return found | {"scheduler": plans + self.counts["progress"]}


def test_a_mesh_lives_through_bombs_and_malformed_records_on_every_topic(tmp_path, broker, capsys):
    """Signed, with outboxes; the other forms are in tests/simulation/test_malformed.py."""
    call, how = Commands(capsys), {"rounds": 30, "privacy": SIMULATED, **WAITING}
    path = signed_file(tmp_path, broker.address, call, layout="outbox", **how)
    with LiveMesh(path) as mesh:
        bad = Bad(mesh, connection(broker.address))
        names, ports = bad.names, dict(zip(["scheduler", *bad.names], free_ports(4), strict=True))
        mesh.start("scheduler", "scheduler", path, "--metrics", ports["scheduler"])
        for name in names:
            mesh.node(name, "--metrics", ports[name])
        wait_until(lambda: all(bad.bus.end(topic) for topic in bad.decode))
        made_older(bad.at, bad.specs)
        before = {label: memory(mesh.processes[label]) for label in ports}
        bad.send()
        expected = bad.refused()
        wait_until(lambda: {label: total_refused(port) for label, port in ports.items()} == expected)
        grown = {label: memory(mesh.processes[label]) - size for label, size in before.items()}
        mesh.feed_all()
        mesh.finish("scheduler", *names)
        held = well_formed(bad.decode, lambda topic: bad.bus.read(topic, bad.bus.span(topic)[0]))
        bad.bus.close()
        assert {key: value for key, (value,) in held.items()} == released_in_memory(path)
        assert max(grown.values()) < FLAT, grown
        for name in names:
            said = mesh.processes[name].log
            assert "a record of a peer was refused: unreadable" in said
            assert said.count("was refused") < 100
        for name in names:
            assert call("deadletters", path, name).code == 0


def total_refused(port):
    """How many messages a process has refused, by its metrics."""
    return sum((refused_by(port) or {}).values())
