"""A node on a broker: what a record of the topology makes it do."""

import time
from math import inf

from streams.bus.memory import MemoryBroker, MemoryBus
from streams.bus.topic_specs import mesh_specs
from streams.codec import Reason, decode_dead_letter
from streams.live.live_node import LiveNode
from streams.live.start import Starter
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from streams.runtime.deadlines import FetchClock
from streams.state.memory_journal import MemoryJournal
from tests.support.meshes import changed, loaded

GARBAGE = b"\x01\x01" + b"\xff" * 40


class Bus(MemoryBus):
    """A memory bus that knows how long letters may be, and says at once that it has what was sent."""

    def largest(self, _):
        return 10_000

    def send(self, topic, value, _=None):
        super().send(topic, value)


class Now:
    """A lane that does all at once."""

    def turn(self, action):
        action()

    do = put = turn

    def every(self, *_):
        pass

    after = every


class Watcher:
    """Keeps what was refused."""

    def __init__(self):
        self.reasons = []

    def refused(self, reason):
        self.reasons.append(reason)

    def __getattr__(self, _):
        return lambda *_: None


def test_a_look_at_the_owners_wish_is_for_plans_and_a_flood_of_garbage_costs_none(tmp_path):
    file = loaded(tmp_path, changed(rounds=60))
    before = MemoryMesh(mesh_parts(file), lambda *_: None)
    before.run()
    name, topics = next(iter(before.nodes)), file.resolved.topics
    own, bus, looks, watcher = (
        file.resolved.node(name),
        Bus(MemoryBroker([spec.name for spec in mesh_specs(file.resolved)])),
        [],
        Watcher(),
    )
    journal = MemoryJournal("a" * 32, file.mesh.horizon)
    starter = Starter(name, journal, own.surroundings, bus, lambda: "b" * 32, simulated=True, warn=print)
    node = LiveNode(
        starter.start(lambda asked: asked(), alone=True),
        own.learner,
        journal,
        own.surroundings,
        bus,
        FetchClock(time.monotonic),
        lambda _: None,
        watcher,
        lane=Now(),
        leave_from=lambda: looks.append(1),
    )
    node.begin(None)
    for offset in range(3):
        node.read(topics.topology, offset, GARBAGE, inf)
    assert (watcher.reasons, looks) == ([Reason.KIND] * 3, [])
    letters = [decode_dead_letter(letter) for letter in bus.read(topics.dead_letters(name), 0)]
    assert letters == [(topics.topology, GARBAGE, Reason.KIND.value)] * 3
    node.read(topics.topology, 3, before.bus.read(topics.topology, 0)[0], inf)
    assert (len(watcher.reasons), looks) == (3, [1])
