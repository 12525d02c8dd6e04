"""Meshes whose machines lose power with `durability: process`: on a disk that loses any unsynced sectors.

Journals are the product's own, on SQLite files. Whatever was lost, no round has two values of one instance,
no record is in two releases, charges err upwards, and the run goes on. Each of the mechanism's parts is
needed: a bug planted there is found.
"""

import json
from collections import defaultdict
from contextlib import suppress
from functools import partial
from itertools import islice

import numpy as np
import pytest

from nodes.machine.events import BeforeStep
from nodes.machine.journal import Bound, Bounds
from nodes.privacy.owner import disclosed_to_owner
from nodes.protocol import Stepped
from streams.bus.memory import Faults
from streams.codec import decode_release
from streams.local import mesh as local_mesh
from streams.local import mesh as memory_mesh
from streams.local.mesh import MemoryMesh, MemoryScheduler
from streams.local.run import mesh_parts
from streams.simulation.disk import SimulatedDisk, has_disks, on_disks
from streams.simulation.node import DataTopic
from streams.state import folder as state_folder
from streams.state import journal
from streams.state.folder import JournalError
from streams.state.journal import open_journal
from tests.support.meshes.files import changed, counted_ids, loaded

pytestmark = pytest.mark.skipif(not has_disks(), reason="SQLite's functions have no names here")
ROUNDS, HORIZON, RECORDS = 40, 4, 600
CUTS = 4
"""Power cuts of one history: of one machine, or of all at once."""
COUNTED = {"slots": {"by": "count", "size": 2}}
TIMED = {"slots": {"by": "time", "start": 0, "period": 1.0, "size": 2}}


class PoweredMesh:
    """A mesh each of whose nodes has a machine and a disk of its own.

    Where all lose power at once, brokers and scheduler may too: then logs lose what came last.
    """

    def __init__(self, folder, file, seed):
        self.chance = np.random.Generator(np.random.Philox(seed))
        self.disks, self.cuts, self.new_lives, self.broker_cuts = {}, 0, 0, 0
        self.folder, self.new_id = folder, counted_ids()
        self.boot = state_folder.BOOT_ID
        self.boot.write_text("first\n")
        self.slots = defaultdict(set)  # the places of what was learnt in a round of an instance
        self.values = defaultdict(set)  # what was ever on an edge, by source, instance and round
        self.charged = defaultdict(int)  # by node: the releases that were drawn, of all its lives
        self.parts = mesh_parts(file, round_timeout=2.0, silence=4.0)
        with on_disks():
            self.mesh = MemoryMesh(
                self.parts,
                self.report,
                state=folder,
                faults=Faults(seed=seed, slot_time=0.25, duplicate=float(self.chance.choice([0.0, 0.2]))),
                new_id=self.new_id,
            )
        self.nodes, self.bus = self.mesh.nodes, self.mesh.bus

    def open(self, state, node, around, instance, price):
        """Open a node's journal, on its own disk."""
        folder = state / node
        if node not in self.disks:
            folder.mkdir()
            self.disks[node] = SimulatedDisk(folder)
        learner = self.parts.nodes[node].learner
        bounds = Bounds(self.parts.horizon, learner.batch_size, learner.ledger)
        with on_disks():
            return open_journal(folder, node, around, instance, price, bounds)

    def report(self, name, report):
        if isinstance(report, BeforeStep):
            places = disclosed_to_owner(report.places)
            key = (name, self.nodes[name].journal.instance, report.round)
            self.slots[key] |= {(name, *place) for place in places}
        elif isinstance(report, Stepped) and not report.record.exact:
            self.charged[name] += 1

    def advance(self, steps):
        """Do so many steps, if there are so many."""
        for _ in range(steps):
            if self.mesh.done:
                return
            assert self.mesh.advance(), "the mesh stands still"
            assert self.mesh.broker.now < 1000, "the mesh does not end"

    def cut(self, names):
        """The machines of these nodes lose power, at once: between two events, or within an append."""
        running = [name for name in names if not self.nodes[name].halted]
        if self.chance.random() < 0.5:
            for name in running:
                self.disks[name].operations = int(self.chance.integers(6))
            with suppress(JournalError):
                self.advance(int(self.chance.integers(1, 30)))
        for name in running:
            node = self.nodes[name]
            self.disks[name].off = True
            node.stop()
            with suppress(Exception):
                node.journal.close()
            self.disks[name].lose(self.chance)
        self.boot.write_text("another\n")
        for name in running:
            node, before = self.nodes[name], self.nodes[name].journal.instance
            node.journal = self.open(
                self.folder, name, node._mesh, self.new_id(), self.parts.prices.get(name)
            )
            assert node.journal.was_cut == (node.journal.instance != before)
            self.new_lives += node.journal.was_cut
            assert node.journal.charged >= self.charged[name]
            self.cuts += 1
        self.boot.write_text("first\n")
        if len(names) == len(self.nodes) and self.chance.random() < 0.5:
            self.cut_brokers()
        for name in running:
            self.mesh.broker.after(float(self.chance.choice([0.0, 0.5])), partial(self.start, name))

    def start(self, name):
        """Start a node's process, unless one runs: its machine may have lost power twice."""
        if self.nodes[name].role is None:
            self.nodes[name].start()

    def cut_brokers(self):
        """Logs lose what came last; the first plans stay, as without any a mesh waits for all."""
        self.look()
        self.mesh.scheduler.stop()
        for topic, log in self.mesh.broker.logs.items():
            first = 1 if topic == self.parts.topics.topology else 0
            del log.records[max(first, len(log.records) - int(self.chance.integers(4))) :]
        self.mesh.scheduler = MemoryScheduler(self.parts, self.mesh.broker)
        self.broker_cuts += 1

    def look(self):
        """Collect what is on the edges."""
        for name in self.nodes:
            for target in self.parts.context(name).targets:
                for value in self.bus.read(self.parts.topics.edge(name, target), 0):
                    message = decode_release(value, self.parts.expected(name))
                    place = name, message.instance, message.round
                    self.values[place].add(message.release.tobytes())

    def run(self):
        for _ in range(CUTS):
            self.advance(int(self.chance.integers(20, 220)))
            everybody = list(self.nodes)
            whom = everybody if self.chance.random() < 0.5 else [str(self.chance.choice(everybody))]
            self.cut(whom)
        while not self.mesh.done:
            self.advance(1000)

    def check(self):
        self.look()
        assert {place for place, values in self.values.items() if len(values) > 1} == set()
        seen = {}
        for key, places in self.slots.items():
            for place in places:
                assert seen.setdefault(place, key) == key, "a record is in two releases"
        for name, node in self.nodes.items():
            assert self.charged[name] <= node.journal.charged <= self.charged[name] + HORIZON * self.cuts
            assert max(round_ for who, _, round_ in self.values if who == name) >= ROUNDS

    def close(self):
        self.mesh.close()
        for disk in self.disks.values():
            disk.remove()


