"""Records from one side, slots from the other: the slots of one process, however the two interleave."""

import math
import threading
from queue import SimpleQueue

from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.machine.slots import CountSlots, TimeSlots
from nodes.privacy.reveal import opened
from streams.live.data.collector import AHEAD, REFILL, SlotCollector
from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import CsvFields, SchemaDecoder
from streams.records.record import RawRecord
from streams.records.slot_feed import DataLog, SlotFeed
from tests.support.nodes.collectors import Digits, Side, arrival, position_of, seen


def test_a_slot_says_the_truth_of_its_last_record():
    closed = []
    columns = {"features": {"x": "number"}, "label": {"column": "y"}, "truth": ["u"]}
    decoder = SchemaDecoder(SchemaSettings.model_validate(columns), CsvFields(("x", "y", "u")))
    collector = SlotCollector(lambda: CountSlots(2), decoder, None, closed.append, lambda: None)
    for offset, value in enumerate((b"1,2,3", b"1,2,4")):
        collector.add([arrival(offset, value=value)])
    collector.open(OpenSlot(1, ()))
    assert opened(closed[0].truth).tolist() == [4]


def by_time(size=9):
    return lambda: TimeSlots(size, start=0.0, period=10.0, grace=0.0)


# ------------------------------------------------------------------------------------ as in one process


@given(st.integers(1, 5), st.lists(st.sampled_from(["record", "open", "again"]), max_size=60))
def test_slots_by_count_are_those_of_one_process(size, steps):
    side = Side(lambda: CountSlots(size))
    log = DataLog(RawRecord(str(k).encode()) for k in range(1000))
    feed = SlotFeed(log, lambda: CountSlots(size), Digits())
    position, added, pending, expected = (), 0, None, []
    for round, step in enumerate(steps, 1):
        if step == "record":
            side.collector.add([arrival(added)])
            added += 1
        else:
            if step == "open" and side.slots:
                position = side.slots[-1][2]
            asked = OpenSlot(round, position)
            pending = seen(feed.close(asked))  # it takes the place of one that is still open
            side.collector.open(asked)
        if pending is not None and position_of(pending) <= added:
            expected.append(pending)
            pending = None
        assert side.slots == expected


@given(
    st.lists(st.floats(0.0, 99.0), max_size=40).map(sorted),
    st.lists(st.sampled_from(["record", "open", "settle"]), max_size=80),
)
def test_slots_by_time_are_those_of_one_process(timestamps, steps):
    side = Side(by_time(3))
    records = [RawRecord(str(k).encode(), at) for k, at in enumerate(timestamps)]
    feed = SlotFeed(DataLog(iter(records)), by_time(3), Digits())
    offset, round, position, open_since = 0, 0, (), None
    expected = []
    for step in steps:
        if step == "record" and offset < len(records):
            side.collector.add([arrival(offset, timestamps[offset])])
            offset += 1
        elif step == "settle" and offset:
            side.collector.settle(timestamps[offset - 1])
        elif step == "open" and open_since is None:
            round += 1
            open_since = round
            side.collector.open(OpenSlot(round, position))
        if len(side.slots) > len(expected):
            closed = feed.close(OpenSlot(round, position))
            expected.append(seen(closed)[:2])
            position, open_since = side.slots[-1][2], None
    assert [slot[:2] for slot in side.slots] == expected


def test_two_threads_lose_and_double_nothing():
    """The position moves on, or a slot is read again, while records come."""
    closed, room = SimpleQueue(), threading.Event()
    collector = SlotCollector(lambda: CountSlots(7), Digits(), None, closed.put, room.set)
    waited = []

    def add():
        for offset in range(7 * 1000):
            if collector.add([arrival(offset)])[1]:
                waited.append(offset)
                assert room.wait(20)
                room.clear()

    adding = threading.Thread(target=add)
    adding.start()
    position, first = (), 0
    for round in range(1, 1334):
        collector.open(OpenSlot(round, position))
        slot = closed.get(timeout=20)
        assert seen(slot) == (round, [float(first + k) for k in range(7)], ((0, first + 7),))
        if round % 4:  # every fourth is read again
            position, first = slot.position, first + 7
    adding.join(20)
    assert not adding.is_alive()
    assert waited
    assert opened(collector.counts).records == 7000


