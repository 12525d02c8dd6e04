"""The part of a source's records that a node takes, and which parts cannot share a record.

With slots by count the places of records are public, and a part is each record of every so many. With
slots by time no place may decide anything: one record more would move all that stand behind it to other
parts. So there a record's own bytes choose its part.
"""

from hashlib import blake2b
from math import gcd
from typing import NamedTuple

from streams.mesh.settings.files import TakeSettings
from streams.mesh.settings.node import FileSettings, SourceSettings
from streams.mesh.settings.schema import CsrSettings, LibsvmSettings

_KEY = b"mirrormesh: the part of a record"
"""The same for all runs, seeds and meshes: parts that share no record in one run share none in any two."""


def takes(take: TakeSettings, value: bytes) -> bool:
    """Return whether a part by content holds a record, given its bytes as its decoder gets them.

    Each record is in one of the `every` parts; records of the same bytes are all in the same one.
    """
    digest = blake2b(value, key=_KEY, digest_size=16).digest()
    return int.from_bytes(digest, "little") % take.every == take.offset


class Part(NamedTuple):
    """The part of a source's records that a node takes: number `first` of `every`.

    By their places (`content` None) these are the lines `first`, `first` + `every`, ... `header`: lines
    before the first record. `shuffled`: lines count in the seed's order. `rows`, `split`: the part of a
    matrix that is taken before lines are counted.

    By their content they are those that `takes` chooses. `content`: what makes records of one file the
    same bytes, their kind and, where rows are spelt out, their columns.
    """

    first: int = 0
    every: int = 1
    header: int = 0
    shuffled: bool = False
    rows: tuple[int, int] | None = None
    split: int | None = None
    content: tuple[str, ...] | None = None

    def overlaps(self, other: "Part") -> bool:
        """Return whether some record of one file may be in both; False only if none can be."""
        if self.rows and other.rows and (self.rows[0] >= other.rows[1] or other.rows[0] >= self.rows[1]):
            return False
        if self.split is not None and other.split is not None and self.split != other.split:
            return False
        if self.content is not None or other.content is not None:
            alike = (self.content, self.every) == (other.content, other.every)
            return not alike or self.first == other.first
        same_order = self[2:] == other[2:]
        if not same_order and (self.shuffled or other.shuffled or self[4:] != other[4:]):
            return True  # they count in different orders
        distance = self.header + self.first - other.header - other.first
        return distance % gcd(self.every, other.every) == 0


def part_of(source: SourceSettings | None, *, by_time: bool) -> Part:
    """Return the part of its file that a source takes; of a source that is no file: all of it."""
    if not isinstance(source, FileSettings | LibsvmSettings | CsrSettings):
        return Part()
    rows, split = (source.rows, source.split) if isinstance(source, CsrSettings) else (None, None)
    take = source.take or TakeSettings(every=1, offset=0)
    if by_time:
        return Part(take.offset, take.every, rows=rows, split=split, content=_content(source))
    header = isinstance(source, FileSettings) and source.kind == "csv" and source.columns is None
    return Part(take.offset, take.every, int(header), source.shuffle, rows, split)


def _content(source: FileSettings | LibsvmSettings | CsrSettings) -> tuple[str, ...]:
    if isinstance(source, FileSettings) and source.kind == "parquet":
        return source.kind, *dict.fromkeys(source.record.columns)
    return (source.kind,)
