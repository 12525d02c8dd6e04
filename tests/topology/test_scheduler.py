"""The scheduler machine's rules, one by one."""

import numpy as np
import pytest

from topology.graphs import complete, from_edges, ring
from topology.plans import Heartbeat, Member, Plan
from topology.scheduler import (
    HeartbeatRead,
    PlanRead,
    PublishPlan,
    Refusal,
    Refused,
    SchedulerMachine,
    SchedulerSettings,
    SourceEnded,
    Started,
    Ticked,
)
from topology.schedules import FixedSchedule, SwitchingSchedule

ABC = ("a", "b", "c")


def settings(nodes=ABC, **changes):
    given = {"run": "r", "schedule": FixedSchedule(complete(nodes)), "horizon": 4, "silence": 10.0}
    return SchedulerSettings(**(given | changes))


def beat(node, stepped=0, instance=None, **fields):
    instance = instance or f"{node}1"
    fields = {"run": "r", "boot": f"boot-{instance}"} | fields
    return Heartbeat(node=node, instance=instance, stepped=stepped, **fields)


class Mesh:
    """A scheduler and its topology: every plan is read as soon as it is published."""

    def __init__(self, nodes=ABC, plans=(), heartbeats=(), **changes):
        self.machine = SchedulerMachine(settings(nodes, **changes))
        self.plans = list(plans)
        self.refused = []
        self.send(Started(tuple(plans), tuple(heartbeats)))

    def send(self, *events):
        """Handle the events; return the rounds planned thereby."""
        before = len(self.plans)
        waiting = list(events)
        while waiting:
            for effect in self.machine.handle(waiting.pop(0)):
                if isinstance(effect, PublishPlan):
                    self.plans.append(effect.plan)
                    waiting.insert(0, PlanRead(effect.plan))
                else:
                    self.refused.append(effect.reason)
        return [plan.round for plan in self.plans[before:]]

    def hear(self, *beats):
        return self.send(*map(HeartbeatRead, beats))

    def hear_all(self, stepped=0, nodes=ABC):
        return self.hear(*(beat(node, stepped) for node in nodes))

    def silence(self, *heard, seconds=11):
        """Let time pass in which only some are heard, each having stepped everything."""
        rounds = []
        for _ in range(seconds):
            rounds += self.send(Ticked(1.0))
            rounds += self.hear(*(beat(node, self.plans[-1].round) for node in heard))
        return rounds

    @property
    def last(self):
        """The last plan as name -> (instance, full)."""
        return {member.name: (member.instance, member.full) for member in self.plans[-1].members}


def plan(round, follows, members, named=()):
    """A plan without edges."""
    nothing = np.empty(0, np.int64)
    return Plan("r", round, follows, members, nothing, nothing, np.empty(0), named)


FULL = tuple(Member(name, f"{name}1") for name in ABC)

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


def test_one_plan_at_a_time():
    machine = SchedulerMachine(settings())
    machine.handle(Started())
    effects = [machine.handle(HeartbeatRead(beat(name))) for name in ABC]
    assert effects[:2] == [(), ()]
    (first,) = effects[2]
    assert isinstance(first, PublishPlan)
    assert machine.handle(Ticked(1.0)) == ()
    assert machine.handle(HeartbeatRead(beat("a"))) == ()
    (second,) = machine.handle(PlanRead(first.plan))
    assert isinstance(second, PublishPlan)
    assert second.plan.round == 2


# -------------------------------------------------------------------------------------------- any number


def test_another_schedulers_plan_of_the_round_takes_the_place_of_the_own():
    machine = SchedulerMachine(settings())
    machine.handle(Started())
    published = [machine.handle(HeartbeatRead(beat(name))) for name in ABC][-1]
    assert published
    others = plan(7, 0, FULL[:2])
    (following,) = machine.handle(PlanRead(others))
    assert isinstance(following, PublishPlan)
    assert (following.plan.round, following.plan.follows) == (8, 7)
    assert machine.handle(PlanRead(published[0].plan)) == (Refused(Refusal.PLACE),)
    assert machine.last is others


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
    assert mesh.send(PlanRead(wrong)) == []
    assert mesh.refused == [reason]
    assert mesh.machine.last.round == 4


