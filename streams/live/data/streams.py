"""The own streams of a process's nodes: one Faust app in the caller's loop, with an agent for each topic.

Loading Faust takes half a second, so `read` loads it last.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiokafka.errors import GroupAuthorizationFailedError  # type: ignore[import-untyped] # it ships no types
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from nodes.machine.events import SlotClosed
from nodes.machine.journal import DataPosition
from streams.bus.connection import PATIENCE, client_settings
from streams.live.data.start import DataCut, DataFailed, failure, patience
from streams.live.data.stream import DataStream
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import Pulse

if TYPE_CHECKING:
    from streams.live.data.app import PinnedApp
    from streams.live.data.pinned import PinnedThread

TICK = 0.02
"""Seconds between checks of what a slot waits for: the last records of its time, or the broker."""
PERIOD = 1.0
"""Polling interval in seconds for the lag and for clock changes, and between signs of life."""
GROWN = 60.0
"""Seconds between checks for further partitions of a topic, or for changed settings."""
FRESH = 3.0
"""Seconds for which a fetch's answer gives a log's end, for lags; an idle broker answers every 1.5 s."""
STOPPING = 1.5
"""Seconds that the app may take to start, and then to stop, after it is asked to stop."""


class DataStreams:
    """Reads the topics of `streams`, all on one broker.

    `state` is a folder for Faust; `web`: (address, port) of its web pages. `turning` beats in the loop of
    `read`, and `reading` in that of the thread that reads the topics. `unfit` returns a line if a topic's
    settings do not fit any more; it is called every `GROWN` seconds, in a thread of its own.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        streams: Sequence[DataStream],
        *,
        letters: BrokerSettings | None = None,
        state: Path,
        web: tuple[str, int] | None,
        unfit: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._unfit = unfit
        self._broker, self._streams, self._state, self._web = broker, tuple(streams), state, web
        self._letters = letters or broker
        self._topics = {stream.topic: stream.group for stream in streams}
        self._stirred = asyncio.Event()
        self.turning, self.reading = Pulse(), Pulse()

    async def read(
        self,
        positions: Mapping[str, DataPosition | None],
        stopped: asyncio.Event,
        closed: Mapping[str, Callable[[SlotClosed], None]],
    ) -> None:
        """Wait until the broker answers, and read until `stopped`.

        `positions`: where reading begins, by node; None is the topic's end. A log that begins later is read
        from its start. `closed`, by node, gets each slot, in the thread that completes it. Raises DataFailed
        when the app cannot continue.
        """
        from streams.live.data.app import DataPart, data_app  # noqa: PLC0415 # loads Faust while machines work

        parts = [
            DataPart(
                stream.topics,
                stream.group,
                stream.begin(positions[stream.node], closed[stream.node], self._stirred.set),
                stream.take,
                stream.whole,
            )
            for stream in self._streams
        ]
        app = data_app(self._broker, parts, letters=self._letters, state=self._state, web=self._web)
        for stream in self._streams:
            stream.send_letter = partial(app.letters.send, stream.topic)
        starting = asyncio.create_task(app.start())
        work = (_run(app, starting), self._complete(app), self._watch(app), self._turn(app))
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(part) for part in (*work, stopped.wait())]
        tasks += [asyncio.create_task(stream.expire()) for stream in self._streams]
        tasks += [asyncio.create_task(stream.collect_due(partial(_taken, app))) for stream in self._streams]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in self._streams:
                stream.lagging = None
            try:
                await _stop(app, starting)
            finally:  # however the app stops, the owner must learn which records could not be read
                for stream in self._streams:
                    stream.sum_up()
                app.letters.close()
                self.turning.rest()
                self.reading.rest()
        for task in ended:
            error = None if task.cancelled() else task.exception()
            if error is not None and not stopped.is_set():
                raise failure(self._broker.servers, self._topics, error) from None

    async def _complete(self, app: "PinnedApp") -> None:
        """Close slots that depend on the ends of the logs, or on how many records wait there."""
        awaited: dict[DataStream, tuple[float, dict[int, int]]] = {}
        delay = TICK
        while True:
            await self._rest(delay)
            delay = TICK  # this is the delay unless the thread runs and the broker answers
            thread, now = _reader(app), time.time()
            if thread is None:
                continue
            due = [stream for stream in self._streams if stream not in awaited and stream.awaits_ends(now)]
            with patience():
                if due:
                    ends = await _ends(thread, due)
                    placed = [stream for stream in due if stream.place(ends[stream.topic])]
                    awaited |= {stream: (now, ends[stream.topic]) for stream in due if stream not in placed}
                for stream in self._streams:
                    if (span := stream.uncounted) is not None:
                        stream.count(span.partition, *await thread.count(stream.topic, span))
                if sum(stream.moved() for stream in self._streams):  # each is asked
                    await thread.follow()
                awaited = {stream: at for stream, at in awaited.items() if not stream.over}
                lacking = [stream for stream in self._streams if stream.lacking]
                if awaited or lacking:
                    thread.taken()  # a partition that was not wanted may be now
                    _go_on(await thread.read(), lacking, awaited)
                if not awaited:
                    delay = min(stream.over_in(time.time()) for stream in self._streams) or TICK

    async def _rest(self, seconds: float) -> None:
        """Wait for this time, or less if a stream must look something up."""
        limit = None if seconds == math.inf else min(seconds, PERIOD)  # a clock may be set meanwhile
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), limit)
        self._stirred.clear()

    async def _turn(self, app: "PinnedApp") -> None:
        """Give signs of life: of this loop, and of the reading thread's."""
        while True:
            self.turning.beat()
            thread = _reader(app)
            if thread is not None:
                self.reading.begin()
                with suppress(RuntimeError):  # its loop is closed, as it stops
                    thread.thread_loop.call_soon_threadsafe(self.reading.beat)
            await asyncio.sleep(PERIOD)

    async def _watch(self, app: "PinnedApp") -> None:
        """Update the lags and the ends for late policies, and commit offsets for outside tools."""
        commits, first_topic = Commits(self._broker, self._topics), next(iter(self._topics))
        looked = time.monotonic()
        while True:
            thread = _reader(app)
            if thread is not None:
                lags: dict[str, int | None] = dict.fromkeys(self._topics)
                with patience():
                    shedding = [s for s in self._streams if s.sheds or s.after is not None]
                    ends = await _ends(thread, shedding) if shedding else {}
                    for stream in shedding:  # no other: a fetch's answer may decide no place
                        stream.place(ends[stream.topic])
                    ends |= await thread.recent_ends(self._topics.keys() - ends.keys(), FRESH)
                    offsets = await thread.read()
                    if time.monotonic() - looked >= GROWN:
                        await _look_ahead(thread, [s for s in self._streams if s.after is not None])
                        looked, topic = time.monotonic(), await thread.grown()
                        if topic is not None:
                            raise DataCut(f"{topic}: it has got further partitions")
                        line = await asyncio.to_thread(self._unfit)
                        if line is not None:
                            raise DataCut(line)
                    for topic in self._topics:
                        lags[topic] = sum(max(0, end - offsets[topic][k]) for k, end in ends[topic].items())
                    if commits.is_new(first_topic, offsets):
                        await self._note(thread, {first_topic: offsets[first_topic]})
                        commits.committed(first_topic, offsets)
                    commits.note(offsets)
                for stream in self._streams:
                    stream.lagging = lags[stream.topic]
            await asyncio.sleep(PERIOD)

    async def _note(self, thread: "PinnedThread", offsets: dict[str, dict[int, int]]) -> None:
        """Commit offsets. If others made the topic, they may forbid that, which is harmless."""
        try:
            await thread.note(offsets)
        except GroupAuthorizationFailedError:
            if self._streams[0].topics.source is None:
                raise


