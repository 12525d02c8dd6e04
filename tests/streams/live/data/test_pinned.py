"""What the reading thread does while its broker is away, and while a topic has no room."""

import asyncio
from collections import Counter

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from streams.live.data.pinned import PinnedThread
from streams.live.data.start import failure


class Away(PinnedThread):
    """A thread whose broker gives no answer so many times."""

    def __init__(self, times):
        self.places, self.times, self.asked = {"data.a": None}, times, 0

    async def call_thread(self, *_):
        self.asked += 1
        if self.asked <= self.times:
            raise TimeoutError


def test_a_broker_that_gives_no_answer_is_asked_again():
    thread = Away(2)
    asyncio.run(thread.subscribe(()))
    assert thread.asked == 3


def test_a_failure_without_words_is_named():
    assert str(failure("broker:1", {"data.a": "m.r.a"}, TimeoutError())) == "data.a: TimeoutError"
    assert str(failure("broker:1", {"data.a": "m.r.a"}, OSError("gone"))) == "data.a: gone"


class Place:
    """A position with room or not."""

    def __init__(self, room):
        self.next, self.room = {0: 0}, room

    def wants(self, partition):
        return True


class Fetching(PinnedThread):
    """A thread whose broker has what is put into `log`; `fetched` has the topics of each fetch."""

    def __init__(self, **room):
        self.places = {name: Place(has) for name, has in room.items()}
        self._partitions = tuple(TopicPartition(name, 0) for name in room)
        self.log, self.fetched, self.positions = asyncio.Queue(), [], Counter()
        self.thread_loop = asyncio.get_running_loop()
        self._room, self._returned = asyncio.Event(), {}

    def fetch(self):
        active = {TP(name, 0) for name in self.places}
        return asyncio.create_task(self._fetch_records(None, active, timeout=60.0, max_records=9))


async def broker(thread, _, active, timeout, max_records):
    """Answer as aiokafka does: wait, and only then move the position and hand on, in one step."""
    thread.fetched.append({of.topic for of in active})
    name, offset = await thread.log.get()
    assert TP(name, 0) in active
    thread.positions[name] = offset + 1
    return {TP(name, 0): [ConsumerRecord(name, 0, offset, 0, 0, None, b"", None, -1, 0, ())]}


@pytest.fixture
def answers(monkeypatch):
    monkeypatch.setattr(AIOKafkaConsumerThread, "_fetch_records", broker)


async def steps(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_topic_is_fetched_as_soon_as_it_has_room_and_what_waits_is_not_lost(answers):
    async def run():
        thread = Fetching(full=False, other=True)
        fetching = thread.fetch()
        await steps()
        assert thread.fetched == [{"other"}]
        thread.places["full"].room = True
        thread.taken()  # no time passes: nobody looks again by a clock
        assert await fetching == {}
        fetching = thread.fetch()
        thread.log.put_nowait(("full", 7))
        assert [of.topic for of in await fetching] == ["full"]
        assert thread.fetched == [{"other"}, {"full", "other"}]

    asyncio.run(asyncio.wait_for(run(), 20.0))


def test_topics_that_all_lack_room_are_waited_for(answers):
    async def run():
        thread = Fetching(full=False, fuller=False)
        fetching = thread.fetch()
        await steps()
        assert thread.fetched == []  # aiokafka takes no topic for all of them
        thread.taken()
        assert await fetching == {}

    asyncio.run(asyncio.wait_for(run(), 20.0))


def test_nobody_sees_a_position_behind_records_that_are_not_known_to_be_handed_on(answers):
    """A slot by time closes once all is read: it must not while its last records are on their way."""

    async def run():
        thread = Fetching(full=False, other=True)
        fetching = thread.fetch()
        await steps()
        thread.log.put_nowait(("other", 7))
        while not fetching.done():
            await asyncio.sleep(0)
            assert thread.positions["other"] == thread._returned.get(TopicPartition("other", 0), 0)
        assert thread.positions["other"] == 8

    asyncio.run(asyncio.wait_for(run(), 20.0))
