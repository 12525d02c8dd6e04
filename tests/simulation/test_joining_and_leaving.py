"""Nodes come and go while a mesh runs: six become eight, and eight become five. Nobody loses a round."""

from copy import deepcopy

import pytest

from nodes.machine.events import Notice
from nodes.protocol import Noticed, Stepped
from streams.bus.memory import Faults
from streams.bus.mesh_log import MeshLog
from streams.codec import decode_release
from streams.local.mesh import MemoryMesh, MemoryNode, MemoryScheduler
from streams.local.run import mesh_parts
from streams.runtime.process import Unmendable
from streams.state.journal import MemoryJournal
from tests.support.meshes.files import changed, counted_ids, loaded, until

SIX, EIGHT, FIVE = "abcdef", "abcdefgh", "abdef"
TIMES = {"round_timeout": 5.0, "silence": 10.0}
PACED = Faults(slot_time=0.1)
"""Time passes, so heartbeats are sent."""


class Changing:
    """A mesh whose file changes: the processes of it, restarted one after another."""

    def __init__(self, folder, faults=PACED, names=SIX):
        self._folder, self._faults = folder, faults
        self.new_id, self.stepped, self.noticed = counted_ids(), {}, []
        self.parts = self.file(names, 0)
        self.mesh = MemoryMesh(self.parts, self.report, faults=faults, new_id=self.new_id)
        self.started = {name: [] for name in EIGHT}
        self.gone = {}

    def file(self, names, generation):
        """The parts of a mesh of these nodes, from a mesh file of that generation."""
        tree = changed(nodes=list(names), generation=generation, rounds=1000, horizon=8)
        tree["nodes"] = {name: {"source": {"kind": "localisation"}} for name in names}
        return mesh_parts(loaded(self._folder, tree), **TIMES)

    def report(self, name, report):
        match report:
            case Noticed(notice, source, round):
                self.noticed.append((name, notice, source, round))
            case Stepped(round):
                self.stepped.setdefault(name, []).append(round)

    def until(self, condition):
        until(self.mesh, condition)

    def go_on(self, names, rounds=3):
        """Advance until each of them has stepped some rounds more."""
        goals = {name: self.last(name) + rounds for name in names}
        self.until(lambda: all(self.last(name) >= goal for name, goal in goals.items()))

    def last(self, name):
        return self.stepped.get(name, [0])[-1]

    def take(self, names, generation):
        """Change the file: topics, the nodes one after another, then the scheduler."""
        self.parts = parts = self.file(names, generation)
        self.mesh.broker.create(parts.all_topics)
        for name in names:
            self.restart(name)
            if self.last(name):
                self.go_on([name])
        self.mesh.scheduler.stop()
        self.mesh.scheduler = MemoryScheduler(parts, self.mesh.broker)

    def restart(self, name, journal=None):
        old, parts = self.mesh.nodes.get(name), self.parts
        if old is not None:
            old.stop()
            journal = journal or old.journal
        journal = journal or MemoryJournal(self.new_id(), parts.horizon)
        node = self.mesh.nodes[name] = MemoryNode(
            name,
            parts.nodes[name],
            parts.context(name),
            self.mesh.broker,
            self._faults,
            new_id=self.new_id,
            journal=journal,
            report=self.report,
        )
        node.start()

    def leave(self, name):
        """Announce a last round, as the command does; return it."""
        newest = max(self.plans())
        self.mesh.nodes[name].leave(newest + self.parts.horizon + 1)
        return newest + self.parts.horizon

    def plans(self):
        """All valid plans by round."""
        return MeshLog(self.parts.topics, self.parts.digest, self.mesh.bus).valid_plans()

    def members(self):
        plans = self.plans()
        return "".join(member.name for member in plans[max(plans)].members)

    def values(self):
        """What all edges hold: {(source, round): {bytes}}."""
        found = {}
        for topic, log in self.mesh.broker.logs.items():
            kind, source, *_ = [*topic.split(".")[2:], ""]
            if kind == "edge":
                expected = self.parts_of(source).expected(source)
                for record in log.records:
                    message = decode_release(record.value, expected)
                    found.setdefault((source, message.round), set()).add(message.release.tobytes())
        return found

    def parts_of(self, source):
        return self.parts if source in self.parts.nodes else self.file(EIGHT, 1)


@pytest.mark.parametrize(
    "faults", [PACED, Faults(3, duplicate=0.1, slot_time=0.05), Faults(7, slot_time=1.0)]
)
def test_six_become_eight_and_eight_become_five_without_losing_a_round(tmp_path, faults):
    mesh = Changing(tmp_path, faults)
    mesh.go_on(SIX, 10)
    mesh.take(EIGHT, 1)
    mesh.go_on(EIGHT, 10)
    assert mesh.members() == EIGHT
    lasts = {name: mesh.leave(name) for name in "cgh"}
    mesh.until(lambda: all(mesh.mesh.nodes[name].halted for name in lasts))
    assert {name: mesh.last(name) for name in lasts} == lasts
    spent = {name: mesh.mesh.nodes.pop(name).journal.charged for name in lasts}
    mesh.take(FIVE, 2)
    mesh.go_on(FIVE, 10)
    assert mesh.members() == FIVE
    newest = mesh.plans()[max(mesh.plans())]
    assert newest.generation == 2
    named = dict(newest.named)
    assert all(named[name] >= charged > 10 for name, charged in spent.items())  # on record for good
    for name in FIVE:
        assert mesh.stepped[name] == list(range(1, mesh.last(name) + 1))
    assert {name for name, notice, *_ in mesh.noticed if notice is Notice.LISTENED} == set("gh")
    assert {name for name, notice, *_ in mesh.noticed if notice is Notice.JOINING} == set()
    lost = {
        frozenset((name, source)) for name, notice, source, _ in mesh.noticed if notice is Notice.GIVEN_UP
    }
    assert lost <= {frozenset("af"), frozenset("bc"), frozenset("cd"), frozenset("fg"), frozenset("ah")}
    assert all(len(found) == 1 for found in mesh.values().values()), "a round with two values"


