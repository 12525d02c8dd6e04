"""Closing rounds on a broker: the last lesson goes out and is mixed, whatever ends the learning."""

import numpy as np
import pytest

from nodes.values import Consensus
from streams.local.run import LocalRun, mesh_parts
from streams.status.audit import read_mesh
from streams.tools.model.writing import public_model
from tests.kafka.test_equality import WAITING, equal
from tests.support.meshes.classes import MOMENTS, tree_of
from tests.support.meshes.files import written
from tests.support.meshes.on_broker import decisions, small_mesh_file
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory, wait_until
from topology.schedules import closing_rounds

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LEAVING = {
    "nodes": {"a": {"epsilon": 2}, "b": {"epsilon": 0.5}, "c": {"epsilon": 0.5}},  # nobody is left alone
    "privacy": {"mechanism": "laplace", "gradient_bound": 0.5, "noise": "simulated", "epsilon": 1}
    | {"budget": 6, "after_budget": "leave"},
}


def learning_and_closing(mesh):
    """How many closing rounds each plan on the broker leaves; -1: it ends the run."""
    return [-1 if plan.ended else plan.closing for plan in read_mesh(mesh.file).plans]


def newest_round(mesh, name, broker):
    found = decisions(broker.address, mesh.file.data_topics(name))
    return max((decision["round"] for decision in found), default=0)


def test_one_release_is_mixed_in_as_many_rounds_as_the_graph_needs_as_in_one_process(tmp_path, broker):
    privacy = MOMENTS["privacy"] | {"epsilon": 20}
    base = written(tmp_path, tree_of(tmp_path, MOMENTS | {"privacy": privacy}, rounds=1))
    path = mesh_file(tmp_path, base, broker.address, **WAITING | {"slots": WAITING["slots"] | {"size": 60}})
    with LiveMesh(path) as mesh:
        mesh.run_through()
        closing = closing_rounds(mesh.file.resolved.schedule, 1)
        assert learning_and_closing(mesh) == [0, *range(closing, 0, -1), -1]
        local = LocalRun(mesh_parts(mesh.file))
        model = public_model(mesh.file)
    local.mesh.run()
    local.finish()
    assert closing > 1
    for name, node in local.recorder.nodes.items():
        last = max(decisions(broker.address, mesh.file.data_topics(name)), key=lambda each: each["round"])
        assert (last["round"], last["x"]) == (1 + closing, node.closed.tolist())
    newest = [
        np.frombuffer(value) for (_, round), value in released_in_memory(path).items() if round == 1 + closing
    ]
    decision = mesh.file.resolved.algorithm.decide(2, Consensus(np.mean(newest, 0)), 1 / len(newest))
    assert model.newest == pytest.approx(decision.tolist(), abs=1e-12)


def test_who_leaves_once_its_budget_is_spent_sends_its_last_lesson_first(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds=40, **LEAVING)
    with LiveMesh(path) as mesh:
        mesh.run_through()
        values = mesh.values()
        equal(values, released_in_memory(path))
    for name in mesh.file.mesh.nodes:
        last = mesh.file.resolved.node(name).ledger.last_learning_round
        released = {round: exact for (source, round), ((_, exact, _),) in values.items() if source == name}
        assert max(released) == last + 1
        assert released[last + 1] is False


def test_after_end_the_last_lesson_is_mixed(tmp_path, broker):
    path = small_mesh_file(tmp_path, broker.address, rounds="none", horizon=8)
    with LiveMesh(path) as mesh:
        mesh.feed_all("--records", "200")
        mesh.scheduler()
        first, *_ = mesh.nodes()
        wait_until(lambda: newest_round(mesh, first, broker) > 10)
        assert mesh.start("end", "end", path, "--yes").ends() == 0
        mesh.finish()
        plans = read_mesh(mesh.file).plans
    assert [plan.closing for plan in plans[:-2]] == [0] * (len(plans) - 2)
    assert (plans[-2].closing, plans[-1].ended) == (1, True)
    for name in mesh.file.mesh.nodes:
        assert newest_round(mesh, name, broker) == plans[-2].round
        told = {round for source, round in mesh.values() if source == name}
        assert told == {plan.round for plan in plans[:-1]}
