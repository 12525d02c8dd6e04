"""The secret state of a mechanism, in its own table beside the records, for the owner only.

Whoever has the draws in the band can subtract the noise from the releases that contain them. So a draw is
removed from the file when it leaves the band. `secure_delete` overwrites it in the database. The write-ahead
log, which holds old pages, is truncated at least every H rounds. SQLite cannot control what a disk or file
system keeps of overwritten blocks.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from nodes.privacy.mechanism import Secret
from nodes.privacy.owner import disclosed_to_owner
from nodes.privacy.private import Private
from streams.state.rows import amend, check_row, checksum

DRAWS_TABLE = """secret_draws (
    charged INTEGER PRIMARY KEY, basis TEXT NOT NULL, draw BLOB NOT NULL, checksum INTEGER NOT NULL)"""
"""Each draw, int64 little-endian, by the number of charged rounds up to it; its checksum goes with it."""


def wipe(path: Path) -> None:
    """Overwrite the secret in a journal whose run is over, and remove its log. The caller holds its lock.

    Without the log's file, a journal at the same path begins a new log. Raises ValueError if a reader blocks
    it
    for five seconds, and sqlite3.Error.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM secret_draws")
            amend(connection, draws=0)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    if mode != ("delete",):
        raise ValueError("a reader is in the way of overwriting its secret draws: start again")


def check_draws(connection: sqlite3.Connection, charged: int, draws: int) -> None:
    """Raise ValueError for a draw that is not as it was written, or not one of the last `draws` charges."""
    numbers = []
    for row in connection.execute(
        "SELECT charged, basis, draw, checksum FROM secret_draws ORDER BY charged DESC"
    ):
        check_row(row, f"the secret draw of charge {row[0]}")
        numbers.append(row[0])
    if numbers != list(range(charged, charged - draws, -1)):
        raise ValueError("it is damaged: its secret draws are not those of its last round")


class SecretTable:
    """The draws of the band in a journal that is written; its log is truncated every `horizon` writes."""

    def __init__(self, connection: sqlite3.Connection, horizon: int) -> None:
        self._connection = connection
        self._horizon = horizon
        self._since_cut = horizon  # the first write truncates what an earlier process left
        self.empty = connection.execute("SELECT count(*) FROM secret_draws").fetchone() == (0,)

    def read(self, charged: int) -> Secret | None:
        """Return the secret written with the `charged`-th charged round, if any.

        Raises ValueError if the secret is another round's, or cannot be read.
        """
        rows = self._connection.execute(
            "SELECT charged, basis, draw FROM secret_draws ORDER BY charged DESC"
        ).fetchall()
        if not rows:
            return None
        numbers, bases, draws = zip(*rows, strict=True)
        if list(numbers) != list(range(charged, charged - len(rows), -1)):
            raise ValueError("it is broken: its secret state is not that of its last round")
        if len({(basis, len(draw)) for _, basis, draw in rows}) > 1 or len(draws[0]) % 8:
            raise ValueError("it is broken: its secret state cannot be read")
        band = np.stack([np.frombuffer(draw, "<i8").astype(np.int64) for draw in draws])
        band.setflags(write=False)
        return Secret(bases[0], Private(band))

    def write(self, charged: int, secret: Secret | None) -> int:
        """Write the newest draw, of the `charged`-th charged round, and overwrite draws outside the band.

        Returns the number of stored draws.
        """
        if secret is None:
            self._connection.execute("DELETE FROM secret_draws")
        else:
            band = disclosed_to_owner(secret.draws)
            newest = band[0].astype("<i8").tobytes()
            row = (charged, secret.basis, newest)
            self._connection.execute(
                "INSERT OR IGNORE INTO secret_draws VALUES (?, ?, ?, ?)", (*row, checksum(*row))
            )
            self._connection.execute("DELETE FROM secret_draws WHERE charged <= ?", (charged - len(band),))
        self.empty = secret is None
        self._since_cut += 1
        (draws,) = self._connection.execute("SELECT count(*) FROM secret_draws").fetchone()
        return int(draws)

    def cut_log(self) -> None:
        """Truncate the write-ahead log if due; if a reader blocks that, try again after the next write."""
        if self.empty or self._since_cut >= self._horizon:
            self._connection.execute("PRAGMA busy_timeout = 0")  # a reader must not delay the round
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._connection.execute("PRAGMA busy_timeout = 5000")
            if not busy:
                self._since_cut = 0
