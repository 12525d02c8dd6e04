"""The scheduler machine: first plan, horizon, log, end, settings."""

import numpy as np
import pytest

from tests.support.nodes.scheduling import ABC, FULL, Mesh, beat, plan, record, settings
from topology.graph import complete, ring
from topology.plans import Heartbeat, Plan, after
from topology.scheduler import (
    HeartbeatRead,
    PlansRead,
    PublishPlans,
    RecordsRefused,
    Refusal,
    SchedulerMachine,
    SchedulerStarted,
    SourceEnded,
    Ticked,
    heartbeat_period,
)
from topology.schedules import FixedSchedule, SwitchingSchedule, closing_rounds

# ---------------------------------------------------------------------------------- first plan, horizon


def test_the_first_plan_waits_for_all_nodes_and_everyone_is_full():
    mesh = Mesh()
    assert mesh.hear(beat("a"), beat("b")) == []
    assert mesh.hear(beat("c")) == [1, 2, 3, 4]
    assert mesh.plans[0].members == FULL
    assert mesh.plans[0].follows == 0
    assert [plan.follows for plan in mesh.plans[1:]] == [1, 2, 3]


def test_the_first_plan_has_the_schedules_weights():
    mesh = Mesh(schedule=SwitchingSchedule(complete(ABC), 0.5, seed=3))
    mesh.hear_all()
    for found in mesh.plans:
        weights = mesh.machine.settings.schedule.weights(found.round, ABC)
        assert np.array_equal(found.weights, weights.values)
        assert np.array_equal(found.sources, weights.sources)
        assert np.array_equal(found.targets, weights.targets)


def test_min_members_holds_for_the_first_plan_and_later():
    mesh = Mesh(min_members=2)
    assert mesh.hear(beat("a")) == []
    assert mesh.hear(beat("c")) == [1, 2, 3, 4]
    mesh.silence("a", "c")
    assert mesh.silence("a") == []
    assert mesh.hear(beat("b"))  # c is still missing: a and b are two


def test_plans_are_at_most_h_ahead_of_the_slowest():
    mesh = Mesh()
    mesh.hear_all()
    assert mesh.hear(beat("a", 4), beat("b", 3)) == []
    assert mesh.hear(beat("c", 1)) == [5]
    assert mesh.hear(beat("c", 3)) == [6, 7]


def test_the_horizon_counts_planned_rounds_not_numbers():
    plans = (plan(1, 0, FULL), plan(50, 1, FULL))
    mesh = Mesh(plans=plans, heartbeats=[beat(name, 1) for name in ABC])
    assert [found.round for found in mesh.plans] == [1, 50, 51, 52, 53]  # 50 to 53: H after 1
    assert mesh.hear_all(50) == [54]


def published(effects):
    """What of the effects is published; there is at most one such effect."""
    found = [effect for effect in effects if isinstance(effect, PublishPlans)]
    assert len(found) <= 1
    return found[0] if found else PublishPlans(None, ())


def rounds(effect):
    return [found.round for found in effect.plans]


def begun():
    """A machine of H = 4 whose first four plans are published and not read."""
    machine = SchedulerMachine(settings())
    machine.handle(SchedulerStarted())
    effects = [machine.handle(HeartbeatRead(beat(name))) for name in ABC]
    assert effects[:2] == [(), ()]
    return machine, published(effects[2])


def test_plans_are_published_together_up_to_the_horizon():
    machine, first = begun()
    assert (first.last, rounds(first)) == (None, [1, 2, 3, 4])
    assert machine.last is None
    assert machine.handle(Ticked(1.0)) == ()
    assert machine.handle(PlansRead(after(None, first.plans))) == ()
    assert machine.last is first.plans[-1]


def test_more_is_published_before_the_last_is_read():
    machine, first = begun()
    effects = [machine.handle(HeartbeatRead(beat(name, 2))) for name in ABC]  # nodes have read it
    second = published(effects[-1])
    assert (second.last, rounds(second)) == (first.plans[-1], [5, 6])
    assert machine.handle(PlansRead(after(None, first.plans))) == ()
    assert machine.handle(PlansRead(after(first.plans[-1], second.plans))) == ()
    assert machine.last is second.plans[-1]


