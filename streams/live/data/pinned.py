"""Faust's consumer thread, pinned: reads every partition of its topics from given offsets, in no group.

A subscribed group can stall for ever after a broker's restart; assigned partitions do not. The thread reads
committed records: those of an aborted transaction are skipped, and a log ends where a transaction is open.
Faust gets all records that a fetch returns of a partition as one message, since it needs 30 us of processor
time for each message. The overrides use private API: pyproject pins Faust's minor version, and
tests/kafka/test_data_stream.py tests each override.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

from aiokafka import ConsumerRecord, TopicPartition  # type: ignore[import-untyped] # it ships no types
from aiokafka.errors import (  # type: ignore[import-untyped] # as above
    KafkaConnectionError,
    KafkaError,
    OffsetOutOfRangeError,
)
from faust.transport.consumer import RecordMap
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP
from mode import ServiceT

from nodes.machine.partition_slots import OffsetSpan
from streams.bus.bus import UnknownTopic
from streams.bus.connection import LOGGER, PATIENCE
from streams.bus.preflight import no_partition
from streams.live.data.broken import Broken, may_be_stored, read_around
from streams.live.data.start import REFUSED
from streams.log_events import LogEvent

_PARTING = 0.3
"""Seconds that a broker is given to close the connection in order."""
_AGAIN = 0.02
"""Seconds until a fetch that has failed is tried again."""
_LATER = 0.5
"""Seconds until a broker that is away is asked again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
"""Seconds between attempts to connect to a broker that is away: half as much to half as much again."""
_COUNTED = 1 << 16
"""The most records of one count, which are in memory meanwhile."""
_ATTEMPTS = 20
"""Consecutive fetches that fail without a record until the failure counts as final."""
Offsets = dict[str, dict[int, int]]
"""An offset of each partition of each topic."""
Fetch = Callable[[set[TP]], Coroutine[Any, Any, RecordMap]]
"""Fetches records of these partitions."""


class Position(Protocol):
    """A stream's position. Its methods are called in the consumer's thread."""

    @property
    def partitions(self) -> tuple[int, ...] | None:
        """The partitions to read; None: all."""

    @property
    def next(self) -> Mapping[int, int]:
        """The offset of each partition's next record."""

    @property
    def room(self) -> bool:
        """Whether more records are wanted now."""

    @property
    def holds_back(self) -> bool:
        """Whether a partition is not wanted while its last records wait until they are due."""

    def wants(self, partition: int) -> bool:
        """Return whether records of that partition are wanted now, where there is room."""

    def begin(self, spans: Mapping[int, tuple[int, int]]) -> None:
        """Handle, once, the beginning and end of all logs; from then on `next` has each partition."""

    def lose(self, count: int) -> None:
        """Count records that left a log before they were read."""


class Letters(Protocol):
    """Writes letters on broken batches, for the owner alone; called in the consumer's thread."""

    def write(self, topic: str, partition: int, broken: Broken) -> None:
        """Write the letter of a batch; called again if the batch is read again."""


