"""The numbered records of a feed, and the dead letters of bad ones.

A dead letter is for the owner's eyes: {"line": 17, "reason": ..., "value": base64}
"""

import base64
import hashlib
import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from streams.mesh.errors import MeshFileError
from streams.records.decoder import SchemaDecoder
from streams.records.faults import NO_TIME, Fault
from streams.records.record import RawRecord
from streams.tools.feed.feed_source import Opened

FURTHEST = 253_402_300_800.0
"""The first second of the year 10000: a later time is a mistake."""


class Line(NamedTuple):
    """A record of the feed, its `number` from 1 on, and its own Kafka timestamp, if any.

    `mark`: a digest of all lines up to this one, and of the shift of their times. `bad`: why it cannot be
    learnt from, if so, for its owner.
    """

    number: int
    value: bytes
    timestamp: float | None
    mark: bytes
    bad: Fault | None


class Lines(Iterator[Line]):
    """The lines of a source whose topic takes records of up to `largest` bytes."""

    def __init__(self, opened: Opened, largest: int) -> None:
        self._records, self._decoder = opened.source.records, opened.source.decoder
        self._timed, self._time_of, self._largest = opened.timed, opened.time_of, largest
        self._ahead = opened.ahead
        self._next = deque[Line]()
        self._broken: MeshFileError | None = None
        self._read = 0
        shift = repr(opened.shift).encode() if opened.shift else b""  # a topic never holds two of them
        self._hash = hashlib.blake2b(shift, digest_size=8)

    def skip(self, count: int) -> bytes | None:
        """Skip the first lines; return the mark of the last of them, or None if there are fewer."""
        while self._read < count:
            record = next(self._records, None)
            if record is None:
                return None
            self._note(record.value)
        return self._hash.digest()

    def __next__(self) -> Line:
        """Return the next line."""
        if not self._next:
            self._next.extend(self._read_ahead())
        return self._next.popleft()

    def batch(self) -> list[Line]:
        """Return the next lines, as many as are read together; none at the end."""
        if not self._next:
            try:
                return self._read_ahead()
            except StopIteration:
                return []
        lines = list(self._next)
        self._next.clear()
        return lines

    def _read_ahead(self) -> list[Line]:
        """Read the next lines. Raises StopIteration, or what the source raised after those before it."""
        records = list[RawRecord]()
        try:
            if self._broken is not None:
                raise self._broken
            records.extend(islice(self._records, self._ahead))
        except MeshFileError as error:
            if not records:
                raise
            self._broken = error
        if not records:
            raise StopIteration
        decoded = self._decoder.decode_each([record.value for record in records])
        return [self._line(record, pair is not None) for record, pair in zip(records, decoded, strict=True)]

    def _line(self, record: RawRecord, decodes: bool) -> Line:  # noqa: FBT001 # called for each record
        value = record.value
        timestamp = self._timestamp(record) if self._timed else None
        ordinary = decodes and not self._timed and len(value) <= self._largest
        bad = None if ordinary else self._wrong_with(value, timestamp, decodes=decodes)
        self._note(value)
        return Line(self._read, value, timestamp, self._hash.digest(), bad)

    def _note(self, value: bytes) -> None:
        self._read += 1
        # the length separates records
        self._hash.update(len(value).to_bytes(4, "little") + value)

    def _timestamp(self, record: RawRecord) -> float | None:
        timestamp = record.timestamp if self._time_of is None else self._time_of(record.value)
        return timestamp if timestamp is not None and 0.0 <= timestamp < FURTHEST else None

    def _wrong_with(self, value: bytes, timestamp: float | None, *, decodes: bool) -> Fault | None:
        decoder = self._decoder
        if len(value) > self._largest:
            return Fault(None, f"longer than {self._largest:,} bytes, the most that the topic takes")
        if not decodes:
            return decoder.fault(value)
        if self._timed and timestamp is None:
            fault = decoder.time_fault(value) if isinstance(decoder, SchemaDecoder) else None
            return fault or Fault(None, NO_TIME)
        return None


BYTES = 8 * 2**20
"""Largest total of dead letters on their way, in bytes (or one letter): less than their topic keeps."""


def encode_letter(line: Line) -> bytes:
    """Return the dead letter of a bad line."""
    content = base64.b64encode(line.value).decode("ascii")
    return json.dumps({"line": line.number, "reason": str(line.bad), "value": content}).encode()


def digest(letter: bytes) -> bytes:
    """Return a digest that identifies a letter."""
    return blake2b(letter, digest_size=16).digest()


def lacking(lines: Iterable[Line], there: Collection[bytes]) -> list[bytes]:
    """Return the letters of bad lines whose digests are not `there`: the last `BYTES` of them, in order.

    No more can be lost when a feed is killed; earlier missing letters were deleted by their log's retention.
    """
    letters, size = deque[bytes](), 0
    for line in lines:
        if line.bad is None or digest(letter := encode_letter(line)) in there:
            continue
        letters.append(letter)
        size += len(letter)
        while size > BYTES and len(letters) > 1:
            size -= len(letters.popleft())
    return list(letters)