# ------------------------------------------------------------------------------------------ when it closes


def test_a_slot_whose_records_wait_closes_in_open_itself():
    side = Side()
    side.fill(0, 3)
    side.collector.open(OpenSlot(1, ()))
    assert side.slots == [(1, [0.0, 1.0], ((0, 2),))]


def test_a_slot_by_count_closes_empty_when_its_time_is_over_and_its_records_wait():
    side = Side(timeout=5.0)
    side.fill(0, 1)
    side.collector.open(OpenSlot(1, ()))
    side.now += 4.9
    side.collector.expire()
    assert side.slots == []
    side.now += 0.1
    side.collector.expire()
    side.collector.expire()
    assert side.slots == [(1, [], ((0, 0),))]
    side.collector.open(OpenSlot(2, ((0, 0),)))
    side.fill(1, 2)
    assert side.slots[1:] == [(2, [0.0, 1.0], ((0, 2),))]
    assert side.counts.empty_slots == 1


def test_it_says_how_long_no_slot_closes_empty():
    side = Side(timeout=5.0)
    assert side.collector.left == 5  # none is open: one that is opened now has as long
    side.collector.open(OpenSlot(1, ()))
    side.now += 4
    assert side.collector.left == 1
    side.now += 4
    assert side.collector.left == 0
    side.collector.expire()
    assert side.slots == [(1, [], ())]
    assert side.collector.left == 5
    assert Side(by_time(), timeout=5.0).collector.left == math.inf


def test_without_a_timeout_a_slot_waits_for_ever_and_so_do_slots_by_time():
    for side in (Side(timeout=None), Side(by_time(), timeout=5.0)):
        side.collector.open(OpenSlot(1, ()))
        side.now += 1e9
        side.collector.expire()
        assert side.slots == []


def test_a_slot_by_time_closes_when_all_that_was_there_at_its_end_has_been_added():
    side = Side(by_time())
    side.collector.open(OpenSlot(1, ()))
    assert not side.collector.due(9.9)
    assert side.collector.due(10.0)
    side.collector.add([arrival(0, 9.0)])
    side.collector.settle(9.9)
    assert side.slots == []
    side.collector.settle(10.0)
    assert side.slots == [(1, [0.0], ((0, 1),))]


def test_a_slot_by_time_that_was_over_when_all_was_read_closes_in_open_itself():
    side = Side(by_time())
    for offset, timestamp in enumerate([5.0, 15.0, 25.0]):
        side.collector.add([arrival(offset, timestamp)])
    side.collector.settle(27.0)
    side.collector.open(OpenSlot(1, ()))
    side.collector.open(OpenSlot(2, ((0, 1),)))
    side.collector.open(OpenSlot(3, ((0, 2),)))
    assert [slot[:2] for slot in side.slots] == [(1, [0.0]), (2, [1.0])]


# ----------------------------------------------------------------------------------- from the topic's end


def test_a_slot_at_the_topics_end_takes_nothing_that_was_there_before():
    side = Side()
    side.fill(0, 4)
    side.collector.open(OpenSlot(1, None))
    assert side.slots == []
    assert side.collector.unplaced
    side.collector.place({0: 3})
    side.fill(4, 5)
    assert side.slots == [(1, [3.0, 4.0], ((0, 5),))]


def test_what_was_fetched_below_the_end_is_dropped_when_it_comes():
    side = Side()
    side.collector.open(OpenSlot(1, None))
    side.collector.place({0: 30})
    side.fill(0, 32)
    assert side.slots == [(1, [30.0, 31.0], ((0, 32),))]
    assert side.counts.records == 2


def test_a_slot_at_an_end_that_nobody_tells_closes_empty_in_its_time():
    side = Side(timeout=5.0)
    side.fill(0, 3)
    side.collector.open(OpenSlot(1, None))
    side.now += 5
    side.collector.expire()
    assert side.slots == [(1, [], ())]
    side.collector.place({0: 1})  # too late
    assert len(side.slots) == 1
    side.collector.open(OpenSlot(2, None))
    side.collector.place({0: 3})
    side.fill(3, 5)
    assert side.slots[1:] == [(2, [3.0, 4.0], ((0, 5),))]


