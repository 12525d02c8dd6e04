"""The scheduler machine: how much of what nodes say of their progress it believes, and lost plans."""

import pytest

from tests.support.nodes.scheduling import ABC, FULL, Mesh, beat, plan, record, settings
from topology.plans import Member, after
from topology.scheduler import MOST, PlansRead, Refusal, SchedulerMachine, SchedulerStarted, Ticked

H = 4  # of these tests
LISTENING = tuple(Member(name, f"{name}1", full=False) for name in ABC)
HUGE = (10**9, 2**62, 2**63 - 1)
FIVE = ("a", "b", "c", "d", "e")


def rounds(mesh):
    return [found.round for found in mesh.plans]


def lost(last, *stepped, **more):
    """A scheduler that finds one plan in the log, and a heartbeat of each node that says this progress."""
    beats = [beat(name, done) for name, done in zip(ABC, stepped, strict=True)]
    return Mesh(plans=(plan(last, last - 1, FULL),), heartbeats=beats, **more)


# ------------------------------------------------------------------------------------------ one node lies


@pytest.mark.parametrize("lie", [10 + H + 1, *HUGE])
def test_one_node_alone_moves_a_scheduler_that_starts_no_further_than_h(lie):
    mesh = lost(10, lie, 10, 9)
    assert rounds(mesh) == [10, 11, 12, 13]  # c, at 9, is waited for
    assert mesh.refused == [Refusal.PROGRESS]
    assert not any(found.ended for found in mesh.plans)


@pytest.mark.parametrize("lie", HUGE)
def test_one_node_alone_does_not_say_where_a_run_begins(lie):
    mesh = Mesh(rounds=100)
    assert mesh.hear(beat("a", lie), beat("b")) == []
    assert mesh.hear(beat("c")) == [1, 2, 3, 4]
    assert mesh.plans[0].members == FULL
    mesh.hear(beat("a", lie))
    assert mesh.refused == [Refusal.PROGRESS]


@pytest.mark.parametrize("lie", HUGE)
def test_what_one_says_while_the_mesh_runs_is_refused_and_is_a_sign_of_life_all_the_same(lie):
    mesh = Mesh()
    mesh.hear_all()
    for _ in range(30):
        mesh.send(Ticked(1.0))
        mesh.hear(beat("a", lie), beat("b", mesh.plans[-1].round), beat("c", mesh.plans[-1].round))
    assert mesh.refused == [Refusal.PROGRESS] * 30
    assert mesh.plans[-1].members == FULL
    assert rounds(mesh) == list(range(1, len(mesh.plans) + 1))


def test_a_minority_of_liars_does_not_move_the_median():
    members = tuple(Member(name, f"{name}1") for name in FIVE)
    beats = [beat("a", 10**6), beat("b", 10**7), *(beat(name, 10) for name in "cde")]
    mesh = Mesh(FIVE, plans=(plan(10, 9, members),), heartbeats=beats)
    assert rounds(mesh) == [10, 11, 12, 13]
    assert mesh.refused == [Refusal.PROGRESS] * 2


def test_a_liar_moves_nothing_when_the_others_are_silent():
    mesh = Mesh(plans=(plan(10, 9, FULL),), heartbeats=[beat(name, 10) for name in ABC])
    mesh.silence("b")
    assert mesh.last.keys() == {"b"}
    mesh.send(Ticked(60.0))
    mesh.hear(beat("a", 10**9), beat("c", 10**9), beat("b", mesh.plans[-1].round))
    assert rounds(mesh) == list(range(10, mesh.plans[-1].round + 1))


def test_the_only_member_of_the_last_plan_is_believed_as_plans_may_be_lost():
    mesh = Mesh(plans=(plan(10, 9, (Member("a", "a1"),)),), heartbeats=[beat("a", 1_000)])
    assert rounds(mesh)[:2] == [10, 1_000 + 2 * H + 1]


def test_even_all_together_they_claim_no_round_beyond_what_a_plan_can_have():
    assert rounds(lost(10, MOST + 1, 2**63 - 1, 2**63 - 1)) == [10, 11, 12, 13]
    assert rounds(lost(10, *[MOST] * 3))[1] == MOST + 2 * H + 1


