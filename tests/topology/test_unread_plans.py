"""Plans that a broker has acknowledged and lost before their own scheduler has read them."""

from tests.support.scheduling import ABC, Mesh, beat
from topology.chain import after
from topology.scheduler import HeartbeatRead, PlansRead, PublishPlans


def published(machine, stepped):
    """What the machine publishes when all have stepped that round."""
    found = []
    for node in ABC:
        found += machine.handle(HeartbeatRead(beat(node, stepped)))
    return [effect for effect in found if isinstance(effect, PublishPlans)]


def test_plans_on_top_of_a_lost_one_are_made_again_and_not_for_ever():
    mesh = Mesh()
    mesh.hear_all()
    machine = mesh.machine
    (lost,) = published(machine, 1)
    (void,) = published(machine, 2)
    assert [plan.round for plan in (*lost.plans, *void.plans)] == [5, 6]
    _, once = machine.handle(PlansRead(after(void.last, void.plans)))
    assert [plan.round for plan in once.plans] == [6]  # the one before may only be late
    _, again = machine.handle(PlansRead(after(once.last, once.plans)))
    assert again.last.round == 4
    assert [plan.round for plan in again.plans] == [5, 6]
    assert not machine.handle(PlansRead(after(again.last, again.plans)))
    assert machine.last.round == 6
