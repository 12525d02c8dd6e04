"""A node's role: what a record of the topology makes it do."""

from math import inf

from streams.bus.memory import MemoryBroker, MemoryBus
from streams.bus.topic_specs import mesh_specs
from streams.codec import Reason, decode_dead_letter
from streams.live.node_role import NodeObserver, NodeRole
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from streams.runtime.actions import at_once, in_memory
from streams.runtime.runner import Runner
from streams.state.memory_journal import MemoryJournal
from tests.support.meshes.files import changed, loaded

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
