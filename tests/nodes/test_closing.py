"""Closing rounds: the last lesson goes out and is mixed, and nothing is learnt, read or charged."""

import numpy as np

from nodes.machine.events import (
    BeforeStep,
    Decided,
    Journal,
    NoSlot,
    OpenSlot,
    PlanArrived,
    Scored,
    SendHeartbeat,
    SendRelease,
    Started,
)
from nodes.protocol import Halt
from tests.support.nodes.machines import (
    end,
    feed,
    learner,
    machine,
    neighbours,
    of,
    plan,
    plans,
    run_rounds,
    started,
)

CLOSING = [PlanArrived(plan(3, closing=2), 3), PlanArrived(plan(4, closing=1), 4), end(5)]


def taught(**settings):
    """A machine that has learnt in two rounds, of which two closing ones and the end follow."""
    node = machine(learner(private=True, **settings))
    started(node, *plans(1, 2), *CLOSING)
    return node, run_rounds(node, 1, 2)


def test_in_a_closing_round_it_sends_hears_mixes_and_decides_and_that_is_all():
    node, before = taught()
    lesson = of(before, Journal)[-1].record
    assert of(before, SendRelease)[-1].message.release.tobytes() == lesson.release.tobytes()
    assert not [opened for opened in of(before, OpenSlot) if opened.round > 2]
    effects = feed(node, *neighbours(3))
    assert not of(effects, OpenSlot) + of(effects, BeforeStep) + of(effects, Scored)
    (entry,), (decided,) = of(effects, Journal), of(effects, Decided)
    mixed = (lesson.release + np.array([3.0, 0.0]) + np.array([0.0, 6.0])) / 3
    np.testing.assert_allclose(decided.decision, mixed)
    record = entry.record
    np.testing.assert_array_equal(record.release, decided.decision)
    assert (record.exact, record.charged, record.epsilon_spent) == (True, 2, lesson.epsilon_spent)
    assert (record.data_position, record.read) == (lesson.data_position, lesson.read)


def test_averages_count_rounds_of_learning_alone():
    node, before = taught()
    average = of(before, Journal)[-1].record.average
    effects = feed(node, *neighbours(3))
    assert average.rounds == 2
    for closed in (of(effects, Decided)[0].average, of(effects, Journal)[0].record.average):
        assert (closed.rounds, closed.mean.tobytes()) == (2, average.mean.tobytes())


def test_it_halts_after_the_last_one():
    node, _ = taught()
    assert not of(feed(node, *neighbours(3)), Halt)
    effects = feed(node, *neighbours(4))
    assert of(effects, Journal)[0].record.round == 5
    assert [halt.reason for halt in of(effects, Halt)] == ["the run is over"]


def test_after_a_crash_in_a_closing_round_it_sends_the_same_bytes():
    node, before = taught()
    records = [entry.record for entry in of(before, Journal)] + [
        entry.record for entry in of(feed(node, *neighbours(3)), Journal)
    ]
    again = machine(learner(private=True))
    effects = feed(again, Started(tuple(records), (*CLOSING[1:],)))
    (sent,) = of(effects, SendRelease)
    assert (sent.message.round, sent.message.release.tobytes()) == (4, records[-1].release.tobytes())
    assert not of(effects, OpenSlot)


def test_a_node_whose_budget_is_spent_says_so_at_once():
    node = machine(learner(budget=2))
    started(node, *plans(1, 5))
    first = of(run_rounds(node, 1, 1), SendHeartbeat)
    assert [sent.heartbeat.finished for sent in first] == [False] * len(first)
    second = of(run_rounds(node, 2, 2), SendHeartbeat)
    assert [sent.heartbeat.finished for sent in second] == [True]
    assert node.heartbeat.finished


def test_a_node_without_records_for_a_slot_relays_and_asks_again_in_the_next_round():
    node = machine(learner(private=True))
    started(node, *plans(1, 4))
    run_rounds(node, 1, 1)
    effects = feed(node, NoSlot(1), *neighbours(2), NoSlot(2))  # that of round 1 comes too late
    (entry,) = of(effects, Journal)
    assert (entry.record.stepped, entry.record.charged, entry.record.exact) == (2, 1, True)
    assert entry.record.average.rounds == 1
    assert [opened.round for opened in of(effects, OpenSlot)] == [3]
    assert not of(effects, Scored)
    assert not node.heartbeat.finished
    (entry,) = of(run_rounds(node, 3, 3), Journal)
    assert (entry.record.stepped, entry.record.charged, entry.record.exact) == (3, 2, False)
