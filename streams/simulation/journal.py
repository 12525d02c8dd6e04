"""Journals on disks that fail: full, torn, restored, copied; in memory, or the product's own on files."""

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
"""The most records by which an older copy of a folder may be behind."""
MOST_OPERATIONS = 12
"""An append, and the opening of a journal, need about as many writes and syncs of a disk."""


class DiskFull(JournalError):
    """A planted fault: the record is not durable, and the process must end before it sends."""


class SimulatedJournal(NodeJournal, Protocol):
    """A node's journal in a simulated history. `full`: nothing more can be written.

    `dies_in_appends`: whether an append may be done in part.
    """

    full: bool
    dies_in_appends: bool

    def begin(self) -> None:
        """Begin a process on it. Raises DiskFull, Killed, and JournalError if it is refused."""

    def end(self) -> None:
        """End the process on it, at once."""

    def die_soon(self) -> None:
        """Let the process die during its next append, where an append takes time."""

    def fail_power(self) -> None:
        """Let the process that ends next end with the power: nothing that is durable may be lost."""

    def holds(self, record: JournalRecord) -> bool:
        """Return whether an append that has failed has yet made the record durable."""

    def lose(self, count: int) -> int:
        """Become an older copy, by up to so many records, once the process has ended; return by how many."""

    def spoil(self) -> int | None:
        """Damage it, once the process has ended; return how many records it lacks. None: it is of no use."""

    def copied(self) -> Self:
        """Return a copy of the folder."""

    def remove(self) -> None:
        """Remove it: the history is over."""


class FaultyJournal(MemoryJournal):
    """The journal of one node's folder, in memory: an append is done at once, or not at all."""

    dies_in_appends = False

    def __init__(self, instance: str, horizon: int) -> None:
        super().__init__(instance, horizon)
        self.full = False
        self._secrets: dict[int, Secret | None] = {}

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Keep both. Raises DiskFull, JournalError."""
        if self.full:
            raise DiskFull("no space is left on the device")
        super().append(record, secret)
        self._secrets[record.round] = secret

    def begin(self) -> None:
        """Begin a process."""

    def end(self) -> None:
        """End it."""

    def die_soon(self) -> None:
        """Do nothing: an append takes no time."""

    def fail_power(self) -> None:
        """Lose nothing."""

    def holds(self, record: JournalRecord) -> bool:
        """Return False."""
        del record
        return False

    def spoil(self) -> int:
        """Stay whole."""
        return 0

    def lose(self, count: int) -> int:
        """Forget the newest records, as an older copy of the folder has; return how many."""
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
        """Nothing to remove."""


class DiskJournal:
    """The product's journal, on a simulated disk.

    `chance` draws what a failing disk loses, and where an append is cut off. `new_folder` makes an empty
    folder; `new_id` returns ids of lives.
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
        self._images: deque[dict[str, bytes]] = deque(maxlen=OLDEST + 1)  # after each append of this life
        self._rows: list[Row] = []  # all that was durable in this life
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
        """The charged rounds so far, those of earlier lives included."""
        return self._opened().charged

    @property
    def carried(self) -> int:
        """The charged rounds of earlier lives."""
        return self._opened().carried

    @property
    def inherited(self) -> int:
        """The round of the record that this life has from the one before; 0: none."""
        return self._opened().inherited

    def records(self) -> tuple[JournalRecord, ...]:
        """Return the last rounds, oldest first."""
        return self._opened().records()

    def secret(self) -> Secret | None:
        """Return the mechanism's secret of the last round."""
        return self._opened().secret()

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Append both. Raises Killed, DiskFull, JournalError."""
        with self._explained():
            self._opened().append(record, secret)
        if self._disk.operations is not None:
            raise Killed("killed after an append")
        row = to_row(record)
        if self._rows[-1:] != [row]:
            self._rows.append(row)
            self._images.append(self._disk.image())

    def renew(self, instance: str) -> None:
        """Begin a new life without records, which continues from the charges so far."""
        with self._explained():
            self._opened().renew(instance)
        self._life_begins()

    def forget_secret(self) -> None:
        """Forget the mechanism's secret, as the run is over."""
        with self._explained():
            self._opened().forget_secret()

    def close(self) -> None:
        """Close it as a process that ends in order, which moves the log into the database."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    # ------------------------------------------------------------------------------- what happens to it

    def begin(self) -> None:
        """Open it. Raises DiskFull, Killed, and JournalError if it is refused."""
        if self._fails_again:
            self._fails_again, self._power_fails = False, True
            self.die_soon()
        with self._explained():
            self._opened()
        self._disk.operations, self._power_fails = None, False

    def end(self) -> None:
        """End the process on it: killed, asked to, or with the power."""
        if self._chance.random() < 0.5:
            self._disk.off = True
        elif self._power_fails:
            self.die_soon()
        self._shut_down()

    def die_soon(self) -> None:
        """Let the process die during its next append, or while it closes the journal."""
        self._disk.operations = int(self._chance.integers(MOST_OPERATIONS))

    def fail_power(self) -> None:
        """Let the process that ends next end with the power, and perhaps the one that starts then."""
        self._power_fails, self._fails_again = True, bool(self._chance.random() < 0.5)

    def holds(self, record: JournalRecord) -> bool:
        """Return whether an append that has failed has yet made the record durable."""
        row, newest = to_row(record), self.records()[-1:]
        is_new = [to_row(stored) for stored in newest] == [row] and self._rows[-1:] != [row]
        if is_new:
            self._rows.append(row)
            self._images.append(self._disk.image())
        return is_new

    def lose(self, count: int) -> int:
        """Put an older copy back, which is up to so many records behind; return how many it is."""
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
        """Change a byte on the disk; return how many records are lost. None: the product refuses the journal.

        Records with changed content do not count as lost, so that a process that continues with them violates
        an invariant.
        """
        with self._at_rest():
            before = self.instance
            self.close()
            self._disk.spoil(self._chance)
            try:
                if self._opened().instance != before:
                    return None  # nothing is left of it
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
        """Close it, and forget its disk."""
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
        """Close it as far as the disk works; then the disk works again."""
        self.close()
        if self._power_fails:
            self._disk.lose(self._chance)
        else:
            self._disk.killed()
        self._power_fails = False

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Let the disk have space meanwhile."""
        is_full, self.full = self.full, False
        try:
            yield
        finally:
            self.close()
            self.full = is_full

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise what has made the journal fail, which is closed then."""
        try:
            yield
        except JournalError as error:
            is_dead, self._disk.off = self._disk.off, True
            self._shut_down()
            if is_dead:
                raise Killed("killed while the journal is written") from error
            reason = str(error).replace(str(self._disk.folder), "")
            raise (DiskFull if self.full else JournalError)(reason) from error
