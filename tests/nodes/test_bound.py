"""The bound of a life: what is within it, and what the next life has of it, by steps over two partitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.machine.events import Journal, SlotClosed, Started
from nodes.machine.journal import Bound, Bounds, JournalRecord
from nodes.machine.slots import Arrival, TimeSlots
from nodes.privacy.private import Private
from nodes.values import Observations, Release
from tests.support.nodes.machines import HORIZON, feed, learner, machine, neighbours, of, plans

RECORD = JournalRecord(
    7, 6, Release(np.zeros(2)), False, 5, 2.5, ((0, 8), (1, 3)), 0, (), (), (), read=((0, 9), (1, 4))
)
BOUND = Bound(7, 5, 2.5, ((0, 9), (1, 4)))


@pytest.mark.parametrize(
    ("changes", "within"),
    [
        ({}, True),
        ({"round": 8}, False),
        ({"charged": 6}, False),
        ({"epsilon_spent": 2.6}, False),
        ({"read": ((0, 10), (1, 4))}, False),
        ({"read": ((0, 9), (1, 5))}, False),
        ({"read": ((0, 9), (1, 4), (2, 1))}, False),
        ({"read": ((1, 4),)}, True),
    ],
)
def test_a_record_beyond_the_bound_in_anything_is_beyond_it(changes, within):
    assert BOUND.covers(RECORD._replace(**changes)) is within


def test_the_next_life_is_charged_and_reads_up_to_the_bound_and_keeps_the_release():
    kept = Bound(9, 8, 4.0, ((0, 17), (1, 12))).inherited(RECORD)
    assert (kept.charged, kept.epsilon_spent) == (8, 4.0)
    assert kept.data_position == kept.read == ((0, 17), (1, 12))
    assert (kept.round, kept.stepped, kept.release is RECORD.release) == (7, 6, True)


def test_a_bound_is_a_horizon_ahead_and_within_the_budget():
    parts = learner(budget=6, private=True)  # of six rounds
    bounds = Bounds(HORIZON, 3, parts.ledger)
    ahead = bounds.after(RECORD._replace(charged=1, epsilon_spent=1.0))
    assert (ahead.round, ahead.charged, ahead.epsilon_spent) == (11, 5, 5.0)
    assert ahead.read == ((0, 21), (1, 16))
    assert bounds.after(RECORD).charged == 6
    assert bounds.after(RECORD).epsilon_spent == 6.0


def test_before_the_first_step_the_bound_is_the_record():
    first = RECORD._replace(stepped=0)
    made = Bounds(HORIZON, 3, learner().ledger).after(first)
    assert made == Bound(7, 5, 2.5, first.read)


def closed_slots(slots, rounds, arrivals):
    """Close the slots of these rounds, each once so many arrivals were added."""
    left = list(arrivals)
    for round_ in rounds:
        slots.open(round_)
        while left and left[0][1] <= round_:
            slots.add(left.pop(0)[0])
        yield slots.take()


TIMES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 11), st.integers(1, 12)), max_size=40)
"""The partition of each record, its time, and the round before whose end it comes."""


@settings(max_examples=300, deadline=None)
@given(times=TIMES, cut=st.integers(2, 11), size=st.integers(1, 3))
def test_no_record_by_time_is_in_releases_of_two_lives_even_if_all_rounds_are_planned_again(times, cut, size):
    """Two partitions, times in any order, and a cut after any step; then every slot comes again."""
    offsets, arrivals = [0, 0], []
    for partition, time, comes in sorted(times, key=lambda item: item[2]):
        arrivals.append((Arrival(partition, offsets[partition], float(time), time), comes))
        offsets[partition] += 1
    node = machine(learner(private=True))
    feed(node, Started(), *plans(1, 1))
    bounds, bound, used = Bounds(HORIZON, size, learner(private=True).ledger), None, set()
    records = []
    for slot in closed_slots(TimeSlots(size, 0.0, 1.0, 0.0), range(1, cut + 1), arrivals):
        used |= set(slot.places)
        event = SlotClosed(
            slot.round,
            Private(Observations(np.zeros((1, 2)), np.zeros(1), np.ones(1, bool))),
            slot.position,
            read=slot.read,
        )
        (journal,) = of(
            feed(node, *plans(slot.round + 1, slot.round + 1), *neighbours(slot.round), event), Journal
        )
        if bound is None or not bound.covers(journal.record):
            bound, records = bounds.after(journal.record), []
        records.append(journal.record)
    for durable in records:  # the one of the bound is on the disk, and any number after it
        kept = bound.inherited(durable)
        start = dict(kept.data_position)
        left = [(arrival, 1) for arrival, _ in arrivals if arrival.offset >= start.get(arrival.partition, 0)]
        again = [
            place
            for slot in closed_slots(TimeSlots(size, 0.0, 1.0, 0.0), range(1, 13), left)
            for place in slot.places
        ]
        assert not used & set(again)
        assert kept.charged >= cut


def test_what_is_bounded_is_what_was_read_and_not_the_position():
    """A record of slot 1 lies behind the first one of slot 2: it is learnt from, and the position stays."""
    slots = TimeSlots(1, 0.0, 1.0, 0.0)
    slots.add(Arrival(0, 0, 1.5, "two"))
    slots.add(Arrival(0, 1, 0.5, "one"))
    slots.open(1)
    closed = slots.take()
    assert (closed.places, closed.position, closed.read) == (((0, 1),), ((0, 0),), ((0, 2),))