def test_what_is_published_is_read_in_any_split():
    machine, first = begun()
    for last, plans in ((None, first.plans[:1]), (first.plans[0], first.plans[1:])):
        assert machine.handle(PlansRead(after(last, plans))) == ()
    assert machine.last is first.plans[-1]


# -------------------------------------------------------------------------------------------- any number


def test_when_anothers_record_comes_between_the_own_ones_are_void_and_it_plans_again():
    machine, first = begun()
    others = plan(7, 0, FULL[:2])
    again = published(machine.handle(PlansRead(after(None, (others,)))))
    assert (again.last, rounds(again)) == (others, [8, 9, 10])
    assert machine.handle(PlansRead(after(None, first.plans))) == (RecordsRefused(Refusal.PLACE),)
    assert machine.last is others
    assert machine.handle(PlansRead(after(others, again.plans))) == ()


def test_round_numbers_alone_let_no_plan_follow_anothers():
    """Both have planned rounds 1 and 2; what the second one has put on top of its own is void."""
    machine, first = begun()
    others = plan(1, 0, FULL[:2]), plan(2, 1, FULL[:2])
    machine.handle(PlansRead(after(None, others)))
    on_top = after(first.plans[1], first.plans[2:])
    assert on_top.plans[0].may_follow(others[-1].round)
    assert machine.handle(PlansRead(on_top)) == (RecordsRefused(Refusal.PLACE),)
    assert machine.last is others[-1]


def test_an_own_record_that_comes_too_late_is_void_with_all_on_top_of_it():
    """The bus sends a refused record again: then the second one is in the log before the first one."""
    machine, first = begun()
    (one, *others) = first.plans
    again = machine.handle(PlansRead(after(one, tuple(others))))
    assert again[0] == RecordsRefused(Refusal.PLACE)
    assert (published(again).last, rounds(published(again))) == (one, [2, 3, 4])
    assert machine.handle(PlansRead(after(None, (one,)))) == ()
    assert machine.handle(PlansRead(after(one, published(again).plans))) == ()
    assert machine.last.round == 4


def test_a_node_that_is_let_in_by_a_plan_not_read_yet_is_full_after_it():
    machine = SchedulerMachine(settings(min_members=2))
    machine.handle(SchedulerStarted())
    first = published([machine.handle(HeartbeatRead(beat(name))) for name in "ab"][-1])
    machine.handle(PlansRead(after(None, first.plans)))
    machine.handle(HeartbeatRead(beat("c")))
    (_, effects) = [machine.handle(HeartbeatRead(beat(name, 2))) for name in "ab"]
    full = [[member.full for member in found.members] for found in published(effects).plans]
    assert full == [[True, True, False], [True, True, True]]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (plan(5, 3, FULL), Refusal.PLACE),
        (plan(1, 0, FULL), Refusal.PLACE),
        (Plan("other", 5, 4, (), *[np.empty(0, np.int64)] * 2, np.empty(0)), Refusal.RUN),
    ],
)
def test_a_plan_out_of_place_or_of_another_run_is_ignored(wrong, reason):
    mesh = Mesh()
    mesh.hear_all()
    assert mesh.send(PlansRead(record(wrong))) == []
    assert mesh.refused == [reason]
    assert mesh.machine.last.round == 4


def test_heartbeats_of_another_run_or_an_unknown_node_are_ignored():
    mesh = Mesh(min_members=1)
    assert mesh.hear(beat("a", run="other"), beat("x")) == []
    assert mesh.refused == [Refusal.RUN, Refusal.NODE]


def test_started_comes_first_and_once():
    machine = SchedulerMachine(settings())
    with pytest.raises(ValueError, match="Ticked: SchedulerStarted comes first"):
        machine.handle(Ticked(1.0))
    machine.handle(SchedulerStarted())
    with pytest.raises(ValueError, match="once"):
        machine.handle(SchedulerStarted())
    with pytest.raises(ValueError, match="-1 seconds"):
        machine.handle(Ticked(-1))