def test_heartbeats_of_another_run_or_an_unknown_node_are_ignored():
    mesh = Mesh(min_members=1)
    assert mesh.hear(beat("a", run="other"), beat("x")) == []
    assert mesh.refused == [Refusal.RUN, Refusal.NODE]


def test_started_comes_first_and_once():
    machine = SchedulerMachine(settings())
    with pytest.raises(ValueError, match="Ticked: Started comes first"):
        machine.handle(Ticked(1.0))
    machine.handle(Started())
    with pytest.raises(ValueError, match="once"):
        machine.handle(Started())
    with pytest.raises(ValueError, match="-1 seconds"):
        machine.handle(Ticked(-1))


# --------------------------------------------------------------------------------------------- restarts


def test_a_restart_goes_on_where_the_log_ends():
    first = Mesh()
    first.hear_all()
    again = Mesh(plans=first.plans, heartbeats=[beat(name, 2) for name in ABC])
    assert [found.round for found in again.plans] == [1, 2, 3, 4, 5, 6]
    assert again.plans[-1].members == FULL


def test_a_restart_never_plans_a_round_that_somebody_has_stepped():
    mesh = Mesh(heartbeats=[beat("a", 500), beat("b", 498)])
    assert mesh.hear_all(498)[0] == 501
    assert mesh.plans[0].members == FULL
    behind_its_log = Mesh(plans=(plan(3, 2, FULL),), heartbeats=[beat(name, 9) for name in ABC])
    assert behind_its_log.plans[1].round == 10
    assert behind_its_log.plans[1].follows == 3


def test_progress_heard_before_the_first_plan_counts_but_not_afterwards():
    mesh = Mesh()
    assert mesh.hear_all(20)[0] == 21
    assert mesh.hear(beat("a", 10**6), beat("b", 24), beat("c", 24)) == [25, 26, 27, 28]


def test_at_the_start_every_member_counts_as_heard():
    members = FULL[:2]
    mesh = Mesh(plans=(plan(1, 0, members),), heartbeats=[beat("c")])
    assert mesh.last == {"a": ("a1", True), "b": ("b1", True)}  # how old c's heartbeat is, nobody knows
    mesh.send(Ticked(10.0))
    assert mesh.hear(beat("a", 4))[:1] == []  # b has not stepped, and counts as heard 10 s ago
    assert mesh.send(Ticked(0.1))
    assert mesh.last == {"a": ("a1", True)}


def test_when_the_first_is_heard_after_none_was_everyone_counts_as_heard():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear_all(3)
    mesh.send(Ticked(60.0))
    assert mesh.hear(beat("a", 7)) == []
    assert mesh.send(Ticked(9.0)) == []
    assert mesh.hear(beat("b", 7), beat("a", 7)) == []
    assert mesh.hear(beat("c", 7))
    assert mesh.plans[-1].members == FULL


def test_a_log_that_is_all_of_the_past_is_not_heard():
    mesh = Mesh(heartbeats=[beat(name) for name in ABC])
    assert mesh.plans == []
    assert mesh.hear_all()[0] == 1
    # where nobody is ever silent, they are there
    assert [found.round for found in Mesh(heartbeats=[beat(name) for name in ABC], silence=None).plans] == [
        1,
        2,
        3,
        4,
    ]


# ---------------------------------------------------------------------------------------------- silence


def test_a_silent_node_is_left_out_and_waited_for_no_longer():
    mesh = Mesh()
    mesh.hear_all()
    assert mesh.silence("a", "b", seconds=10) == []
    assert mesh.silence("a", "b", seconds=1)
    assert mesh.last == {"a": ("a1", True), "b": ("b1", True)}


