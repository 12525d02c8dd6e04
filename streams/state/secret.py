"""The secret state of a mechanism, in a table of its own beside the records: the owner's eyes only.

Whoever has the draws that are still in the band can take the noise off the releases that they went into. So
one leaves the file when it leaves the band: `secure_delete` overwrites it in the database, and the
write-ahead log, which holds pages as they were, is cut to nothing at least every H rounds. What a disk or a
file system keeps of blocks that were overwritten is beyond SQLite.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from nodes.privacy.mechanism import Secret
from nodes.privacy.owner import disclosed_to_owner
from nodes.privacy.private import Private

DRAWS_TABLE = "secret_draws (charged INTEGER PRIMARY KEY, basis TEXT NOT NULL, draw BLOB NOT NULL)"
"""Each draw, int64 little-endian, under the number of charged rounds that it made."""


def wipe(path: Path) -> None:
    """Overwrite the secret in a journal whose run is over, and end its log; its lock is held.

    The log's file goes, so that a journal that takes this one's place begins a log of its own. Raises
    ValueError where a reader is in the way for five seconds, and sqlite3.Error.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("DELETE FROM secret_draws")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    if mode != ("delete",):
        raise ValueError("a reader is in the way of overwriting its secret draws: start again")


class SecretTable:
    """The draws of the band in a journal that is written; its log is cut every `horizon` writes."""

    def __init__(self, connection: sqlite3.Connection, horizon: int) -> None:
        self._connection = connection
        self._horizon = horizon
        self._since_cut = horizon  # what an earlier process has left is cut at the first write
        self.empty = connection.execute("SELECT count(*) FROM secret_draws").fetchone() == (0,)

    def read(self, charged: int) -> Secret | None:
        """Return what was written with the `charged`-th charged round; None: nothing.

        Raises ValueError where it is not that round's, or cannot be read.
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

    def write(self, charged: int, secret: Secret | None) -> None:
        """Write the newest draw, of the `charged`-th charged round, and overwrite what is not in the band."""
        if secret is None:
            self._connection.execute("DELETE FROM secret_draws")
        else:
            band = disclosed_to_owner(secret.draws)
            newest = band[0].astype("<i8").tobytes()
            self._connection.execute(
                "INSERT OR IGNORE INTO secret_draws VALUES (?, ?, ?)", (charged, secret.basis, newest)
            )
            self._connection.execute("DELETE FROM secret_draws WHERE charged <= ?", (charged - len(band),))
        self.empty = secret is None
        self._since_cut += 1

    def cut_log(self) -> None:
        """Cut the write-ahead log where that is due; where a reader is in the way, after the next write."""
        if self.empty or self._since_cut >= self._horizon:
            self._connection.execute("PRAGMA busy_timeout = 0")  # a reader does not hold up the round
            busy, _, _ = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._connection.execute("PRAGMA busy_timeout = 5000")
            if not busy:
                self._since_cut = 0
