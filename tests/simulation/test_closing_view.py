"""The closing rounds of a run in one process: those of machines whose plans have them, and nothing else."""

import numpy as np
import pytest

from nodes.machine.events import Decided
from streams.local.mesh import MemoryMesh
from streams.local.run import LocalRun, mesh_parts
from tests.nodes.test_engine import CASES, meshed
from tests.support.meshes.classes import MOMENTS, SUMS, tree_of
from tests.support.meshes.files import changed, loaded, planned_to_close
from topology.schedules import closing_rounds

EIGHT = "abcdefgh"
OTHER_NOISE = {"a": {"epsilon": 4}, "b": {}, "c": {"mechanism": "none"}, "d": {"epsilon": 0.1}}
LEAVERS = {"a": {"epsilon": 2}, "b": {}, "c": {}, "d": {"epsilon": 0.5}}


def by_machines(file):
    """The decision of each node's last round, where plans have closing rounds, and the last plan's round."""
    decisions = {}

    def report(name, reported):
        if isinstance(reported, Decided):
            decisions[name] = reported.decision

    mesh = MemoryMesh(planned_to_close(file), report)
    mesh.run()
    assert mesh.done
    mesh.close()
    return decisions, max(node.journal.records()[-1].round for node in mesh.nodes.values())


def in_one_process(file):
    """The run, ended, and each node's decision in its last closing round."""
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    local.finish()
    return local, dict(zip(local.recorder.nodes, local.recorder.last_decisions(), strict=True))


def same(file):
    """Assert that both have the same bits; return the number of closing rounds."""
    decisions, last = by_machines(file)
    local, closed = in_one_process(file)
    assert {name: one.tobytes() for name, one in closed.items()} == {
        name: one.tobytes() for name, one in decisions.items()
    }
    for name, node in local.recorder.nodes.items():
        assert node.decisions[-1].tobytes() != closed[name].tobytes()
    return last - max(node.newest.round for node in local.recorder.nodes.values())


def tree_of_many(**mesh):
    tree = changed(nodes=list(EIGHT), **mesh)
    tree["nodes"] = {name: {"source": {"kind": "localisation"}} for name in EIGHT}
    return tree


@pytest.mark.parametrize("form", [MOMENTS, SUMS], ids=["moments", "class-sums"])
def test_one_release_of_moments_or_sums_is_mixed_until_all_agree(tmp_path, form):
    form = form | {"privacy": form["privacy"] | {"epsilon": 20}, "slots": {"by": "count", "size": 50}}
    file = loaded(tmp_path, tree_of(tmp_path, form, names=EIGHT, rounds=1))
    assert same(file) == closing_rounds(file.resolved.schedule, 1) > 4


@pytest.mark.parametrize("rounds", [1, 3, 12])
def test_a_run_that_is_short_for_its_graph_has_several(tmp_path, rounds):
    file = loaded(tmp_path, tree_of_many(rounds=rounds))
    assert same(file) == closing_rounds(file.resolved.schedule, rounds)


@pytest.mark.parametrize("case", ["switching", "cycle", "velocity", "parameters", "moments", "budget"])
def test_every_kind_of_mesh(tmp_path, case):
    assert same(meshed(tmp_path, CASES[case])) == 1


def test_each_node_relays_within_its_own_bound(tmp_path):
    on_parameters = {"on": "parameters", "norm": "l2"}
    same(loaded(tmp_path, changed(rounds=2, nodes=OTHER_NOISE, privacy=on_parameters)))


def test_who_has_left_has_its_last_decision(tmp_path):
    privacy = {"budget": 4, "after_budget": "leave"}
    decisions, _ = by_machines(loaded(tmp_path, changed(privacy=privacy, nodes=LEAVERS)))
    local, closed = in_one_process(loaded(tmp_path, changed(privacy=privacy, nodes=LEAVERS)))
    assert [len(node.rounds) for node in local.recorder.nodes.values()] == [3, 5, 5, 8]
    assert {name: one.tobytes() for name, one in closed.items()} == {
        name: one.tobytes() for name, one in decisions.items()
    }


def test_who_leaves_once_its_budget_is_spent_has_one_closing_round(tmp_path):
    """A ring of eight would need more, but no plan names it in the second one."""
    file = loaded(tmp_path, tree_of_many(privacy={"budget": 2, "after_budget": "leave"}))
    assert closing_rounds(file.resolved.schedule, 2) > 1
    assert same(file) == 1


def test_no_release_is_sent_and_no_journal_written(tmp_path):
    file = loaded(tmp_path, tree_of_many(rounds=2))
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    before = {name: node.journal.records() for name, node in local.mesh.nodes.items()}
    ends = {topic: local.mesh.bus.end(topic) for topic in local.mesh.parts.all_topics}
    local.finish()
    assert {topic: local.mesh.bus.end(topic) for topic in local.mesh.parts.all_topics} == ends
    for name, records in before.items():
        assert local.mesh.nodes[name].journal.records()[-1].round == records[-1].round == 3
        assert not np.array_equal(local.recorder.nodes[name].closed, local.recorder.nodes[name].decisions[-1])