def test_without_silence_nobody_is_left_out():
    mesh = Mesh(silence=None)
    mesh.hear_all()
    assert mesh.silence("a", "b", seconds=100) == []


def test_time_in_which_the_scheduler_reads_nothing_does_not_count():
    mesh = Mesh()
    mesh.hear_all()
    for _ in range(100):
        assert mesh.send(Ticked(0.0)) == []


def test_who_comes_back_listens_once_and_is_full_then():
    mesh = Mesh()
    mesh.hear_all()
    mesh.silence("a", "b")
    assert "c" not in mesh.last
    stepped = mesh.plans[-1].round
    mesh.hear(beat("a", stepped), beat("b", stepped))
    mesh.hear(beat("c", 2))
    mesh.hear(beat("a", stepped + 1), beat("b", stepped + 1))
    joined = next(found for found in reversed(mesh.plans) if not all(member.full for member in found.members))
    assert joined.member("c") == Member("c", "c1", full=False)
    # in-edges from the full members alone, equal weights, nobody hears it
    assert joined.incoming("c") == (("a", 0.5), ("b", 0.5))
    assert joined.outgoing("c") == ()
    assert joined.incoming("a") == (("b", 0.5),)
    mesh.hear(beat("a", joined.round), beat("b", joined.round))
    following = next(found for found in mesh.plans if found.follows == joined.round)
    assert following.member("c") == Member("c", "c1")


def test_a_listener_hears_the_full_members_it_is_provisioned_with_whatever_is_on():
    nodes = ("a", "b", "c", "d")
    graph = from_edges(nodes, [("b", "a"), ("c", "b"), ("d", "c"), ("a", "d")])
    mesh = Mesh(nodes, schedule=SwitchingSchedule(graph, 1e-9, seed=0), min_members=3)
    mesh.hear_all(0, ("a", "c", "d"))
    mesh.hear(beat("b"), beat("a", 1), beat("c", 1), beat("d", 1))
    joined = mesh.plans[-1]
    assert [member.full for member in joined.members] == [True, False, True, True]
    assert joined.incoming("b") == (("a", 0.5), ("c", 0.5))
    assert joined.sources.size == 2


def test_two_listeners_do_not_hear_each_other():
    mesh = Mesh(min_members=1)
    mesh.hear(beat("b"))
    mesh.hear(beat("a"), beat("c"), beat("b", 1))
    joined = mesh.plans[-1]
    assert [member.full for member in joined.members] == [False, True, False]
    assert joined.incoming("a") == joined.incoming("c") == (("b", 1.0),)


def test_someone_who_joins_counts_as_if_it_had_stepped_the_round_before():
    mesh = Mesh(min_members=1)
    mesh.hear(beat("a"))  # rounds 1 to 4
    mesh.hear(beat("b"))
    assert mesh.hear(beat("a", 4)) == [5, 6, 7, 8]  # b joins in 5: as if it had stepped 4
    assert mesh.hear(beat("a", 8)) == []
    assert mesh.hear(beat("b", 5)) == [9]


def test_a_node_named_under_its_instance_stays_full_however_long_it_was_silent():
    mesh = Mesh(min_members=1, nodes=("a", "b"))
    mesh.hear_all(0, ("a", "b"))
    mesh.send(Ticked(1000.0))
    mesh.hear(beat("b", 4))
    mesh.hear(beat("a", 4))
    assert mesh.last == {"a": ("a1", True), "b": ("b1", True)}


# -------------------------------------------------------------------------------- instances and wishes


def test_a_new_instance_joins_and_does_not_hold_the_others_up():
    mesh = Mesh()
    mesh.hear_all()
    assert mesh.hear(beat("a", 4), beat("b", 4)) == []
    assert mesh.hear(beat("c", instance="c2", hello=True)) == [5, 6, 7, 8]
    assert mesh.plans[4].member("c") == Member("c", "c2", full=False)
    assert mesh.plans[5].member("c") == Member("c", "c2")