# ------------------------------------------------------------------------------------------ the run's end


def closing(mesh):
    """What each plan says of closing rounds; -1: it ends the run."""
    return [-1 if found.ended else found.closing for found in mesh.plans]


def test_after_the_last_round_come_a_closing_one_and_a_plan_without_members():
    mesh = Mesh(rounds=6)
    mesh.hear_all()
    mesh.hear_all(4)
    assert [found.round for found in mesh.plans] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert closing(mesh) == [0] * 6 + [1, -1]
    assert mesh.plans[-2].members == FULL
    assert mesh.plans[-1].named == tuple((name, 6) for name in ABC)  # a closing round does not count
    assert mesh.hear_all(7) == []
    assert mesh.send(PlansRead(after(mesh.plans[-1], (plan(9, 8, FULL),)))) == []
    assert mesh.refused == [Refusal.PLACE]


def test_the_run_is_over_when_every_full_member_has_come_back_as_another_instance():
    mesh = Mesh(nodes=("a", "b"))
    mesh.hear_all(0, ("a", "b"))
    mesh.hear(beat("a", instance="a2", hello=True))
    assert not mesh.plans[-1].ended
    mesh.hear(beat("b", instance="b2", hello=True))
    assert mesh.plans[-1].ended


def test_a_listener_cannot_go_on_alone():
    mesh = Mesh(nodes=("a", "b"), min_members=1, horizon=1)
    mesh.hear(beat("a"), beat("b"), beat("a", 1))
    assert mesh.last == {"a": ("a1", True), "b": ("b1", False)}
    mesh.hear(beat("a", instance="a2", hello=True))
    assert mesh.plans[-1].ended


def test_one_full_member_that_is_only_silent_may_still_come_back():
    mesh = Mesh(nodes=("a", "b"))
    mesh.hear_all(0, ("a", "b"))
    mesh.send(Ticked(60.0))
    assert mesh.hear(beat("a", instance="a2", hello=True)) == []
    assert mesh.hear(beat("b", 4))
    assert mesh.last == {"a": ("a2", True), "b": ("b1", True)}


@pytest.mark.parametrize("says_so", [False, True])
def test_who_is_counted_as_heard_has_not_said_that_it_has_no_journal(says_so):
    """A scheduler starts, counts c as heard, and reads that others have planned without it: it was cut off.

    All that the log has of c is its hello. It may have stepped what it was planned for.
    """
    machine, first = SchedulerMachine(settings(horizon=2)), plan(1, 0, FULL)
    machine.handle(SchedulerStarted((record(first),), tuple(map(beat, ABC)), whole=True))
    once = [(name, 1) for name in ABC]
    without = plan(2, 1, FULL[:2], once), plan(3, 2, FULL[:2], [("a", 2), ("b", 2), ("c", 1)])
    machine.handle(PlansRead(after(first, without)))
    effects = [machine.handle(HeartbeatRead(beat(name, instance=f"{name}2", hello=True))) for name in "ab"]
    if says_so:
        effects.append(machine.handle(HeartbeatRead(beat("c"))))
    published = [found for effect in sum(effects, ()) for found in getattr(effect, "plans", ())]
    assert any(found.ended for found in published) is says_so


def test_the_run_is_over_when_every_full_member_leaves():
    mesh = Mesh(nodes=("a", "b"))
    mesh.hear(beat("a", leave_from=3), beat("b", leave_from=3))
    assert [found.ended for found in mesh.plans] == [False, False, True]


def test_a_source_that_ends_ends_the_run():
    mesh = Mesh(silence=None)
    mesh.hear_all()
    assert mesh.send(SourceEnded(6)) == []
    mesh.hear_all(4)
    assert closing(mesh) == [0] * 6 + [1, -1]
    # what is planned stays
    mesh = Mesh(silence=None)
    mesh.hear_all()
    mesh.send(SourceEnded(2), SourceEnded(9))
    mesh.hear_all(1)
    assert closing(mesh) == [0] * 4 + [1]
    mesh.hear_all(2)
    assert closing(mesh) == [0] * 4 + [1, -1]


