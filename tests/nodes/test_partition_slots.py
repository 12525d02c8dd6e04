"""Slots by count from several partitions: positions and ends decide, and nothing in a record."""

from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.partition_slots import DueRecords, PartitionSlots, shares
from nodes.machine.slots import Arrival

PARTITIONS = st.integers(1, 4)


@given(st.dictionaries(st.integers(0, 6), st.integers(0, 50), min_size=1), st.integers(1, 40))
def test_shares_are_the_quotas_by_largest_remainder(waiting, size):
    given_out = shares(waiting, size)
    total = sum(waiting.values())
    assert sum(given_out.values()) == min(size, total)
    assert list(given_out) == sorted(waiting)
    quotas = {part: Fraction(min(size, total) * count, total or 1) for part, count in waiting.items()}
    remainders = {part: quota - quota.__floor__() for part, quota in quotas.items()}
    raised = {part for part, quota in quotas.items() if given_out[part] == quota.__floor__() + 1}
    assert all(given_out[part] == quotas[part].__floor__() for part in waiting if part not in raised)
    for part in raised:  # nobody who was passed over has a larger remainder, or the same and a lower number
        assert all(
            (remainders[other], -other) <= (remainders[part], -part)
            for other in waiting
            if other not in raised
        )


def test_a_tie_goes_to_the_lower_partition():
    assert shares({0: 5, 1: 5, 2: 5}, 4) == {0: 2, 1: 1, 2: 1}
    assert shares({2: 1, 0: 1}, 1) == {0: 1, 2: 0}


class Topic:
    """Partitions with gaps, and the ends at some moments."""

    def __init__(self, held, looks):
        self.held, self.looks = held, looks

    @property
    def parts(self):
        return range(len(self.held))


@st.composite
def topics(draw):
    held = [
        draw(st.lists(st.booleans(), max_size=30))  # which offsets hold a record
        for _ in range(draw(PARTITIONS))
    ]
    ends, looks = [0] * len(held), []
    for _ in range(draw(st.integers(1, 4))):
        ends = [draw(st.integers(end, len(offsets))) for end, offsets in zip(ends, held, strict=True)]
        looks.append(dict(enumerate(ends)))
    return Topic(held, [*looks, dict(enumerate(map(len, held)))])


def slots_of(topic, size, choose, first=None):
    """Return the places and positions of all full slots, read in the order that `choose` gives."""
    slots = PartitionSlots(size, first or dict.fromkeys(topic.parts, 0))
    looks, read, closed = iter(topic.looks), {part: (first or {}).get(part, 0) for part in topic.parts}, []
    slots.open(1)
    while True:
        if slots.ready(0.0):
            full_slot = slots.take()
            closed.append((full_slot.places, full_slot.position))
            slots.open(len(closed) + 1)
        elif slots.awaits_ends:
            ends = next(looks, None)
            if ends is None:
                return closed
            slots.look(ends)
        else:
            unread = [part for part in topic.parts if read[part] < len(topic.held[part])]
            part = choose(unread)
            if topic.held[part][read[part]]:
                slots.add(Arrival(part, read[part], 0.0, b""))
            read[part] += 1
            slots.passed({part: read[part]})


@given(topics(), st.integers(1, 7), st.data())
def test_the_order_in_which_partitions_are_read_changes_no_slot(topic, size, data):
    one_by_one = slots_of(topic, size, min)
    assert slots_of(topic, size, max) == one_by_one
    assert slots_of(topic, size, lambda unread: data.draw(st.sampled_from(unread))) == one_by_one


@given(topics(), st.integers(1, 7))
def test_each_record_below_a_position_is_in_one_slot(topic, size):
    before = dict.fromkeys(topic.parts, 0)
    for places, position in slots_of(topic, size, min):
        ends = dict(position)
        between = [
            (part, offset)
            for part in topic.parts
            for offset in range(before[part], ends[part])
            if topic.held[part][offset]
        ]
        assert sorted(places) == between
        assert len(places) == size
        before = ends
    left = sum(sum(topic.held[part][before[part] :]) for part in topic.parts)
    assert left < size  # all that was there by the last look-up was taken


@given(topics(), st.integers(1, 7), st.data())
def test_who_begins_anew_at_a_position_loses_and_doubles_no_record(topic, size, data):
    closed = slots_of(topic, size, min)
    kept = data.draw(st.integers(0, len(closed)))
    position = dict(closed[kept - 1][1]) if kept else dict.fromkeys(topic.parts, 0)
    topic.looks = topic.looks[-1:]
    again = slots_of(topic, size, max, position)
    taken = [place for places, _ in closed[:kept] + again for place in places]
    assert len(taken) == len(set(taken))
    assert len(again) == len(closed) - kept


