"""A journal record as a row with its checksum, and back; a price as text.

The newest running average has a table of its own.
"""

import json
import sqlite3
import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, assert_never
from zlib import crc32

import numpy as np

from nodes.accounting.guarantee import Price
from nodes.machine.journal import Bound, DataPosition, GivenUp, JournalRecord
from nodes.values import Average, FloatArray, Release
from streams.state.folder import boot_id

# Checksums of what is on the disk, so that a flipped bit is found before its value is used.
#
# SQLite checks the structure of its file and not the values in it, so a changed count or position would pass.
# The checksum of a row is stored in the row itself. It is no signature, as whoever may write the file can
# write another checksum. The checksum of private values is deleted with them, as it would allow to test a
# guess of the values.

Value = int | float | str | bytes | None
"""A value of SQLite."""


def checksum(*values: Value) -> int:
    """Return the CRC-32 of these values. Each value is included with its type and length.

    A flipped bit always changes the checksum, as does any damage within 32 bits. Other damage goes undetected
    once in 2^32.
    """
    # SHA-256 would take twice the time at d = 10,000, and make a row's append a tenth longer.
    crc = 0
    for value in values:
        match value:
            case None:
                crc = crc32(b"n", crc)
            case int():
                crc = crc32(struct.pack("<cq", b"i", value), crc)
            case float():
                crc = crc32(struct.pack("<cd", b"f", value), crc)
            case str():
                text = value.encode(errors="surrogateescape")  # as `read_text` returns it
                crc = crc32(text, crc32(struct.pack("<cQ", b"t", len(text)), crc))
            case bytes():
                crc = crc32(value, crc32(struct.pack("<cQ", b"b", len(value)), crc))
            case _:
                assert_never(value)
    return crc


def check_row(row: Sequence[Any], name: str) -> None:
    """Raise ValueError, which names the row, unless its last value is the checksum of the others."""
    if row[-1] != checksum(*row[:-1]):
        raise ValueError(f"it is damaged: {name} is not as it was written")


def check_chain(rows: Iterable[Sequence[Any]], name: str, pruned: int | None = None) -> int:
    """Check rows that begin with a number, and end with the checksum of the row before and their own.

    Returns the checksum of the last row (no rows: 0). `pruned`: old rows may have been deleted, down to this
    number of rows (None: never). Raises ValueError, which names `name` and the number of the row.
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

    Raises ValueError, which names `name`, if the row is damaged or not the only one.
    """
    if len(rows) > 1:
        raise ValueError(f"it is damaged: it says more than once {name}")
    for row in rows:
        check_row(row, name)
        return row[:-1]
    return None


def read_text(value: bytes) -> str:
    """Return a text of SQLite, whatever its bytes. The checksum of its row shows whether they are right."""
    return value.decode(errors="surrogateescape")


# Records as rows.