SIX = tuple("abcdef")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_that_is_too_short_for_its_graph_has_as_many_closing_rounds_as_that_needs(restarts):
    schedule = FixedSchedule(ring(SIX))
    needed = closing_rounds(schedule, 2)
    assert needed > 4  # more than a horizon
    mesh = Mesh(SIX, schedule=schedule, rounds=2)
    mesh.hear_all(0, SIX)
    while not mesh.plans[-1].ended:
        if restarts:
            mesh = Mesh(SIX, mesh.plans, [beat(name) for name in SIX], schedule=schedule, rounds=2)
        mesh.hear_all(mesh.plans[-1].round, SIX)
    assert closing(mesh) == [0, 0, *range(needed, 0, -1), -1]


def test_closing_rounds_begin_once_everybody_learns_no_more():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear(beat("a", 3, finished=True), beat("b", 3, finished=True), beat("c", 4))
    assert closing(mesh) == [0] * 7
    mesh.hear(beat("c", 5, finished=True), beat("a", 5, finished=True), beat("b", 7, finished=True))
    assert closing(mesh) == [0] * 7 + [1, -1]


def test_a_silent_node_that_may_learn_keeps_the_others_from_closing():
    mesh = Mesh()
    mesh.hear_all()
    for stepped in range(12):
        mesh.send(Ticked(1.0))
        mesh.hear(beat("a", stepped, finished=True), beat("b", stepped, finished=True))
    assert not any(found.closing for found in mesh.plans)


def test_a_plan_in_which_nobody_is_full_is_no_closing_round():
    mesh = Mesh(rounds=4)
    mesh.hear_all()
    before = [beat(name, 9) for name in ABC]
    mesh = Mesh(ABC, mesh.plans[:4], before, rounds=4)  # the end was lost
    mesh.hear_all(9)
    while not mesh.plans[-1].ended:
        mesh.hear_all(mesh.plans[-1].round)
    full = [any(member.full for member in found.members) for found in mesh.plans]
    assert (closing(mesh)[4:], full[4:]) == ([2, 1, -1], [False, True, False])


def test_the_clock_skips_no_closing_round_and_no_more_than_the_rest_of_the_run():
    mesh = Mesh(rounds=6)
    mesh.send(Ticked(0.0, current=1))
    mesh.hear_all()
    mesh.send(Ticked(1.0, current=50))
    mesh.hear_all(4)
    assert [found.round for found in mesh.plans] == [1, 2, 3, 4, 7, 8]
    assert closing(mesh) == [0] * 4 + [1, -1]


# -------------------------------------------------------------------------- an operator who ends the run


def test_an_operator_begins_the_closing_rounds_at_once_and_others_go_on_with_them():
    mesh = Mesh()
    mesh.hear_all()
    operator = Mesh(ABC, mesh.plans, ends=60.0)
    assert closing(operator) == [0] * 4 + [1]  # one plan more than H
    assert operator.hear_all(2) == [6]
    other = Mesh(ABC, operator.plans[:5], min_members=3)
    other.hear_all(2)
    assert closing(other) == [0] * 4 + [1, -1]


@pytest.mark.parametrize("silence", [10.0, None])
def test_an_operator_waits_for_nobody_for_ever(silence):
    mesh = Mesh()
    mesh.hear_all()
    operator = Mesh(ABC, mesh.plans, ends=60.0, silence=silence)
    operator.send(Ticked(9.0))
    assert not operator.plans[-1].ended
    operator.send(Ticked(2.0 if silence else 60.0))
    assert closing(operator) == [0] * 4 + [1, -1]


def test_an_operator_begins_no_run():
    assert Mesh(ends=60.0).hear_all() == []


# -------------------------------------------------------------------------------------- slots by the clock


