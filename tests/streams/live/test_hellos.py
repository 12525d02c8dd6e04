"""Two processes of one node: in whatever order they say hello, again and again, the newest stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.bus.memory import MemoryBroker, MemoryBus
from streams.codec import encode_heartbeat
from streams.live.node_role import NodeRole
from streams.local.run import mesh_parts
from streams.runtime.actions import at_once
from streams.state.memory_journal import MemoryJournal
from tests.support.meshes.files import changed, counted_ids, loaded
from topology.plans import Heartbeat


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
