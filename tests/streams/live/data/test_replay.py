"""Slots opened again and again: which records they hold, and which are dropped."""

from nodes.machine.slots import Arrival, CountSlots, TimeSlots
from streams.records.replay import ReplaySlots


def by_count(records=6, size=2):
    slots = ReplaySlots(lambda: CountSlots(size))
    for offset in range(records):
        slots.add(Arrival(0, offset, 0.0, bytes([offset])))
    return slots


def by_time():
    return ReplaySlots(lambda: TimeSlots(9, start=0.0, period=10.0, grace=0.0))


def taken(slots, round, position):
    slots.open(round, position)
    closed = slots.take()
    return [value[0] for value in closed.values], closed.position


def test_a_slot_at_the_position_of_the_one_before_is_the_next_one():
    slots = by_count()
    values, position = taken(slots, 1, ())
    assert (values, position) == ([0, 1], ((0, 2),))
    assert taken(slots, 2, position) == ([2, 3], ((0, 4),))


def test_a_slot_that_nothing_was_learnt_from_is_read_again():
    slots = by_count()
    _, position = taken(slots, 1, ())
    taken(slots, 2, position)
    assert taken(slots, 7, position) == ([2, 3], ((0, 4),))
    assert taken(slots, 8, ((0, 4),)) == ([4, 5], ((0, 6),))


def test_what_lies_below_a_position_is_dropped_also_if_it_comes_later():
    slots = by_count(3)
    slots.open(1, ((0, 4),))
    assert not slots.add(Arrival(0, 3, 0.0, b"\3"))
    assert slots.waiting == 0
    assert slots.add(Arrival(0, 4, 0.0, b"\4"))
    assert slots.next == {0: 5}


def test_a_record_that_came_before_is_not_taken_twice():
    slots = by_count(2)
    assert not slots.add(Arrival(0, 1, 0.0, b"\1"))
    assert slots.waiting == 2


def test_an_empty_slot_stands_where_it_was_opened():
    slots = by_count(0)
    assert taken(slots, 1, ((0, 12),)) == ([], ((0, 12),))


def test_a_slot_by_time_names_the_partitions_that_it_heard_nothing_of():
    slots = by_time()
    slots.open(1, ((0, 3), (1, 8)))
    slots.add(Arrival(1, 8, 5.0, b"\1"))
    slots.add(Arrival(1, 9, 15.0, b"\2"))
    closed = slots.take()
    assert (closed.values, closed.position) == ((b"\1",), ((0, 3), (1, 9)))


def test_slots_by_time_keep_nothing_that_no_later_slot_needs():
    slots = by_time()
    slots.open(5, ())
    for offset in range(100):
        slots.add(Arrival(0, offset, 7.0, b"late"))
    assert (slots.waiting, len(slots._kept)) == (0, 0)
    assert slots.take().late == 100


def test_slots_by_count_keep_nothing_below_the_last_opened_position():
    slots = by_count(100)
    position = ()
    for round in range(1, 51):
        _, position = taken(slots, round, position)
    slots.open(51, position)
    assert not any(slots._kept.values())