def test_the_heartbeats_of_a_replaced_process_count_for_nothing():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear(beat("a", 4), beat("b", 4))
    mesh.hear(beat("c", instance="c2", hello=True))
    mesh.hear(beat("c", 4), beat("c", 4, hello=True), beat("a", 8), beat("b", 8))
    assert mesh.refused == [Refusal.REPLACED, Refusal.REPLACED]
    assert mesh.last["c"] == ("c2", True)


def test_the_same_instance_in_a_new_process_stays_full():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear(beat("a", 4), beat("b", 4), beat("c", 2, boot="later", hello=True))
    assert mesh.plans[-1].members == FULL
    assert mesh.plans[-1].round == 6
    assert mesh.hear(beat("c", 4)) == []
    assert mesh.refused == [Refusal.REPLACED]


def test_a_member_that_asks_to_join_listens_once_and_is_not_waited_for():
    mesh = Mesh()
    mesh.hear_all()
    assert mesh.hear(beat("a", 4), beat("b", 4)) == []
    assert mesh.hear(beat("c", 0, join_after=4)) == [5, 6, 7, 8]
    assert [found.member("c").full for found in mesh.plans[4:]] == [False, True, True, True]
    # the wish is met, though still there; asked anew it is a new one
    mesh.hear(beat("a", 8), beat("b", 8), beat("c", 5, join_after=4))
    assert mesh.last["c"] == ("c1", True)
    mesh.hear(beat("a", 9), beat("b", 9), beat("c", 5, join_after=9))
    assert [found.member("c") for found in mesh.plans if found.round == 10] == [Member("c", "c1", full=False)]


def test_a_wish_to_join_after_a_round_is_not_met_before_it():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear(beat("c", 4, join_after=6))
    mesh.hear(beat("a", 4), beat("b", 4))
    assert [found.member("c") for found in mesh.plans[4:6]] == [None, None]
    assert mesh.plans[6].member("c") == Member("c", "c1", full=False)


def test_in_the_first_plan_a_wish_to_join_is_met_at_once():
    mesh = Mesh()
    mesh.hear(*(beat(name, join_after=0) for name in ABC))
    assert [found.members for found in mesh.plans] == [FULL] * 4


def test_a_restart_knows_who_has_joined():
    mesh = Mesh()
    mesh.hear_all()
    wish = beat("c", 0, join_after=4)
    mesh.hear(beat("a", 4), beat("b", 4), wish)
    again = Mesh(plans=mesh.plans, heartbeats=[beat("a", 5), beat("b", 5), wish])
    assert again.plans[-1].round == 8  # c joined in 5: as if it had stepped 4
    again.hear(beat("c", 5))
    assert again.last["c"] == ("c1", True)
    assert again.plans[-1].round == 9


def test_nobody_is_named_from_the_round_on_in_which_it_leaves():
    mesh = Mesh()
    mesh.hear(beat("a"), beat("b"), beat("c", leave_from=3))
    assert [found.member("c") is not None for found in mesh.plans] == [True, True, False, False]
    # it is still waited for: two rounds before it leaves are not stepped yet
    assert mesh.hear(beat("a", 4), beat("b", 4))[-1] == 8


def test_a_member_that_leaves_is_waited_for_until_its_last_round():
    mesh = Mesh()
    mesh.hear_all()
    assert mesh.hear(beat("a", 4), beat("b", 4), beat("c", 0, leave_from=5)) == []
    assert mesh.hear(beat("c", 1, leave_from=5)) == [5, 6, 7, 8]
    assert "c" not in mesh.last


def test_a_member_that_has_stepped_all_before_it_leaves_holds_nobody_up():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear(beat("a", 4), beat("b", 4))
    assert mesh.hear(beat("c", 0, leave_from=1)) == [5, 6, 7, 8]


