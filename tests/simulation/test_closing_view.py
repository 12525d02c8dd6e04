"""The closing rounds of a run in one process: those of machines whose plans have them, and nothing else."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from nodes import values
from nodes.learner import Closing, Engine, State
from nodes.machine.events import Decided
from nodes.values import Consensus, Release
from streams.local.mesh import MemoryMesh
from streams.local.run import LocalRun, mesh_parts
from streams.tools.model.writing import journal_model
from tests.nodes.test_engine import CASES, meshed
from tests.support.meshes.classes import MOMENTS, SUMS, tree_of
from tests.support.meshes.files import changed, loaded, planned_to_close, until
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


def short(folder, form, rounds):
    """A ring of eight that learns in so few rounds that several closing ones follow."""
    form = form | {
        "privacy": form["privacy"] | {"epsilon": 20},
        "slots": {"by": "count", "size": 50 // rounds},
    }
    return loaded(folder, tree_of(folder, form, names=EIGHT, rounds=rounds))


@dataclass(frozen=True)
class Noise:
    """A decision that is the deviation of its consensus's noise."""

    length: int
    size: int = 1

    def __call__(self, means, deviations):
        return deviations[..., None]


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_decision_goes_by_the_noise_that_all_closing_rounds_have_left(tmp_path, rounds):
    file = short(tmp_path, MOMENTS, rounds)
    learner, schedule = file.resolved.node("a").learner, file.resolved.schedule
    algorithm = replace(learner.algorithm, decide_by=Noise(file.mesh.release_dimension))
    releases = Release(np.zeros((len(EIGHT), file.mesh.release_dimension)))
    steps = list(
        Engine(replace(learner, algorithm=algorithm), schedule).closing_steps(
            State(rounds + 1, releases, rounds), 6
        )
    )
    product, deviation = np.eye(len(EIGHT)), learner.algorithm.deviations(rounds)
    for step in steps:
        product = schedule.weights(step.round, tuple(EIGHT)).dense() @ product
        expected = deviation * np.linalg.norm(product, axis=1)
        np.testing.assert_allclose(step.decision[:, 0], expected, rtol=1e-12)
    assert steps[-1].decision.max() < 1.1 * deviation / math.sqrt(len(EIGHT))


def test_more_nodes_than_a_product_is_kept_for_go_by_each_rounds_weights(tmp_path, monkeypatch):
    file = short(tmp_path, MOMENTS, 1)
    monkeypatch.setattr(values, "MOST_ROWS", len(EIGHT) - 1)
    learner, schedule = file.resolved.node("a").learner, file.resolved.schedule
    algorithm = replace(learner.algorithm, decide_by=Noise(file.mesh.release_dimension))
    closing = Closing(algorithm, 2)
    for number in range(2, 5):
        weights = schedule.weights(number, tuple(EIGHT))
        _, decision = closing.mix(weights, Release(np.zeros((len(EIGHT), file.mesh.release_dimension))))
        share = np.linalg.norm(weights.dense(), axis=1)
        np.testing.assert_allclose(decision[:, 0], learner.algorithm.deviations(1) * share)


def test_a_sparse_decision_has_the_threshold_of_the_round_after_the_last_lesson(tmp_path):
    file = meshed(tmp_path, CASES["sparse-dola"])
    learner, schedule = file.resolved.node("a").learner, file.resolved.schedule
    releases = Release(np.full((4, file.mesh.dimension), 0.3))
    first, *_, last = Engine(learner, schedule).closing_steps(State(4, releases, 3), 5)
    np.testing.assert_allclose(first.decision, last.decision)


def test_a_node_that_is_started_again_while_the_run_closes_decides_as_if_it_had_not(tmp_path):
    file = short(tmp_path, MOMENTS, 1)
    uninterrupted, _ = by_machines(file)
    decisions = {}

    def report(name, reported):
        if isinstance(reported, Decided):
            decisions[name] = reported.round, reported.decision

    mesh = MemoryMesh(planned_to_close(file), report, state=tmp_path)
    until(mesh, lambda: decisions.get("c", (0, None))[0] == 4)
    mesh.nodes["c"].stop()
    mesh.nodes["c"].start()
    mesh.run()
    assert mesh.done
    assert {name: x.tobytes() for name, (_, x) in decisions.items()} == {
        name: x.tobytes() for name, x in uninterrupted.items()
    }


def test_a_journals_model_counts_no_closing_round_as_one_of_learning(tmp_path):
    form = MOMENTS | {"privacy": MOMENTS["privacy"] | {"epsilon": 20}, "slots": {"by": "count", "size": 50}}
    file = loaded(tmp_path, tree_of(tmp_path, form, names=EIGHT, rounds="none"))
    mesh = MemoryMesh(planned_to_close(file, rounds=1), lambda *_: None, state=tmp_path)
    mesh.run()
    record = mesh.nodes["c"].journal.records()[-1]
    mesh.close()
    assert record.round > 3
    algorithm = file.resolved.algorithm
    expected = algorithm.decide(2, Consensus(record.release))
    assert expected.tobytes() != algorithm.decide(record.round, Consensus(record.release)).tobytes()
    assert journal_model(file, tmp_path, "c").newest == tuple(expected.tolist())


def tree_of_many(**mesh):
    tree = changed(nodes=list(EIGHT), **mesh)
    tree["nodes"] = {name: {"source": {"kind": "localisation"}} for name in EIGHT}
    return tree


@pytest.mark.parametrize("form", [MOMENTS, SUMS], ids=["moments", "class-sums"])
def test_one_release_of_moments_or_sums_is_mixed_until_all_agree(tmp_path, form):
    file = short(tmp_path, form, 1)
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
