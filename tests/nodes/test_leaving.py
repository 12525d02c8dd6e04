"""A node that its owner asks to leave: it says so, goes on until the round that it named, and halts."""

import pytest

from nodes.machine.events import LeaveAsked, PlanArrived, SendHeartbeat, SendRelease, Started
from nodes.protocol import Halt
from tests.support.nodes.machines import feed, learner, machine, of, plan, plans, run_rounds, started


def test_it_says_so_at_once_and_halts_when_no_plan_names_it():
    node = machine()
    started(node, *plans(1, 3))
    (said,) = of(feed(node, LeaveAsked(4)), SendHeartbeat)
    assert said.heartbeat.leave_from == 4
    feed(node, PlanArrived(plan(4, names="bc"), 4))
    effects = run_rounds(node, 1, 3)
    assert of(effects, SendRelease)[-1].message.round == 3
    assert [halt.reason for halt in of(effects, Halt)] == ["the node has left, as asked"]


def test_a_plan_that_names_it_all_the_same_is_acted_on():
    node = machine()
    started(node, *plans(1, 5))
    feed(node, LeaveAsked(4))
    assert not of(run_rounds(node, 1, 4), Halt)  # planned before the schedulers had heard
    effects = feed(node, PlanArrived(plan(6, names="bc"), 6)) + run_rounds(node, 5, 5)
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
    (halt,) = of(run_rounds(node, 1, first - 1), Halt)
    assert why in halt.reason
