"""What is looked up as topics are read: ends, alone where they decide a place; offsets for outside tools."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition

from nodes.machine.events import OpenSlot
from nodes.machine.slots import Arrival, CountSlots, LatePolicy
from nodes.privacy.reveal import opened
from streams.codec.topics import DataTopics
from streams.live.data.pinned import PinnedThread
from streams.live.data.stream import DataStream
from streams.live.data.streams import KEPT, Commits, DataStreams
from streams.mesh.settings.brokers import BrokerSettings
from tests.support.brokers.data_streams import Numbers, numbers

NOWHERE = BrokerSettings(servers="nowhere:1")


def test_offsets_are_committed_when_they_are_new_and_again_after_a_while():
    now = 0.0
    commits = Commits(NOWHERE, {"data.a": "m.r.a"}, lambda: now)
    assert commits.is_new("data.a", {"data.a": {0: 0}})
    assert commits.is_new("data.a", {"data.a": {0: 0}})  # the broker has not answered
    commits.committed("data.a", {"data.a": {0: 0}})
    assert not commits.is_new("data.a", {"data.a": {0: 0}})
    assert commits.is_new("data.a", {"data.a": {0: 1}})
    now = KEPT
    assert commits.is_new("data.a", {"data.a": {0: 0}})


class Consumer:
    """A client whose last fetches were a moment ago: they told `fetched` ends, up to which all is read."""

    def __init__(self, ends, fetched):
        self.ends, self.fetched, self.looks = ends, fetched, []

    async def end_offsets(self, partitions):
        if partitions:
            self.looks.append({of.partition for of in partitions})
        return {of: self.ends[of.partition] for of in partitions}

    def last_stable_offset(self, of):
        return self.fetched.get(of.partition)

    def last_poll_timestamp(self, of):
        return time.time() * 1_000

    async def position(self, of):
        return self.fetched.get(of.partition, 0)

    async def commit(self, offsets):
        pass


class Reader(PinnedThread):
    """A thread that reads one topic, in the loop of its caller, each offset of which holds a record."""

    def __init__(self, topic, place, consumer):
        self.places, self.consumer = {topic: place}, consumer
        self._partitions = tuple(TopicPartition(topic, part) for part in consumer.ends)
        self._returned = {}

    def _ensure_consumer(self):
        return self.consumer

    async def call_thread(self, method, *arguments):
        return await method(*arguments)

    async def count(self, topic, span):
        return list(range(span.first, span.end)), span.end

    async def follow(self):
        pass


async def lived(ends, fetched, late):
    """Return two slots with the skips so far, and the partitions of each look that the watch began with."""
    stream = DataStream(DataTopics("m", "a"), "r", lambda: CountSlots(6), Numbers(), None, late)
    streams = DataStreams(NOWHERE, [stream], state=None, web=None)
    closed = asyncio.Queue()
    place = stream.begin((), closed.put_nowait, streams._stirred.set)
    place.begin({part: (0, end) for part, end in ends.items()})
    consumer = Consumer(ends, fetched)
    app = SimpleNamespace(reader=Reader(stream.topic, place, consumer))
    for part, end in ends.items():
        await stream.take([Arrival(part, k, 0.0, b"%d " % (1000 * part + k)) for k in range(end)])
    stream.open_slot(OpenSlot(1, ()))
    tasks = [asyncio.create_task(streams._watch(app))]
    while stream.lagging is None:
        await asyncio.sleep(0)
    looks = list(consumer.looks)
    tasks.append(asyncio.create_task(streams._complete(app)))
    slots = []
    for round in (1, 2):
        slot = await closed.get()
        slots.append((numbers(slot), slot.position, opened(stream.counts).skipped))
        stream.open_slot(OpenSlot(round + 1, slot.position))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return slots, looks


def outcome(ends, fetched, late=None):
    return asyncio.run(asyncio.wait_for(lived(ends, fetched, late), 20.0))


LATE = [None, LatePolicy("drop-oldest", 14, 6), LatePolicy("sample", 14, 6)]


@pytest.mark.parametrize("late", LATE, ids=["all", "drop-oldest", "sample"])
@pytest.mark.parametrize("ends", [{0: 40, 1: 20}, {0: 40}], ids=["two", "one"])
@pytest.mark.parametrize("fetched", [{0: 4}, {0: 18}, {1: 3}, {0: 7, 1: 5}], ids=str)
def test_slots_and_sheds_are_the_same_whatever_ends_the_fetches_told(ends, late, fetched):
    """How far was fetched, and when, goes by the bytes of records."""
    assert outcome(ends, fetched, late)[0] == outcome(ends, {}, late)[0]


def test_a_late_policy_goes_by_looks_at_all_partitions():
    assert outcome({0: 40, 1: 20}, {0: 4}, LATE[1])[1] == [{0, 1}]


def test_a_lag_may_go_by_what_the_fetches_told():
    """It decides nothing, so an idle broker is not asked each second."""
    assert outcome({0: 40, 1: 20}, {0: 40, 1: 20})[1] == []