def test_nothing_is_planned_without_a_full_member():
    mesh = Mesh(min_members=1)
    mesh.hear(beat("a"))
    mesh.silence("a", seconds=1)
    mesh.hear(beat("b"))
    before = len(mesh.plans)
    for _ in range(12):  # a falls silent; b, a listener at most, is there
        mesh.send(Ticked(1.0))
        mesh.hear(beat("b"))
    assert len(mesh.plans) == before
    mesh.hear(beat("a", mesh.plans[-1].round))
    assert mesh.last == {"a": ("a1", True), "b": ("b1", True)}


def test_named_counts_the_earlier_plans_of_everyone_ever_named():
    mesh = Mesh()
    mesh.hear_all()
    assert mesh.plans[0].named == ()
    assert mesh.plans[3].named == (("a", 3), ("b", 3), ("c", 3))
    mesh.silence("a", "b")
    named = dict(mesh.plans[-1].named)
    assert named["c"] == 4
    assert named["a"] == len(mesh.plans) - 1
    again = Mesh(plans=mesh.plans[-1:])  # older plans are not kept
    stepped = mesh.plans[-1].round + 3
    again.hear(beat("a", stepped), beat("b", stepped))
    assert len(again.plans) > 1
    assert dict(again.plans[-1].named)["c"] == 4


# ------------------------------------------------------------------------------------------ the run's end


def test_after_the_last_round_comes_a_plan_without_members():
    mesh = Mesh(rounds=6)
    mesh.hear_all()
    mesh.hear_all(4)
    assert [found.round for found in mesh.plans] == [1, 2, 3, 4, 5, 6, 7]
    assert mesh.plans[-1].ended
    assert mesh.plans[-1].named == tuple((name, 6) for name in ABC)
    assert mesh.hear_all(6) == []
    assert mesh.send(PlanRead(plan(8, 7, FULL))) == []
    assert mesh.refused == [Refusal.PLACE]


def test_the_run_is_over_when_every_full_member_has_come_back_as_another_instance():
    mesh = Mesh(nodes=("a", "b"))
    mesh.hear_all(0, ("a", "b"))
    mesh.hear(beat("a", instance="a2", hello=True))
    assert not mesh.plans[-1].ended
    mesh.hear(beat("b", instance="b2", hello=True))
    assert mesh.plans[-1].ended


def test_one_full_member_that_is_only_silent_may_still_come_back():
    mesh = Mesh(nodes=("a", "b"))
    mesh.hear_all(0, ("a", "b"))
    mesh.send(Ticked(60.0))
    assert mesh.hear(beat("a", instance="a2", hello=True)) == []
    assert mesh.hear(beat("b", 4))
    assert mesh.last == {"a": ("a2", True), "b": ("b1", True)}


def test_the_run_is_over_when_every_full_member_leaves_or_must_join():
    mesh = Mesh(nodes=("a", "b"))
    mesh.hear(beat("a", leave_from=3), beat("b", leave_from=3))
    assert [found.ended for found in mesh.plans] == [False, False, True]
    mesh = Mesh(nodes=("a", "b"))
    mesh.hear_all(0, ("a", "b"))
    mesh.hear(beat("a", 0, join_after=4), beat("b", 0, join_after=4))
    assert mesh.plans[-1].ended


def test_a_source_that_ends_ends_the_run():
    mesh = Mesh(silence=None)
    mesh.hear_all()
    assert mesh.send(SourceEnded(6)) == []
    mesh.hear_all(4)
    assert [found.ended for found in mesh.plans] == [False] * 6 + [True]
    # what is planned stays
    mesh = Mesh(silence=None)
    mesh.hear_all()
    mesh.send(SourceEnded(2), SourceEnded(9))
    mesh.hear_all(1)
    assert [found.ended for found in mesh.plans] == [False] * 4 + [True]


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