def test_an_empty_slot_after_the_end_keeps_the_place():
    side = Side(timeout=5.0)
    side.collector.open(OpenSlot(1, None))
    side.collector.place({0: 3})
    side.now += 5
    side.collector.expire()
    assert side.slots == [(1, [], ((0, 3),))]


# ------------------------------------------------------------------------------------- how much may wait


def test_only_so_many_records_wait_while_no_slot_is_open():
    side = Side()
    full = side.fill(0, AHEAD + 2)
    assert full == [False] * (AHEAD - 1) + [True] * 3
    side.collector.open(OpenSlot(1, ()))
    assert side.rooms == 0  # more than AHEAD wait still
    refilled = AHEAD - int(REFILL * AHEAD)
    side.collector.open(OpenSlot(2, ((0, refilled - 1),)))
    assert side.rooms == 0
    side.collector.open(OpenSlot(3, ((0, refilled),)))
    assert side.rooms == 1


def test_a_slot_of_more_records_than_may_wait_fills_all_the_same():
    side = Side(lambda: CountSlots(2 * AHEAD))
    assert side.fill(0, AHEAD)[-1]
    side.collector.open(OpenSlot(1, ()))
    assert side.rooms == 1
    assert not any(side.fill(AHEAD, 2 * AHEAD))
    assert len(side.slots) == 1


def test_slots_by_time_wait_for_room_by_the_clock_alone():
    side = Side(lambda: TimeSlots(9, start=0.0, period=1.0, grace=0.0, horizon=4))
    side.collector.open(OpenSlot(97, ()))
    side.collector.settle(97.0)
    assert len(side.slots) == 1
    assert not any(side.collector.add([arrival(k, 99.5)])[1] for k in range(2 * AHEAD))
    side.wall = 101.0  # the clock is in round 102: there is room again when a slot opens
    assert [side.collector.add([arrival(2 * AHEAD + k, 99.5)])[1] for k in range(2)] == [True, True]
    side.collector.open(OpenSlot(98, side.slots[-1][2]))
    assert side.rooms == 1
    assert not side.collector.add([arrival(2 * AHEAD + 2, 99.5)])[1]


@given(
    st.sampled_from([lambda: CountSlots(3), lambda: CountSlots(300), by_time(2)]),
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, 400), st.integers(1, 9)),  # records, and how far apart the gaps are
            st.sampled_from(["open", "again"]),
        ),
        max_size=12,
    ),
)
def test_records_that_are_taken_together_are_taken_as_one_by_one(slots, steps):
    """Offsets without a record, records that come again, opened slots, and where there is no more room."""
    together, one_by_one = Side(slots), Side(slots)
    stops, offset, position = ([], []), 0, ()
    for round, step in enumerate(steps, 1):
        if isinstance(step, str):
            if step == "open" and together.slots:
                position = together.slots[-1][2]
            for side in (together, one_by_one):
                side.collector.open(OpenSlot(round, position))
            continue
        records, offset, place = [], max(0, offset - round % 3), 0
        for number in range(step[0]):
            records.append(arrival(offset, offset / 10))
            offset += 1 + (number % step[1] == 0)
        while place < len(records):
            place, blocked = together.collector.add(records, place)
            stops[0].extend([records[place - 1].offset] if blocked else [])
        stops[1].extend(at.offset for at in records if one_by_one.collector.add([at])[1])
        assert stops[0] == stops[1]
        assert together.slots == one_by_one.slots
        assert together.collector.next == one_by_one.collector.next
    assert (together.counts, together.rooms) == (one_by_one.counts, one_by_one.rooms)


def test_nobody_is_woken_who_does_not_wait():
    side = Side()
    side.fill(0, 10)
    for round, offset in enumerate(range(0, 10, 2), 1):
        side.collector.open(OpenSlot(round, ((0, offset),)))
    assert (len(side.slots), side.rooms) == (5, 0)


# ------------------------------------------------------------------------------------------------ counts


