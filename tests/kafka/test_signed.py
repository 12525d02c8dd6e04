"""A signed mesh on a broker without users: what a stranger writes there is refused, and changes nothing."""

import json
from contextlib import closing

import pytest
import yaml

from streams.bus.kafka import KafkaBus
from streams.bus.topic_specs import mesh_specs
from streams.codec import decode_release, encode_heartbeat, encode_release
from tests.support.commands import Commands
from tests.support.kafka import PATIENCE
from tests.support.processes import LiveMesh, wait_until
from tests.support.signing import private
from tests.support.small_mesh import small_mesh_file
from topology.plans import Heartbeat

pytestmark = pytest.mark.kafka

ROUNDS = 60


def signed_file(folder, broker, call):
    """Write a mesh file whose processes all sign with one key, made by the command; return its path."""
    public = call("key", folder / "all.key").out.removeprefix("key: ").strip()
    nodes = {name: {"key": public} for name in "abc"}
    path = small_mesh_file(
        folder, broker, nodes=nodes, rounds=ROUNDS, signatures="required", schedulers={"planner": public}
    )
    tree = yaml.safe_load(path.read_text())
    tree["brokers"]["mesh"]["signing_key"] = "all.key"
    path.write_text(yaml.safe_dump(tree))
    return path


class Stranger:
    """Writes on the mesh's topics, unsigned or with a key of its own."""

    def __init__(self, file):
        self.file, self.topics = file, file.resolved.topics
        specs = {spec.name: spec.largest for spec in mesh_specs(file.resolved)}
        self.bus = KafkaBus(file.mesh_broker, specs)
        self.own = file.resolved.envelope.signing

    def close(self):
        """Disconnect."""
        self.bus.close()

    def forge(self):
        """Say hello as a new process of each node, and write a second value on each edge; return how many."""
        graph, digest, sent = self.file.resolved.graph, self.file.digest(), 0
        for name in graph.nodes:
            own = self.own(name, private("stranger").sign)
            hello = encode_heartbeat(Heartbeat("run-1", name, "c" * 32, "d" * 32, 0, hello=True), digest)
            for value in (hello, own.sealed(hello)):
                self.bus.send(self.topics.progress(name), value)
            for target in graph.neighbours(name)[1]:
                topic = self.topics.edge(name, target)
                first = self.file.resolved.envelope.of_node(self.bus.read(topic, 0)[-1], name)
                message = decode_release(first, self.file.resolved.node(name).expected)
                second = encode_release(message._replace(release=message.release + 0.125), digest)
                for value in (second, own.sealed(second)):
                    self.bus.send(topic, value)
                    sent += 1
        for value in (b"no plan", self.own("planner", private("stranger").sign).sealed(b"\x01\x06")):
            self.bus.send(self.topics.topology, value)
        assert self.bus.flush(PATIENCE)
        return sent


def test_a_stranger_ends_no_process_and_cuts_no_edge(tmp_path, broker, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    call = Commands(capsys)
    path = signed_file(tmp_path, broker.address, call)
    with LiveMesh(path) as mesh, closing(Stranger(mesh.file)) as stranger:
        mesh.feed_all()
        mesh.scheduler()
        mesh.nodes()
        edges = [
            stranger.topics.edge(name, target)
            for name in mesh.file.mesh.nodes
            for target in mesh.file.resolved.graph.neighbours(name)[1]
        ]
        wait_until(lambda: all(stranger.bus.span(topic)[1] > 3 for topic in edges))
        forged = stranger.forge()
        mesh.finish()
    told = json.loads(call("audit", "releases", path, "--json").out)
    assert told["findings"] == []
    refused = {(one["topic"], one["reason"]): one["count"] for one in told["undecodable"]}
    assert {reason for _, reason in refused} == {"signature"}
    assert sum(count for (topic, _), count in refused.items() if topic in edges) == forged
    topics = mesh.file.resolved.topics
    assert refused[topics.topology, "signature"] == 2
    assert all(refused[topics.progress(name), "signature"] == 2 for name in mesh.file.mesh.nodes)
