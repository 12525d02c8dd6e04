"""The scheduler machine: who is live, who is full, who listens."""

import pickle

from tests.support.nodes.scheduling import ABC, FULL, Mesh, beat, plan
from topology.graph import from_edges
from topology.plans import Member
from topology.scheduler import (
    Refusal,
    Ticked,
)
from topology.schedules import SwitchingSchedule

# --------------------------------------------------------------------------------------------- restarts


def test_a_restart_goes_on_where_the_log_ends():
    first = Mesh()
    first.hear_all()
    again = Mesh(plans=first.plans, heartbeats=[beat(name, 2) for name in ABC])
    assert [found.round for found in again.plans] == [1, 2, 3, 4, 5, 6]
    assert again.plans[-1].members == FULL


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


def test_a_listener_between_full_members_hears_each_of_them():
    mesh = Mesh(min_members=2)
    mesh.hear(beat("a"), beat("c"))
    mesh.hear(beat("b"), beat("a", 1), beat("c", 1))
    joined = mesh.plans[-1]
    assert joined.incoming("b") == (("a", 0.5), ("c", 0.5))
    assert joined.incoming("a") == (("c", 0.5),)
    assert joined.incoming("c") == (("a", 0.5),)


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


# ------------------------------------------------------------------------------- invented processes


def test_hellos_of_invented_processes_take_no_more_memory():
    mesh, sizes = Mesh(), []
    mesh.hear_all()
    for number in range(5_000):
        mesh.hear(beat("a", 1, instance=f"a{number}", boot=f"{number:032x}", hello=True))
        if number in {500, 4_999}:
            sizes.append(len(pickle.dumps(mesh.machine._roster)))
    assert sizes[1] < sizes[0] + 100
    assert mesh.refused == []


def test_the_processes_replaced_last_are_remembered():
    mesh = Mesh()
    mesh.hear_all()
    for number in range(200):
        mesh.hear(beat("a", 1, boot=f"boot-{number}", hello=True))
    mesh.hear(*(beat("a", 1, boot=f"boot-{number}") for number in range(136, 199)))
    assert mesh.refused == [Refusal.REPLACED] * 63