class PinnedThread(AIOKafkaConsumerThread):
    """The thread that reads the topics of `places`.

    Loops of other threads may call `ends`, `since`, `recent_ends`, `read`, `count`, `follow`, `note` and
    `taken`.

    With several topics, a topic without room delays no other topic; nor does a partition that is far ahead.
    """

    places: Mapping[str, Position]
    letters: Letters
    _partitions: tuple[TopicPartition, ...] = ()
    _ahead: Mapping[TopicPartition, tuple[int, int]] = {}  # a position beyond its log's end, and that end
    _failures = 0
    _passed_over = False  # whether the fetch under way leaves out a topic, which may be wanted soon

    @property
    def pinned(self) -> bool:
        """Whether the partitions to read are known."""
        return bool(self._partitions)

    async def ends(self, topics: Collection[str]) -> Offsets:
        """Return the offset of each partition's next record in the log, of those that are committed.

        One request to the broker asks for all partitions. Whatever decides a record's place uses these ends.
        """
        return cast("Offsets", await self.call_thread(self._ends, topics))

    async def since(self, moments: Mapping[str, float], ends: Offsets) -> Offsets:
        """Return the first offset of each partition whose timestamp is at least its topic's moment, by topic.

        `moments`: in seconds since 1970. If a partition has no such timestamp, the result has its end in
        `ends`. These ends were looked up before, so records appended since then are not skipped.
        """
        return cast("Offsets", await self.call_thread(self._since, moments, ends))

    async def recent_ends(self, topics: Collection[str], within: float) -> Offsets:
        """Return the ends, some from the last fetches' answers. They must decide nothing about a record.

        `within`: the greatest age in seconds of a fetch's answer that is used, for a partition that is read
        to its end, as the broker answers a fetch once records come. For other partitions the broker is asked.
        The age of an end depends on how far was fetched, and so on the bytes of records.
        """
        return cast("Offsets", await self.call_thread(self._recent_ends, topics, within))

    async def read(self) -> Offsets:
        """Return the offsets below which all records were handed on, offsets without a record included."""
        return cast("Offsets", await self.call_thread(self._read))

    async def count(self, topic: str, span: OffsetSpan) -> tuple[list[int], int]:
        """Return the offsets of a partition's records in a span, and where to count on.

        A call reads one answer of the broker, so it may stop before the span's end.
        """
        return cast("tuple[list[int], int]", await self.call_thread(self._count, topic, span))

    async def follow(self) -> None:
        """Continue at the position if it has moved ahead."""
        await self.call_thread(self._follow)

    async def note(self, offsets: Offsets) -> None:
        """Commit the offsets of one topic for the owner's tools; nothing here reads them."""
        await self.call_thread(self._note, offsets)

    async def grown(self) -> str | None:
        """Return a topic that has got further partitions since it was first read; None if none has."""
        return cast("str | None", await self.call_thread(self._grown))

    def taken(self) -> None:
        """Record that a fetch's records are handled and there is room for more, so that its topic is fetched
        again.
        """
        if self._passed_over:
            with suppress(RuntimeError):  # its loop is closed, as it stops
                self.thread_loop.call_soon_threadsafe(self._room.set)

    def _create_worker_consumer(self, transport: Any) -> Any:
        """Return a consumer of committed records; Faust makes one only where it writes transactions."""
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"  # noqa: SLF001 # its fetcher gets it at the start
        wait_to_connect(self, consumer._client, self.places)  # noqa: SLF001 # it has no public name
        return consumer

    async def subscribe(self, topics: Iterable[str]) -> None:  # noqa: ARG002 # they are known
        """Assign every partition of the topics, at its position, once the broker answers."""
        while True:
            try:
                await self.call_thread(self._pin)
            except REFUSED:
                raise
            except (KafkaError, TimeoutError):  # the broker is away, or has just gone
                await _wait_for_broker(self.places)
            else:
                return

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to the position, which Faust treats as committed."""
        return cast("Mapping[TP, int]", await self.call_thread(self._go))

    async def stop(self) -> None:
        """Stop; mode closes its thread's loop, which may never have run."""
        await super().stop()
        if not self._thread_started.is_set():
            self.thread_loop.close()

    async def on_thread_stop(self) -> None:
        """Disconnect. aiokafka fails on a fetch that waits for its broker to come back.

        With TLS aiokafka also waits for the broker to close the connection, and the broker first answers the
        last fetch. So that wait is limited.
        """
        hang_up = asyncio.get_running_loop().call_later(_PARTING, _abort, self._transports())
        try:
            await super().on_thread_stop()
        except asyncio.CancelledError:
            await self._ensure_consumer()._client.close()  # noqa: SLF001 # what it was about to do
        finally:
            hang_up.cancel()

    def _transports(self) -> list[asyncio.WriteTransport]:
        """Return the open connections, for which aiokafka has no public name."""
        if self._consumer is None:
            return []
        writers = [connection._writer for connection in self._consumer._client._conns.values()]  # noqa: SLF001 # as said
        return [writer.transport for writer in writers if writer is not None]

    async def _pin(self) -> None:
        consumer = self._ensure_consumer()
        pinned = await self._existing()
        # otherwise it asks for each topic's leader by itself, a tenth of a second each
        await asyncio.wait_for(consumer._client.set_topics(list(self.places)), PATIENCE)  # noqa: SLF001 # as above
        firsts = await asyncio.wait_for(consumer.beginning_offsets(pinned), PATIENCE)
        ends = await asyncio.wait_for(consumer.end_offsets(pinned), PATIENCE)
        for topic, place in self.places.items():
            place.begin({of.partition: (firsts[of], ends[of]) for of in pinned if of.topic == topic})
        self._ahead = {of: (self._next(of), ends[of]) for of in pinned if self._next(of) > ends[of]}
        consumer.assign(pinned)
        self._partitions = pinned
        self._room = asyncio.Event()
        self._returned: dict[TopicPartition, int] = {}
        self._told: dict[TopicPartition, int] = {}  # last offset of the last broken batch
        self.app.on_rebalance_start()
        # not awaited: it waits until `subscribe` has returned
        self._assigned = asyncio.ensure_future(self.on_partitions_assigned({TP(*of) for of in pinned}))

    async def _existing(self) -> tuple[TopicPartition, ...]:
        """Return all partitions that are to be read. Raises UnknownTopic."""
        consumer = self._ensure_consumer()
        cluster = await consumer._client.fetch_all_metadata()  # noqa: SLF001 # its own knows assigned topics only
        partitions_read: list[TopicPartition] = []
        for topic, place in self.places.items():
            partitions = cluster.partitions_for_topic(topic)
            if not partitions:
                raise UnknownTopic(f"no topic {topic}")
            missing = no_partition(place.partitions or (), len(partitions))
            if missing is not None:
                raise UnknownTopic(f"{topic}: source.partitions: {list(place.partitions or ())}: {missing}")
            numbers = place.partitions or sorted(partitions)
            partitions_read += [TopicPartition(topic, number) for number in numbers]
        return tuple(partitions_read)

    async def _grown(self) -> str | None:
        added = set(await asyncio.wait_for(self._existing(), PATIENCE)) - set(self._partitions)
        return min(added).topic if added else None

    async def _go(self) -> dict[TP, int]:
        offsets = {TP(of.topic, of.partition): self._from(of) for of in self._partitions}
        for of, offset in offsets.items():
            self._ensure_consumer().seek(TopicPartition(*of), offset)
        return offsets

    async def _follow(self) -> None:
        consumer = self._ensure_consumer()
        for of in self._partitions:
            if await consumer.position(of) < self._from(of):
                consumer.seek(of, self._from(of))

    async def _ends(self, topics: Collection[str]) -> Offsets:
        partitions = self._of(topics)
        ends = await asyncio.wait_for(self._ensure_consumer().end_offsets(partitions), PATIENCE)
        return _by_topic(topics, ends)

    async def _since(self, moments: Mapping[str, float], ends: Offsets) -> Offsets:
        milliseconds = {of: math.floor(moments[of.topic] * 1e3) for of in self._of(moments)}
        request = self._ensure_consumer().offsets_for_times(milliseconds)
        answers = await asyncio.wait_for(request, PATIENCE)
        offsets: Offsets = {topic: {} for topic in moments}
        for of in milliseconds:
            answer, end = answers.get(of), ends[of.topic][of.partition]
            offsets[of.topic][of.partition] = end if answer is None else min(answer.offset, end)
        return offsets

    async def _recent_ends(self, topics: Collection[str], within: float) -> Offsets:
        partitions = self._of(topics)
        ends = {of: end for of in partitions if (end := await self._fetched_end(of, within)) is not None}
        unknown = [of for of in partitions if of not in ends]
        ends |= await asyncio.wait_for(self._ensure_consumer().end_offsets(unknown), PATIENCE)
        return _by_topic(topics, ends)

    def _of(self, topics: Collection[str]) -> list[TopicPartition]:
        return [of for of in self._partitions if of.topic in topics]

    async def _fetched_end(self, of: TopicPartition, within: float) -> int | None:
        """Return the log's end if the partition is read to it, as far as the last fetch knows."""
        consumer = self._ensure_consumer()
        end, answered = consumer.last_stable_offset(of), consumer.last_poll_timestamp(of)
        if end is None or answered is None or time.time() - answered / 1_000 >= within:
            return None
        return end if self._drained(of) and await consumer.position(of) == end else None

    async def _count(self, topic: str, span: OffsetSpan) -> tuple[list[int], int]:
        of, consumer = TopicPartition(topic, span.partition), self._ensure_consumer()
        beginning = (await asyncio.wait_for(consumer.beginning_offsets([of]), PATIENCE))[of]
        request = read_around(consumer, {of: max(span.first, beginning)}, _COUNTED, lambda *_: None)
        answer = (await asyncio.wait_for(request, PATIENCE)).get(of)
        if answer is None:
            return [], span.first
        offsets = [record.offset for record in answer.records if record.offset < span.end]
        return offsets, min(answer.next, span.end)

    async def _read(self) -> Offsets:
        offsets: Offsets = {topic: {} for topic in self.places}
        for of in self._partitions:
            position, handed_on = await self._ensure_consumer().position(of), self._next(of)
            # Transaction markers, and gaps from compaction, may follow the last record.
            offsets[of.topic][of.partition] = max(position, handed_on) if self._drained(of) else handed_on
        return offsets

    def _drained(self, of: TopicPartition) -> bool:
        return self._next(of) >= self._returned.get(of, 0)

    async def _note(self, offsets: Offsets) -> None:
        commits = {TopicPartition(topic, k): at for topic, of in offsets.items() for k, at in of.items()}
        await asyncio.wait_for(self._ensure_consumer().commit(commits), PATIENCE)

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: set[TP],
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> RecordMap:
        fetch = super()._fetch_records

        async def fetch_of(partitions: set[TP]) -> RecordMap:
            return self._brought(await fetch(consumer, partitions, timeout, max_records))

        try:
            records = await self._fetch_wanted(fetch_of, active_partitions, timeout)
            self._failures = 0
        except OffsetOutOfRangeError as error:
            await self._skip(error)
            return {}
        except Exception as error:
            if not may_be_stored(error):
                raise
            records = self._brought(await self._read_around(error, active_partitions, max_records or 1))
        return {of: [_message(fetched)] for of, fetched in records.items()}

    def _brought(self, records: RecordMap) -> RecordMap:
        """Record at once that these records are not passed on yet.

        The consumer's position is already behind them.
        """
        self._returned |= {TopicPartition(*of): fetched[-1].offset + 1 for of, fetched in records.items()}
        return records

    async def _fetch_wanted(self, fetch: Fetch, active: set[TP], timeout: float | None) -> RecordMap:
        """Fetch from the partitions that are wanted, until another partition is wanted.

        Faust handles all fetched records in order. So a full topic would delay the others, and a partition
        that is ahead would fill the memory.
        """
        self._room.clear()
        choosy = len(self._partitions) > 1 or any(place.holds_back for place in self.places.values())
        self._passed_over = choosy  # before the look, as `taken` may come at any moment
        with_room = {of for of in active if self._wanted(of)} if self._passed_over else active
        if len(with_room) == len(active):
            self._passed_over = False
            return await fetch(with_room)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self._room.wait())]
        if with_room:  # none would stand for all of them
            tasks.append(asyncio.create_task(fetch(with_room)))
        try:
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._passed_over = False
            for task in tasks:
                task.cancel()  # a fetch that is cut short has taken nothing yet
            await asyncio.gather(*tasks, return_exceptions=True)
        return {} if not with_room or tasks[-1].cancelled() else cast("RecordMap", tasks[-1].result())

    async def _read_around(self, error: Exception, active: Iterable[TP], most: int) -> RecordMap:
        """Return the records that aiokafka could not read, or lost. Raises the error if nothing helps."""
        consumer = self._ensure_consumer()
        positions = {of: self._unreturned(of) for of in (TopicPartition(*partition) for partition in active)}
        around = await read_around(consumer, positions, most, self._tell)
        for of, position in positions.items():
            consumer.seek(of, around[of].next if of in around else position)
        if any(fetch_result.next > positions[of] for of, fetch_result in around.items()):
            self._failures = 0
        else:
            self._failures += 1
            if self._failures >= _ATTEMPTS:
                raise error
            await asyncio.sleep(_AGAIN)
        return {TP(*of): fetch_result.records for of, fetch_result in around.items() if fetch_result.records}

    def _unreturned(self, of: TopicPartition) -> int:
        return max(self._returned.get(of, 0), self._from(of))

    def _tell(self, of: TopicPartition, broken: Broken) -> None:
        if broken.last <= self._told.get(of, -1):  # a long batch is passed on in parts
            return
        self._told[of] = broken.last
        text = "%s: stored records are broken, and count as malformed"
        LOGGER.warning(text, of.topic, extra=LogEvent.RECORDS_BROKEN.of())
        self.letters.write(of.topic, of.partition, broken)

    def _wanted(self, of: TP) -> bool:
        place = self.places[of.topic]
        return place.room and place.wants(of.partition) and self._drained(TopicPartition(*of))

    async def _skip(self, error: OffsetOutOfRangeError) -> None:
        """Continue where the logs begin now. Raises the error if a position is beyond a log's end."""
        consumer = self._ensure_consumer()
        for of, offset in error.args[0].items():
            first = (await consumer.beginning_offsets([of]))[of]
            if first <= offset:
                raise error
            self.places[of.topic].lose(first - offset)
            consumer.seek(of, first)

    def _from(self, of: TopicPartition) -> int:
        """Return the offset from which to read the next record, as no broker reads beyond a log's end."""
        position, end = self._ahead.get(of, (-1, 0))
        return end if self._next(of) == position else self._next(of)

    def _next(self, of: TopicPartition) -> int:
        return self.places[of.topic].next[of.partition]


