"""Plans carry the generation of their scheduler's mesh file; one with an older file plans no more."""

from dataclasses import replace

import pytest

from tests.support.nodes.scheduling import FULL, Mesh, beat, plan, record, settings
from topology.plans import after
from topology.scheduler import PlansRead, SchedulerMachine, SchedulerStarted


def test_plans_carry_the_generation_of_the_file():
    mesh = Mesh(generation=3)
    mesh.hear_all()
    assert [one.generation for one in mesh.plans] == [3, 3, 3, 3]
    mesh.hear(*(beat(name, 0, leave_from=5) for name in "abc"))
    assert (mesh.plans[-1].ended, mesh.plans[-1].generation) == (True, 3)


def test_who_reads_a_higher_one_plans_no_more_and_says_which():
    mesh = Mesh(generation=3)
    mesh.hear_all()
    assert mesh.machine.superseded is None
    mesh.send(PlansRead(after(mesh.plans[-1], (replace(plan(5, 4, FULL), generation=5),))))
    assert mesh.machine.superseded == 5
    assert mesh.hear_all(5) == []
    assert mesh.refused == []


@pytest.mark.parametrize(("own", "planned"), [(4, []), (5, [5, 6, 7, 8]), (6, [5, 6, 7, 8])])
def test_a_start_after_the_plans_of_a_newer_file_plans_nothing(own, planned):
    earlier = [replace(plan(round, round - 1, FULL), generation=5) for round in range(1, 5)]
    mesh = Mesh(plans=earlier, generation=own)
    mesh.hear_all(4)
    assert [one.round for one in mesh.plans[4:]] == planned
    assert mesh.machine.superseded == (5 if own < 5 else None)


def test_a_void_record_of_a_newer_file_changes_nothing():
    machine = SchedulerMachine(settings())
    machine.handle(SchedulerStarted())
    void = replace(plan(9, 8, FULL), generation=5)
    machine.handle(PlansRead(record(void)))
    assert machine.superseded is None
