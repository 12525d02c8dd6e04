"""Two values for a round: evidence isolates only where the writer is known, and is told in heartbeats."""

import numpy as np
import pytest

from nodes.machine.events import Decided, Evidence, Journal, Notice, SendHeartbeat
from nodes.machine.history import MOST_ACCUSED
from nodes.protocol import Noticed
from tests.support.nodes.machines import (
    HORIZON,
    INSTANCES,
    THIRD,
    feed,
    machine,
    neighbours,
    of,
    plans,
    release,
    slot,
    started,
)

LIE = (9.0, 9.0)


def lied_to(*, isolates):
    """A machine in round 1 that has read a second value of b, and the effects since its start."""
    node = machine(isolates=isolates)
    effects = started(node, *plans(1, 4))
    return node, effects + feed(node, *neighbours(1), release("b", 1, LIE, offset=2))


def told(node):
    return node.heartbeat.accused


def test_where_anybody_may_write_the_first_value_stands_and_no_link_dies():
    node, effects = lied_to(isolates=False)
    assert of(effects, Noticed) == [Noticed(Notice.EVIDENCE, "b", 1)]
    (kept,) = of(effects, Evidence)
    assert (kept.first.tolist(), kept.message.release.tolist()) == ([3.0, 0.0], list(LIE))
    effects += feed(node, slot(1), *neighbours(2))
    for decided in of(effects, Decided):
        expected = decided.own * THIRD + np.array([3.0, 6.0]) * THIRD
        np.testing.assert_allclose(decided.decision, expected)
    assert len(of(effects, Decided)) == 2


def test_a_second_value_before_the_others_have_come_ends_no_wait():
    node = machine(isolates=False)
    started(node, *plans(1, 2))
    effects = feed(node, release("b", 1, (3.0, 0.0)), release("b", 1, LIE))
    assert not of(effects, Decided)
    (decided,) = of(feed(node, release("c", 1, (0.0, 6.0))), Decided)
    np.testing.assert_allclose(decided.decision, decided.own * THIRD + np.array([3.0, 6.0]) * THIRD)


@pytest.mark.parametrize("isolates", [True, False])
def test_heartbeats_accuse_the_instance(isolates):
    node, _ = lied_to(isolates=isolates)
    assert told(node) == (INSTANCES["b"],)
    beats = of(feed(node, slot(1)), SendHeartbeat)
    assert all(sent.heartbeat.accused == (INSTANCES["b"],) for sent in beats)


def test_evidence_that_isolates_nobody_is_told_for_h_rounds():
    node, _ = lied_to(isolates=False)
    for t in range(1, HORIZON + 2):
        assert told(node) == (INSTANCES["b"],)
        feed(node, slot(t), *neighbours(t + 1), *plans(t + 4, t + 4))
    feed(node, slot(HORIZON + 2))
    assert told(node) == ()


def test_a_journal_that_distrusts_is_healed_where_anybody_may_write():
    node, effects = lied_to(isolates=True)
    effects += feed(node, slot(1))
    (before,) = [sent.record for sent in of(effects, Journal)][-1:]
    assert before.distrusted == (("b", INSTANCES["b"]),)
    again = machine(isolates=False)
    started(again, *plans(2, 4), records=(before,))
    effects = feed(again, *neighbours(2), slot(2))
    (decided,) = of(effects, Decided)
    np.testing.assert_allclose(decided.decision, decided.own * THIRD + np.array([3.0, 6.0]) * THIRD)
    assert of(effects, Journal)[0].record.distrusted == ()


def pardoned(isolates=True):
    """The journal's last record after evidence against b, with that pardoned up to round 9."""
    node, effects = lied_to(isolates=isolates)
    effects += feed(node, slot(1))
    return of(effects, Journal)[-1].record._replace(distrusted=(), pardoned=(("b", INSTANCES["b"], 9),))


def test_what_is_pardoned_is_heard_again_though_its_values_are_read_again():
    again = machine()
    started(again, *plans(2, 4), records=(pardoned(),))
    effects = feed(again, *neighbours(1), release("b", 1, LIE, offset=2), *neighbours(2), slot(2))
    (decided,) = of(effects, Decided)
    np.testing.assert_allclose(decided.decision, decided.own * THIRD + np.array([3.0, 6.0]) * THIRD)
    record = of(effects, Journal)[0].record
    assert (record.distrusted, record.pardoned) == ((), (("b", INSTANCES["b"], 9),))
    assert told(again) == ()


def test_later_evidence_counts_again_and_a_pardon_is_forgotten_with_its_rounds():
    again = machine()
    started(again, *plans(2, 5), records=(pardoned(),))
    for t in range(2, 16):
        feed(again, *neighbours(t), slot(t), *plans(t + 4, t + 4))
    effects = feed(again, *neighbours(16), release("b", 16, LIE, offset=99), slot(16))
    assert (Notice.EVIDENCE, "b", 16) in [(one.notice, one.peer, one.number) for one in of(effects, Noticed)]
    record = of(effects, Journal)[-1].record
    assert (record.distrusted, record.pardoned) == ((("b", INSTANCES["b"]),), ())


def test_of_invented_instances_a_bounded_number_is_remembered():
    node = machine()
    started(node, *plans(1, 4))
    for k in range(3 * MOST_ACCUSED):
        for value in (1.0, 2.0):
            feed(node, release("b", 1 + k % 3, (value, 0.0), offset=k, instance=f"{k % 12:032x}"))
    effects = feed(node, release("c", 1, (0.0, 6.0)), release("b", 1, (3.0, 0.0)), slot(1))
    records = [sent.record for sent in of(effects, Journal)]
    assert all(len(record.distrusted) <= MOST_ACCUSED for record in records)
    assert len(told(node)) == 8
