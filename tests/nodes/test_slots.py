"""Which records enter which slot: by count and by time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.slots import Arrival, CountSlots, TimeSlots


def arrivals(offsets, partition=0):
    return [Arrival(partition, offset, float(offset), f"r{offset}") for offset in offsets]


def test_slots_by_count_take_the_next_records_by_offset():
    slots = CountSlots(2)
    for arrival in arrivals(range(5)):
        slots.add(arrival)
    slots.open(1)
    first = slots.take()
    assert (first.round, first.values, first.position) == (1, ("r0", "r1"), ((0, 2),))
    slots.open(2)
    second = slots.take()
    assert (second.values, second.places) == (("r2", "r3"), ((0, 2), (0, 3)))


def test_a_slot_by_count_that_is_not_full_in_time_is_empty_and_its_records_wait():
    slots = CountSlots(2)
    slots.add(arrivals([7])[0])
    slots.open(1)
    assert not slots.ready(0.0)
    early = slots.take()
    assert (early.values, early.position) == ((), ((0, 7),))
    slots.add(arrivals([8])[0])
    slots.open(2)
    assert slots.ready(0.0)
    assert slots.take().values == ("r7", "r8")


def test_an_empty_slot_keeps_the_position_of_the_one_before():
    slots = CountSlots(1)
    slots.add(arrivals([3])[0])
    slots.open(1)
    slots.take()
    slots.open(2)
    assert slots.take().position == ((0, 4),)


def test_slots_by_count_refuse_a_second_partition():
    with pytest.raises(ValueError, match="partition 1"):
        CountSlots(1).add(Arrival(1, 0, 0.0, "r"))


def by_time(size=2):
    return TimeSlots(size, start=100.0, period=10.0, grace=2.0)


def test_slots_by_time_go_by_the_timestamp_and_close_after_the_grace():
    slots = by_time()
    slots.open(1)
    for offset, timestamp in enumerate([109.0, 111.0, 101.0]):
        slots.add(Arrival(0, offset, timestamp, timestamp))
    assert not slots.ready(111.9)
    assert slots.ready(112.0)
    closed = slots.take()
    assert closed.values == (101.0, 109.0)  # by timestamp, not by offset
    assert closed.position == ((0, 1),)  # the record of slot 2 is needed again
    slots.open(2)
    assert slots.take().values == (111.0,)


def test_slots_by_time_keep_the_first_records_and_count_the_rest():
    slots = by_time(size=1)
    slots.open(1)
    slots.add(Arrival(1, 0, 105.0, "second partition"))
    slots.add(Arrival(0, 4, 105.0, "first partition"))
    closed = slots.take()
    assert (closed.values, closed.overfull) == (("first partition",), 1)
    assert closed.position == ((0, 5), (1, 1))


def test_late_records_are_dropped_and_counted():
    slots = by_time()
    slots.open(2)
    slots.add(Arrival(0, 0, 109.0, "late"))
    slots.add(Arrival(0, 1, float("-inf"), "no time at all"))
    slots.add(Arrival(0, 2, 110.0, "in time"))
    closed = slots.take()
    assert (closed.values, closed.late) == (("in time",), 2)


def test_the_slots_of_skipped_rounds_are_dropped():
    slots = by_time()
    slots.open(1)
    slots.add(Arrival(0, 0, 115.0, "slot 2"))
    slots.add(Arrival(0, 1, 135.0, "slot 4"))
    slots.take()
    slots.open(4)
    closed = slots.take()
    assert (closed.values, closed.late) == (("slot 4",), 1)


@given(st.lists(st.floats(100.0, 199.0), max_size=30), st.integers(0, 29), st.integers(1, 4))
def test_the_content_of_a_record_moves_no_other(timestamps, changed, size):
    def slotted(content):
        slots = by_time(size)
        for offset, timestamp in enumerate(timestamps):
            slots.add(Arrival(0, offset, timestamp, (offset, content if offset == changed else "")))
        closed = []
        for round in range(1, 11):
            slots.open(round)
            closed.append([offset for offset, _ in slots.take().values])
        return closed

    assert slotted("this") == slotted("that")


@given(st.lists(st.floats(100.0, 199.0), max_size=40))
def test_every_record_is_in_one_slot_or_counted(timestamps):
    slots = by_time()
    for offset, timestamp in enumerate(timestamps):
        slots.add(Arrival(0, offset, timestamp, offset))
    seen, dropped = [], 0
    for round in range(1, 11):
        slots.open(round)
        closed = slots.take()
        seen += closed.values
        dropped += closed.late + closed.overfull
    assert len(set(seen)) == len(seen)
    assert len(seen) + dropped == len(timestamps)
    assert slots.waiting == 0


@pytest.mark.parametrize("timestamp", [float("inf"), 1e308, float("nan"), -1e308])
def test_a_timestamp_that_no_slot_has_is_dropped(timestamp):
    slots = TimeSlots(1, start=0.0, period=1e-3, grace=0.0)
    slots.open(1)
    slots.add(Arrival(0, 0, timestamp, "never"))
    closed = slots.take()
    assert (closed.values, closed.late) == ((), 1)


def test_a_slot_says_where_its_records_stand():
    slots = TimeSlots(2, 0.0, 10.0, 0.0)
    for partition, offset, at in ((1, 5, 2.0), (0, 9, 3.0), (0, 10, 1.0), (0, 11, 12.0)):
        slots.add(Arrival(partition, offset, at, f"{partition}:{offset}"))
    slots.open(1)
    closed = slots.take()
    assert closed.values == ("0:10", "1:5")
    assert closed.places == ((0, 10), (1, 5))
