"""The slots by count of a stream of several partitions: by ends and positions, whatever is fetched when."""

import asyncio
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.machine.slots import Arrival, CountSlots, LatePolicy
from streams.codec.topics import DataTopics
from streams.live.data import collector
from streams.live.data.start import DataFailed
from streams.live.data.stream import DataStream
from tests.support.brokers.data_streams import Numbers, numbers

TURNS = 500


class Life:
    """A process's stream of a topic, whose `parts` have the offsets that hold a record, and an end."""

    def __init__(self, parts, size, position):
        self.parts, self.ends = parts, {part: end for part, (_, end) in parts.items()}
        self.stream = DataStream(DataTopics("m", "a"), "r", lambda: CountSlots(size), Numbers(), None)
        self.closed, self.stirred = asyncio.Queue(), asyncio.Event()
        self.start = self.stream.begin(position, self.closed.put_nowait, self.stirred.set)
        self.start.begin({part: (0, end) for part, end in self.ends.items()})
        self.read = dict(self.start.next)  # as the client stands: markers are passed too

    async def fetch(self, choices):
        """Read all partitions in fetches, each of the partition and the length that is chosen."""
        while True:
            wanted = [
                part for part in self.parts if self.read[part] < self.ends[part] and self.start.wants(part)
            ]
            if not wanted:
                await asyncio.sleep(0)
                continue
            which, length = next(choices)
            part = wanted[which % len(wanted)]
            first, last = self.read[part], min(self.read[part] + length, self.ends[part])
            held = [offset for offset in self.parts[part][0] if first <= offset < last]
            await self.stream.take([Arrival(part, k, 0.0, b"%d " % (1000 * part + k)) for k in held])
            self.read[part] = last
            await asyncio.sleep(0)

    async def complete(self):
        """Look up what the open slot depends on, as a process does."""
        while True:
            await asyncio.sleep(0)
            if self.stream.awaits_ends(0.0):
                self.stream.place(self.ends)
            if self.stream.lacking:
                self.stream.passed(self.read)

    async def slot(self, round, position):
        self.stream.open_slot(OpenSlot(round, position))
        for _ in range(TURNS):
            if not self.closed.empty():
                return self.closed.get_nowait()
            await asyncio.sleep(0)
        return None


def slots_of(parts, size, fetches, position=(), most=None):
    """Return (numbers, position) of the slots of one life, at most so many."""

    async def live():
        life = Life(parts, size, position)
        choices = cycle(fetches)
        tasks = [asyncio.create_task(part) for part in (life.fetch(choices), life.complete())]
        closed, at = [], position
        while most is None or len(closed) < most:
            slot = await life.slot(len(closed) + 1, at)
            if slot is None:
                break
            again = await life.slot(len(closed) + 1, at)  # as where nothing was learnt from it
            assert (numbers(again), again.position) == (numbers(slot), slot.position)
            at = slot.position
            closed.append((numbers(slot), at))
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes), outcomes
        return closed

    return asyncio.run(live())


@st.composite
def topics(draw):
    parts = {}
    for part in range(draw(st.integers(2, 3))):
        end = draw(st.integers(0, 30))
        parts[part] = sorted(draw(st.sets(st.integers(0, max(0, end - 1)), max_size=end))), end
    return parts


FETCHES = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=6)


@given(topics(), st.integers(1, 5), FETCHES, FETCHES, st.integers(1, 4))
def test_slots_are_the_same_whatever_the_fetches(parts, size, fetches, others, room):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collector, "AHEAD", room)
        closed = slots_of(parts, size, fetches)
        assert slots_of(parts, size, others) == closed
    records = [1000 * part + offset for part, (held, _) in parts.items() for offset in held]
    learnt = [number for found, _ in closed for number in found]
    assert len(learnt) == len(set(learnt))
    assert len(closed) == len(records) // size


@given(topics(), st.integers(1, 5), st.lists(st.tuples(FETCHES, st.integers(1, 4)), min_size=1, max_size=3))
def test_kills_lose_and_double_nothing(parts, size, lives):
    position, learnt = (), []
    for fetches, most in [*lives, ([(0, 3)], None)]:
        for found, after in slots_of(parts, size, fetches, position, most):
            learnt += found
            below = {part: [k for k in held if k < dict(after)[part]] for part, (held, _) in parts.items()}
            assert sorted(learnt) == sorted(
                1000 * part + k for part, offsets in below.items() for k in offsets
            )
            position = after
    records = sum(len(held) for held, _ in parts.values())
    assert len(learnt) == records // size * size


def test_a_partition_that_is_far_ahead_waits_for_the_others():
    parts = {0: (list(range(1000)), 1000), 1: ([], 0)}

    async def live():
        life = Life(parts, 4, ())
        life.stream.open_slot(OpenSlot(1, ()))
        life.stream.place({0: 4, 1: 4})  # partition 1 has records that are not read yet
        task = asyncio.create_task(life.fetch(cycle([(0, 10)])))
        for _ in range(2000):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return life.read[0]

    assert asyncio.run(live()) <= collector.AHEAD + 2 * 10


def test_a_late_policy_needs_one_partition():
    stream = DataStream(
        DataTopics("m", "a"), "r", lambda: CountSlots(1), Numbers(), None, LatePolicy("drop-oldest", 9)
    )
    start = asyncio.run(begun(stream))
    with pytest.raises(DataFailed, match="has 2 partitions: late_policy needs a topic of one, or queue"):
        start.begin({0: (0, 0), 1: (0, 0)})


async def begun(stream):
    return stream.begin((), lambda slot: None, lambda: None)
