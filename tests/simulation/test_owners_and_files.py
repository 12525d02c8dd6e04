"""Histories in which owners leave, and in which a newer mesh file comes while the mesh runs."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from streams.mesh.file import load
from streams.simulation.faults import FaultKind, InjectedFault
from streams.simulation.search import MeshStage, run
from tests.simulation.test_standing_still import Planned

MESH = Path(__file__).parent / "mesh.yaml"


@pytest.fixture(scope="module")
def stage():
    return MeshStage(load(MESH))


def histories(stage, *kinds, most=12, signed=False):
    """Outcomes of the first seeds with these kinds of faults; `signed`: in which messages are signed."""
    scenes = ((seed, stage.scene(seed)) for seed in range(400))
    with_them = (
        seed
        for seed, scene in scenes
        if {fault.kind for fault in scene.faults}.issuperset(kinds) and scene.setting.signed >= signed
    )
    return [run(stage, seed) for seed in islice(with_them, most)]


def details(outcomes, what):
    return [line.detail for outcome in outcomes for line in outcome.history.lines if line.what == what]


def test_owners_leave_and_take_it_back_and_every_rule_holds(stage):
    outcomes = histories(stage, FaultKind.LEAVES)
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    assert any("has left, as asked" in detail for detail in details(outcomes, "ends"))


def test_a_node_that_has_left_is_let_in_again(stage):
    """The owner of a lets it leave early, and come back once it has left."""
    leaves = InjectedFault(60, FaultKind.LEAVES, "a", 0.5, 1)
    scenes = (stage.scene(seed) for seed in range(100))
    seeds = [
        scene.setting.seed for scene in scenes if scene.setting.rounds > 20 and not scene.setting.clocked
    ]
    ends = []
    for seed in seeds[:4]:
        outcome = run(Planned(leaves), seed)
        assert outcome.violation is None
        ends += [line.detail for line in outcome.history.lines if line.what == "ends"]
    assert any("its owner lets it come back" in detail for detail in ends)


def test_a_newer_file_adds_a_node_that_listens_and_is_heard(stage):
    outcomes = histories(stage, FaultKind.NEW_FILE)
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    planned = details(outcomes, "plans")
    added = max(stage.names)
    assert any(f"{added} listens" in detail for detail in planned)
    assert any("gets a newer mesh file" in detail for detail in details(outcomes, "ends"))
    for outcome in outcomes:
        files = stage.scene(outcome.seed).files
        before, after = (tree["mesh"]["nodes"] for tree, _ in files.values())
        assert set(after) - set(before) == {added}


def test_processes_that_come_back_with_the_older_file_give_nothing_twice(stage):
    outcomes = histories(stage, FaultKind.NEW_FILE, FaultKind.OLD_FILE, most=16)
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    assert any("gets the older mesh file" in detail for detail in details(outcomes, "ends"))


def test_what_was_signed_counts_for_nothing_on_another_topic_and_changes_nothing_on_its_own(stage):
    outcomes = histories(stage, FaultKind.REPLAY, signed=True)
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    assert len(details(outcomes, "replays")) > 12
    assert any("signature from" in detail for detail in details(outcomes, "refuses"))


def test_what_a_stranger_has_moved_to_another_topic_may_come_back(stage):
    """Releases stand on the progress of nodes by replays; others send progress to edges."""
    outcome = run(stage, 1886)
    assert len(details([outcome], "replays")) > 2
    assert outcome.violation is None


def test_one_node_s_own_epsilon_is_drawn_where_the_mesh_file_has_none(stage):
    trees = [next(iter(stage.scene(seed).files.values()))[0] for seed in range(12)]
    own = [tree["mesh"]["nodes"]["b"] for tree in trees]
    assert {"epsilon": "1/2"} in own
    assert None in own


class Stuck(MeshStage):
    """A stage on which one owner asks to leave soon, and the node's process then beats and never steps."""

    def scene(self, seed, keep=None):
        leaves = InjectedFault(200, FaultKind.LEAVES, "a", 9.0, 1)
        return replace(
            super().scene(seed, keep),
            faults=(leaves, InjectedFault(204, FaultKind.STUCK_FOREVER, "a", 0.0, 0)),
        )


def test_nobody_waits_for_ever_for_a_node_that_leaves_and_does_not_step():
    """Its plans were made before it asked: until the round in which it leaves it held all others."""
    stage = Stuck(load(MESH))
    outcomes = [run(stage, seed) for seed in range(30)]
    assert [outcome.violation for outcome in outcomes if outcome.violation] == []
    assert any("without a" in line.what for outcome in outcomes for line in outcome.history.lines)
