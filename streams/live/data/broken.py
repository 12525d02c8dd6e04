"""Broken batches of a data topic: which offsets they have, and an empty record in place of each.

A batch is broken if it cannot be read as it is stored: its checksum is wrong, it cannot be decompressed, or a
record in it has no end. The reader derives a batch's offsets from its header, as the broker does, so the
offsets are the same wherever a reader begins. If a batch can be decompressed, its records before the first
bad record are good. A record's headers cannot break a batch, as nobody here reads them; their names may be
any bytes. The batch's header also shows which batches contain no records: those of aborted transactions, and
markers of transactions.

aiokafka fails for ever at a broken batch, and loses what it had fetched. To continue, this module requests
the same bytes twice. A batch counts as broken, as it is stored, only if both answers are equal. Otherwise an
answer was at fault, and the request is repeated.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka import ConsumerRecord, TopicPartition  # type: ignore[import-untyped] # it ships no types
from aiokafka.consumer.fetcher import (  # type: ignore[import-untyped] # as above
    READ_COMMITTED,
    READ_UNCOMMITTED,
    PartitionRecords,
)
from aiokafka.errors import (  # type: ignore[import-untyped] # as above
    ConsumerStoppedError,
    CorruptRecordException,
    KafkaError,
    UnsupportedCodecError,
)
from aiokafka.protocol.fetch import FetchRequest  # type: ignore[import-untyped] # as above
from aiokafka.record.default_records import (  # type: ignore[import-untyped] # as above
    _DefaultRecordBatchPy,
    _DefaultRecordPy,
)
from aiokafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped] # as above
from aiokafka.record.util import decode_varint  # type: ignore[import-untyped] # as above

_BEGIN = struct.Struct(">qiib")
"""First offset (before format 2: the last record's), length of what follows it, leader's epoch, format."""
_COUNTED = 12
"""Bytes in front of the part whose length the header gives."""
_HEADER = struct.Struct(">qiibIhiqqq")
"""`_BEGIN`, then checksum, attributes, last offset less the first, first and largest timestamp, producer."""
_FORMAT_2 = 2
_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 8, 16, 32


class Batch(NamedTuple):
    """A batch as it is stored, with its offsets from `first` to `last`; `timestamp` in ms.

    `producer`: the id of the writer in a transaction; None: it is in no transaction. `control`: whether it is
    a marker that ends one.
    """

    first: int
    last: int
    timestamp: int
    stored: bytes
    producer: int | None = None
    control: bool = False


class Broken(NamedTuple):
    """The offsets of a broken batch that cannot be read, and the kind of the error."""

    first: int
    last: int
    error: str


class Found(NamedTuple):
    """Records; `next` is the offset to continue from."""

    records: list[ConsumerRecord]
    next: int
    broken: Broken | None = None


def batches(stored: bytes, end: int) -> Iterator[Batch]:
    """Yield the whole batches of an answer; `end`: the log's end. No batch reaches into the next one."""
    place = 0
    while len(stored) - place >= _BEGIN.size:
        first, length, _, kind = _BEGIN.unpack_from(stored, place)
        behind = place + _COUNTED + length
        if not place + _BEGIN.size <= behind <= len(stored):
            return
        batch_bytes = stored[place:behind]
        last, timestamp, producer, attributes = first, -1, -1, 0
        if kind >= _FORMAT_2 and len(batch_bytes) >= _HEADER.size:
            *_, attributes, delta, earliest, latest, producer = _HEADER.unpack_from(batch_bytes)
            last, timestamp = first + delta, latest if attributes & _APPEND_TIME else earliest
        writer = producer if attributes & _TRANSACTIONAL else None
        following = int.from_bytes(stored[behind : behind + 8]) if len(stored) >= behind + 8 else end
        last = min(last, following - 1, end - 1)
        yield Batch(first, last, timestamp, batch_bytes, writer, bool(attributes & _CONTROL))
        place = behind


class Aborted:
    """The aborted transactions of an answer, as (producer, first offset).

    Call `has` for the batches in their order.
    """

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._transactions = set(transactions)

    def has(self, batch: Batch) -> bool:
        """Return whether the batch is of an aborted transaction, which a marker of its producer ends.

        That marker is the producer's next one, even if it cannot be read, as a transaction has only one.
        """
        running = {
            (producer, first)
            for producer, first in self._transactions
            if producer == batch.producer and first <= batch.first
        }
        if batch.control:
            self._transactions -= running
        return bool(running)


def readable(of: TopicPartition, batch: Batch, position: int, most: int) -> Found:
    """Return the batch's records from `position` on, up to the limit.

    Each record that cannot be read is replaced by an empty record.
    """
    try:
        return _read(of, batch, position, most, MemoryRecords(batch.stored))
    except UnicodeDecodeError:  # of the name of a record's header
        return _read(of, batch, position, most, _Headerless(batch.stored))


def _read(
    of: TopicPartition, batch: Batch, position: int, most: int, stored: "MemoryRecords | _Headerless"
) -> Found:
    records: list[ConsumerRecord] = []
    reading = PartitionRecords(
        of,
        stored,
        aborted_transactions=[],
        fetch_offset=position,
        key_deserializer=None,
        value_deserializer=None,
        check_crcs=True,
        isolation_level=READ_UNCOMMITTED,
    )
    try:
        for record in reading:
            records.append(record)
            if len(records) >= most:
                break
    except (MemoryError, UnicodeDecodeError):  # it is this machine's, or a header's, not the batch's
        raise
    except Exception as error:  # noqa: BLE001 # each codec has errors of its own
        first = max(batch.first, reading.next_fetch_offset)
        last = min(batch.last, first + most - len(records) - 1)
        records += [_empty(of, offset, batch.timestamp) for offset in range(first, last + 1)]
        return Found(records, max(first, last + 1), Broken(first, batch.last, type(error).__name__))
    return Found(records, reading.next_fetch_offset)


class _Headerless:
    """A batch of format 2 as the only one of an answer, read without the headers of its records."""

    def __init__(self, stored: bytes) -> None:
        self._left = [_WithoutHeaders(bytearray(stored))]

    def has_next(self) -> bool:
        """Return whether the batch is still to be returned."""
        return bool(self._left)

    def next_batch(self) -> "_WithoutHeaders":
        """Return the batch, once."""
        return self._left.pop()


class _WithoutHeaders(_DefaultRecordBatchPy):  # type: ignore[misc] # of a package without types
    _pos: int

    def _read_msg(self) -> _DefaultRecordPy:
        """Return the next record. Raises CorruptRecordException, IndexError, ... if it has no end."""
        buffer = self._buffer
        length, place = decode_varint(buffer, self._pos)
        end = place + length
        if not place < end <= len(buffer):
            raise CorruptRecordException
        later, place = decode_varint(buffer, place + 1)  # after a byte of attributes
        offset, place = decode_varint(buffer, place)
        key, place = self._bytes(place, end)
        value, place = self._bytes(place, end)
        self._pos = end
        timestamp = (
            self.max_timestamp
            if self.timestamp_type == self.LOG_APPEND_TIME
            else self.first_timestamp + later
        )
        return _DefaultRecordPy(self.base_offset + offset, timestamp, self.timestamp_type, key, value, [])

    def _bytes(self, place: int, end: int) -> tuple[bytes | None, int]:
        length, place = decode_varint(self._buffer, place)
        if length < 0:
            return None, place
        if place + length > end:
            raise CorruptRecordException
        return bytes(self._buffer[place : place + length]), place + length


def _empty(of: TopicPartition, offset: int, timestamp: int) -> ConsumerRecord:
    return ConsumerRecord(of.topic, of.partition, offset, timestamp, 0, None, b"", None, -1, 0, ())


_BYTES = 4 * 2**20
"""The most bytes of one answer. A larger batch is sent whole, and alone."""
_WITH_REPLICA, _ABORTED = 11, 2
"""The last version of answers that name a replica, and the index of the aborted transactions in those."""
Told = Callable[[TopicPartition, Broken], None]
"""Handles a broken batch; may be called more than once for a batch."""


def may_be_stored(error: Exception) -> bool:
    """Return whether a fetch may have failed because of what is stored: each codec has errors of its own."""
    if isinstance(error, KafkaError):
        return isinstance(error, CorruptRecordException | UnsupportedCodecError)
    return not isinstance(error, ConsumerStoppedError | MemoryError)


async def read_around(
    consumer: Any, positions: Mapping[TopicPartition, int], most: int, told: Told
) -> dict[TopicPartition, Found]:
    """Return committed records of partitions, as they are stored, from their positions on, up to the limit.

    If a partition's leader does not answer, or gives two different answers, the partition is left out, or has
    no records.
    """
    records = {}
    for of, position in positions.items():
        fetch_result = await _read_partition(consumer, of, position, most) if most > 0 else None
        if fetch_result is not None:
            records[of] = fetch_result
            most -= len(fetch_result.records)
            if fetch_result.broken is not None:
                told(of, fetch_result.broken)
    return records


async def _read_partition(consumer: Any, of: TopicPartition, position: int, most: int) -> Found | None:
    stored, end, transactions = await _answer(consumer, of, position)
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
            reread, *_ = await _answer(consumer, of, position)
            unchanged = reread[:size] == stored[:size]
            return Found(records, place, readable_part.broken) if unchanged else None
    return Found(records, place)


async def _answer(
    consumer: Any, of: TopicPartition, position: int
) -> tuple[bytes, int, Sequence[tuple[int, int]]]:
    """Return the batches of an answer, from that of `position` on, the log's end, and aborted transactions.

    Without an answer there are no batches.
    """
    client, limit = consumer._client, _BYTES  # noqa: SLF001 # aiokafka hands out no bytes
    wanted_offsets = [(of.topic, [(of.partition, position, limit)])]
    try:
        leader = client.cluster.leader_for_partition(of)
        answer = await client.send(leader, FetchRequest(0, 1, limit, READ_COMMITTED, wanted_offsets))
    except KafkaError:  # the request is repeated
        return b"", 0, ()
    ((_, ((_, failed, end, *fields, stored),)),) = answer.topics
    if failed:
        return b"", 0, ()
    aborted = fields[_ABORTED if answer.API_VERSION >= _WITH_REPLICA else -1]  # older brokers end with it
    return bytes(stored or b""), end, aborted or ()
