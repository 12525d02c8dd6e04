"""The slots of a stream are the same whatever fetches its records come in, and wherever it is killed."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.machine.slots import Arrival, CountSlots, TimeSlots
from streams.codec.topics import DataTopics
from streams.live.data import collector
from streams.live.data.stream import DataStream
from tests.support.brokers.data_streams import Numbers, numbers

TURNS = 200
"""Turns of the loop, in which all is done, by which a slot has closed."""


def arrival(offset, timestamp=0.0, partition=0):
    return Arrival(partition, offset, timestamp, b"%d " % offset)


def fetches(arrivals, sizes):
    """The records in fetches of these sizes, over and over."""
    first = number = 0
    while first < len(arrivals):
        size = sizes[number % len(sizes)]
        yield arrivals[first : first + size]
        first, number = first + size, number + 1


class Life:
    """A process's stream, from its begin to its kill."""

    def __init__(self, slots, position, parts=(0,)):
        self.stream = DataStream(DataTopics("m", "a"), "r", slots, Numbers(), None)
        self.closed = asyncio.Queue()
        self.start = self.stream.begin(position, self.closed.put_nowait, lambda: None)
        self.start.begin(dict.fromkeys(parts, (0, 10**6)))

    async def slot(self, round, position):
        self.stream.open_slot(OpenSlot(round, position))
        for _ in range(TURNS):
            if not self.closed.empty():
                return self.closed.get_nowait()
            await asyncio.sleep(0)
        raise AssertionError(f"slot {round} does not close")

    async def feed(self, arrivals, sizes):
        for fetch in fetches(arrivals, sizes):
            await self.stream.take(fetch)
            await asyncio.sleep(0)


SIZES = st.lists(st.integers(1, 30), min_size=1, max_size=5)


@given(
    st.sets(st.integers(0, 200), min_size=1, max_size=80).map(sorted),
    st.integers(1, 7),
    st.integers(1, 9),
    st.lists(st.tuples(SIZES, st.integers(1, 8)), min_size=1, max_size=4),
)
def test_slots_by_count_lose_and_double_nothing_whatever_the_fetches_and_the_kills(
    offsets, size, room, lives
):
    """Each life has fetches of its own and is killed after some slots; `offsets` have holes."""
    expected = [offsets[k : k + size] for k in range(0, len(offsets) - size + 1, size)]
    found, positions = [], [()]

    async def live(sizes, slots):
        life = Life(lambda: CountSlots(size), positions[-1])
        first = dict(positions[-1]).get(0, 0)
        feeding = asyncio.create_task(life.feed([arrival(k) for k in offsets if k >= first], sizes))
        for _ in range(slots):
            if len(found) < len(expected):
                slot = await life.slot(len(found) + 1, positions[-1])
                found.append(numbers(slot))
                positions.append(slot.position)
                read = life.start.next[0]
                assert sum(dict(slot.position)[0] <= k < read for k in offsets) <= room + size
        feeding.cancel()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collector, "AHEAD", room)
        for sizes, slots in [*lives, ([3], len(expected))]:
            asyncio.run(live(sizes, slots))
    assert found == expected
    assert [dict(position)[0] for position in positions[1:]] == [chunk[-1] + 1 for chunk in expected]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40)), max_size=40), SIZES)
def test_slots_by_time_are_those_of_the_times_whatever_the_fetches(records, sizes):
    """Two partitions, ten seconds a slot, four slots."""
    parts = {part: [seconds for which, seconds in records if which == part] for part in (0, 1)}
    arrivals = [arrival(k, float(at), part) for part, times in parts.items() for k, at in enumerate(times)]
    expected = [
        sorted(
            k for times in parts.values() for k, at in enumerate(times) if 10 * slot <= at < 10 * slot + 10
        )
        for slot in range(4)
    ]

    async def live():
        life = Life(lambda: TimeSlots(99, start=0.0, period=10.0, grace=0.0), (), parts=(0, 1))
        await life.feed(arrivals, sizes)
        life.stream.settle(time.time())
        position = ()
        for round in range(1, 5):
            slot = await life.slot(round, position)
            position = slot.position
            yield sorted(numbers(slot))

    async def found():
        return [slot async for slot in live()]

    assert asyncio.run(found()) == expected


def test_a_fetch_stops_where_there_is_no_room_and_goes_on_from_there():
    async def live():
        life = Life(lambda: CountSlots(1), ())
        fetch = [arrival(k) for k in range(1000)]
        taking = asyncio.create_task(life.stream.take(fetch))
        await asyncio.sleep(0)
        reads, position = [], ()
        for round in range(1, 1001):
            reads.append(life.start.next[0])
            slot = await life.slot(round, position)
            assert numbers(slot) == [round - 1]
            position = slot.position
            await asyncio.sleep(0)
        await asyncio.wait_for(taking, 20.0)
        return reads

    reads = asyncio.run(live())
    assert reads[0] == collector.AHEAD
    assert all(read - round <= collector.AHEAD for round, read in enumerate(reads))


def test_the_loop_is_woken_to_look_up_what_no_record_tells_and_for_nothing_else():
    async def woken(slots, opened):
        times = []
        stream = DataStream(DataTopics("m", "a"), "r", slots, Numbers(), None)
        stream.begin((), lambda slot: None, lambda: times.append(1)).begin({0: (0, 10)})
        for slot in opened:
            stream.open_slot(slot)
        await asyncio.sleep(0)
        return len(times)

    by_time = lambda: TimeSlots(9, start=0.0, period=10.0, grace=0.0)  # noqa: E731 # it is passed on
    rounds = [OpenSlot(k, ((0, k),)) for k in range(1, 6)]
    assert asyncio.run(woken(lambda: CountSlots(1), [OpenSlot(1, ((0, 0),))] * 5)) == 0
    assert asyncio.run(woken(lambda: CountSlots(1), [OpenSlot(1, None)])) == 1
    assert asyncio.run(woken(by_time, rounds)) == len(rounds)
