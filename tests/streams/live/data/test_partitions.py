"""The slots by count of a stream of several partitions: by ends and positions, whatever is fetched when."""

import asyncio
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import OpenSlot
from nodes.machine.partition_slots import shares
from nodes.machine.slots import Arrival, CountSlots, LatePolicy
from nodes.privacy.reveal import opened
from streams.codec.topics import DataTopics
from streams.live.data import collector
from streams.live.data.stream import DataStream
from tests.support.brokers.data_streams import Numbers, numbers

TURNS = 500


class Life:
    """A process's stream of a topic, whose `parts` have the offsets that hold a record, and an end."""

    def __init__(self, parts, size, position, second=0, late=None, counted=3):
        self.parts, self.ends = parts, {part: end for part, (_, end) in parts.items()}
        self.stream = DataStream(DataTopics("m", "a"), "r", lambda: CountSlots(size), Numbers(), None, late)
        self.counted = counted  # offsets that one answer counts
        self.closed, self.stirred = asyncio.Queue(), asyncio.Event()
        self.start = self.stream.begin(position, self.closed.put_nowait, self.stirred.set)
        firsts = {1: second}  # where the log of partition 1 begins
        self.start.begin({part: (firsts.get(part, 0), end) for part, end in self.ends.items()})
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
            if (span := self.stream.uncounted) is not None:
                behind = min(span.first + self.counted, span.end)
                offsets = [k for k in self.parts[span.partition][0] if span.first <= k < behind]
                self.stream.count(span.partition, offsets, behind)
            if self.stream.moved():
                self.read = {part: max(at, self.start.next[part]) for part, at in self.read.items()}
            if self.stream.lacking:
                self.stream.passed(self.read)

    async def slot(self, round, position):
        self.stream.open_slot(OpenSlot(round, position))
        for _ in range(TURNS):
            if not self.closed.empty():
                return self.closed.get_nowait()
            await asyncio.sleep(0)
        return None


def slots_of(parts, size, fetches, position=(), most=None, late=None, counted=3):
    """Return (numbers, position) of the slots of one life, at most so many."""

    async def live():
        life = Life(parts, size, position, late=late, counted=counted)
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


LATE = st.tuples(st.sampled_from(["drop-oldest", "sample"]), st.integers(0, 12))


@given(topics(), st.integers(1, 4), LATE, FETCHES, FETCHES, st.integers(1, 5), st.integers(1, 5))
def test_what_a_late_policy_sheds_is_the_same_whatever_the_fetches(
    parts, size, late, fetches, others, counted, counted_otherwise
):
    policy = LatePolicy(late[0], size + late[1], size)
    closed = slots_of(parts, size, fetches, late=policy, counted=counted)
    assert slots_of(parts, size, others, late=policy, counted=counted_otherwise) == closed
    if policy.kind == "drop-oldest":
        records = sum(len(held) for held, _ in parts.values())
        left = min(records, policy.most) // size
        assert len(closed) == left


@given(topics(), st.integers(1, 4), st.integers(0, 12), FETCHES)
def test_of_the_partitions_together_the_newest_are_left(parts, size, more, fetches):
    """The oracle takes the first slot's shares of what waits, from the counts of records alone."""
    policy = LatePolicy("drop-oldest", size + more, size)
    waiting = {part: len(held) for part, (held, _) in parts.items()}
    passed = shares(waiting, max(0, sum(waiting.values()) - policy.most))
    kept = {1000 * part + k for part, (held, _) in parts.items() for k in held[passed[part] :]}
    closed = slots_of(parts, size, fetches, late=policy)
    learnt = {number for found, _ in closed for number in found}
    assert learnt <= kept
    assert len(kept - learnt) < size


def test_a_late_policy_of_one_partition_that_is_not_the_first():
    policy, held = LatePolicy("drop-oldest", 4, 2), list(range(20))
    assert slots_of({2: (held, 20)}, 2, [(0, 9)], late=policy) == [
        ([2016, 2017], ((2, 18),)),
        ([2018, 2019], ((2, 20),)),
    ]


def test_a_log_of_one_partition_that_begins_later_by_now():
    """What is gone is counted and passed over, and the others' records lie where they lay."""

    async def live():
        life = Life({0: (list(range(10)), 10), 1: (list(range(20, 30)), 30)}, 6, ((0, 2), (1, 5)), 20)
        choices = cycle([(0, 4), (1, 7)])
        tasks = [asyncio.create_task(part) for part in (life.fetch(choices), life.complete())]
        closed, at = [], ((0, 2), (1, 5))
        for round in (1, 2, 3):
            slot = await life.slot(round, at)
            closed, at = closed + numbers(slot), slot.position
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return closed, at, opened(life.stream.counts).lost

    closed, position, lost = asyncio.run(live())
    assert sorted(closed) == [float(k) for k in [*range(2, 10), *range(1020, 1030)]]
    assert (position, lost) == (((0, 10), (1, 30)), 15)