def wait_to_connect(service: ServiceT, client: Any, topics: Iterable[str]) -> None:
    """Let a client of aiokafka wait at its start for a broker that has gone since it was looked at."""
    connect = client.bootstrap

    async def once_there() -> None:
        while not service.should_stop:  # a client that stops needs no broker
            try:
                await connect()
            except KafkaConnectionError:
                await _wait_for_broker(topics)
            else:
                return

    client.bootstrap = once_there
    client._get_conn = _backed_off(client._get_conn)  # noqa: SLF001 # it has no setting for this


def _backed_off(connect: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Let attempts to connect to a broker that is away wait for each other, longer each time.

    Otherwise a client makes some 30 attempts a second for as long as the broker is away.
    """
    pauses: dict[Any, tuple[float, float]] = {}  # by broker: the last pause, and when the next attempt is due

    async def connect_when_due(node: Any, **how: Any) -> Any:
        while (seconds := pauses.get(node, (0.0, 0.0))[1] - time.monotonic()) > 0:
            await asyncio.sleep(seconds)
        connection = await connect(node, **how)
        if connection is not None:
            pauses.pop(node, None)
            return connection
        pause = min(_LONGEST_PAUSE, 2 * pauses.get(node, (_FIRST_PAUSE / 2, 0.0))[0])
        jitter = random.uniform(0.5, 1.5)  # noqa: S311 # so that not all clients come at once
        pauses[node] = pause, time.monotonic() + jitter * pause
        return None

    return connect_when_due


async def _wait_for_broker(topics: Iterable[str]) -> None:
    text = "waiting for the broker: %s: no answer"
    LOGGER.warning(text, ", ".join(topics), extra=LogEvent.BROKER_AWAY.of())
    await asyncio.sleep(_LATER)


def _by_topic(topics: Iterable[str], ends: Mapping[TopicPartition, int]) -> Offsets:
    offsets: Offsets = {topic: {} for topic in topics}
    for of, end in ends.items():
        offsets[of.topic][of.partition] = end
    return offsets


def _message(records: Sequence[ConsumerRecord]) -> ConsumerRecord:
    """Return one message whose value is the list of a fetch's records of one partition."""
    last = records[-1]
    return ConsumerRecord(
        last.topic, last.partition, last.offset, last.timestamp, 0, None, records, None, -1, len(records), ()
    )


def _abort(transports: Iterable[asyncio.WriteTransport]) -> None:
    for transport in transports:
        transport.abort()
