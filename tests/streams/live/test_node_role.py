"""A node's role: what a record of the topology makes it do."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.bus.memory import MemoryBroker, MemoryBus
from streams.bus.topic_specs import mesh_specs
from streams.codec import Reason, decode_dead_letter, encode_heartbeat
from streams.live.node_role import NodeObserver, NodeRole
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from streams.runtime.actions import at_once, in_memory
from streams.runtime.runner import Runner
from streams.state.journal import MemoryJournal
from tests.support.meshes.files import changed, counted_ids, loaded
from topology.plans import Heartbeat

GARBAGE = b"\x01\x01" + b"\xff" * 40


class Watcher(NodeObserver):
    """Keeps what was refused."""

    def __init__(self):
        self.reasons = []

    def refused(self, topic, refused):
        self.reasons.append(refused.reason)


def test_a_look_at_the_owners_wish_is_for_plans_and_a_flood_of_garbage_costs_none(tmp_path):
    file = loaded(tmp_path, changed(rounds=60))
    before = MemoryMesh(mesh_parts(file), lambda *_: None)
    before.run()
    name, topics = next(iter(before.nodes)), file.resolved.topics
    node, looks, ends, watcher = file.resolved.node(name), [], [], Watcher()
    broker = MemoryBroker([spec.name for spec in mesh_specs(file.resolved)])
    bus, journal = MemoryBus(broker), MemoryJournal("a" * 32, file.mesh.horizon)
    role = NodeRole(
        name,
        node.learner,
        journal,
        node.context,
        lambda: "b" * 32,
        print,
        lambda: looks.append(1),
    )
    role.recover(bus, at_once, alone=True)
    looks.clear()
    runner = Runner(
        role.role(watcher, lambda *_: None, clock=lambda: broker.now, beat=None),
        in_memory(broker, bus),
        ends.append,
    )
    runner.begin(None)
    for offset in range(3):
        runner.read(topics.topology, offset, GARBAGE, inf)
    assert (watcher.reasons, looks) == ([Reason.KIND] * 3, [])
    letters = [decode_dead_letter(letter) for letter in bus.read(topics.dead_letters(name), 0)]
    assert letters == [(topics.topology, GARBAGE, Reason.KIND.value)] * 3
    runner.read(topics.topology, 3, before.bus.read(topics.topology, 0)[0], inf)
    assert (len(watcher.reasons), looks, ends) == (3, [1], [])


# Two processes of one node: in whatever order they say hello, again and again, the newest stays


class Processes:
    """Processes of node a on one broker, each on a journal of its own, oldest first."""

    def __init__(self, parts):
        self.parts, self.progress = parts, parts.topics.progress("a")
        self.bus, self.new_id = MemoryBus(MemoryBroker(parts.all_topics, None)), counted_ids()
        self.presences = []

    def start(self):
        """Start one more: it says hello, and reads what was said before."""
        around, learner = self.parts.context("a"), self.parts.nodes["a"].learner
        journal = MemoryJournal(self.new_id(), self.parts.horizon)
        role = NodeRole("a", learner, journal, around, self.new_id, self.ignore)
        role.recover(self.bus, at_once)
        self.presences.append(role.presence)

    def hello(self, number):
        """Let one of them say hello once more."""
        who = self.presences[number].who
        beat = Heartbeat(who.run, "a", who.instance, who.boot, 0, hello=True)
        self.bus.send(self.progress, encode_heartbeat(beat, self.parts.digest))

    def told(self):
        """Hand on to each what was said since it began; return who has found that it was replaced."""
        for presence in self.presences:
            for offset, value in enumerate(self.bus.read(self.progress, presence.first), presence.first):
                presence.read(offset, value)
        return [presence.replaced for presence in self.presences]

    def ignore(self, *_):
        """Do nothing."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    return mesh_parts(loaded(tmp_path_factory.mktemp("mesh"), changed(rounds=5)))


@given(st.lists(st.sampled_from(["start", "hello of the first", "hello of the last"]), max_size=12))
def test_the_newest_stays_and_it_alone(parts, steps):
    processes = Processes(parts)
    processes.start()
    for step in steps:
        if step == "start":
            processes.start()
        else:
            processes.hello(0 if "first" in step else -1)
    *older, newest = processes.told()
    assert all(older)
    assert not newest