def test_after_the_start_nobodys_progress_counts():
    mesh = lost(10, 10, 10, 10)
    mesh.hear_all(14)
    assert mesh.hear_all(10**6) == []  # all of them: by then it is known that each has begun at 14 or less
    assert mesh.refused == [Refusal.PROGRESS] * 3


# --------------------------------------------------------------------------------------------- lost plans


def test_what_one_node_has_stepped_is_not_planned_again_up_to_h():
    mesh = lost(10, 13, 10, 10)
    assert rounds(mesh)[:2] == [10, 14]
    assert mesh.plans[1].members == LISTENING  # nobody has the release for 14 but a


def test_plans_that_most_have_stepped_were_lost_and_the_mesh_begins_again_beyond_them_all():
    mesh = lost(10, 30, 31, 29)
    assert rounds(mesh) == [10, 30 + 2 * H + 1, 40, 41, 42]
    assert [found.members for found in mesh.plans[1:3]] == [LISTENING, FULL]
    assert mesh.plans[1].sources.size == 0
    assert mesh.refused == []
    assert mesh.hear_all(39) == [43]


def test_a_log_without_any_plan_begins_again_beyond_what_most_have_stepped():
    mesh = Mesh(heartbeats=[beat("a", 500), beat("b", 498)])
    assert mesh.hear(beat("a", 500), beat("b", 498)) == []
    assert mesh.hear(beat("c", 499))[:2] == [499 + 2 * H + 1, 499 + 2 * H + 2]
    assert [found.members for found in mesh.plans[:2]] == [LISTENING, FULL]
    assert mesh.plans[0].follows == 0


def test_who_has_no_journal_joins_once_the_others_have_begun_again():
    mesh = Mesh()
    mesh.hear(beat("a", 500), beat("b", 500), beat("c", instance="c2"))
    assert mesh.plans[0].members == LISTENING[:2]
    assert mesh.plans[1].members == (*FULL[:2], Member("c", "c2", full=False))


def test_heartbeats_that_were_lost_too_are_heard_after_the_start():
    mesh = lost(10, 9, 9, 9)
    assert rounds(mesh) == [10, 11, 12, 13]
    assert mesh.hear(beat("a", 30)) == []
    assert mesh.refused == [Refusal.PROGRESS]
    assert mesh.hear(beat("b", 31), beat("c", 29)) == []  # now a is believed, once it says so again
    assert mesh.hear(beat("a", 30))[:2] == [30 + 2 * H + 1, 40]
    assert mesh.plans[4].members == LISTENING


FIVE_FULL = tuple(Member(name, f"{name}1") for name in FIVE)
ANEW = [beat(name, instance=f"{name}2") for name in "cde"]
SOUND = [beat("a", 30), beat("b", 29)]


def test_who_has_begun_anew_has_no_say_in_what_was_lost():
    """A power cut took the end of all topics: of the plans, and of the data that c, d and e had read."""
    mesh = Mesh(FIVE, plans=(plan(10, 9, FIVE_FULL),), heartbeats=[*SOUND, *ANEW])
    assert rounds(mesh)[:3] == [10, 29 + 2 * H + 1, 29 + 2 * H + 2]
    assert [member.name for member in mesh.plans[1].members] == ["a", "b"]
    assert [member.full for member in mesh.plans[2].members] == [True, True, False, False, False]


@pytest.mark.parametrize("first", range(5))
def test_nor_if_that_is_heard_after_the_start(first):
    mesh = Mesh(FIVE, plans=(plan(10, 9, FIVE_FULL),), heartbeats=[beat(name, 9) for name in FIVE])
    beats = [*SOUND, *ANEW]
    mesh.hear(*beats[first:], *beats[:first], *SOUND)
    assert 29 + 2 * H + 1 in rounds(mesh)


def test_a_liar_among_nodes_that_have_begun_anew_is_one_node_alone():
    mesh = Mesh(FIVE, plans=(plan(10, 9, FIVE_FULL),), heartbeats=[beat("a", 2**40), *ANEW])
    assert max(rounds(mesh)) <= 10 + H


