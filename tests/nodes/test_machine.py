"""The node machine, event by event: the rules at the top of nodes/machine/machine.py."""

from dataclasses import replace

import numpy as np
import pytest

from nodes.machine.events import (
    BeforeStep,
    Decided,
    Evidence,
    Journal,
    Notice,
    OpenSlot,
    PlanArrived,
    Scored,
    SendHeartbeat,
    SendRelease,
)
from nodes.privacy.reveal import opened
from nodes.protocol import DeadlinePassed, Halt, Misused, Noticed, StartDeadline, Stepped
from tests.support.nodes.machines import (
    HORIZON,
    INSTANCES,
    THIRD,
    end,
    feed,
    learner,
    machine,
    neighbours,
    of,
    plan,
    plans,
    release,
    run_rounds,
    slot,
    started,
)


def notices(effects):
    return [(effect.notice, effect.peer, effect.number) for effect in of(effects, Noticed)]


def test_the_first_plan_makes_a_full_member_that_starts_at_x_1_publicly():
    node = machine()
    effects = started(node, *plans(1, 1))
    assert [type(effect) for effect in effects] == [SendHeartbeat, Journal, SendRelease, OpenSlot]
    assert effects[0].heartbeat.hello
    record, sent = effects[1].record, effects[2]
    assert (record.round, record.stepped, record.exact, record.charged) == (1, 0, True, 0)
    assert sent.targets == ("b", "c")
    assert sent.message.exact
    np.testing.assert_array_equal(sent.message.release, [0.0, 0.0])


def test_a_round_is_consensus_then_decision_then_step():
    node = machine()
    started(node, *plans(1, 2))
    effects = feed(node, *neighbours(1))
    (decided,) = of(effects, Decided)
    np.testing.assert_array_equal(decided.decision, [1.0, 2.0])  # a third of (3, 0), (0, 6) and (0, 0)
    assert len(decided.heard) == 2
    effects = feed(node, slot(1, features=(1.0, 0.0), label=0.0))  # gradient (1, 0) at (1, 2), step 1/2
    kinds = [type(effect) for effect in effects]
    assert kinds == [BeforeStep, Journal, Stepped, SendHeartbeat, Scored, SendRelease, OpenSlot]
    assert effects[0].decision is decided.decision
    record = effects[1].record
    np.testing.assert_array_equal(record.release, [0.5, 2.0])
    assert (record.round, record.stepped, record.data_position) == (2, 1, ((0, 1),))
    assert opened(of(effects, Scored)[0].gradient).tolist() == [1.0, 0.0]
    assert of(effects, SendRelease)[0].message.release is record.release


def test_a_slot_may_close_before_the_releases_come_and_is_read_only_after_the_decision():
    node = machine()
    started(node, *plans(1, 2))
    assert feed(node, slot(1)) == []
    effects = feed(node, *neighbours(1))
    assert [type(effect) for effect in effects][:3] == [Decided, BeforeStep, Journal]


def test_no_step_before_the_next_plan_is_known():
    node = machine()
    started(node, *plans(1, 1))
    assert not of(feed(node, *neighbours(1), slot(1)), Journal)
    assert of(feed(node, *plans(2, 2)), Journal)


def test_plans_may_skip_rounds_and_the_release_is_for_the_next_planned_one():
    node = machine()
    started(node, *plans(1, 1), PlanArrived(plan(7, follows=1), 2))
    effects = feed(node, *neighbours(1), slot(1))
    assert of(effects, Journal)[0].record.round == 7
    assert of(effects, SendRelease)[0].message.round == 7
    assert of(effects, OpenSlot)[0].round == 7


def test_a_release_before_its_plan_is_held():
    node = machine()
    started(node, *plans(1, 1))
    feed(node, *neighbours(2), *neighbours(1), slot(1))
    effects = feed(node, *plans(2, 2))
    assert [decided.round for decided in of(effects, Decided)] == [2]


def test_releases_far_ahead_are_held_up_to_a_bound_only():
    node = machine()
    started(node)
    effects = feed(node, *[release("b", t, (0.0, 0.0)) for t in range(1, 4 * HORIZON)])
    assert notices(effects) == [(Notice.OVERFULL, "b", t) for t in range(3 * HORIZON + 1, 4 * HORIZON)]


def test_the_first_value_wins_and_the_same_again_is_a_duplicate():
    node = machine()
    started(node, *plans(1, 2))
    effects = feed(node, release("b", 1, (3.0, 0.0)), release("b", 1, (3.0, 0.0)))
    assert notices(effects) == [(Notice.DUPLICATE, "b", 1)]


