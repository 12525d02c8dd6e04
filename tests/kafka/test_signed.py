"""A signed mesh on a broker without users: what others forge there is refused, and what they replay is void.

Slots wait for records, and there are few at first: the mesh stands while others write, so nothing is a race.
"""

import json
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from streams.bus.kafka import KafkaBus
from streams.bus.topic_specs import mesh_specs, release_topics
from streams.codec import (
    decode_plans,
    decode_release,
    encode_heartbeat,
    encode_plans,
    encode_release,
)
from streams.codec.envelope import PLAIN
from tests.kafka.test_forgetful_broker import stepped
from tests.support.brokers.development import free_ports
from tests.support.brokers.topics import PATIENCE
from tests.support.meshes.keys import private
from tests.support.meshes.signed import PLANNER, signed_file, signing
from tests.support.nodes.metrics import refused_by
from tests.support.processes.in_process import Commands
from tests.support.processes.mesh import LiveMesh, wait_until
from topology.plans import Heartbeat, Plan

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS, FED = 30, 10


def other(name, names):
    """Another member."""
    return next(one for one in names if one != name)


FORGERS = {
    "without a key": lambda file, name, another: PLAIN,
    "with a stranger's key": lambda file, name, another: file.resolved.envelope.signing(
        name, private("stranger").sign
    ),
    "with another member's key": signing,
    "as another member": lambda file, name, another: signing(file, another),
}
"""How each seals what `name` should have sent."""
RELEASES, BEATS = 2 * len(FORGERS), 3 * len(FORGERS)
"""Forged messages in each topic of these kinds."""


class Stranger:
    """Writes on the mesh's topics whatever a member could have written, and what members have written."""

    def __init__(self, file):
        self.file, self.topics, self.digest = file, file.resolved.topics, file.digest()
        self.names = list(file.mesh.nodes)
        self.bus = KafkaBus(file.mesh_broker, {spec.name: spec.largest for spec in mesh_specs(file.resolved)})
        self.sources = {
            self.topics.edge(name, target): name
            for name in self.names
            for target in file.resolved.graph.neighbours(name)[1]
        }

    def close(self):
        """Disconnect."""
        self.bus.close()

    def replay(self):
        """Write everything once more that the mesh has said so far, also what nobody signs."""
        progress = map(self.topics.progress, self.names)
        for topic in (*self.sources, *progress, self.topics.topology, self.topics.scheduler):
            for value in self.bus.read(topic, 0):
                self.bus.send(topic, value)
        assert self.bus.flush(PATIENCE)

    def forge(self, seal):
        """Write releases, heartbeats, hellos and a plan; `seal` is one of FORGERS."""
        sealed = partial(self.sealed, seal)
        for name in self.names:
            for beat in self.beats(name):
                self.bus.send(self.topics.progress(name), sealed(name, encode_heartbeat(beat, self.digest)))
        for topic, name in self.sources.items():
            last = self.newest(topic)
            newest = decode_release(last, self.file.resolved.node(name).expected)
            second = newest._replace(release=newest.release + 0.125)
            for release in (second, second._replace(round=newest.round + 1)):
                self.bus.send(topic, sealed(name, encode_release(release, self.digest)))
        self.bus.send(self.topics.topology, sealed(PLANNER, self.plan()))
        assert self.bus.flush(PATIENCE)

    def sealed(self, seal, name, message):
        """The message as a forger would send it for `name`."""
        return seal(self.file, name, other(name, self.names)).sealed(message)

    def beats(self, name):
        """A new process, and one that is far ahead, or gone."""
        hello = Heartbeat("run-1", name, "c" * 32, "d" * 32, 0, hello=True)
        yield from (hello, replace(hello, hello=False, stepped=10**9), replace(hello, leave_from=FED + 1))

    def plan(self):
        """A record of plans that ends the run."""
        last = decode_plans(self.newest(self.topics.topology), "run-1", self.digest).last
        none = np.array([], np.int64)
        over = Plan("run-1", last.round + 1, last.round, (), none, none, np.array([]), last.named)
        (record,) = encode_plans(last, (over,), self.digest)
        return record

    def newest(self, topic):
        """The last message of a member on a topic, without its signature."""
        for value in reversed(self.bus.read(topic, 0)):
            opened = self.opened(topic, value)
            if opened is not None:
                return opened
        raise AssertionError(f"{topic} holds nothing that is rightly signed")

    def opened(self, topic, value):
        envelope = self.file.resolved.envelope
        try:
            if topic in self.sources:
                return envelope.of_node(value, self.sources[topic])
            return envelope.of_scheduler(value)
        except ValueError:
            return None


def test_what_is_forged_is_refused_and_counted_and_what_is_replayed_changes_nothing(
    tmp_path, broker, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")
    call = Commands(capsys)
    path = signed_file(tmp_path, broker.address, call, rounds=ROUNDS)
    with LiveMesh(path) as mesh, closing(Stranger(mesh.file)) as stranger:
        labels = ["scheduler", *mesh.file.mesh.nodes]
        ports = dict(zip(labels, free_ports(len(labels)), strict=True))
        begin(mesh, ports)
        stranger.replay()
        for seal in FORGERS.values():
            stranger.forge(seal)
        refused = {label: 2 * RELEASES + len(FORGERS) for label in labels}  # of two neighbours, and plans
        refused["scheduler"] = 3 * BEATS + len(FORGERS)
        wait_until(lambda: {one: refused_by(ports[one]) for one in labels} == told_of(refused))
        mesh.feed_all()
        mesh.finish()
        watched = call("watch", path, "--once").out
    expected = dict.fromkeys(release_topics(mesh.file.resolved), RELEASES)
    expected |= {stranger.topics.progress(name): BEATS for name in labels[1:]}
    expected[stranger.topics.topology] = len(FORGERS)
    audited(call, path, expected)
    assert all(" dead letters" in line for line in watched.splitlines()[-3:])


def begin(mesh, ports):
    """Start a mesh of few records; its nodes are restarted, so that there are hellos of old processes."""
    mesh.feed_all("--records", FED)
    mesh.start("scheduler", "scheduler", mesh.path, "--metrics", ports["scheduler"])
    mesh.nodes()
    wait_until(lambda: stepped(mesh) == [FED] * 3)
    for label in mesh.file.mesh.nodes:
        mesh.processes[label].terminate()
        assert mesh.processes[label].ends() == 0
        mesh.node(label, "--metrics", ports[label])
    wait_until(lambda: all(refused_by(port) == {} for port in ports.values()))


def told_of(refused):
    """What the metrics say where everything was refused for its signature."""
    return {label: {"signature": count} for label, count in refused.items()}


def audited(call, path, expected):
    """Assert that an audit finds nothing, and refuses what was forged."""
    told = json.loads(call("audit", "releases", path, "--json").out)
    assert told["findings"] == []
    refused = {one["topic"]: one["count"] for one in told["undecodable"] if one["reason"] == "signature"}
    assert refused == expected
    assert {one["reason"] for one in told["undecodable"]} == {"signature"}
