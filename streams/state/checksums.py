"""Checksums of what lies on the disk: with them a flipped bit is found before it counts.

SQLite checks the structure of its file and not the values in it, so a changed count or position would pass.
The checksum of a row stands in the row itself. It is no signature: whoever may write the file can write
another. That of private values is deleted with them, as a guess could be tested by it.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, assert_never
from zlib import crc32

Value = int | float | str | bytes | None
"""A value of SQLite."""


def checksum(*values: Value) -> int:
    """Return the CRC-32 of these values; each enters with its type and length.

    A flipped bit always changes it, as does other damage that spans 32 bits; any other but once in 2^32.
    """
    # At d = 10,000 SHA-256 takes twice the time, and would make a row's append a tenth longer.
    whole = 0
    for value in values:
        match value:
            case None:
                whole = crc32(b"n", whole)
            case int():
                whole = crc32(struct.pack("<cq", b"i", value), whole)
            case float():
                whole = crc32(struct.pack("<cd", b"f", value), whole)
            case str():
                text = value.encode(errors="surrogateescape")  # as `read_text` gives it
                whole = crc32(text, crc32(struct.pack("<cQ", b"t", len(text)), whole))
            case bytes():
                whole = crc32(value, crc32(struct.pack("<cQ", b"b", len(value)), whole))
            case _:
                assert_never(value)
    return whole


def check_row(row: Sequence[Any], name: str) -> None:
    """Raise ValueError, which names the row, unless its last value is the checksum of the others."""
    if row[-1] != checksum(*row[:-1]):
        raise ValueError(f"it is damaged: {name} is not as it was written")


def check_chain(rows: Iterable[Sequence[Any]], name: str, pruned: int | None = None) -> int:
    """Check rows that begin with a number, and end with the checksum of the row before and their own.

    Returns the last one's checksum (no rows: 0). `pruned`: old rows may have been deleted, down to so many
    (None: never). Raises ValueError, which says `name` and the number of the row.
    """
    first, last, count = "", 0, 0
    for count, row in enumerate(rows, 1):
        check_row(row, f"{name} {row[0]}")
        before, newest = row[-2:]
        if before != last:
            text = f"it is damaged: {name} {row[0]} does not follow the one stored before it"
            if count > 1:
                raise ValueError(text)
            first = text
        last = newest
    if first and (pruned is None or count < pruned):
        raise ValueError(first)
    return last


def only_row(rows: Sequence[Sequence[Any]], name: str) -> Sequence[Any] | None:
    """Return the row of a table of one row, without its checksum; None if there is none.

    Raises ValueError, which says `name`, if it is damaged or there are more.
    """
    if len(rows) > 1:
        raise ValueError(f"it is damaged: it says more than once {name}")
    for row in rows:
        check_row(row, name)
        return row[:-1]
    return None


def read_text(value: bytes) -> str:
    """Return a text of SQLite, whatever its bytes: the checksum of its row tells if they are right."""
    return value.decode(errors="surrogateescape")
