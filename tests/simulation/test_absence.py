"""Nodes and schedulers that are slow, silent, gone, or back under another life."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from nodes.losses.losses import Squared
from nodes.machine.events import Notice
from nodes.protocol import Noticed, Stepped
from streams.bus.memory import Faults
from streams.codec import decode_dead_letter, decode_plans
from streams.local.mesh import MemoryMesh, MemoryScheduler
from streams.local.run import mesh_parts
from streams.state.journal import MemoryJournal
from tests.support.meshes.files import changed, counted_ids, ignore, lie, loaded, releases, until

TIMES = {"round_timeout": 5.0, "silence": 10.0}
CLOSED = 61
"""The closing round of a mesh of 60 rounds."""


class Watched:
    """A mesh, with what its nodes noticed and stepped."""

    def __init__(self, file, faults=None, change=None, **times):
        self.noticed, self.stepped = [], {name: [] for name in file.mesh.nodes}
        parts = mesh_parts(file, **times)
        parts = change(parts) if change else parts
        self.mesh = MemoryMesh(parts, self.report, faults=faults, new_id=counted_ids())

    def report(self, name, report):
        match report:
            case Noticed(notice, source, round):
                self.noticed.append((name, notice, source, round))
            case Stepped(round):
                self.stepped[name].append(round)

    def until(self, condition):
        until(self.mesh, condition)

    def until_round(self, round, name="a"):
        self.until(lambda: self.stepped[name] and self.stepped[name][-1] >= round)

    def finish(self):
        self.until(lambda: self.mesh.done)
        values, _ = releases(self.mesh)
        assert all(len(found) == 1 for found in values.values()), "a round with two values"
        return values

    def count(self, notice, source=None):
        return sum(1 for _, n, s, _ in self.noticed if n is notice and source in {None, s})


def edges_from(file, name):
    parts = mesh_parts(file)
    return [parts.topics.edge(name, target) for target in parts.scheduler.schedule.graph.neighbours(name)[1]]


def with_squared_loss(parts):
    """The parts of a mesh in which each sensor's data has another minimiser."""
    nodes = {
        name: replace(node, learner=replace(node.learner, loss=Squared()))
        for name, node in parts.nodes.items()
    }
    return replace(parts, nodes=nodes)


def final(mesh, name):
    return mesh.nodes[name].journal.records()[-1].release


@pytest.fixture
def file(tmp_path):
    return loaded(tmp_path, changed(rounds=60))


def test_a_slow_node_is_given_up_and_made_good_so_its_data_counts(tmp_path):
    tree = changed(rounds=200, privacy={"mechanism": "none", "gradient_bound": 100}, horizon=8)
    file = loaded(tmp_path, tree)
    undisturbed = Watched(file, change=with_squared_loss)
    undisturbed.finish()
    late = Faults(latency=dict.fromkeys(edges_from(file, "b"), 2.5), slot_time=1.0)
    watched = Watched(file, late, with_squared_loss, round_timeout=0.5)
    watched.finish()
    given_up = watched.count(Notice.GIVEN_UP, "b")
    assert given_up == watched.count(Notice.GIVEN_UP) > 300
    assert watched.count(Notice.CORRECTED, "b") >= 0.98 * given_up
    for name in "abcd":
        drift = final(watched.mesh, name) - final(undisturbed.mesh, name)
        assert np.abs(drift).max() < 0.1  # more than 1 without the correction


def test_a_node_that_dies_for_good_is_waited_for_once_and_then_left_out(file):
    watched = Watched(file, **TIMES)
    watched.until_round(5)
    watched.mesh.nodes["b"].stop()
    watched.until(lambda: all(watched.mesh.nodes[name].halted for name in "acd"))
    given_up = [item for item in watched.noticed if item[1] is Notice.GIVEN_UP]
    assert {source for _, _, source, _ in given_up} == {"b"}
    assert watched.stepped["a"][-1] == CLOSED
    assert watched.mesh.broker.now < 60 * 5.0  # zero seconds, once it was given up


def test_a_short_silence_gives_up_the_dead_alone(tmp_path):
    file = loaded(tmp_path, changed(rounds=60, horizon=16))  # every fourth round one more heartbeat
    watched = Watched(file, Faults(slot_time=0.5), round_timeout=0.3, silence=0.6)
    watched.until_round(20)
    assert watched.noticed == []
    watched.mesh.nodes["b"].stop()
    watched.until(lambda: all(watched.mesh.nodes[name].halted for name in "acd"))
    assert {source for _, _, source, _ in watched.noticed} == {"b"}
    assert watched.stepped["a"][-1] == CLOSED
    parts = watched.mesh.parts
    stored = watched.mesh.bus.read(parts.topics.topology, 0)
    plans = {
        plan.round: plan for one in stored for plan in decode_plans(one, parts.topics.run, parts.digest).plans
    }
    assert all(len(plans[round].members) == 4 for round in range(1, 21))
    assert [member.name for member in plans[60].members] == ["a", "c", "d"]  # with a beat a second it has b


def test_a_node_back_within_h_rounds_goes_on_where_it_was(file):
    watched = Watched(file, silence=1000.0, round_timeout=5.0)
    watched.until_round(5)
    watched.mesh.nodes["b"].stop()
    before = watched.stepped["b"][-1]
    watched.until_round(before + 2, "a")
    watched.mesh.nodes["b"].start()
    watched.finish()
    assert watched.stepped["b"] == list(range(1, CLOSED + 1))
    assert watched.count(Notice.JOINING) == 0