def test_a_node_with_an_old_file_goes_on_and_knows_what_it_lacks(tmp_path):
    mesh = Changing(tmp_path)
    mesh.go_on(SIX, 5)
    mesh.parts = parts = mesh.file(EIGHT, 7)
    mesh.mesh.broker.create(parts.all_topics)
    for name in "gh":
        mesh.restart(name)
    mesh.mesh.scheduler.stop()
    mesh.mesh.scheduler = MemoryScheduler(parts, mesh.mesh.broker)
    mesh.go_on(EIGHT, 20)
    assert {mesh.mesh.nodes[name].role.generation for name in EIGHT} == {7}
    assert mesh.stepped["a"] == list(range(1, mesh.last("a") + 1))


def test_a_scheduler_with_an_old_file_plans_no_more(tmp_path):
    mesh = Changing(tmp_path)
    mesh.go_on(SIX, 5)
    old = mesh.mesh.scheduler
    mesh.parts = parts = mesh.file(SIX, 1)
    mesh.mesh.scheduler = MemoryScheduler(parts, mesh.mesh.broker)
    mesh.until(lambda: old.error is not None)
    assert isinstance(old.error, Unmendable)
    assert str(old.error).startswith(
        "plans are made by the mesh file of generation 1, which this process lacks"
    )
    plans = mesh.plans()
    mesh.mesh.scheduler.stop()
    first = next(round for round in sorted(plans) if plans[round].generation)
    assert all(plan.generation == (round >= first) for round, plan in plans.items())
    mesh.until(lambda: min(map(mesh.last, SIX)) == max(plans) - 1)  # the last one waits for a plan after it
    for _ in range(1000):
        mesh.mesh.advance()
    assert max(mesh.plans()) == max(plans)


def test_a_node_that_has_left_stays_out_when_it_is_started_again_and_may_come_back(tmp_path):
    mesh = Changing(tmp_path)
    mesh.go_on(SIX, 5)
    last = mesh.leave("c")
    node = mesh.mesh.nodes["c"]
    mesh.until(lambda: node.halted)
    assert mesh.last("c") == last
    node.stop()
    node.start()
    mesh.go_on("abdef", 20)
    assert node.halted
    assert mesh.last("c") == last
    assert mesh.members() == "abdef"
    node.leave(None)
    node.stop()
    node.start()
    mesh.go_on("c", 10)
    assert (mesh.members(), node.journal.charged) == (
        SIX,
        len(mesh.stepped["c"]) - 2,
    )  # it listened, and closed


def test_who_takes_the_word_back_in_time_stays(tmp_path):
    mesh = Changing(tmp_path)
    mesh.go_on(SIX, 5)
    last = mesh.leave("c")
    mesh.go_on("c", 2)
    mesh.mesh.nodes["c"].leave(None)
    mesh.until(lambda: mesh.last("c") > last + 20)
    assert mesh.stepped["c"] == list(range(1, mesh.last("c") + 1))


THREE = "ace"
"""A ring in which the ring of SIX has no edge: there each of them has two others as its neighbours."""


def test_a_machine_restored_with_its_older_file_and_journal_begins_a_new_life(tmp_path):
    """What it has released since is on edges that its file does not name."""
    mesh = Changing(tmp_path, names=THREE)
    mesh.go_on(THREE, 10)
    older = mesh.parts
    mesh.mesh.nodes["c"].stop()
    journal = deepcopy(mesh.mesh.nodes["c"].journal)
    mesh.take(SIX, 1)
    mesh.go_on(SIX, 10)
    assert not set(older.context("c").targets) & set(mesh.parts.context("c").targets)
    newer, mesh.parts = mesh.parts, older
    restored(mesh, journal)
    mesh.parts = newer
    mesh.restart("c")
    mesh.go_on(SIX, 10)
    assert all(len(found) == 1 for found in mesh.values().values()), "a round with two values"


def test_a_journal_restored_while_the_file_changes_begins_a_new_life(tmp_path):
    """What it lacks is on edges that only the older file names."""
    mesh = Changing(tmp_path, names=THREE)
    mesh.go_on(THREE, 10)
    journal = deepcopy(mesh.mesh.nodes["c"].journal)
    mesh.go_on(THREE, 3)
    mesh.parts = parts = mesh.file(SIX, 1)
    mesh.mesh.broker.create(parts.all_topics)
    restored(mesh, journal)
    mesh.take(SIX, 1)
    mesh.go_on(SIX, 10)
    assert all(len(found) == 1 for found in mesh.values().values()), "a round with two values"


def restored(mesh, journal):
    """Start c on that older journal; assert that it joins anew, at the charges that the journal knows."""
    life, charged = journal.instance, journal.charged
    mesh.restart("c", journal)
    assert mesh.mesh.nodes["c"].warnings == [
        "the journal is older than what it has published: joining as a new instance"
    ]
    assert journal.instance != life
    assert (journal.records(), journal.carried) == ((), charged)
