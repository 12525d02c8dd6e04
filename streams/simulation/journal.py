"""Journals on disks that fail: full, torn, restored, or copied.

They are in memory, or the product's files.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from streams.mesh.mesh import NodeContext
from streams.simulation.bus import Killed
from streams.simulation.disk import SimulatedDisk, on_disks
from streams.state.folder import JournalError, StateFolder
from streams.state.journal import MemoryJournal, NodeJournal, SqliteJournal, open_journal
from streams.state.rows import KEPT, Row, to_row

OLDEST = 8
"""The largest number of records by which an older copy of a folder is behind."""
MOST_OPERATIONS = 12
"""About the number of writes and syncs of a disk that an append, or the opening of a journal, needs."""


class DiskFull(JournalError):
    """A planted fault: the record is not durable, and the process must end before it sends the release."""


class SimulatedJournal(NodeJournal, Protocol):
    """A node's journal in a simulated history. `full`: nothing can be written.

    `dies_in_appends`: whether an append may be done in part.
    """

    full: bool
    dies_in_appends: bool

    def begin(self) -> None:
        """Begin a process on the journal.

        Raises DiskFull, Killed, and JournalError if the journal is refused.
        """

    def end(self) -> None:
        """End the process on the journal at once."""

    def die_soon(self) -> None:
        """Let the process die during its next append. Does nothing if an append needs no time."""

    def fail_power(self) -> None:
        """Let the power fail when the next process ends. Nothing that is durable may be lost."""

    def holds(self, record: JournalRecord) -> bool:
        """Return whether a failed append has made the record durable all the same."""

    def lose(self, count: int) -> int:
        """Become an older copy, by up to `count` records, after the process has ended. Return by how many."""

    def spoil(self) -> int | None:
        """Damage the journal after its process has ended.

        Return how many records it lacks; None: it is useless.
        """

    def copied(self) -> Self:
        """Return a copy of the folder."""

    def remove(self) -> None:
        """Remove the journal at the end of the history."""


class FaultyJournal(MemoryJournal):
    """The journal of one node's folder, in memory. An append is done at once, or not at all."""

    dies_in_appends = False

    def __init__(self, instance: str, horizon: int) -> None:
        super().__init__(instance, horizon)
        self.full = False
        self._secrets: dict[int, Secret | None] = {}

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Append the record and the secret. Raises DiskFull, JournalError."""
        if self.full:
            raise DiskFull("no space is left on the device")
        super().append(record, secret)
        self._secrets[record.round] = secret

    def begin(self) -> None:
        """Begin a process."""

    def end(self) -> None:
        """End the process."""

    def die_soon(self) -> None:
        """Do nothing, as an append needs no time."""

    def fail_power(self) -> None:
        """Do nothing, as nothing is lost."""

    def holds(self, record: JournalRecord) -> bool:
        """Return False."""
        del record
        return False

    def spoil(self) -> int:
        """Do nothing, and return 0."""
        return 0

    def lose(self, count: int) -> int:
        """Drop the newest records, which an older copy of the folder lacks. Return how many."""
        dropped = min(count, len(self._records))
        for _ in range(dropped):
            self._records.pop()
        self._secret = self._secrets.get(self._records[-1].round) if self._records else None
        return dropped

    def copied(self) -> "FaultyJournal":
        """Return a copy of the folder."""
        copy = FaultyJournal(self.instance, 1)
        copy.carried, copy._records, copy._secret = self.carried, self._records.copy(), self._secret
        copy._secrets = dict(self._secrets)
        return copy

    def remove(self) -> None:
        """Do nothing, as there is nothing to remove."""


class DiskJournal:
    """The product's journal on a simulated disk.

    `chance` draws what a failing disk loses, and where an append is cut off. `new_folder` makes an empty
    folder. `new_id` returns ids of lives.
    """

    dies_in_appends = True

    def __init__(
        self,
        node: str,
        mesh: NodeContext,
        new_id: Callable[[], str],
        new_folder: Callable[[], Path],
        chance: np.random.Generator,
    ) -> None:
        self._node, self._mesh, self._new_id = node, mesh, new_id
        self._new_folder, self._chance = new_folder, chance
        self._disk = SimulatedDisk(new_folder())
        self._file: SqliteJournal | None = None
        self._images: deque[dict[str, bytes]] = deque(maxlen=OLDEST + 1)  # one an append
        self._rows: list[Row] = []  # all records that became durable in this life
        self._power_fails = self._fails_again = False
        self._life = ""

    @property
    def full(self) -> bool:
        """Whether no file can grow."""
        return self._disk.full

    @full.setter
    def full(self, full: bool) -> None:
        self._disk.full = full

    @property
    def instance(self) -> str:
        """The journal's life."""
        return self._opened().instance

    @property
    def charged(self) -> int:
        """The number of charged rounds, those of earlier lives included."""
        return self._opened().charged

    @property
    def carried(self) -> int:
        """The number of charged rounds of earlier lives."""
        return self._opened().carried

    @property
    def inherited(self) -> int:
        """The round of the record that this life has taken over from the previous one; 0 for none."""
        return self._opened().inherited

    def records(self) -> tuple[JournalRecord, ...]:
        """Return the newest records, oldest first."""
        return self._opened().records()

    def secret(self) -> Secret | None:
        """Return the mechanism's secret of the last round."""
        return self._opened().secret()

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Append the record and the secret. Raises Killed, DiskFull, JournalError."""
        with self._explained():
            self._opened().append(record, secret)
        if self._disk.operations is not None:
            raise Killed("killed after an append")
        row = to_row(record)
        if self._rows[-1:] != [row]:
            self._rows.append(row)
            self._images.append(self._disk.image())

    def renew(self, instance: str) -> None:
        """Begin a new life without records. It continues from the charges so far."""
        with self._explained():
            self._opened().renew(instance)
        self._life_begins()

    def forget_secret(self) -> None:
        """Forget the mechanism's secret, as the run is over."""
        with self._explained():
            self._opened().forget_secret()

    def close(self) -> None:
        """Close the journal as a process that ends in order does: the log is moved into the database."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # ------------------------------------------------------------------------------- what happens to it

    def begin(self) -> None:
        """Open the journal. Raises DiskFull, Killed, and JournalError if it is refused."""
        if self._fails_again:
            self._fails_again, self._power_fails = False, True
            self.die_soon()
        with self._explained():
            self._opened()
        self._disk.operations, self._power_fails = None, False

    def end(self) -> None:
        """End the process on the journal: by a kill, in order, or with the power."""
        if self._chance.random() < 0.5:
            self._disk.off = True
        elif self._power_fails:
            self.die_soon()
        self._shut_down()

    def die_soon(self) -> None:
        """Let the process die during its next append, or while it closes the journal."""
        self._disk.operations = int(self._chance.integers(MOST_OPERATIONS))

    def fail_power(self) -> None:
        """Let the power fail when the next process ends, and perhaps for the process after it."""
        self._power_fails, self._fails_again = True, bool(self._chance.random() < 0.5)

    def holds(self, record: JournalRecord) -> bool:
        """Return whether a failed append has made the record durable all the same."""
        row, newest = to_row(record), self.records()[-1:]
        is_new = [to_row(stored) for stored in newest] == [row] and self._rows[-1:] != [row]
        if is_new:
            self._rows.append(row)
            self._images.append(self._disk.image())
        return is_new

    def lose(self, count: int) -> int:
        """Restore an older copy, which lacks up to `count` records. Return how many it lacks."""
        with self._at_rest():
            self._opened()
            dropped = min(count, len(self._images) - 1)
            for _ in range(dropped):
                self._images.pop()
                self._rows.pop()
            self.close()
            self._disk.restore(self._images[-1])
        return dropped

    def spoil(self) -> int | None:
        """Change a byte on the disk. Return how many records are lost; None if the product refuses the
        journal.

        Records with changed content do not count as lost. So a process that continues with them violates an
        invariant.
        """
        with self._at_rest():
            before = self.instance
            self.close()
            self._disk.spoil(self._chance)
            try:
                if self._opened().instance != before:
                    return None  # nothing of the journal is left
            except JournalError:
                return None
            rows, behind = [row[:KEPT] for row in map(to_row, self.records())], 0
            known_rows = [row[:KEPT] for row in self._rows]
            while known_rows and known_rows[len(known_rows) - len(rows) :] != rows:
                known_rows.pop()
                behind += 1
            if rows and not known_rows:
                return 0
            del self._rows[len(known_rows) :]
            self._begin_images()
            return behind

    def copied(self) -> "DiskJournal":
        """Return a copy of the folder."""
        copy = DiskJournal(self._node, self._mesh, self._new_id, self._new_folder, self._chance)
        copy._disk.restore(self._disk.image())
        return copy

    def remove(self) -> None:
        """Close the journal, and unregister its disk."""
        self._disk.off = True
        self.close()
        self._disk.remove()

    def _opened(self) -> SqliteJournal:
        if self._file is None:
            path = StateFolder(self._disk.folder).journal(self._node)
            with on_disks():
                self._file = open_journal(path.parent, self._node, self._mesh, self._new_id())
            if self._file.instance != self._life:
                self._life_begins()
        return self._file

    def _life_begins(self) -> None:
        self._life = self._opened().instance
        self._rows.clear()
        self._begin_images()

    def _begin_images(self) -> None:
        self._images.clear()
        self._images.append(self._disk.image())

    def _shut_down(self) -> None:
        """Close the journal as far as the disk works. Afterwards the disk works again."""
        self.close()
        if self._power_fails:
            self._disk.lose(self._chance)
        else:
            self._disk.killed()
        self._power_fails = False

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """A context in which the disk has space."""
        is_full, self.full = self.full, False
        try:
            yield
        finally:
            self.close()
            self.full = is_full

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise the error that has made the journal fail. The journal is closed then."""
        try:
            yield
        except JournalError as error:
            is_dead, self._disk.off = self._disk.off, True
            self._shut_down()
            if is_dead:
                raise Killed("killed while the journal is written") from error
            reason = str(error).replace(str(self._disk.folder), "")
            raise (DiskFull if self.full else JournalError)(reason) from error
