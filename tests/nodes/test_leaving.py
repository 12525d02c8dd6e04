"""A node that its owner asks to leave: it says so, goes on until the round that it named, and halts."""

import pytest

from nodes.machine.events import (
    Journal,
    LeaveAsked,
    OpenSlot,
    PlanArrived,
    SendHeartbeat,
    SendRelease,
    Started,
)
from nodes.protocol import Halt
from tests.support.nodes.machines import (
    feed,
    learner,
    machine,
    neighbours,
    of,
    plan,
    plans,
    run_rounds,
    slot,
    started,
)


def test_it_says_so_at_once_and_halts_when_no_plan_names_it():
    node = machine()
    started(node, *plans(1, 3))
    (said,) = of(feed(node, LeaveAsked(4)), SendHeartbeat)
    assert said.heartbeat.leave_from == 4
    feed(node, PlanArrived(plan(4, names="bc"), 4))
    taught = run_rounds(node, 1, 2)
    effects = feed(node, *neighbours(3))
    assert [sent.message.round for sent in of(taught + effects, SendRelease)] == [2, 3]
    assert [halt.reason for halt in of(effects, Halt)] == ["the node has left, as asked"]


def test_its_last_lesson_goes_out_and_it_learns_nothing_in_its_last_round():
    node = machine(learner(private=True))
    started(node, *plans(1, 3), LeaveAsked(4), PlanArrived(plan(4, names="bc"), 4))
    taught = run_rounds(node, 1, 2)
    assert [entry.record.charged for entry in of(taught, Journal)] == [1, 2]
    assert [opened.round for opened in of(taught, OpenSlot)] == [2]  # round 1 was open before
    lesson = of(taught, Journal)[-1].record
    assert of(taught, SendRelease)[-1].message.release.tobytes() == lesson.release.tobytes()
    (entry,) = of(feed(node, *neighbours(3)), Journal)
    assert (entry.record.exact, entry.record.charged) == (True, 2)
    assert entry.record.data_position == lesson.data_position


def test_a_plan_that_names_it_all_the_same_is_acted_on():
    node = machine()
    started(node, *plans(1, 5))
    feed(node, LeaveAsked(4))
    effects = run_rounds(node, 1, 2) + feed(node, *neighbours(3), *neighbours(4))
    assert not of(effects, Halt)  # planned before the schedulers had heard
    effects = feed(node, PlanArrived(plan(6, names="bc"), 6), *neighbours(5))
    assert of(effects, Halt)


def test_it_may_take_that_back():
    node = machine()
    started(node, *plans(1, 3))
    feed(node, LeaveAsked(4))
    (said,) = of(feed(node, LeaveAsked(None)), SendHeartbeat)
    assert said.heartbeat.leave_from is None
    feed(node, PlanArrived(plan(4, names="bc"), 4))
    assert not of(run_rounds(node, 1, 3), Halt)


def test_a_process_that_starts_after_its_last_round_halts():
    node = machine()
    effects = feed(node, Started(leave_from=4), PlanArrived(plan(7, names="bc"), 7))
    assert of(effects, SendHeartbeat)[0].heartbeat.leave_from == 4
    assert of(effects, Halt)


@pytest.mark.parametrize(("asked", "first", "why"), [(3, 3, "as asked"), (9, 4, "the budget is spent")])
def test_the_earlier_of_two_reasons_counts(asked, first, why):
    node = machine(learner(budget=2, after_budget="leave"))
    started(node, *plans(1, first - 1), PlanArrived(plan(first, names="bc"), first))
    (said,) = of(feed(node, LeaveAsked(asked)), SendHeartbeat)
    assert said.heartbeat.leave_from == first
    taught = run_rounds(node, 1, first - 2)
    budget_round = () if asked == first else (slot(first - 1),)
    (halt,) = of(taught + feed(node, *neighbours(first - 1), *budget_round), Halt)
    assert why in halt.reason