def test_a_second_value_is_evidence_and_silences_its_source_until_a_new_instance():
    node = machine()
    started(node, *plans(1, 4))
    effects = feed(node, *neighbours(1), release("b", 1, (9.0, 9.0)), slot(1))
    assert (Notice.EVIDENCE, "b", 1) in notices(effects)
    (kept,) = of(effects, Evidence)
    assert (kept.first.tolist(), kept.message.release.tolist()) == ([3.0, 0.0], [9.0, 9.0])
    effects = feed(node, *neighbours(2), slot(2))  # b is not waited for, nor heard: its weight is ours
    own = of(effects, Decided)[0]
    np.testing.assert_allclose(own.decision, own.own * (2 * THIRD) + np.array([0.0, 6.0]) * THIRD)
    assert of(feed(node, release("c", 3, (0.0, 0.0))), Decided)


def test_a_second_value_before_the_decision_counts_in_the_same_round():
    node = machine()
    started(node, *plans(1, 2))
    assert not of(feed(node, release("b", 1, (3.0, 0.0)), release("b", 1, (9.0, 9.0))), Decided)
    (decided,) = of(feed(node, release("c", 1, (0.0, 6.0))), Decided)
    np.testing.assert_array_equal(decided.decision, [0.0, 2.0])
    silenced = machine()
    started(silenced, *plans(1, 2))
    feed(silenced, release("c", 1, (0.0, 6.0)), release("b", 7, (3.0, 0.0)))
    assert of(feed(silenced, release("b", 7, (9.0, 9.0))), Decided)  # nobody is waited for any more


def test_a_source_under_another_instance_than_the_plans_is_not_heard():
    node = machine()
    started(node, *plans(1, 2))
    effects = feed(node, release("b", 1, (3.0, 0.0), instance="9" * 32), release("c", 1, (0.0, 6.0)))
    assert not of(effects, Decided)
    assert of(feed(node, release("b", 1, (3.0, 0.0))), Decided)


def test_a_deadline_gives_the_silent_weight_to_the_own_release():
    node = machine(deadlines=True)
    effects = started(node, *plans(1, 2))
    assert of(effects, StartDeadline) == [StartDeadline(1)]
    feed(node, release("b", 1, (3.0, 0.0)))
    effects = feed(node, DeadlinePassed(1))
    assert notices(effects) == [(Notice.GIVEN_UP, "c", 1)]
    np.testing.assert_array_equal(of(effects, Decided)[0].decision, [1.0, 0.0])
    record = of(feed(node, slot(1)), Journal)[0].record
    assert record.given_up == (("c", INSTANCES["c"], THIRD),)


def test_a_silent_source_is_waited_for_zero_seconds_until_it_is_heard_again():
    node = machine(deadlines=True)
    started(node, *plans(1, 3))
    feed(node, release("b", 1, (3.0, 0.0)), DeadlinePassed(1), slot(1))
    effects = feed(node, release("b", 2, (3.0, 0.0)))
    assert of(effects, StartDeadline) == [StartDeadline(2, at_once=True)]
    feed(node, DeadlinePassed(2), slot(2))
    feed(node, release("c", 1, (0.0, 6.0)))  # heard again
    effects = feed(node, release("b", 3, (3.0, 0.0)))
    assert not of(effects, StartDeadline)


def lose_c_in_round_1(last):
    """A node that gave up c in round 1 and has stepped the rounds up to `last`, all releases at 0."""
    node = machine(deadlines=True)
    started(node, *plans(1, 3))
    feed(node, release("b", 1, (0.0, 0.0)), DeadlinePassed(1), slot(1))
    for t in range(2, last + 1):
        feed(node, *plans(t + 2, t + 2), *neighbours(t, (0.0, 0.0), (0.0, 0.0)), slot(t))
    return node


@pytest.mark.parametrize("round", [2, HORIZON + 1])
def test_a_late_release_is_made_good_once_within_h_rounds(round):
    node = lose_c_in_round_1(round - 1)
    effects = feed(node, release("c", 1, (0.0, 6.0), offset=99))
    effects += feed(node, *neighbours(round, (0.0, 0.0), (0.0, 0.0)), slot(round))
    assert notices(effects) == [(Notice.CORRECTED, "c", 1)]
    np.testing.assert_array_equal(of(effects, Decided)[0].decision, [0.0, 2.0])  # a third of (0, 6) - x_1
    assert of(effects, Journal)[0].record.corrected == ((1, "c"),)
    effects = feed(node, *neighbours(round + 1, (0.0, 0.0), (0.0, 0.0)))
    np.testing.assert_allclose(of(effects, Decided)[0].decision, [0.0, 2.0 * THIRD])