TABLES = (
    """records (
        round INTEGER PRIMARY KEY, stepped INTEGER NOT NULL, exact INTEGER NOT NULL, charged INTEGER NOT NULL,
        epsilon_spent REAL NOT NULL, release BLOB NOT NULL, positions TEXT NOT NULL,
        averaged INTEGER NOT NULL, draws INTEGER NOT NULL,
        before INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """average (
        round INTEGER PRIMARY KEY, rounds INTEGER NOT NULL, mean BLOB NOT NULL, checksum INTEGER NOT NULL)""",
)
KEPT = 7
"""The number of columns of `records` that are a record's own. The columns of `average` follow in a row,
without the round."""
SELECT = """
    SELECT round, stepped, exact, charged, epsilon_spent, release, positions, rounds, mean
    FROM records LEFT JOIN average USING (round)
"""
STORED = """
    SELECT round, stepped, exact, charged, epsilon_spent, release, positions,
        averaged, draws, before, checksum
    FROM records ORDER BY round
"""
_NEWEST = """
    SELECT round, stepped, exact, charged, epsilon_spent, release, positions, draws, averaged, before
    FROM records ORDER BY round DESC LIMIT 1
"""
_AMEND = "UPDATE records SET positions = ?, draws = ?, checksum = ? WHERE round = ?"
Row = tuple[int, int, int, int, float, bytes, str, int | None, bytes | None]
"""The columns: release and mean as float64 little-endian, the rest of the record as JSON."""

_to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def to_row(record: JournalRecord) -> Row:
    """Return the record's row; equal records have equal rows."""
    positions: tuple[Any, ...] = (
        record.data_position,
        record.topology_position,
        record.edge_positions,
        record.given_up,
        record.corrected,
        record.distrusted,
        record.pardoned,
        record.read,
    )
    average = record.average
    return (
        record.round,
        record.stepped,
        int(record.exact),
        record.charged,
        float(record.epsilon_spent),  # as SQLite gives it back, for the checksum
        to_blob(record.release),
        _to_json(positions),
        None if average is None else average.rounds,
        None if average is None else to_blob(average.mean),
    )


def record_checksum(row: tuple[Any, ...], averaged: int, draws: int, before: int) -> int:
    """Return the checksum of a record, whose first columns are those of `row`.

    `averaged`: the rounds in its average. `draws`: the number of secret draws that belong to it. `before`:
    the checksum of the record before. Both numbers are in the checksum, so that a missing average or draw is
    detected.
    """
    return checksum(*row[:KEPT], averaged, draws, before)


def amend(connection: sqlite3.Connection, positions: str | None = None, draws: int | None = None) -> int:
    """Write the newest record, if there is one, with these values in place of its own (None: unchanged).

    Returns its checksum (no record: 0). The caller has begun a transaction.
    """
    row = connection.execute(_NEWEST).fetchone()
    if row is None:
        return 0
    *columns, old_positions, old_draws, averaged, before = row
    text, count = old_positions if positions is None else positions, old_draws if draws is None else draws
    newest = record_checksum((*columns, text), averaged, count, before)
    connection.execute(_AMEND, (text, count, newest, row[0]))
    return newest


def from_row(row: Row) -> JournalRecord:
    """Return the record of a row, its release read-only. Raises ValueError for a bad row."""
    try:
        return _from_row(row)
    except (TypeError, ValueError) as error:
        raise ValueError("it is broken: a record cannot be read") from error


def _from_row(row: Row) -> JournalRecord:
    round_, stepped, exact, charged, epsilon_spent, blob, text, rounds, mean = row
    data, topology, edges, given_up, corrected, distrusted, pardoned, read_ends = json.loads(text)
    return JournalRecord(
        round=round_,
        stepped=stepped,
        release=Release(from_blob(blob)),
        exact=bool(exact),
        charged=charged,
        epsilon_spent=epsilon_spent,
        data_position=None if data is None else _pairs(data),
        topology_position=topology,
        edge_positions=_pairs(edges),
        given_up=tuple(GivenUp(*row) for row in given_up),
        corrected=_pairs(corrected),
        distrusted=_pairs(distrusted),
        average=None if rounds is None or mean is None else Average(rounds, from_blob(mean)),
        pardoned=tuple((source, life, last) for source, life, last in pardoned),
        read=_pairs(read_ends),
    )


def to_blob(values: FloatArray) -> bytes:
    """Return a vector as float64 little-endian, bit for bit."""
    return values.astype("<f8", copy=False).tobytes()


def from_blob(blob: bytes) -> FloatArray:
    """Return the vector of a blob, read-only. Raises ValueError for another length than 8 d."""
    values = np.frombuffer(blob, "<f8").astype(np.float64)
    values.setflags(write=False)
    return values


def _pairs(rows: list[list[Any]]) -> tuple[tuple[Any, Any], ...]:
    return tuple((first, second) for first, second in rows)


def to_text(price: Price | None) -> str:
    """Return the price as JSON; "" if unknown."""
    if price is None:
        return ""
    row = price._asdict() | {"epsilon": None if price.epsilon is None else str(price.epsilon)}
    return json.dumps(row)


def from_text(text: str) -> Price | None:
    """Return the price of a text. Raises ValueError for a bad text."""
    if not text:
        return None
    try:
        row = json.loads(text)
        row["epsilon"] = None if row["epsilon"] is None else Fraction(row["epsilon"])
        row["settings"] = tuple((key, value) for key, value in row["settings"])
        return Price(**row)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError("it is broken: its price cannot be read") from error


# The durable bound of a journal that is not synced each round, with the machine's boot id.
#
# A write that is not synced survives the process and not a power cut. While the boot id equals the written
# one, the file has all that was appended. Where it differs, rows at the end may be missing.

BOUND_TABLE = """bound (
    round INTEGER NOT NULL, charged INTEGER NOT NULL, epsilon_spent REAL NOT NULL, read TEXT NOT NULL,
    boot TEXT NOT NULL, checksum INTEGER NOT NULL)"""
INHERITED_TABLE = "inherited (round INTEGER NOT NULL, read TEXT NOT NULL, checksum INTEGER NOT NULL)"
"""The record that a life inherited from the life before, which a power cut ended."""
_BOUND = "SELECT round, charged, epsilon_spent, read, boot, checksum FROM bound"


def read_bound(connection: sqlite3.Connection) -> tuple[Bound | None, str]:
    """Return the bound, and the id of the boot that it was written in; None: all is durable.

    Raises ValueError if it is damaged.
    """
    row = only_row(connection.execute(_BOUND).fetchall(), "how far it may be behind (bound)")
    if row is None:
        return None, ""
    round_, charged, epsilon_spent, ends_text, boot = row
    return Bound(round_, charged, epsilon_spent, _ends(ends_text)), boot


def write_bound(connection: sqlite3.Connection, bound: Bound | None) -> None:
    """Replace the bound; None: all is durable. The caller has begun a transaction, and syncs it."""
    connection.execute("DELETE FROM bound")
    if bound is not None:
        spent = float(bound.epsilon_spent)  # as SQLite gives it back, for the checksum
        row = (bound.round, bound.charged, spent, json.dumps(bound.read), boot_id())
        connection.execute("INSERT INTO bound VALUES (?, ?, ?, ?, ?, ?)", (*row, checksum(*row)))


def read_inherited(connection: sqlite3.Connection) -> tuple[int, DataPosition]:
    """Return the round of the inherited record (0: none), and the position from which its life reads.

    Raises ValueError if the row is damaged.
    """
    rows = connection.execute("SELECT round, read, checksum FROM inherited").fetchall()
    round_, ends_text = only_row(rows, "what it has from the life before (inherited)") or (0, "[]")
    return round_, _ends(ends_text)


def write_inherited(connection: sqlite3.Connection, record: JournalRecord | None) -> None:
    """Replace the life's inherited record; None: there is none. The caller has begun a transaction."""
    connection.execute("DELETE FROM inherited")
    if record is not None:
        row = (record.round, json.dumps(record.read))
        connection.execute("INSERT INTO inherited VALUES (?, ?, ?)", (*row, checksum(*row)))


def _ends(text: str) -> DataPosition:
    return tuple((partition, offset) for partition, offset in json.loads(text))
