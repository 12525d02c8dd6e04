"""The file under the journals of a collaboration's learner and owners: its life, its lock, its readers."""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from nodes.accounting.guarantee import Price
from streams.state.folder import StateFolder, place_of
from streams.state.journal_file import (
    Form,
    JournalEmpty,
    Life,
    keep_life,
    locked,
    open_to_read,
    open_to_write,
    transaction,
)
from streams.state.open_journal import OpenJournal, explained
from streams.state.rows import to_text


@dataclass(frozen=True, slots=True)
class RunParty:
    """The learner or an owner of one run, and the digest of `agreed`, the settings that all must share.

    `price`: an owner's, of all its answers.
    """

    mesh: str
    run: str
    name: str
    digest: bytes
    agreed: str = ""
    price: Price | None = None


class PartyJournal(OpenJournal):
    """A journal that is open until it is closed; made by `opened` or, beside its writer, by `read`.

    An append that returned is on the disk (WAL, `synchronous=FULL`). Methods raise JournalError.
    """

    form: ClassVar[Form]

    def __init__(self, path: Path, opener: Callable[[ExitStack], sqlite3.Connection]) -> None:
        self._start(path, opener)

    @classmethod
    def opened(cls, path: Path, party: RunParty, instance: str) -> Self:
        """Open the party's journal at `path`, or create it with `instance`, 32 random hex digits.

        Raises JournalLocked if another process has it open, and JournalError if it is broken, another
        party's, or of another run, mesh or digest.
        """
        life = Life(
            party.run, party.name, party.digest, 0, instance, mesh=party.mesh, price=to_text(party.price)
        )
        return cls(
            path,
            lambda closing: open_to_write(path, life, lambda: life, closing, party.agreed, cls.form),
        )

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open it read-only, even while its process writes it. Raises JournalError if it is missing."""
        return cls(path, lambda closing: open_to_read(path, closing, cls.form))

    @property
    def copied(self) -> bool:
        """Whether the file is a copy, or was put back: the original may have gone further."""
        return self._life.place != place_of(self._path)

    def adopt(self) -> None:
        """Make a copy the original, once it is known to be as new as what was sent."""
        with explained(self._path):
            self._life = replace(self._life, place=place_of(self._path))
            with transaction(self._connection):
                keep_life(self._connection, self._life)


def put_aside(path: Path, kind: type[PartyJournal], party: RunParty) -> Path | None:
    """Rename the journal at `path` if it is of another run of the party; return its new path, or None.

    The name is that of a node's (`StateFolder.place_aside`). Raises JournalLocked if a process has it open,
    JournalError if it cannot be read.
    """
    if not path.exists():
        return None
    with locked(path):
        try:
            with kind.read(path) as journal:
                life = journal.life
        except JournalEmpty:
            return None
        if life.run == party.run or life.node != party.name:
            return None  # the right one, or another's, which opening it reports
        aside = StateFolder(path.parent).place_aside(party.name, life.run)
        checkpoint(path)
        path.rename(aside)
        return aside


def checkpoint(path: Path) -> None:
    """Move the write-ahead log into its journal, so that one file holds all. The caller has the lock."""
    with explained(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