def test_a_release_later_than_h_rounds_is_stale():
    node = lose_c_in_round_1(HORIZON + 1)
    effects = feed(node, release("c", 1, (0.0, 6.0), offset=99))
    effects += feed(node, *neighbours(HORIZON + 2, (0.0, 0.0), (0.0, 0.0)))
    assert notices(effects) == [(Notice.STALE, "c", 1)]
    np.testing.assert_array_equal(of(effects, Decided)[0].decision, [0.0, 0.0])


def test_a_correction_that_leaves_the_set_is_projected_onto_it_before_anything_else():
    parts = learner()
    parts = replace(parts, algorithm=replace(parts.algorithm, regulariser=1.0))
    node = machine(parts, deadlines=True)
    started(node, *plans(1, 3))
    far = slot(1, features=(0.0, 1.0), label=1e6)  # carries the own release to the edge of the set
    feed(node, release("b", 1, (0.0, 0.0)), DeadlinePassed(1), far)
    feed(node, release("c", 1, (0.0, 99.0), offset=98))
    effects = feed(node, *neighbours(2, (0.0, 100.0), (0.0, 100.0)), slot(2))
    np.testing.assert_allclose(of(effects, Decided)[0].decision, [0.0, 100.0])  # 133 without
    np.testing.assert_allclose(of(effects, Journal)[0].record.release, [0.0, 50.0])  # 67 without


def listener(node, heard=(), *, last=HORIZON):
    """Start a listener in round 1 of a mesh that is planned to `last`."""
    first = PlanArrived(plan(3, listening_edges(), listeners="a", follows=2, named=(("a", 2),)), 3)
    effects = started(node, first)
    for t in range(4, 4 + last):
        effects += feed(node, *plans(t, t))
    return effects + feed(node, *heard)


def listening_edges():
    return {("b", "c"): 0.5, ("c", "b"): 0.5, ("b", "a"): 0.5, ("c", "a"): 0.5}


def test_a_listener_releases_the_average_of_what_it_hears_exactly():
    node = machine()
    effects = listener(node, neighbours(3))
    record = of(effects, Journal)[0].record
    np.testing.assert_array_equal(record.release, [1.5, 3.0])
    assert (record.round, record.stepped, record.exact) == (4, 3, True)
    assert record.charged == 2  # the plan's word
    assert record.data_position is None  # it reads from the topic's end
    sent = of(effects, SendRelease)[0].message
    assert (sent.round, sent.exact) == (4, True)
    assert of(effects, OpenSlot) == [OpenSlot(4, None)]


def test_a_listener_hears_with_equal_weights_those_who_came_by_the_deadline():
    node = machine(deadlines=True)
    effects = listener(node, [release("c", 3, (0.0, 6.0))])
    assert of(effects, StartDeadline) == [StartDeadline(3)]
    record = of(feed(node, DeadlinePassed(3)), Journal)[0].record
    np.testing.assert_array_equal(record.release, [0.0, 6.0])


def test_a_listeners_deadline_waits_until_the_mesh_has_come():
    node = machine(deadlines=True)
    assert not of(listener(node, last=HORIZON - 2), StartDeadline)
    assert of(feed(node, *plans(HORIZON + 2, HORIZON + 2)), StartDeadline) == [StartDeadline(3)]


def test_a_listener_that_hears_nobody_keeps_its_own_last_release():
    node = machine(deadlines=True)
    listener(node)
    record = of(feed(node, DeadlinePassed(3)), Journal)[0].record
    np.testing.assert_array_equal(record.release, [0.0, 0.0])  # x_1: its journal has none


def test_after_the_last_learning_round_a_node_relays_exactly_and_uncharged():
    node = machine(learner(budget=2))
    started(node, *plans(1, 5))
    records = [effect.record for effect in of(run_rounds(node, 1, 4), Journal)]
    assert [record.charged for record in records] == [1, 2, 2, 2]
    assert [record.exact for record in records] == [False, False, True, True]
    assert [record.epsilon_spent for record in records] == [1.0, 2.0, 2.0, 2.0]


