"""A node that joins, again or for the first time: what it hears, and what of its past still counts."""

from dataclasses import replace

import numpy as np

from nodes.machine.events import Decided, Journal, Notice, OpenSlot, PlanArrived, SendRelease, Started
from nodes.machine.history import MOST_READ_AGAIN, History
from nodes.protocol import DeadlinePassed, Halt, Noticed, StartDeadline
from nodes.values import Release
from tests.support.nodes.machines import (
    HORIZON,
    INSTANCES,
    end,
    feed,
    learner,
    machine,
    of,
    plan,
    plans,
    release,
    slot,
    started,
)

HALF = {("b", "c"): 0.5, ("c", "b"): 0.5}
LISTENING = HALF | {("b", "a"): 0.5, ("c", "a"): 0.5}


def without_a(first, last):
    return [
        PlanArrived(plan(t, {("b", "c"): 0.5, ("c", "b"): 0.5}, instances={"a": "9" * 32}), t)
        for t in range(first, last + 1)
    ]


def from_both(round, value=(0.0, 0.0)):
    return [release(source, round, value) for source in "bc"]


def lost_in_round_1():
    """The journal of a node that gave up c in round 1, and has stepped it."""
    node = machine(deadlines=True)
    effects = started(node, *plans(1, 2))
    effects += feed(node, release("b", 1, (0.0, 0.0)), DeadlinePassed(1), slot(1))
    return [effect.record for effect in of(effects, Journal)]


def test_a_joiner_without_a_journal_hears_its_round_however_long_the_mesh_has_run():
    node = machine()
    effects = feed(node, Started((), tuple(without_a(1, 40))))
    for t in range(1, 42):  # the edges are read from their beginning
        effects += feed(node, *from_both(t, (4.0, 8.0)))
    effects += feed(
        node, PlanArrived(plan(41, LISTENING, listeners="a", named=(("a", 40),)), 41), *plans(42, 42)
    )
    assert not [notice for notice in of(effects, Noticed) if notice.notice is Notice.OVERFULL]
    record = of(effects, Journal)[0].record
    np.testing.assert_array_equal(record.release, [4.0, 8.0])
    assert record.charged == 40


def test_a_joiner_that_waits_long_for_its_plan_hears_its_round():
    node = machine()
    effects = started(node)
    for t in range(1, 41):
        effects += feed(node, *without_a(t, t), *from_both(t, (4.0, 8.0)))
    effects += feed(node, *from_both(41, (4.0, 8.0)))  # before its plan
    effects += feed(node, PlanArrived(plan(41, LISTENING, listeners="a"), 41), *plans(42, 42))
    np.testing.assert_array_equal(of(effects, Journal)[0].record.release, [4.0, 8.0])


def test_a_node_that_asks_to_join_hears_its_round_however_late_it_is_let_in():
    node = machine()
    effects = started(node, *plans(1, HORIZON + 2))
    for t in range(1, 41):
        effects += feed(node, *from_both(t, (4.0, 8.0)))
        if t > HORIZON + 2:
            effects += feed(node, *without_a(t, t))
    effects += feed(node, *from_both(41, (4.0, 8.0)))
    effects += feed(node, PlanArrived(plan(41, LISTENING, listeners="a"), 41), *plans(42, 42))
    assert of(effects, Journal)[-1].record.stepped == 41
    np.testing.assert_array_equal(of(effects, Journal)[-1].record.release, [4.0, 8.0])


def rejoined(node):
    """Let a node in again in round 21; return the effects up to its decision of round 22."""
    effects = feed(node, *[event for t in range(3, 21) for event in without_a(t, t)])
    effects += feed(node, PlanArrived(plan(21, LISTENING, listeners="a"), 21), *plans(22, 23))
    effects += feed(node, *from_both(21), release("c", 1, (0.0, 6.0), offset=50))
    return effects + feed(node, *from_both(22))


def test_what_was_lost_before_a_node_was_away_is_not_made_good_when_it_is_back():
    node = machine(deadlines=True)
    started(node, *plans(2, 2), records=lost_in_round_1())
    effects = rejoined(node)
    assert not [notice for notice in of(effects, Noticed) if notice.notice is Notice.CORRECTED]
    assert [decided.round for decided in of(effects, Decided)] == [22]
    np.testing.assert_array_equal(of(effects, Decided)[0].decision, [0.0, 0.0])


def test_a_restart_after_it_joined_again_forgets_the_same():
    records = lost_in_round_1()
    joined = records[-1]._replace(round=22, stepped=21, given_up=())
    history = History("bc", HORIZON, [*records, joined])
    history.edges["c"].receive(release("c", 1, (0.0, 6.0)).message, 50, 1, 99)
    assert history.oldest == 21
    assert history.late() == []


