"""The clock of slots by time, as far as the broker's confirms it."""

from math import inf

import pytest

from tests.support.nodes.scheduling import ABC, FULL, Mesh, beat, plan
from topology.planning import end_plan
from topology.plans import Member, SlotClock, after
from topology.scheduler import HeartbeatRead, PlansRead, PublishPlans, RecordsRefused, Refusal, Ticked

CLOCK = SlotClock(start=1000.0, period=10.0, horizon=4)
NOW = 1000.0 + 10 * 20  # the first moment of slot 21
MOST = 21 + 2 * 4 + 1


@pytest.mark.parametrize(
    ("seconds", "round"), [(-inf, 0), (999.9, 0), (1000, 1), (1009.9, 1), (1010, 2), (NOW, 21), (inf, inf)]
)
def test_a_round_is_a_slots_number(seconds, round):
    assert CLOCK.round_at(seconds) == round


@pytest.mark.parametrize(
    ("current", "confirmed", "counts"),
    [(381, NOW, 21), (20, NOW, 20), (381, inf, 381), (381, -inf, 0), (0, NOW, 0)],
)
def test_a_clock_counts_as_far_as_it_is_confirmed(current, confirmed, counts):
    assert CLOCK.bounded(current, confirmed) == counts


@pytest.mark.parametrize(
    ("round", "follows", "ahead"),
    [
        (MOST, 3, False),
        (MOST + 1, 3, True),
        (381, 0, True),
        (381, 380, False),  # no clock was asked: it is the next one
        (381, 381 - 9, False),  # lost plans may skip so many
        (381, 381 - 10, True),
    ],
)
def test_a_record_is_void_beyond_both_its_append_time_and_the_plan_before(round, follows, ahead):
    record = PlansRead(
        after(plan(follows, follows - 1, FULL) if follows else None, (plan(round, follows, FULL),))
    )
    assert CLOCK.is_ahead(record.record, NOW) is ahead
    assert not CLOCK.is_ahead(record.record, inf)


def test_a_jump_inside_a_record_voids_it_and_a_new_beginning_may_lie_anywhere():
    jump = after(plan(2, 1, FULL), (plan(3, 2, FULL), plan(381, 3, FULL)))
    assert CLOCK.is_ahead(jump, NOW)
    listeners = tuple(Member(member.name, member.instance, full=False) for member in FULL)
    assert not CLOCK.is_ahead(after(plan(2, 1, FULL), (plan(381, 2, listeners),)), NOW)
    last = plan(2, 1, FULL)
    assert CLOCK.is_ahead(after(last, (end_plan("r", 381, last, 0),)), NOW)


def test_a_scheduler_refuses_a_record_ahead_and_stays_where_it_is():
    mesh = Mesh()
    mesh.hear_all()
    before = mesh.machine.last
    record = after(before, (plan(381, before.round, FULL),))
    assert mesh.machine.handle(PlansRead(record, ahead=True)) == (RecordsRefused(Refusal.AHEAD),)
    assert mesh.machine.last is before


def test_a_scheduler_whose_own_record_is_void_plans_without_its_clock_until_the_next_tick():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear_all(stepped=1)
    last = mesh.machine.last
    machine = mesh.machine
    machine.handle(Ticked(0.0, current=381))
    published = [one for one in hear(machine, 2) if isinstance(one, PublishPlans)]
    assert published[0].plans[0].round == 381
    refused, again = machine.handle(PlansRead(after(published[0].last, published[0].plans), ahead=True))
    assert refused == RecordsRefused(Refusal.AHEAD)
    assert (again.last, again.plans[0].round) == (last, last.round + 1)


def test_a_scheduler_whose_records_are_all_void_writes_one_a_tick():
    """As where the broker's clock is far behind, and a run ends beyond lost plans."""
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear_all(stepped=1)
    machine = mesh.machine
    published = next(one for one in hear(machine, 2) if isinstance(one, PublishPlans))
    for _ in range(3):
        refused, *again = machine.handle(PlansRead(after(published.last, published.plans), ahead=True))
        assert (refused, again) == (RecordsRefused(Refusal.AHEAD), [])
        assert not [one for one in hear(machine, 2) if isinstance(one, PublishPlans)]
        (published,) = machine.handle(Ticked(1.0))


def hear(machine, stepped):
    """The effects of heartbeats of all."""
    return [effect for name in ABC for effect in machine.handle(HeartbeatRead(beat(name, stepped)))]
