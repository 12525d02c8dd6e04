"""A simulated mesh may stand still only where the rules say so: it waits for somebody who never comes."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from streams.mesh.file import load
from streams.simulation.faults import FaultKind, InjectedFault
from streams.simulation.search import MeshStage, run
from topology.scheduler import SchedulerMachine

MESH = Path(__file__).parent / "mesh.yaml"
WAITS = "for somebody who is broken for ever"


class Planned(MeshStage):
    """A stage on which these faults happen, and no others, in the same rounds whatever a seed draws.

    Each node has a process, and appends in its turn. All nodes are there from the first round on: a seed may
    draw an older mesh file that lacks the last one, and the fault that brings the newer one does not happen.
    """

    def __init__(self, *faults):
        super().__init__(load(MESH))
        self._faults = faults

    def scene(self, seed, keep=None):
        scene = super().scene(seed, keep)
        newest = max(scene.files)
        return replace(
            scene,
            setting=replace(scene.setting, hosted=False, append_time=0.0),
            files={newest: scene.files[newest]},
            faults=self._faults,
        )


def seeds():
    """Seeds of histories that are long beside their horizon: no end is planned before the faults.

    Nor later, by a clock, while the mesh waits; and nobody is given up early.
    """
    stage = MeshStage(load(MESH))
    scenes = (stage.scene(seed) for seed in range(100))
    return [scene.setting.seed for scene in scenes if _is_long(scene)][:5]


def _is_long(scene):
    setting, rounds = scene.setting, scene.parts.scheduler.rounds  # budgets may end it before its last
    return setting.horizon == 4 and rounds > 16 and not setting.clocked and setting.slow == inf


SEEDS = seeds()


def lost(*names, at=200):
    return [
        InjectedFault(at + place, FaultKind.LOST_JOURNAL, name, 0.1, 0) for place, name in enumerate(names)
    ]


def dead(name, at=190):
    return InjectedFault(at, FaultKind.DEAD, name, 0.0, 0)


def mute(name, at=190):
    return InjectedFault(at, FaultKind.MUTE_FOREVER, name, 0.0, 0)


def waited(found):
    return [line.detail for line in found.history.lines if line.what == "wait"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("broken", [dead, mute])
def test_it_waits_for_the_only_journal_although_its_node_never_comes_back(broken, seed):
    """So it must: the node may come back, and silence ends no run."""
    found = run(Planned(broken("a"), *lost("b", "c", "d")), seed)
    assert found.violation is None
    assert waited(found) == [WAITS]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_waits_for_the_only_journal_after_the_plans_have_left_its_node_out(seed):
    found = run(Planned(dead("a", at=80), *lost("b", "c", "d", at=250)), seed)
    assert found.violation is None
    assert waited(found) == [WAITS]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_waits_for_all_before_the_first_plan(seed):
    found = run(Planned(InjectedFault(1, FaultKind.SCHEDULER_CRASH, "b", 2.0, 0), dead("a", at=8)), seed)
    assert found.violation is None
    assert waited(found) == [WAITS]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "faults",
    [
        (dead("a"), *lost("b", "c")),  # d goes on, and they listen to it
        tuple(lost("b", "c", "d")),  # a does
        tuple(lost("a", "b", "c", "d")),  # nobody can: the run is over
    ],
    ids=["a journal is left", "all are there", "no journal is left"],
)
def test_else_it_comes_to_the_end(faults, seed):
    found = run(Planned(*faults), seed)
    assert found.violation is None
    assert not waited(found)


@pytest.mark.parametrize("faults", [(), (dead("a"),), (dead("a"), *lost("b", "c"))])
def test_a_mesh_that_should_go_on_may_not_wait(monkeypatch, faults):
    """A scheduler that plans nothing from round 8 on: somebody broken excuses nothing."""
    following = SchedulerMachine._next

    def until_8(self, last):
        return None if last is not None and last.round >= 8 else following(self, last)

    monkeypatch.setattr(SchedulerMachine, "_next", until_8)
    found = run(Planned(*faults), SEEDS[0])
    assert found.violation is not None
    assert "does not go on" in found.violation


def test_nor_may_one_whose_run_is_over(monkeypatch):
    """No journal is left, and everybody is there to say so, but no plan ends the run."""
    monkeypatch.setattr("topology.scheduler.is_over", lambda *_: False)
    found = run(Planned(*lost("a", "b", "c", "d")), SEEDS[0])
    assert found.violation is not None
    assert "does not go on" in found.violation