def test_a_listener_that_was_down_for_more_than_h_rounds_joins_again_before_it_steps():
    known = [*without_a(1, 2), PlanArrived(plan(3, LISTENING, listeners="a"), 3), *plans(4, 30)]
    node = machine(learner(private=True))
    effects = feed(node, Started((), tuple(known)))
    for t in range(3, 31):
        effects += feed(node, *from_both(t), slot(t))
    assert not of(effects, OpenSlot)
    assert not of(effects, SendRelease)
    assert [record.charged for _, record in enumerate(e.record for e in of(effects, Journal))] == [0]
    assert (Notice.JOINING, 30) in [(notice.notice, notice.number) for notice in of(effects, Noticed)]
    assert node.heartbeat.join_after == 30


def test_spent_elsewhere_counts_in_the_runs_first_plan_too():
    node = machine(replace(learner(budget=5), charged_before=4))
    effects = started(node, *plans(1, 3))
    for t in (1, 2):
        effects += feed(node, *from_both(t), slot(t))
    assert [effect.record.charged for effect in of(effects, Journal)] == [4, 5, 5]
    assert [effect.record.exact for effect in of(effects, Journal)] == [True, False, True]


def learnt(node, first, last):
    """Step the rounds first..last with both neighbours; return what the journal has of them."""
    effects = []
    for t in range(first, last + 1):
        effects += feed(node, *from_both(t), slot(t), *plans(t + 2, t + 2))
    return [effect.record for effect in of(effects, Journal)]


def test_where_a_journal_is_lost_plans_count_this_run_and_the_operator_the_others():
    parts = replace(learner(budget=6), charged_before=3)
    node = machine(parts)
    started(node, *plans(1, 2))
    assert [record.exact for record in learnt(node, 1, 2)] == [False, False]  # 5 of 6 are spent
    again = machine(parts)
    back = PlanArrived(plan(4, LISTENING, listeners="a", named=(("a", 3), ("b", 3), ("c", 3))), 4)
    effects = started(again, back, *plans(5, 5)) + feed(again, *from_both(4))
    assert [effect.record.charged for effect in of(effects, Journal)] == [6]
    feed(again, *plans(6, 6))
    assert all(record.exact for record in learnt(again, 5, 9))


def test_an_edge_that_is_not_provisioned_is_silent_and_stops_nobody():
    node = machine(sources=("b",), deadlines=True)
    effects = started(node, *plans(1, 2))
    assert of(effects, SendRelease)[0].targets == ("b",)
    assert of(effects, StartDeadline) == [StartDeadline(1)]
    effects = feed(node, release("b", 1, (3.0, 0.0)), slot(1))
    np.testing.assert_array_equal(of(effects, Decided)[0].decision, [1.0, 0.0])
    assert of(effects, Journal)[0].record.given_up == ()


def test_evidence_about_another_round_ends_the_wait_for_its_source():
    node = machine()
    started(node, *plans(1, 3))
    feed(node, *from_both(1), slot(1), release("c", 2, (0.0, 0.0)))
    effects = feed(node, release("b", 1, (9.0, 9.0)))
    assert [decided.round for decided in of(effects, Decided)] == [2]


def test_a_slot_without_records_keeps_the_position_of_the_one_before_over_a_restart():
    node = machine()
    records = [effect.record for effect in of(started(node, *plans(1, 2)), Journal)]
    records += [effect.record for effect in of(feed(node, *from_both(1), slot(1)), Journal)]
    again = machine()
    started(again, *plans(2, 3), records=records)
    empty = slot(2)._replace(position=())  # nothing was read since the restart
    record = of(feed(again, *from_both(2), empty), Journal)[0].record
    assert record.data_position == records[-1].data_position == ((0, 1),)


def test_a_partition_that_a_slot_did_not_read_keeps_its_position():
    node = machine()
    started(node, *plans(1, 3))
    feed(node, *from_both(1), slot(1)._replace(position=((0, 4), (1, 9))))
    record = of(feed(node, *from_both(2), slot(2)._replace(position=((1, 11),))), Journal)[0].record
    assert record.data_position == ((0, 4), (1, 11))


def test_one_release_for_a_round_far_ahead_does_not_silence_its_source_for_good():
    node = machine()
    started(node, *plans(1, 2))
    feed(node, *[release("b", 10**6 + k, (1.0, 1.0), offset=k) for k in range(3 * HORIZON)])
    for t in range(1, 60):
        offset = 2 * MOST_READ_AGAIN + t
        effects = feed(node, release("b", t, (0.0, 0.0), offset=offset), release("c", t, (0.0, 0.0)), slot(t))
        assert of(effects, Journal), t
        position = dict(of(effects, Journal)[0].record.edge_positions)["b"]
        feed(node, *plans(t + 2, t + 2))
    assert position > 2 * MOST_READ_AGAIN + 59 - 3 * HORIZON  # nor is its topic read again from there


