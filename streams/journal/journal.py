"""The journal of one node: what it has released, durable before anybody hears of it.

One SQLite file a node (WAL, `synchronous=FULL`: an append that returned is on the disk), the last H rounds
kept, and beside them the newest running average, and what the mechanism must remember, secret. A lock file
beside it turns a second process away; read-only readers get in at any time.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from nodes.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from streams.journal.file import (
    JournalError,
    JournalLocked,
    Life,
    open_to_read,
    open_to_write,
    place_of,
    read_life,
    transaction,
)
from streams.journal.rows import KEPT, SELECT, Row, from_row, to_row
from streams.journal.secret import SecretTable

__all__ = ["Journal", "JournalError", "JournalLocked", "JournalReader"]

_INSERT = f"INSERT INTO records VALUES ({', '.join('?' * KEPT)})"  # noqa: S608 # a constant of ours
_LAST = f"{SELECT} ORDER BY round DESC LIMIT ?"
_ONE = f"{SELECT} WHERE round = ?"
_FORGET = """
    DELETE FROM records WHERE round < (
        SELECT min(round) FROM (SELECT round FROM records ORDER BY round DESC LIMIT ?))
"""


class JournalReader:
    """The records of the journal at `path`, beside the process that writes it or without one.

    Raises JournalError where there is none, or it is of another version, or broken.
    """

    def __init__(self, path: Path) -> None:
        self._start(path, lambda closing: open_to_read(path, closing))

    @property
    def life(self) -> Life:
        """Whose journal it is."""
        return self._life

    @property
    def instance(self) -> str:
        """The journal's own id: it names the node in plans and releases."""
        return self._life.instance

    @property
    def charged(self) -> int:
        """The charged rounds so far."""
        last = self.records(1)
        return last[0].charged if last else 0

    def records(self, limit: int | None = None) -> tuple[JournalRecord, ...]:
        """Return the last `limit` records (None: H), oldest first; the newest has its average.

        Raises JournalError.
        """
        with _explained(self._path):
            rows = self._connection.execute(_LAST, (limit or self._life.horizon + 1,)).fetchall()
            return tuple(from_row(row) for row in reversed(rows))

    @property
    def size(self) -> int:
        """Bytes on the disk, those of the write-ahead log included. From any thread."""
        files = (self._path, self._path.with_name(f"{self._path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close the file and let go of its lock. Twice is harmless."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, path: Path, opener: Callable[[ExitStack], sqlite3.Connection]) -> None:
        self._path = path
        with _explained(path), ExitStack() as closing:
            self._connection = opener(closing)
            self._life = read_life(self._connection)
            totals = self._connection.execute("SELECT ifnull(max(round), 0), count(*) FROM records")
            self._last, self._kept = totals.fetchone()
            self._closing = closing.pop_all()


class Journal(JournalReader):
    """The journal of `node` in `run`, opened, or made (with `instance`: 32 random hex digits).

    `copied`: the file is a copy of the one that was opened last, so it has begun a new life, with
    `instance`. Raises JournalLocked if another process has it open, and JournalError if it is another run's,
    node's, digest's, horizon's or version's, or broken.
    """

    def __init__(
        self, path: Path, *, run: str, node: str, digest: bytes, instance: str, horizon: int
    ) -> None:
        life = Life(run, node, digest, horizon, instance)
        self._start(path, lambda closing: open_to_write(path, life, closing))
        with _explained(path):
            self._secret = SecretTable(self._connection, horizon)
        self.copied = self._life.place != place_of(path)
        if self.copied:
            self.renew(instance)

    def secret(self) -> Secret | None:
        """Return the secret that the last record was appended with. Raises JournalError."""
        with _explained(self._path):
            return self._secret.read(self.charged)

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Keep `record`, and `secret` in place of the one before, both or neither: durable when this returns.

        The same again is harmless. Of the averages only the newest is kept.

        Raises JournalError if it is another value for a round that is kept, if its round is below the last
        and not kept any more, or if it could not be written.
        """
        row = to_row(record)
        with _explained(self._path):
            if record.round <= self._last:
                self._check_known(row)
                return
            keeps_secret = secret is not None or not self._secret.empty
            with transaction(self._connection):
                self._connection.execute(_INSERT, row[:KEPT])
                self._connection.execute("DELETE FROM average")
                if record.average is not None:
                    self._connection.execute("INSERT INTO average VALUES (?, ?, ?)", (row[0], *row[KEPT:]))
                if keeps_secret:
                    self._secret.write(record.charged, secret)
            if keeps_secret:
                self._secret.cut_log()
            self._last = record.round
            self._kept += 1
            if self._kept > 2 * self._life.horizon:
                self._kept -= self._connection.execute(_FORGET, (self._life.horizon + 1,)).rowcount

    def renew(self, instance: str) -> None:
        """Begin a new life without records: the old one is out of date, or another's. Raises JournalError."""
        with _explained(self._path), transaction(self._connection):
            self._connection.execute("DELETE FROM records")
            self._connection.execute("DELETE FROM average")
            self._secret.write(0, None)
            place = place_of(self._path)
            self._connection.execute("UPDATE life SET instance = ?, place = ?", (instance, place))
        self._life = replace(self._life, instance=instance, place=place)
        self._last, self._kept = 0, 0
        with _explained(self._path):
            self._secret.cut_log()

    def forget_secret(self) -> None:
        """Overwrite the secret: the run is over, and no step will need it. Raises JournalError."""
        with _explained(self._path):
            with transaction(self._connection):
                self._secret.write(self.charged, None)
            self._secret.cut_log()

    def _check_known(self, row: Row) -> None:
        known = self._connection.execute(_ONE, row[:1]).fetchone()
        told = len(row) if row[0] == self._last else KEPT
        if known is None or known[:told] != row[:told]:
            raise ValueError(
                f"round {row[0]} is neither after {self._last}, the last one, nor the same again"
            )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        raise JournalError(f"the journal {path} cannot be used: {error}") from error