@pytest.fixture
def powered(tmp_path, monkeypatch):
    """Returns what runs one history of a mesh file with a seed, and returns the mesh."""
    monkeypatch.setattr(state_folder, "BOOT_ID", tmp_path / "boot_id")
    monkeypatch.setattr(memory_mesh, "DataLog", lambda records: DataTopic(tuple(islice(records, RECORDS))))
    files = {}

    def run(mesh, seed):
        key = json.dumps(mesh)
        if key not in files:
            files[key] = loaded(tmp_path, changed(rounds=ROUNDS, horizon=HORIZON, **mesh))
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        made = PoweredMesh.__new__(PoweredMesh)
        monkeypatch.setattr(local_mesh, "open_journal", lambda *owner: PoweredMesh.open(made, *owner))
        made.__init__(folder, files[key], seed)
        try:
            made.run()
            made.check()
        finally:
            made.close()
        return made

    return run


@pytest.mark.parametrize("slots", [COUNTED, TIMED], ids=["by count", "by time"])
@pytest.mark.parametrize(
    "seeds", [range(6), pytest.param(range(6, 60), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_a_power_cut_costs_no_privacy_and_no_run(powered, slots, seeds):
    made = [powered(slots, seed) for seed in seeds]
    assert sum(mesh.cuts for mesh in made) > 5 * len(seeds)
    assert sum(mesh.new_lives for mesh in made) > 2 * len(seeds)
    assert sum(mesh.broker_cuts for mesh in made) >= len(seeds) / 3


PLANTED = {
    "steps beyond the bound are not synced": (Bound, "covers", lambda self, record: True),
    "the next life reads where the last record did": (
        Bound,
        "inherited",
        lambda self, newest: newest._replace(charged=self.charged, epsilon_spent=self.epsilon_spent),
    ),
    "the next life is charged what its journal has": (
        Bound,
        "inherited",
        lambda self, newest: newest._replace(data_position=self.read, read=self.read),
    ),
    "the same life goes on": (journal.SqliteJournal, "renew", lambda self, instance, **_: None),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_each_part_of_the_mechanism_is_needed(powered, monkeypatch, bug):
    monkeypatch.setattr(*PLANTED[bug])
    with pytest.raises(AssertionError):
        powered_often(powered)


def powered_often(powered):
    """Run histories until one fails."""
    for seed in range(40):
        powered(COUNTED, seed)