def test_a_node_back_after_more_than_h_rounds_joins_again_with_its_ledger_and_data_position(file):
    watched = Watched(file, **TIMES)
    watched.until_round(5)
    node = watched.mesh.nodes["b"]
    node.stop()
    charged = node.journal.charged
    watched.until_round(40)
    node.start()
    instance = node.journal.instance
    watched.finish()
    assert watched.count(Notice.LISTENED, "b") == 1
    assert node.journal.instance == instance
    missed = CLOSED - len(watched.stepped["b"])
    assert missed > 20
    records = node.journal.records()
    learnt = len(watched.stepped["b"]) - 2  # not in the round in which it listened, nor in the closing one
    assert records[-1].charged == learnt
    assert charged < learnt
    assert records[-1].data_position == ((0, learnt),)  # no record skipped, none twice


def test_a_lost_journal_joins_as_a_new_instance_and_no_round_has_two_values(file):
    watched = Watched(file, **TIMES)
    watched.until_round(20)
    node = watched.mesh.nodes["b"]
    node.stop()
    node.journal.renew("9" * 32)
    node.start()
    values = watched.finish()
    assert watched.count(Notice.LISTENED, "b") == 1
    assert ("b", 60) in values
    named = 19  # plans that had named b when it joined again, or a few more
    assert node.journal.records()[-1].charged >= named + 60 - 30


@pytest.mark.parametrize("round", [5, 20, 40])
def test_who_joins_under_a_new_journal_starts_from_what_the_others_released(file, round):
    watched = Watched(file, **TIMES)
    watched.until_round(round)
    node = watched.mesh.nodes["b"]
    node.stop()
    node.journal.renew("9" * 32)
    node.start()
    watched.until(lambda: watched.count(Notice.LISTENED, "b"))
    assert watched.count(Notice.OVERFULL) == 0
    assert not [item for item in watched.noticed if item[:2] == ("b", Notice.GIVEN_UP)]
    watched.finish()


def test_an_old_journal_is_found_out_and_joins_as_a_new_instance(file):
    watched = Watched(file, **TIMES)
    watched.until_round(10)
    node = watched.mesh.nodes["b"]
    old = node.journal.records()[:-1]
    instance = node.journal.instance
    watched.until_round(20)
    node.stop()
    node.journal = restored(watched.mesh, instance, old)
    node.start()
    assert node.journal.instance != instance
    watched.finish()
    assert watched.count(Notice.LISTENED, "b") == 1


def restored(mesh, instance, records):
    """A journal as a back-up would bring it back."""
    journal = MemoryJournal(instance, mesh.parts.horizon)
    for record in records:
        journal.append(record)
    return journal


def test_a_second_value_is_evidence_and_the_mesh_goes_on_without_its_source(file):
    watched = Watched(file, **TIMES)
    watched.until_round(5)
    mesh = watched.mesh
    lie(mesh, "b", "a")
    watched.until(lambda: watched.count(Notice.EVIDENCE, "b") == 1)
    watched.until(lambda: mesh.done)
    assert watched.stepped["a"][-1] == CLOSED
    assert all(notice is not Notice.EVIDENCE for name, notice, _, _ in watched.noticed if name != "a")


def test_any_number_of_schedulers_may_run_and_be_killed(file):
    plain = Watched(file)
    expected = plain.finish()
    watched = Watched(file, Faults(3))
    mesh = watched.mesh
    extra = [MemoryScheduler(mesh.parts, mesh.broker) for _ in range(2)]
    for round in range(5, 60, 5):
        watched.until_round(round)
        extra.pop(0).stop()
        extra.append(MemoryScheduler(mesh.parts, mesh.broker))
        if round == 20:
            mesh.scheduler.stop()
    assert watched.finish() == expected


def test_the_only_scheduler_may_be_killed_at_any_time_and_another_goes_on(file):
    expected = Watched(file).finish()
    watched = Watched(file)
    mesh = watched.mesh
    for n in itertools.count(1):
        if mesh.done:
            break
        assert mesh.advance(), "the mesh stands still"
        if n % 29 == 0:
            mesh.scheduler.stop()
            mesh.scheduler = MemoryScheduler(mesh.parts, mesh.broker)
    assert watched.finish() == expected


GARBAGE = [b"", b"\x00", b"{}", b"\x01" * 40, b"\x01\x01" + b"\xff" * 200, b"\x01\x02" + b"\x00" * 90]


@pytest.mark.parametrize("kind", ["edge", "topology", "progress"])
def test_garbage_on_the_mesh_is_counted_and_changes_nothing(file, kind):
    expected = Watched(file).finish()
    watched = Watched(file)
    mesh, topics = watched.mesh, watched.mesh.parts.topics
    watched.until_round(5)
    topic = {"edge": topics.edge("b", "a"), "topology": topics.topology, "progress": topics.progress("b")}[
        kind
    ]
    for value in GARBAGE:
        mesh.bus.send(topic, value)
    watched.until(lambda: mesh.done)
    letters = list(mesh.bus.read(topics.dead_letters("a"), 0))
    refused = [refused for _, refused in mesh.nodes["a"].refused]
    if kind == "progress":
        assert len(mesh.scheduler.refused) == len(GARBAGE)
    else:
        assert len(letters) == len(refused) == len(GARBAGE)
        assert [decode_dead_letter(letter)[:2] for letter in letters] == [(topic, g) for g in GARBAGE]
    for name in "abcd":
        mine = [record.release.tobytes() for record in mesh.nodes[name].journal.records()][:-1]
        rounds = [record.round for record in mesh.nodes[name].journal.records()][:-1]
        assert [{value} for value in mine] == [expected[name, round] for round in rounds]


def test_in_one_process_nobody_is_silent_unless_told(file):
    mesh = MemoryMesh(mesh_parts(file), ignore)
    mesh.run()
    assert mesh.broker.now == 0.0
    assert np.isfinite(final(mesh, "a")).all()