def test_an_unprovisioned_name_never_reaches_the_journal():
    assert "d" in INSTANCES  # the fourth node of the plans, which this machine has no edge with
    node = machine(deadlines=True)
    names = "abcd"
    everyone = {(s, t): 0.25 for s in names for t in names if s != t}
    effects = started(node, *[PlanArrived(plan(t, everyone, names=names), t) for t in (1, 2)])
    effects += feed(node, *from_both(1), slot(1))
    assert [source for source, _ in of(effects, Journal)[-1].record.edge_positions] == ["b", "c"]


def test_a_node_back_that_hears_nobody_keeps_its_own_last_release():
    node = machine(deadlines=True)
    records = lost_in_round_1()
    records[-1] = records[-1]._replace(release=Release(np.array([7.0, 1.0])))
    started(node, *plans(2, 2), records=records)
    feed(node, *[event for t in range(3, 21) for event in without_a(t, t)])
    feed(node, PlanArrived(plan(21, LISTENING, listeners="a"), 21), *plans(22, 22 + HORIZON))
    record = of(feed(node, DeadlinePassed(21)), Journal)[0].record
    np.testing.assert_array_equal(record.release, [7.0, 1.0])


def plans_lost_after(stepped, round):
    """The journal of a node that has stepped a round; the next one planned was `round`."""
    node = machine()
    effects = started(node, *plans(1, stepped), PlanArrived(plan(round, follows=stepped), round))
    for t in range(1, stepped + 1):
        effects += feed(node, *from_both(t), slot(t, (1.0, 1.0), 5.0))
    records = [effect.record for effect in of(effects, Journal)]
    assert (records[-1].stepped, records[-1].round) == (stepped, round)
    return records


def test_a_round_planned_again_below_the_newest_release_is_none_of_this_node():
    """Its release for round 9 is out; as a listener in 7 it would make another one for 9."""
    records, node = plans_lost_after(3, 9), machine()
    again = PlanArrived(plan(7, LISTENING, listeners="a"), 7)
    effects = started(node, *plans(4, 6), again, PlanArrived(plan(9, follows=7), 9), records=records)
    assert of(effects, Journal) == []
    (sent,) = of(effects, SendRelease)
    assert (sent.message.round, sent.message.release.tobytes()) == (9, records[-1].release.tobytes())


def test_where_all_begin_again_each_goes_on_from_its_own_last_release():
    records, node = plans_lost_after(3, 4), machine()
    begins = PlanArrived(plan(30, {}, listeners="abc", follows=1), 1)
    effects = started(node, begins, PlanArrived(plan(31, follows=30), 2), records=records)
    (written,) = [effect.record for effect in of(effects, Journal)]
    assert (written.round, written.stepped, written.charged) == (31, 30, records[-1].charged)
    assert written.exact  # nothing was drawn
    assert written.release.tobytes() == records[-1].release.tobytes()
    assert {sent.message.round for sent in of(effects, SendRelease)} == {31}


def test_a_listeners_deadline_starts_when_the_run_is_known_to_end():
    node = machine(deadlines=True)
    effects = started(node, PlanArrived(plan(3, LISTENING, listeners="a", follows=2), 3), end(4))
    assert of(effects, StartDeadline) == [StartDeadline(3)]
    assert of(feed(node, DeadlinePassed(3)), Halt)


def test_simulated_noise_says_so_and_an_exact_release_does_not():
    node = machine(learner(private=True))
    effects = started(node, *plans(1, 2)) + feed(node, *from_both(1), slot(1))
    assert [(sent.message.exact, sent.message.simulated) for sent in of(effects, SendRelease)] == [
        (True, False),
        (False, True),
    ]


def test_a_source_with_two_values_stays_silent_over_a_restart():
    node = machine()
    effects = started(node, *plans(1, 2))
    effects += feed(node, *from_both(1), release("b", 1, (9.0, 9.0), offset=7), slot(1))
    records = [effect.record for effect in of(effects, Journal)]
    assert records[-1].distrusted == (("b", INSTANCES["b"]),)
    again = machine()
    started(again, *plans(2, 3), records=records[-1:])
    effects = feed(again, release("b", 2, (9.0, 9.0)), release("c", 2, (0.0, 0.0)))
    np.testing.assert_array_equal(of(effects, Decided)[0].decision, [0.0, 0.0])


def test_a_release_exactly_h_rounds_late_is_made_good_after_a_restart_too():
    node = machine(deadlines=True)
    effects = started(node, *plans(1, 3))
    effects += feed(node, release("b", 1, (0.0, 0.0)), DeadlinePassed(1), slot(1))
    for t in range(2, HORIZON + 1):
        effects += feed(node, *plans(t + 2, t + 2), *from_both(t), slot(t))
    records = [effect.record for effect in of(effects, Journal)][-(HORIZON + 1) :]
    assert records[-1].round == HORIZON + 1
    again = machine(deadlines=True)
    started(again, *plans(HORIZON + 1, HORIZON + 2), records=records)
    effects = feed(again, release("c", 1, (0.0, 6.0), offset=99), *from_both(HORIZON + 1))
    np.testing.assert_array_equal(of(effects, Decided)[0].decision, [0.0, 2.0])