def test_what_became_of_the_records_is_counted():
    side = Side(by_time(1))
    side.collector.open(OpenSlot(2, ()))
    for offset, (timestamp, value) in enumerate([(5.0, b"1"), (15.0, b"x"), (16.0, b"2"), (25.0, b"3")]):
        side.collector.add([arrival(offset, timestamp, value)])
    side.collector.settle(20.0)
    counts = side.counts
    assert (counts.records, counts.late, counts.malformed, counts.overfull) == (4, 1, 1, 1)
    side.collector.open(OpenSlot(3, side.slots[-1][2]))
    side.collector.settle(30.0)
    assert side.slots[-1][:2] == (3, [3.0])
    assert side.counts.empty_slots == 0


def test_a_record_that_is_too_early_when_it_is_read_changes_nothing_but_the_owners_count():
    for times in ((5.0, 15.0, 25.0), (1e9, 5.0, 15.0, 1e9, 25.0, 140.1)):
        side = Side(lambda: TimeSlots(9, start=0.0, period=10.0, grace=0.0, horizon=4))
        for offset, timestamp in enumerate(times):
            side.collector.add([arrival(offset, timestamp, b"%d" % timestamp)])
        position = ()
        for round in (1, 2, 3):
            side.collector.open(OpenSlot(round, position))
            side.collector.settle(10.0 * round)
            position = side.slots[-1][2]
        assert [slot[:2] for slot in side.slots] == [(1, [5.0]), (2, [15.0]), (3, [25.0])]
        assert (side.counts.early, position) == (len(times) - 3, ((0, len(times)),))


def test_a_record_without_a_time_is_in_no_slot_and_holds_nothing_up():
    """Kafka says -1 ms where a message has no time."""
    side = Side(lambda: TimeSlots(9, start=0.0, period=10.0, grace=0.0, horizon=4))
    for offset, timestamp in enumerate((-0.001, 5.0, -0.001)):
        side.collector.add([arrival(offset, timestamp)])
    side.collector.open(OpenSlot(1, ()))
    side.collector.settle(10.0)
    assert side.slots == [(1, [1.0], ((0, 3),))]
    assert side.counts.late == 2


def test_counts_cannot_be_looked_at_without_the_owner():
    assert "records" not in repr(Side().collector.counts)


# ------------------------------------------------------------------------- when there is something to look up


def test_a_slot_by_count_has_nothing_to_look_up_and_one_by_time_not_before_its_end():
    side = Side()
    assert side.collector.over_in(0.0) == math.inf
    side.collector.open(OpenSlot(1, ()))
    assert side.collector.over_in(1e9) == math.inf
    side = Side(by_time())
    assert side.collector.over_in(0.0) == math.inf
    side.collector.open(OpenSlot(2, ()))
    assert [side.collector.over_in(now) for now in (0.0, 19.5, 20.0, 30.0)] == [20.0, 0.5, 0.0, 0.0]


def test_what_a_slot_at_the_topics_end_or_beyond_what_is_read_needs_is_looked_up_at_once():
    side = Side()
    side.collector.open(OpenSlot(1, None))
    assert side.collector.over_in(0.0) == 0
    side.collector.place({0: 30})
    assert side.collector.over_in(0.0) == 0  # it is to be followed there
    assert side.collector.moved()
    assert side.collector.over_in(0.0) == math.inf


def test_each_record_is_told_once_to_who_counts_faults_though_its_slot_closes_again():
    side = Side()
    for offset, value in enumerate([b"1", b"x", b"", b"4"]):
        side.collector.add([arrival(offset, value=value)])
    for position in ((), (), ((0, 2),)):
        side.collector.open(OpenSlot(1, position))
    assert len(side.slots) == 3
    assert {place: fault and str(fault) for place, fault in side.faults.items()} == {
        (0, 0): None,
        (0, 1): "no digits",
        (0, 2): "no digits",
        (0, 3): None,
    }


def test_by_time_a_record_counts_whether_its_slot_has_room_for_it_or_not():
    side = Side(lambda: TimeSlots(1, 100.0, 10.0, 4))
    values = [b"1", b"x", b"y", b"z"]
    for offset, (moment, value) in enumerate(zip([50.0, 101.0, 101.0, 101.0], values, strict=True)):
        side.collector.add([arrival(offset, moment, value)])
    assert [fault is not None for fault in side.faults.values()] == [False, True, True, True]