def test_a_node_may_leave_when_its_last_release_is_out():
    node = machine(learner(budget=2, after_budget="leave"))
    effects = started(node, *plans(1, 3), PlanArrived(plan(4, names="bc"), 4))
    assert of(effects, SendHeartbeat)[0].heartbeat.leave_from == 4
    effects = run_rounds(node, 1, 3)
    assert of(effects, SendRelease)[-1].message.round == 3  # drawn in round 2, the last learning round
    assert of(effects, Halt)
    assert node.halted


def test_the_run_ends_with_a_plan_without_members_after_the_rounds_before_it():
    node = machine()
    started(node, *plans(1, 1), end(2))
    effects = feed(node, *neighbours(1), slot(1))
    assert [type(effect) for effect in effects][-2:] == [SendHeartbeat, Halt]
    assert of(effects, SendHeartbeat)[-1].heartbeat.stepped == 1  # so that all know its last round
    assert of(effects, Journal)[0].record.round == 2
    assert not of(effects, SendRelease)
    with pytest.raises(Misused, match="halted"):
        feed(node, slot(2))


def test_after_a_restart_the_journalled_release_is_sent_again_and_nothing_is_drawn():
    node = machine(learner(private=True))
    before = started(node, *plans(1, 3)) + run_rounds(node, 1, 1)
    records = [effect.record for effect in of(before, Journal)]
    again = machine(learner(private=True))
    effects = started(again, *plans(2, 3), records=records)
    (sent,) = of(effects, SendRelease)
    assert sent.message.release.tobytes() == of(before, SendRelease)[-1].message.release.tobytes()
    assert not of(effects, Journal)
    assert of(effects, OpenSlot) == [OpenSlot(2, ((0, 1),))]


def test_a_restart_remembers_what_was_given_up_and_what_was_made_good():
    node = lose_c_in_round_1(1)
    records = [effect.record for effect in of(started(machine(deadlines=True), *plans(1, 2)), Journal)]
    records += [effect.record for effect in of(restep(), Journal)]
    del node
    again = machine(deadlines=True)
    started(again, *plans(2, 4), records=records)
    effects = feed(
        again, release("c", 1, (0.0, 6.0), offset=9), *neighbours(2, (0.0, 0.0), (0.0, 0.0)), slot(2)
    )
    assert (Notice.CORRECTED, "c", 1) in notices(effects)
    records += [effect.record for effect in of(effects, Journal)]
    third = machine(deadlines=True)
    started(third, *plans(3, 4), records=records)
    effects = feed(third, release("c", 1, (0.0, 6.0), offset=9), *neighbours(3, (0.0, 0.0), (0.0, 0.0)))
    assert (Notice.CORRECTED, "c", 1) not in notices(effects)


def restep():
    """The effects of round 1 without c."""
    node = machine(deadlines=True)
    started(node, *plans(1, 2))
    return feed(node, release("b", 1, (0.0, 0.0)), DeadlinePassed(1), slot(1))


def test_more_than_h_rounds_behind_it_asks_to_join_and_neither_steps_nor_charges():
    node = machine()
    effects = started(node, *plans(1, HORIZON + 1))
    assert not of(effects, Noticed)
    effects = feed(node, *plans(HORIZON + 2, HORIZON + 2))
    assert notices(effects) == [(Notice.JOINING, "a", HORIZON + 2)]
    assert of(effects, SendHeartbeat)[0].heartbeat.join_after == HORIZON + 2
    assert not of(feed(node, *neighbours(1), slot(1)), Journal)
    listening = plan(HORIZON + 3, listening_edges(), listeners="a")
    effects = feed(
        node, PlanArrived(listening, 0), *neighbours(HORIZON + 3), *plans(HORIZON + 4, HORIZON + 4)
    )
    assert of(effects, Journal)[0].record.stepped == HORIZON + 3
    assert node.heartbeat.join_after is None


def test_a_plan_that_names_another_instance_does_not_act_on_this_one():
    node = machine()
    effects = started(node, *plans(1, 2, instances={"a": "9" * 32}))
    assert [type(effect) for effect in effects] == [SendHeartbeat]


def test_a_full_member_without_the_rounds_release_asks_to_join():
    node = machine()
    effects = started(node, *plans(5, 6))
    assert notices(effects) == [(Notice.JOINING, "a", 5)]


def test_plans_out_of_their_place_are_ignored():
    node = machine()
    effects = started(node, *plans(1, 2), *plans(2, 2), PlanArrived(plan(9, follows=7), 9))
    assert notices(effects) == [(Notice.PLAN_IGNORED, "a", 2), (Notice.PLAN_IGNORED, "a", 9)]
