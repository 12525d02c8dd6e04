"""Reads on where a data topic has a broken batch, at which aiokafka fails for ever, and loses what it had.

It asks the broker for the same bytes itself, twice: only what comes equal is broken, as it is stored. Else
the answer was at fault, and is asked for again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafka import ConsumerRecord, TopicPartition  # type: ignore[import-untyped] # it ships no types
from aiokafka.consumer.fetcher import READ_COMMITTED  # type: ignore[import-untyped] # as above
from aiokafka.errors import (  # type: ignore[import-untyped] # as above
    ConsumerStoppedError,
    CorruptRecordException,
    KafkaError,
    UnsupportedCodecError,
)
from aiokafka.protocol.fetch import FetchRequest  # type: ignore[import-untyped] # as above

from streams.live.data.broken import Aborted, Broken, Found, batches, readable

_BYTES = 4 * 2**20
"""Of one answer; a larger batch comes whole and alone."""
_WITH_REPLICA, _ABORTED = 11, 2
"""The version of answers that name a replica last, and where those have the aborted transactions."""
Told = Callable[[TopicPartition, Broken], None]
"""Takes a broken batch, once or more."""


def may_be_stored(error: Exception) -> bool:
    """Return whether a fetch may have failed because of what is stored: each codec has errors of its own."""
    if isinstance(error, KafkaError):
        return isinstance(error, CorruptRecordException | UnsupportedCodecError)
    return not isinstance(error, ConsumerStoppedError | MemoryError)


async def read_around(
    consumer: Any, positions: Mapping[TopicPartition, int], most: int, told: Told
) -> dict[TopicPartition, Found]:
    """Return up to so many committed records of partitions, as they are stored, from their positions on.

    A partition whose leader does not answer, or not twice the same, is left out, or has none.
    """
    records = {}
    for of, position in positions.items():
        read = await _read(consumer, of, position, most) if most > 0 else None
        if read is not None:
            records[of] = read
            most -= len(read.records)
            if read.broken is not None:
                told(of, read.broken)
    return records


async def _read(consumer: Any, of: TopicPartition, position: int, most: int) -> Found | None:
    stored, end, transactions = await _stored(consumer, of, position)
    aborted = Aborted(transactions)
    records: list[ConsumerRecord] = []
    size, place = 0, position
    for batch in batches(stored, end):
        if len(records) >= most:
            break
        size += len(batch.stored)
        if aborted.has(batch) or batch.control:
            place = max(place, batch.last + 1)
            continue
        readable_part = readable(of, batch, place, most - len(records))
        records, place = records + readable_part.records, max(place, readable_part.next)
        if readable_part.broken is not None:
            reread, *_ = await _stored(consumer, of, position)
            unchanged = reread[:size] == stored[:size]
            return Found(records, place, readable_part.broken) if unchanged else None
    return Found(records, place)


async def _stored(
    consumer: Any, of: TopicPartition, position: int
) -> tuple[bytes, int, Sequence[tuple[int, int]]]:
    """Return the batches of an answer, from that of `position` on, the log's end, and aborted transactions.

    No batch without an answer.
    """
    client, limit = consumer._client, _BYTES  # noqa: SLF001 # aiokafka hands out no bytes
    wanted_offsets = [(of.topic, [(of.partition, position, limit)])]
    try:
        leader = client.cluster.leader_for_partition(of)
        answer = await client.send(leader, FetchRequest(0, 1, limit, READ_COMMITTED, wanted_offsets))
    except KafkaError:  # it is asked again
        return b"", 0, ()
    ((_, ((_, failed, end, *more, stored),)),) = answer.topics
    if failed:
        return b"", 0, ()
    aborted = more[_ABORTED if answer.API_VERSION >= _WITH_REPLICA else -1]  # older brokers end with it
    return bytes(stored or b""), end, aborted or ()