def test_another_schedulers_plans_that_are_read_after_the_heartbeats_were_not_lost():
    machine, first = SchedulerMachine(settings()), plan(10, 9, FULL)
    beats = tuple(beat(name, 12) for name in ABC)
    started = machine.handle(SchedulerStarted((record(first),), beats, whole=False))
    assert [found.round for found in started[0].plans] == [12 + 2 * H + 1, 22, 23, 24]
    others = plan(11, 10, FULL, first.named), plan(12, 11, FULL), plan(13, 12, FULL)
    (again,) = machine.handle(PlansRead(after(first, others)))
    assert [found.round for found in again.plans] == [14, 15, 16]
    assert again.plans[0].members == FULL


def test_with_slots_by_time_it_begins_again_just_beyond_the_clock():
    mesh = Mesh()
    mesh.send(Ticked(0.0, current=503))
    assert mesh.hear_all(500)[0] == 505  # a node steps no slot that is not over


# ------------------------------------------------------------------------------- silence ends no run


def test_three_silent_ones_come_back_after_the_fourth_has_lost_its_journal():
    nodes = ("a", "b", "c", "d")
    mesh = Mesh(nodes)
    mesh.hear_all(0, nodes)
    mesh.hear_all(3, nodes)
    mesh.silence("d")
    assert mesh.last == {"d": ("d1", True)}
    assert mesh.hear(beat("d", instance="d2", hello=True)) == []
    mesh.send(Ticked(60.0))
    assert not mesh.plans[-1].ended
    before = len(mesh.plans)
    mesh.hear(*(beat(name, 3, boot="later", hello=True) for name in "abc"), beat("d", instance="d2"))
    first = mesh.plans[before]
    assert {member.name for member in first.members} <= {"a", "b", "c"}
    assert not any(member.full for member in first.members)
    for _ in range(3):
        mesh.hear(*(beat(name, mesh.plans[-1].round, boot="later") for name in "abc"))
        mesh.hear(beat("d", mesh.plans[-1].round, instance="d2"))
    assert mesh.last == {name: (f"{name}{2 if name == 'd' else 1}", True) for name in nodes}


def test_all_that_have_to_join_again_begin_again_together():
    mesh = Mesh()
    mesh.hear_all()
    assert mesh.hear(*(beat(name, 2, join_after=4) for name in "ab")) == []
    mesh.hear(beat("c", 2, join_after=4))
    assert [found.members for found in mesh.plans[4:6]] == [LISTENING, FULL]
    assert rounds(mesh)[4] == 5


def test_who_has_to_join_again_waits_for_no_member_that_stays_silent():
    mesh = Mesh()
    mesh.hear_all()
    mesh.hear(*(beat(name, 2, join_after=4) for name in "ab"))
    for _ in range(12):
        mesh.send(Ticked(1.0))
        mesh.hear(*(beat(name, 2, join_after=4) for name in "ab"))
    again = mesh.plans[4]
    assert again.members == LISTENING[:2]
    assert mesh.plans[5].members == FULL[:2]


def test_who_turns_out_to_have_begun_anew_has_no_say_although_an_old_heartbeat_of_its_came_first():
    four = ("a", "b", "c", "d")
    members = tuple(Member(name, f"{name}1") for name in four)
    mesh = Mesh(four, plans=(plan(10, 9, members),), heartbeats=[beat(name, 9) for name in four])
    mesh.hear(beat("c", 31), beat("d", 9), beat("b", 30))
    assert max(rounds(mesh)) == 13
    for _ in range(2):  # a, which is not there, is waited for until it is silent
        mesh.hear(beat("b", 30), beat("c", 31), beat("d", 0, instance="d2"))
        mesh.send(Ticked(6.0))
    assert max(rounds(mesh)) >= 30 + 2 * H + 1


@pytest.mark.parametrize("lie", HUGE)
def test_a_liar_that_pretends_to_have_begun_anew_moves_nothing_when_the_others_are_silent(lie):
    mesh = lost(10, 10, 10, 10)
    mesh.hear(beat("a", lie), beat("b", 10), beat("c", 10))
    mesh.send(Ticked(60.0))
    for instance in ("a2", "a3"):
        mesh.hear(beat("a", lie, instance=instance))
    assert max(rounds(mesh)) <= 10 + 2 * H
