"""Which records enter which slot: by count and by time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.slots import Arrival, CountSlots, TimeSlots


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


def test_the_last_slot_of_a_stream_that_ends_has_the_records_that_are_left():
    slots = CountSlots(3)
    for offset in range(5):
        slots.add(Arrival(0, offset, 0.0, f"r{offset}"))
    slots.end()
    taken = []
    for round in (1, 2, 3):
        slots.open(round)
        is_ready, slot = slots.ready(0.0), slots.take()
        taken.append((is_ready, slot.values, slot.position))
    assert taken == [
        (True, ("r0", "r1", "r2"), ((0, 3),)),
        (True, ("r3", "r4"), ((0, 5),)),
        (False, (), ((0, 5),)),
    ]


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


TIMES = st.lists(st.floats(80.0, 230.0) | st.sampled_from([1e9, 1e300, float("inf"), -1e9]), max_size=20)


def in_slots(timestamps, size, now=float("inf")):
    """Which records each of slots 1 to 10 holds, all read at `now` before the first is open."""
    slots = TimeSlots(size, start=100.0, period=10.0, grace=2.0, horizon=4)
    for offset, (timestamp, value) in enumerate(timestamps):
        slots.add(Arrival(0, offset, timestamp, value), now)
    closed = []
    for round in range(1, 11):
        slots.open(round)
        closed.append(slots.take().values)
    return closed


@given(TIMES, st.floats(80.0, 230.0) | st.just(1e9), st.integers(0, 20), st.integers(1, 3), st.booleans())
def test_a_record_more_or_less_changes_its_own_slot_alone(timestamps, added, place, size, clocked):
    now = 130.0 if clocked else float("inf")
    usual = [(timestamp, f"r{k}") for k, timestamp in enumerate(timestamps)]
    other = [*usual[:place], (added, "added"), *usual[place:]]
    pairs = zip(in_slots(usual, size, now), in_slots(other, size, now), strict=True)
    differing = {round for round, (before, after) in enumerate(pairs, 1) if before != after}
    assert differing <= {by_time().round_of(added)}


@given(TIMES, st.integers(1, 3))
def test_what_was_dropped_before_the_position_is_missed_by_no_restart(timestamps, size):
    def life(first):
        slots = TimeSlots(size, start=100.0, period=10.0, grace=2.0, horizon=4)
        slots.open(1)
        for offset, timestamp in enumerate(timestamps[first:], first):
            slots.add(Arrival(0, offset, timestamp, offset))
        return slots

    whole = life(0)
    for round in range(1, 11):
        whole.open(round)
        position = dict(whole.take().position).get(0, 0)
        again = life(position)
        for later in range(round + 1, 11):
            again.open(later)
            expected = life(0)
            expected.open(later)
            assert again.take().values == expected.take().values


def test_a_record_dated_more_than_h_periods_after_the_clock_is_dropped_and_counted():
    slots = TimeSlots(2, start=100.0, period=10.0, grace=2.0, horizon=4)
    slots.open(1)
    for offset, timestamp in enumerate([101.0, 145.1, 145.0, 1e300]):
        slots.add(Arrival(0, offset, timestamp, timestamp), 105.0)
    closed = slots.take()
    assert (closed.values, closed.early, closed.late) == ((101.0,), 2, 0)
    assert closed.position == ((0, 2),)  # the near one waits, and holds the position
    slots.open(5)
    assert slots.take().values == (145.0,)


def test_no_more_than_h_records_of_a_slot_are_kept_and_they_are_the_first():
    slots = TimeSlots(2, start=100.0, period=10.0, grace=2.0, horizon=4)
    slots.open(1)
    for offset in range(1000):
        slots.add(Arrival(0, offset, 129.0 - offset / 100, offset), 105.0)
        assert slots.waiting <= 2 * 2  # slots 3 and 2
    closed = slots.take()
    assert (closed.values, closed.overfull) == ((), 996)
    assert closed.position == ((0, 899),)
    slots.open(2)
    assert slots.take().values == (999, 998)
    slots.open(3)
    assert slots.take().values == (900, 899)


def test_a_backlog_keeps_only_slots_that_a_plan_may_name():
    """The mesh stood still: it goes on with the plans that there are, then at the clock's round."""
    slots = TimeSlots(1, start=0.0, period=1.0, grace=0.0, horizon=4)
    assert slots.behind(5.0)
    assert not slots.behind(3.9)
    slots.open(1)
    for offset in range(1000):
        slots.add(Arrival(0, offset, offset + 0.5, offset + 1), 1000.0)
    assert slots.waiting <= 5 * 4 + 1
    closed = []
    for round in (1, 9, 993, 1000):
        slots.open(round)
        closed += slots.take().values
    assert closed == [1, 9, 993, 1000]


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


@given(
    # Multiples of 1/8, whose sums are exact: a rounded sum may join two times, and swap their records.
    st.lists(
        st.integers(640, 1840).map(lambda eighths: eighths / 8)
        | st.sampled_from([1e9, 1e300, float("inf"), -1e9]),
        max_size=20,
    ),
    st.integers(0, 480).map(lambda eighths: eighths / 8),
    st.integers(1, 3),
)
def test_a_delay_is_a_public_shift_of_all_times(timestamps, delay, size):
    def slotted(delay, moved):
        slots = TimeSlots(size, 100.0, 10.0, 2.0, horizon=4, delay=delay)
        closed = []
        for offset, timestamp in enumerate(timestamps):
            slots.add(Arrival(0, offset, timestamp + moved, offset))
        for round in range(1, 11):
            slots.open(round)
            slot = slots.take()
            closed.append((slot.values, slot.late, slot.overfull, slot.position))
        return closed

    assert slotted(delay, 0.0) == slotted(0.0, delay)


def test_a_delayed_record_is_early_by_its_own_time():
    slots = TimeSlots(2, 100.0, 10.0, 2.0, horizon=4, delay=1_000.0)
    slots.add(Arrival(0, 0, 150.0, "now"), 150.0)
    slots.add(Arrival(0, 1, 190.1, "more than 4 periods ahead"), 150.0)
    slots.open(106)
    slot = slots.take()
    assert (slot.values, slot.early, slot.times) == (("now",), 1, (150.0,))