def test_rounds_are_skipped_when_members_are_more_than_h_behind_the_clock():
    mesh = Mesh()
    mesh.send(Ticked(0.0, current=5))
    assert mesh.hear_all() == [5, 6, 7, 8]  # five periods have gone by: H is 4
    mesh.send(Ticked(1.0, current=9))
    assert mesh.hear_all(5) == [9]
    mesh.send(Ticked(1.0, current=11))
    assert mesh.hear_all(6) == [11]  # 6 is five behind
    assert mesh.plans[-1].follows == 9


def test_the_last_round_of_a_member_that_leaves_is_not_skipped():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear(beat("a", 4), beat("b", 4))
    mesh.send(Ticked(1.0, current=50))
    # c leaves from 7: the clock drops 5, and waits for 6, in which c sends its last lesson
    assert mesh.hear(beat("c", 4, leave_from=7))[:2] == [6, 50]
    assert [found.member("c") is not None for found in mesh.plans[4:6]] == [True, False]


def test_who_has_begun_anew_hears_the_only_full_member_before_it_leaves_whatever_the_clock_says():
    mesh = Mesh(rounds=9)
    mesh.hear_all()
    for _ in range(11):  # c stays away for ever, with its journal; b begins anew
        mesh.send(Ticked(1.0))
        mesh.hear(beat("a"), Heartbeat("r", "b", "b2", "b2", 0, hello=True))
    mesh.send(Ticked(0.0, current=50))
    mesh.hear(beat("a", 4, leave_from=9))
    skipped = [found for found in mesh.plans if found.round > 4]
    assert [(found.round, found.closing) for found in skipped[:2]] == [(8, 0), (10, 1)]
    assert (skipped[0].member("a").full, skipped[0].member("b").full) == (True, False)
    assert {member.name: member.full for member in skipped[1].members} == {"b": True}


def test_the_slowest_member_decides_what_is_skipped():
    mesh = Mesh()
    mesh.hear_all()
    mesh.send(Ticked(1.0, current=8))
    assert mesh.hear(beat("a", 4), beat("b", 2), beat("c", 4)) == [8, 9]  # b is six behind
    mesh = Mesh()
    mesh.hear_all()
    mesh.send(Ticked(1.0, current=8))
    assert mesh.hear_all(4)[0] == 5


def test_rounds_are_not_skipped_while_members_keep_up():
    mesh = Mesh()
    mesh.send(Ticked(0.0, current=4))
    assert mesh.hear_all() == [1, 2, 3, 4]
    mesh.send(Ticked(1.0, current=8))
    assert mesh.hear_all(4) == [5, 6, 7, 8]


def test_skipped_rounds_do_not_pass_the_end():
    mesh = Mesh(rounds=100)
    mesh.send(Ticked(0.0, current=200))
    mesh.hear_all()
    assert [(found.round, found.ended) for found in mesh.plans] == [(200, True)]


# ---------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"run": "Run"}, "run 'Run'"),
        ({"horizon": 0}, "horizon 0: must be at least 1"),
        ({"silence": 0.0}, "silence 0.0"),
        ({"silence": float("nan")}, "silence nan"),
        ({"min_members": 4}, "min_members 4: must be from 1 to the 3 nodes"),
        ({"min_members": 0}, "min_members 0"),
        ({"rounds": 0}, "rounds 0"),
    ],
)
def test_settings_are_checked(changes, text):
    with pytest.raises(ValueError, match=text):
        settings(**changes)


def test_a_directed_ring_that_misses_one_speaks_both_ways():
    mesh = Mesh(schedule=FixedSchedule(ring(ABC, directed=True)))
    mesh.hear_all()
    assert mesh.plans[0].incoming("a") == (("c", 0.5),)
    mesh.silence("a", "b")
    assert mesh.plans[-1].incoming("a") == (("b", 0.5),)
    assert mesh.plans[-1].incoming("b") == (("a", 0.5),)


@pytest.mark.parametrize(
    ("silence", "period"), [(None, 1.0), (60.0, 1.0), (10.0, 1.0), (3.0, 0.3), (0.5, 0.05)]
)
def test_ten_heartbeats_fit_into_the_time_of_silence(silence, period):
    assert heartbeat_period(silence) == pytest.approx(period)
