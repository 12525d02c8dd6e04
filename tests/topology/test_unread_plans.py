"""Plans that a broker has acknowledged and lost before their own scheduler has read them."""

import pytest

from tests.support.nodes.scheduling import ABC, Mesh, beat
from topology.plans import after
from topology.scheduler import HeartbeatRead, PlansRead, PublishPlans, Ticked


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


def test_several_records_on_top_of_a_lost_one_do_not_make_each_other_again_for_ever():
    """Each void record is answered; an answer to an answer would fill the topology at full speed."""
    mesh = Mesh()
    mesh.hear_all()
    machine = mesh.machine
    _, *waiting = [sent for stepped in range(1, 5) for sent in published(machine, stepped)]
    assert [sent.last.round for sent in waiting] == [5, 6, 7]
    for _ in range(20):
        if waiting:
            sent = waiting.pop(0)
            effects = machine.handle(PlansRead(after(sent.last, sent.plans)))
            waiting += [effect for effect in effects if isinstance(effect, PublishPlans)]
    assert not waiting
    assert machine.last.round == 8


@pytest.mark.parametrize(("rounds", "silence", "least"), [(None, 6.0, 6.0), (5, 6.0, 6.0), (5, None, 10.0)])
def test_the_last_record_is_made_again_after_silence_although_nothing_follows_it(rounds, silence, least):
    """All H plans of a record, or the end of the run: nobody can step, so nothing more is planned."""
    mesh = Mesh(rounds=rounds, silence=silence)
    mesh.hear_all()
    machine = mesh.machine
    (lost,) = published(machine, 4)
    assert not [*machine.handle(Ticked(least - 1)), *published(machine, 4), *machine.handle(Ticked(1))]
    assert not published(machine, 4)  # they are live
    (again,) = machine.handle(Ticked(1))
    assert [plan.mark for plan in again.plans] == [plan.mark for plan in lost.plans]
    assert again.last is machine.last
    assert not machine.handle(PlansRead(after(again.last, again.plans)))
    assert machine.last.mark == lost.plans[-1].mark


def test_what_is_made_again_is_void_if_the_first_record_comes_yet():
    mesh = Mesh()
    mesh.hear_all()
    machine = mesh.machine
    (first,) = published(machine, 4)
    machine.handle(Ticked(9))
    published(machine, 4)
    (second,) = machine.handle(Ticked(2))
    for sent in (first, second):
        machine.handle(PlansRead(after(sent.last, sent.plans)))
    assert machine.last.mark == first.plans[-1].mark
    assert [plan.round for sent in published(machine, 8) for plan in sent.plans] == [9, 10, 11, 12]


def test_what_is_read_in_time_is_not_made_again():
    mesh = Mesh()
    mesh.hear_all()
    for round in range(1, 5):
        (sent,) = published(mesh.machine, round)
        assert not mesh.machine.handle(Ticked(8))
        mesh.machine.handle(PlansRead(after(sent.last, sent.plans)))
