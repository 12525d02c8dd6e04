"""The records of a feed, numbered, and what is wrong with each."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from streams.feed.opening import Opened
from streams.sources.record import RawRecord

FURTHEST = 253_402_300_800.0
"""The first second of the year 10000: a later time is a mistake."""


class Line(NamedTuple):
    """A record of the feed, the `number`-th from 1 on, and the Kafka timestamp that is its own, if any.

    `mark` tells all lines up to this one from any others. `bad`: why it cannot be learnt from, if so.
    """

    number: int
    value: bytes
    timestamp: float | None
    mark: bytes
    bad: str | None


class Lines(Iterator[Line]):
    """The lines of a source whose topic takes records of up to `largest` bytes."""

    def __init__(self, opened: Opened, largest: int) -> None:
        self._records, self._decoder = opened.source.records, opened.source.decoder
        self._timed, self._time_of, self._largest = opened.timed, opened.time_of, largest
        self._read = 0
        self._hash = hashlib.blake2b(digest_size=8)

    def skip(self, count: int) -> bytes | None:
        """Pass over the first lines; return the mark of the last of them, None where there are fewer."""
        while self._read < count:
            record = next(self._records, None)
            if record is None:
                return None
            self._note(record)
        return self._hash.digest()

    def __next__(self) -> Line:
        """Return the next line."""
        record = next(self._records)
        self._note(record)
        timestamp = self._timestamp(record) if self._timed else None
        bad = self._wrong_with(record.value, timestamp)
        return Line(self._read, record.value, timestamp, self._hash.digest(), bad)

    def _note(self, record: RawRecord) -> None:
        self._read += 1
        self._hash.update(len(record.value).to_bytes(4, "little"))  # where one ends and the next begins
        self._hash.update(record.value)

    def _timestamp(self, record: RawRecord) -> float | None:
        found = record.timestamp if self._time_of is None else self._time_of(record.value)
        return found if found is not None and 0.0 <= found < FURTHEST else None

    def _wrong_with(self, value: bytes, timestamp: float | None) -> str | None:
        if len(value) > self._largest:
            return f"longer than {self._largest} bytes, the most that the topic takes"
        if len(value) > self._decoder.longest:
            return f"longer than {self._decoder.longest} bytes, the source's max_record_bytes"
        if self._decoder.decode(value) is None:
            return "does not fit the schema" if value else "empty, or longer than a record may be"
        if self._timed and timestamp is None:
            return "has no time that can be read"
        return None