def test_a_slot_takes_of_each_partition_what_waits_there():
    topic = Topic([[True] * 8, [True] * 4], [{0: 8, 1: 4}])
    assert [position for _, position in slots_of(topic, 3, min)] == [
        ((0, 2), (1, 1)),
        ((0, 4), (1, 2)),
        ((0, 6), (1, 3)),
        ((0, 8), (1, 4)),
    ]


def test_a_slot_that_is_not_full_in_time_is_empty_and_its_records_wait():
    slots = PartitionSlots(2, {0: 0, 1: 0})
    slots.open(1)
    slots.look({0: 1, 1: 0})
    slots.add(Arrival(0, 0, 0.0, "a"))
    assert (slots.waiting, slots.awaits_ends) == (1, True)
    empty = slots.take()
    assert (empty.values, empty.position) == ((), ((0, 0), (1, 0)))
    slots.open(2)
    slots.look({0: 1, 1: 1})
    assert not slots.lacks(0)
    assert slots.lacks(1)
    slots.add(Arrival(1, 0, 0.0, "b"))
    assert slots.take().values == ("a", "b")


def test_how_often_the_ends_are_looked_up_decides_nothing():
    slots = PartitionSlots(2, {0: 0, 1: 0})
    slots.open(1)
    slots.look({0: 1, 1: 1})
    slots.look({0: 9, 1: 1})  # nobody asked
    slots.add(Arrival(0, 0, 0.0, "a"))
    slots.add(Arrival(0, 1, 0.0, "later"))
    slots.add(Arrival(1, 0, 0.0, "b"))
    assert slots.take().values == ("a", "b")
    assert slots.awaits_ends  # for offset 1 of partition 0 is not below an end that was asked for


def test_a_record_of_a_partition_that_nobody_named_is_refused():
    with pytest.raises(KeyError):
        PartitionSlots(1, {0: 0}).add(Arrival(3, 0, 0.0, b""))


TIMES = st.lists(st.integers(0, 60), max_size=30)


@given(TIMES, st.integers(1, 40), st.lists(st.integers(0, 120), max_size=6))
def test_a_record_is_due_so_long_after_the_largest_time_of_its_partition_so_far(times, after, clock):
    undue, largest = DueRecords(after), list(accumulate(times, max))
    undue.add([Arrival(0, 2 * k, time, k) for k, time in enumerate(times)])
    released, end = [], 2 * len(times)
    for now in sorted(clock):
        later = [2 * k for k, time in enumerate(times) if time >= now - after]
        undue.reach({0: min(later, default=end)}, {}, now)  # what the broker answers
        due = undue.due()
        undue.drop(due)
        released += due
        assert [arrival.value for arrival in released] == [
            k for k, time in enumerate(largest) if time + after < now
        ]
    assert [arrival.timestamp for arrival in released] == largest[: len(released)]
    assert undue.firsts == ({0: 2 * len(released)} if len(released) < len(times) else {})


def test_a_record_dated_ahead_holds_back_others_for_the_wait_at_most():
    undue = DueRecords(64.0)
    undue.add([Arrival(0, 0, 10_000.0, "ahead"), Arrival(0, 1, 0.0, "behind it")])
    undue.reach({0: 0}, {0: 1}, 0.0)
    undue.reach({0: 0}, {0: 2}, 32.0)
    assert not undue.due()
    undue.reach({0: 0}, {0: 2}, 64.0)
    assert [arrival.value for arrival in undue.due()] == ["ahead"]
    undue.reach({0: 0}, {0: 2}, 96.0)
    assert [arrival.value for arrival in undue.due()] == ["ahead", "behind it"]


def test_partitions_are_due_each_by_its_own_times():
    undue = DueRecords(10.0)
    undue.add([Arrival(0, 0, 9.0, "late"), Arrival(1, 0, 1.0, "soon"), Arrival(1, 1, 1.0, "too")])
    undue.reach({0: 0, 1: 2}, {0: 1, 1: 2}, 15.0)
    due = undue.due()
    assert [arrival.value for arrival in due] == ["soon", "too"]
    undue.drop(due)
    assert not undue.due()
    assert undue.firsts == {0: 0}
    assert undue.limits == {0: 0, 1: 2}
