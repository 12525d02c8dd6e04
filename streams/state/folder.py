"""A state folder: the names of its files, and an id that no copy shares."""

import fcntl
import json
import os
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from streams.mesh.errors import naming

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


JOURNAL = ".journal"
"""The end of a journal's name."""
SIDE_FILES = ("-wal", "-journal")
"""The suffixes of files that SQLite puts beside a database, and that a kill may leave there."""


class JournalError(Exception):
    """The journal is unusable, or an append is not durable: the process must end before it sends."""


@dataclass(frozen=True, slots=True)
class StateFolder:
    """The files in the folder `path`. As names have no dots, no file belongs to two nodes."""

    path: Path

    def journal(self, node: str) -> Path:
        """Return the journal of the current run."""
        return self.path / f"{node}.journal"

    def journals(self, node: str) -> Iterator[Path]:
        """Yield the node's existing journals: those put aside, then the journal of the current run."""
        yield from sorted(self.path.glob(f"{node}.*.journal"))
        if self.journal(node).exists():
            yield self.journal(node)

    def all_journals(self) -> dict[str, list[Path]]:
        """Return each node's and owner's journals, in the order of `journals`. It lists the folder once."""
        by_node: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(self.path.glob("*.journal"), key=lambda path: (path.name.count(".") == 1, path)):
            by_node[path.name.partition(".")[0]].append(path)
        return by_node

    def place_aside(self, node: str, run: str) -> Path:
        """Return a path, free so far, to which to move an earlier run's journal."""
        numbers = chain([""], map(".{}".format, count(2)))
        names = (self.path / f"{node}.{run}{number}.journal" for number in numbers)
        return next(path for path in names if not path.exists())

    def spends(self, node: str) -> Path:
        """Return the file with the spend of each life of the node, and with the data that were fed to it."""
        return self.path / f"{node}.spends"

    def leaving(self, node: str) -> Path:
        """Return the file with the node's wish to leave."""
        return self.path / f"{node}.leaving"

    def verdict(self, node: str) -> Path:
        """Return the file with the owner's verdict on the last process of the node."""
        return self.path / f"{node}.verdict"

    @property
    def order(self) -> Path:
        """The choice and order of the records of each run in one process."""
        return self.path / "order.json"

    @property
    def faust(self) -> Path:
        """The folder of Faust's own files."""
        return self.path / "faust"

    @property
    def up_lock(self) -> Path:
        """The lock of the running `up`."""
        return self.path / "up.lock"

    @property
    def replay(self) -> Path:
        """The mesh file that `up --replay` runs."""
        return self.path / "replay.yaml"

    @property
    def logs(self) -> Path:
        """The folder of `log`."""
        return self.path / "logs"

    def log(self, process: str) -> Path:
        """Return the log of a process of `up`.

        Only one kind of name has no space, so no two processes share a log.
        """
        return self.logs / f"{process.replace(' ', '-')}.log"

    def broker(self, port: int | None = None) -> Path:
        """Return the folder of the mesh's development broker, or of the one at `port`."""
        return self.path / ("broker" if port is None else f"broker-{port}")

    @property
    def observe(self) -> Path:
        """The data of Prometheus and Grafana."""
        return self.path / "observe"

    @property
    def id_file(self) -> Path:
        """The file with the folder's id, and with a text that identifies the original file (`place_of`)."""
        return self.path / "folder"

    def id(self) -> str:
        """Return the folder's id, 32 hex digits, created if missing. A copy of the folder gets another.

        Durable when this returns. Raises JournalError.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # retry: a folder's nodes start together
                if not self.known_id():
                    write_private(self.id_file, lambda new: f"{secrets.token_hex(16)} {place_of(new)}\n")
                return self.known_id()
            finally:
                os.close(descriptor)
        except OSError as error:
            raise JournalError(f"{self.id_file} cannot be written: {error}") from error

    def known_id(self) -> str:
        """Return the folder's id; "" if it has none yet, or is a copy. Writes nothing."""
        try:
            identity, place = self.id_file.read_text().split()
            return identity if place == place_of(self.id_file) else ""
        except (OSError, ValueError):
            return ""


def lock_of(journal: Path) -> Path:
    """Return the lock file of a journal's writer."""
    return journal.with_name(f"{journal.name}.lock")


def write_ahead_log(journal: Path) -> Path:
    """Return SQLite's write-ahead log of a journal."""
    return journal.with_name(f"{journal.name}-wal")


def place_of(path: Path) -> str:
    """Return a text that tells a file from its copies."""
    status = path.stat()
    return f"{status.st_dev}:{status.st_ino}"


def boot_id() -> str:
    """Return the id of the machine's boot; "" if it has none."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def write_private(path: Path, text: Callable[[Path], str]) -> None:
    """Write `text(the new file)`, mode 0600; durable when this returns. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # an existing file's mode may differ
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with naming(path), os.fdopen(descriptor, "w") as file:
        file.write(text(new))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


# Stores a node's wish to leave in its state folder, so that it outlives a restart.
#
# `mirrormesh leave` writes it; the node's process reads it at its start, and before each plan and heartbeat.


def write_wish(state: Path, node: str, run: str, leave_from: int) -> None:
    """Store the wish that no plan of the run names the node from this round on. Raises JournalError."""
    path = StateFolder(state).leaving(node)
    try:
        write_private(path, lambda _: f"{json.dumps({'run': run, 'leave_from': leave_from})}\n")
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error


def read_wish(state: Path, node: str, run: str) -> int | None:
    """Return the first round of the run without the node; None if it stays. Raises JournalError."""
    path = StateFolder(state).leaving(node)
    try:
        fields = json.loads(path.read_text())
        wish_run, leave_from = str(fields["run"]), int(fields["leave_from"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise JournalError(
            f"{path} cannot be read: delete it, then run mirrormesh leave again, or not"
        ) from error
    return leave_from if wish_run == run else None


def withdraw_wish(state: Path, node: str) -> None:
    """Forget the wish, if there is one. Raises JournalError."""
    path = StateFolder(state).leaving(node)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise JournalError(f"{path} cannot be deleted: {error}") from error


# Stores what the owner's records say of a node's run. It has no noise, so only the owner may read it (0600).


def write_verdict(state: Path, node: str, run: str, verdict: Mapping[str, Any] | None) -> None:
    """Store the verdict on a process of the run; of None an earlier one stays. Raises OSError."""
    if verdict is not None:
        text = json.dumps({"run": run, **verdict}, indent=1, allow_nan=False)
        write_private(StateFolder(state).verdict(node), lambda _: f"{text}\n")


def read_verdict(state: Path, node: str, run: str) -> dict[str, Any] | None:
    """Return the verdict of the run's last process that had a round; None: there is none that can be read."""
    try:
        verdict = json.loads(StateFolder(state).verdict(node).read_text())
    except (OSError, ValueError):
        return None
    return verdict if isinstance(verdict, dict) and verdict.get("run") == run else None
