"""Schedulers with a wrong clock, where slots follow time: nobody plans ahead of the broker's, and all go on.

A slot takes a period of virtual time, so the round of the broker's clock is about that of the nodes.
"""

from dataclasses import replace
from itertools import pairwise

import pytest

from streams.bus.memory import Faults
from streams.bus.mesh_log import MeshLog
from streams.codec import Reason
from streams.local.mesh import MemoryMesh, MemoryScheduler
from streams.local.run import mesh_parts
from tests.support.meshes.files import changed, counted_ids, ignore, loaded
from topology.plans import SlotClock
from topology.scheduler import Refusal

PERIOD, HORIZON, ROUNDS = 1.0, 4, 60
HOUR = 3600.0
CLOCK = SlotClock(0.0, PERIOD, HORIZON)


class Mesh:
    """A mesh whose scheduler's clock is wrong by that many seconds; `believed`: as versions before did."""

    def __init__(self, folder, wrong, *, believed=False, start=0.0):
        parts = mesh_parts(loaded(folder, changed(rounds=ROUNDS, horizon=HORIZON)), silence=10.0)
        self.clock = replace(CLOCK, start=start)
        self.parts = replace(parts, clock=self.clock)
        self.mesh = MemoryMesh(self.parts, ignore, faults=Faults(slot_time=PERIOD), new_id=counted_ids())
        self.broker = self.mesh.broker
        if believed:
            self.mesh.scheduler.stop()
            self.mesh.scheduler = MemoryScheduler(parts, self.broker)
        self.mesh.scheduler.current = self.current(wrong)

    def current(self, wrong):
        return lambda: int(self.clock.round_at(self.broker.now + wrong))

    def beside(self, wrong):
        """Another scheduler of this version."""
        scheduler = MemoryScheduler(self.parts, self.broker)
        scheduler.current = self.current(wrong)
        return scheduler

    def finish(self):
        """Run to the end; return the time that it took."""
        while not self.mesh.done:
            assert self.mesh.advance(), "the mesh stands still"
            assert self.broker.now < 2 * ROUNDS * PERIOD, "the mesh is slow"
        return self.broker.now

    def steps(self):
        """The rounds that each node has stepped, in order."""
        return [[one.stepped for one in node.journal.records()] for node in self.mesh.nodes.values()]


@pytest.mark.parametrize("wrong", [HOUR, -HOUR, 0.0])
@pytest.mark.parametrize("second", [None, 0.0])
def test_a_wrong_clock_neither_stalls_nor_ends_a_run(tmp_path, wrong, second):
    mesh = Mesh(tmp_path, wrong)
    other = None if second is None else mesh.beside(second)
    assert mesh.finish() >= (ROUNDS - 3 * HORIZON) * PERIOD
    for steps in mesh.steps():
        assert steps[-1] == ROUNDS + 1  # a closing one
        assert all(after - before <= 3 * HORIZON for before, after in pairwise(steps))
    assert Refusal.AHEAD not in mesh.mesh.scheduler.refused + (other.refused if other else [])


def test_the_first_plan_of_a_late_start_is_of_the_brokers_round(tmp_path):
    mesh = Mesh(tmp_path, HOUR, start=-20 * PERIOD)
    mesh.finish()
    assert {steps[-1] for steps in mesh.steps()} == {ROUNDS + 1}
    plans = plans_of(mesh, mesh.clock)
    assert 20 <= min(plan for plan, follows in plans if plan > follows + 1) <= 24


def test_plans_of_a_scheduler_that_believes_its_clock_are_void_for_all(tmp_path):
    mesh = Mesh(tmp_path, HOUR, believed=True)
    right = mesh.beside(0.0)
    mesh.finish()
    assert {steps[-1] for steps in mesh.steps()} == {ROUNDS + 1}
    assert Refusal.AHEAD in right.refused
    for node in mesh.mesh.nodes.values():
        assert Reason.AHEAD in {refused.reason for _, refused in node.refused}


def test_a_void_plan_stays_void_for_those_who_start_later(tmp_path):
    mesh = Mesh(tmp_path, HOUR, believed=True)
    # the void record is newer than the positions in the journals
    while not any(plan > ROUNDS + 1 for plan, _ in plans_of(mesh, None)):
        assert mesh.mesh.advance()
        assert mesh.broker.now < ROUNDS * PERIOD
    mesh.mesh.scheduler.stop()
    for node in mesh.mesh.nodes.values():
        node.stop()
        node.start()
    late = mesh.beside(0.0)
    mesh.finish()
    assert {steps[-1] for steps in mesh.steps()} == {ROUNDS + 1}
    assert Refusal.AHEAD in late.refused


def plans_of(mesh, clock):
    """(round, follows) of every plan that is valid by that clock."""
    log = MeshLog(mesh.parts.topics, mesh.parts.digest, mesh.mesh.bus, clock=clock)
    return [(plan.round, plan.follows) for plan in log.valid_plans().values()]