AT_ONCE = 4
"""The number of groups whose offsets are committed in one turn. More would only cost the broker work."""
KEPT = 3_600.0
"""Seconds until unchanged offsets are committed again, as a broker forgets them after some days."""
AHEAD = 60.0
"""How many seconds ahead of this clock a record is dated that counts as dated ahead."""


class Commits:
    """Commits offsets for outside tools, each topic's in its group, if they are new.

    `topics` has the group of each topic. A consumer commits in one group, its app's, which is the group of
    the first topic. Each turn commits the next `AT_ONCE` further topics. `clock` is monotonic.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        topics: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._groups, self._further = topics, tuple(topics)[1:]
        self._client = AdminClient(client_settings(broker) | {"log_level": 0}) if self._further else None
        self._next, self._clock = 0, clock
        self._committed: dict[str, tuple[Mapping[int, int], float]] = {}

    def is_new(self, topic: str, offsets: Mapping[str, Mapping[int, int]]) -> bool:
        """Return whether the topic's offsets are to be committed."""
        committed, at = self._committed.get(topic, ({}, -math.inf))
        return committed != offsets[topic] or self._clock() - at >= KEPT

    def committed(self, topic: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Record that the broker has the offsets."""
        self._committed[topic] = dict(offsets[topic]), self._clock()

    def note(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit the offsets of the further topics whose turn it is, without waiting for an answer."""
        if self._client is None:
            return
        turn = (*self._further[self._next :], *self._further[: self._next])
        for topic in islice(turn, AT_ONCE):
            if self.is_new(topic, offsets):
                partitions = [TopicPartition(topic, number, at) for number, at in offsets[topic].items()]
                group = ConsumerGroupTopicPartitions(self._groups[topic], partitions)
                (answer,) = self._client.alter_consumer_group_offsets(
                    [group], request_timeout=PATIENCE
                ).values()
                answer.add_done_callback(partial(self._answered, topic, offsets))
        self._next = (self._next + AT_ONCE) % len(self._further)

    def _answered(self, topic: str, offsets: Mapping[str, Mapping[int, int]], answer: "Future[Any]") -> None:
        if answer.exception() is None:
            self.committed(topic, offsets)


def _go_on(
    read: Mapping[str, dict[int, int]],
    lacking: Iterable[DataStream],
    awaited: dict[DataStream, tuple[float, dict[int, int]]],
) -> None:
    """Pass the offsets that were read to the streams that lack records, and to those that wait for their
    ends.
    """
    for stream in lacking:
        stream.passed(read[stream.topic])
    for stream in [stream for stream, (_, ends) in awaited.items() if _reached(read[stream.topic], ends)]:
        stream.settle(awaited.pop(stream)[0])


async def _ends(thread: "PinnedThread", streams: Sequence[DataStream]) -> dict[str, dict[int, int]]:
    """Return the ends of the streams' logs, all of one look-up; of a delayed stream, of its due records."""
    now, ends = time.time(), await thread.ends({stream.topic for stream in streams})
    moments = {stream.topic: now - stream.after for stream in streams if stream.after is not None}
    firsts = await thread.since(moments, ends) if moments else {}
    return {
        stream.topic: stream.reach(firsts.get(stream.topic, {}), ends[stream.topic], now)
        for stream in streams
    }


async def _look_ahead(thread: "PinnedThread", delayed: Sequence[DataStream]) -> None:
    """Count the records that others, dated ahead, hold up in the logs of delayed streams."""
    if delayed:
        ahead = dict.fromkeys((stream.topic for stream in delayed), time.time() + AHEAD)
        ends = await thread.ends(ahead.keys())
        firsts = await thread.since(ahead, ends)
        for stream in delayed:
            stream.hold_up(firsts[stream.topic], ends[stream.topic])


def _taken(app: "PinnedApp") -> None:
    """Let the topics whose records were handled be fetched again."""
    if app.reader is not None:
        app.reader.taken()


async def _run(app: "PinnedApp", starting: asyncio.Task[None]) -> None:
    """Wait until the app stops by itself. Raises its crash's reason."""
    await asyncio.shield(starting)
    await app.wait_until_stopped()
    raise app.crash_reason or DataFailed("Faust has stopped")


async def _stop(app: "PinnedApp", starting: asyncio.Task[None]) -> None:
    """Stop the app once it has started, as the threads of a half-started app would remain."""
    await asyncio.wait([starting], timeout=STOPPING)
    starting.cancel()
    with suppress(TimeoutError):
        await asyncio.wait_for(app.stop(), STOPPING)
    await asyncio.gather(starting, return_exceptions=True)


def _reader(app: "PinnedApp") -> "PinnedThread | None":
    return app.reader if app.reader is not None and app.reader.pinned else None


def _reached(read: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    return all(read[number] >= end for number, end in ends.items())
