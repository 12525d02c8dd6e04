"""Bombs and malformed records on every kind of topic of a live mesh, as older versions have made them."""

from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from streams.bus.admin import Admin
from streams.bus.kafka import KafkaBus
from streams.bus.topic_specs import LEAST_LIMIT, MIB, mesh_specs
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import load
from tests.kafka.test_equality import SIMULATED, WAITING
from tests.kafka.test_poison import poison
from tests.support.kafka import PATIENCE, connection
from tests.support.malformed import decoders, variants, well_formed
from tests.support.processes import LiveMesh, released_in_memory, wait_until
from tests.support.small_mesh import small_mesh_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

VARIANTS = 1000
FLAT = 64 * MIB
"""By how much a process may grow: what its client keeps of records that are not handed on, and has freed."""


def made_older(at, specs):
    """Let the topics take what those of older versions take."""
    configs = {"compression.type": "producer", "max.message.bytes": str(LEAST_LIMIT)}
    with Admin(at) as admin:
        admin._client.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, one.name, configs) for one in specs]
        )


def memory(process):
    """The resident memory of a process in bytes."""
    return int(Path(f"/proc/{process._process.pid}/statm").read_text().split()[1]) * 4096


def test_a_mesh_lives_through_bombs_and_malformed_records_on_every_topic(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=30, privacy=SIMULATED, **WAITING)
    at, local = connection(broker.address), LocalRun(mesh_parts(load(path)))
    local.mesh.run()
    local.mesh.close()
    with LiveMesh(path) as mesh:
        file, specs = mesh.file, [one for one in mesh_specs(mesh.file.resolved) if one.kind != "deadletter"]
        decode, beats = decoders(file), file.resolved.topics.scheduler
        good = {topic: local.mesh.bus.read(topic, 0)[1] for topic in decode if ".edge." in topic}
        bus = KafkaBus(at, {spec.name: LEAST_LIMIT for spec in specs})
        try:
            mesh.scheduler()
            mesh.nodes()
            names = list(file.mesh.nodes)
            alive = [topic for topic in decode if topic not in good]
            wait_until(lambda: all(bus.end(topic) for topic in alive))
            good |= {topic: bus.read(topic, 0)[-1] for topic in alive}
            made_older(at, specs)
            before = {label: memory(mesh.processes[label]) for label in ("scheduler", *names)}
            sent = {topic.split(".")[2]: topic for topic in decode} | {"scheduler": beats}  # one of a kind
            for topic in sent.values():
                for codec, size in (("zstd", 64), ("gzip", 8)):
                    assert poison(at, codec, topic, bytes(size * MIB)) == [None]
                for bad in (
                    variants(decode[topic], good[topic], file.digest(), VARIANTS) if topic in decode else ()
                ):
                    bus.send(topic, bad)
                if topic in alive:
                    bus.send(topic, good[topic])
            assert bus.flush(PATIENCE)
            told = f"[{file.resolved.topics.topology}] Decompression"
            wait_until(lambda: all(told in mesh.processes[label].log for label in before))
            grown = {label: memory(mesh.processes[label]) - size for label, size in before.items()}
            mesh.feed_all()
            mesh.finish("scheduler", *names)
            held = well_formed(decode, lambda topic: bus.read(topic, bus.span(topic)[0]))  # of what is kept
            assert {key: value for key, (value,) in held.items()} == released_in_memory(path)
        finally:
            bus.close()
        assert max(grown.values()) < FLAT, grown
        for name in names:
            said = mesh.processes[name].log
            assert "a record of a peer was refused: unreadable" in said
            assert said.count("was refused") < 100
