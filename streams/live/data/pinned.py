"""Faust's consumer thread, pinned: reads every partition of one topic from given offsets, in no group.

A subscribed group can stall for ever after a broker's restart; assigned partitions do not. The overrides use
private API: pyproject pins Faust's minor version, and tests/kafka/test_data_stream.py tests each of them.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from aiokafka import TopicPartition  # type: ignore[import-untyped] # it ships no types
from aiokafka.errors import OffsetOutOfRangeError  # type: ignore[import-untyped] # as above
from faust.transport.consumer import RecordMap
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from streams.bus.bus import UnknownTopic
from streams.bus.connection import PATIENCE

_PARTING = 0.3
"""Seconds that a broker has to end the connection in order."""


class Position(Protocol):
    """A stream's position. Its methods are called in the consumer's thread."""

    @property
    def next(self) -> Mapping[int, int]:
        """The offset of each partition's next record."""

    def begin(self, spans: Mapping[int, tuple[int, int]]) -> None:
        """Take, once, the beginning and end of all partitions' logs; from then on `next` names each."""

    def lose(self, count: int) -> None:
        """Count records that left a log before they were read."""


class PinnedThread(AIOKafkaConsumerThread):
    """The thread that reads `topic`. Other threads' loops may call `ends`, `read`, `follow` and `note`."""

    topic: str
    place: Position
    _partitions: tuple[TopicPartition, ...] = ()

    @property
    def pinned(self) -> bool:
        """Whether its partitions are known."""
        return bool(self._partitions)

    async def ends(self) -> dict[int, int]:
        """Return the offset of each partition's next record in the log."""
        return cast("dict[int, int]", await self.call_thread(self._ends))

    async def read(self) -> dict[int, int]:
        """Return the offsets below which all records were handed on, offsets without a record included."""
        return cast("dict[int, int]", await self.call_thread(self._read))

    async def follow(self) -> None:
        """Continue at the position if it has moved ahead."""
        await self.call_thread(self._follow)

    async def note(self, offsets: Mapping[int, int]) -> None:
        """Commit offsets for the owner's tools; nothing here reads them."""
        await self.call_thread(self._note, offsets)

    async def subscribe(self, topics: Iterable[str]) -> None:  # noqa: ARG002 # the app has one topic
        """Assign every partition of the topic, at its position."""
        await self.call_thread(self._pin)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to the position, which Faust takes for committed."""
        return cast("Mapping[TP, int]", await self.call_thread(self._go))

    async def stop(self) -> None:
        """Stop; mode closes its thread's loop, which may never have run."""
        await super().stop()
        if not self._thread_started.is_set():
            self.thread_loop.close()

    async def on_thread_stop(self) -> None:
        """Disconnect. aiokafka fails on a fetch that waits for its broker to come back.

        With TLS it also waits for the broker to hang up, which answers its last fetch first: not for long.
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
        writers = [one._writer for one in self._consumer._client._conns.values()]  # noqa: SLF001 # as said
        return [writer.transport for writer in writers if writer is not None]

    async def _pin(self) -> None:
        consumer = self._ensure_consumer()
        known = await consumer._client.fetch_all_metadata()  # noqa: SLF001 # its own knows assigned topics only
        partitions = known.partitions_for_topic(self.topic)
        if not partitions:
            raise UnknownTopic(f"no topic {self.topic}")
        pinned = tuple(TopicPartition(self.topic, number) for number in sorted(partitions))
        firsts = await asyncio.wait_for(consumer.beginning_offsets(pinned), PATIENCE)
        ends = await asyncio.wait_for(consumer.end_offsets(pinned), PATIENCE)
        self.place.begin({of.partition: (firsts[of], ends[of]) for of in pinned})
        consumer.assign(pinned)
        self._partitions = pinned
        self._returned: dict[int, int] = {}
        self.app.on_rebalance_start()
        # not awaited: it waits until `subscribe` has returned
        self._assigned = asyncio.ensure_future(self.on_partitions_assigned({TP(*of) for of in pinned}))

    async def _go(self) -> dict[TP, int]:
        offsets = {TP(of.topic, of.partition): self._next(of) for of in self._partitions}
        for of, offset in offsets.items():
            self._ensure_consumer().seek(TopicPartition(*of), offset)
        return offsets

    async def _follow(self) -> None:
        consumer = self._ensure_consumer()
        for of in self._partitions:
            if await consumer.position(of) < self._next(of):
                consumer.seek(of, self._next(of))

    async def _ends(self) -> dict[int, int]:
        asked = self._ensure_consumer().end_offsets(self._partitions)
        return {of.partition: end for of, end in (await asyncio.wait_for(asked, PATIENCE)).items()}

    async def _read(self) -> dict[int, int]:
        found = {}
        for of in self._partitions:
            read, handed_on = await self._ensure_consumer().position(of), self._next(of)
            # Transaction markers, and gaps from compaction, may follow the last record.
            drained = handed_on >= self._returned.get(of.partition, 0)
            found[of.partition] = max(read, handed_on) if drained else handed_on
        return found

    async def _note(self, offsets: Mapping[int, int]) -> None:
        given = {of: offsets[of.partition] for of in self._partitions}
        await asyncio.wait_for(self._ensure_consumer().commit(given), PATIENCE)

    async def _fetch_records(self, *arguments: Any, **keywords: Any) -> RecordMap:
        try:
            records = await super()._fetch_records(*arguments, **keywords)
        except OffsetOutOfRangeError as error:
            await self._skip(error)
            return {}
        self._returned |= {of.partition: found[-1].offset + 1 for of, found in records.items()}
        return records

    async def _skip(self, error: OffsetOutOfRangeError) -> None:
        """Continue where the logs begin now. Raises the error if a position is beyond a log's end."""
        consumer = self._ensure_consumer()
        for of, offset in error.args[0].items():
            first = (await consumer.beginning_offsets([of]))[of]
            if first <= offset:
                raise error
            self.place.lose(first - offset)
            consumer.seek(of, first)

    def _next(self, of: TopicPartition) -> int:
        return self.place.next[of.partition]


def _abort(transports: Iterable[asyncio.WriteTransport]) -> None:
    for transport in transports:
        transport.abort()
