"""Opens the file of a journal: takes its lock, and checks its schema and whose it is. Reads a node's journal.

If a journal's digest is not that of the mesh file, the error names the settings that differ.
"""

import fcntl
import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from nodes.accounting.guarantee import Price
from nodes.accounting.spends import Span, Spend, added
from nodes.machine.journal import JournalRecord
from streams.mesh.errors import elided
from streams.state.folder import JournalError, boot_id, lock_of, place_of, write_ahead_log
from streams.state.rows import (
    BOUND_TABLE,
    INHERITED_TABLE,
    SELECT,
    STORED,
    TABLES,
    check_chain,
    check_row,
    checksum,
    from_row,
    from_text,
    only_row,
    read_bound,
    read_inherited,
    read_text,
)
from streams.state.secret import DRAWS_TABLE, check_draws

SCHEMA = 1
"""The version of the format of journals. A file of another version is refused."""
# Each page is a frame of the log, with a checksum and two writes of its own. So with SQLite's default pages
# of 4 KiB an append takes a quarter more processor time at d = 10,000, and no less at d = 2.
_PAGE, _LOG = 16_384, 4_096_000


@dataclass(frozen=True, slots=True)
class Form:
    """The kind of a journal: SQLite's application id of its files, its name for people, and its tables."""

    application: int
    name: str
    tables: tuple[str, ...]


NODE = Form(0x6D6D6B71, "a node's journal", (*TABLES, DRAWS_TABLE, BOUND_TABLE, INHERITED_TABLE))
"""The journal of a node: "mmkq"."""


class JournalLocked(JournalError):
    """Another process has this journal open."""


class JournalEmpty(JournalError):
    """The journal is empty: the process that created it was killed."""


@dataclass(frozen=True, slots=True)
class Life:
    """A journal's owner: one node in one run under one digest of settings; `instance` is the journal's id.

    `place` identifies the original file, as a copy must not continue the same life. `price`: the price of a
    release when the life began ("": unknown). `carried`: the charged rounds of earlier lives in this file.
    `carried_epsilon`: their cost at stream level. `ended`: the spend of each earlier life, as lines of
    `.spends`.
    """

    run: str
    node: str
    digest: bytes
    horizon: int
    instance: str
    place: str = ""
    mesh: str = ""
    price: str = ""
    carried: int = 0
    carried_epsilon: float = 0.0
    ended: str = ""


_LIFE = ", ".join(field.name for field in fields(Life))
_TYPES = {str: "TEXT", bytes: "BLOB", int: "INTEGER", float: "REAL"}
_COLUMNS = [f"{field.name} {_TYPES[field.type]}" for field in fields(Life) if isinstance(field.type, type)]
_NAMED, _NONE = 3, "none"
"""The largest number of differing settings that an error names, and the word for a missing setting."""


AGREED_TABLE = "agreed (settings TEXT NOT NULL, checksum INTEGER NOT NULL)"
_LIFE_TABLE = f"life ({', '.join(_COLUMNS)}, checksum INTEGER NOT NULL)"


def open_to_write(
    path: Path,
    life: Life,
    begin: Callable[[], Life],
    closing: ExitStack,
    agreed: str = "",
    form: Form = NODE,
) -> sqlite3.Connection:
    """Open the journal of `life` at `path`, or create it with `begin`'s life. `closing` frees its lock.

    `agreed`: the settings of which `life` has the digest, to name what differs from the journal's.
    Raises JournalLocked, or ValueError, OSError, sqlite3.Error with the reason.
    """
    closing.enter_context(locked(path))
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)  # one thread at a time
    connection.text_factory = read_text
    closing.callback(connection.close)
    exists = _is_journal(connection, form)  # the check comes before any write, as the file may be no journal
    connection.execute(f"PRAGMA page_size = {_PAGE}")  # for a new file; an existing file keeps its own
    if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
        raise ValueError("SQLite cannot keep a write-ahead log there; a local disk is needed")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG // _PAGE}")
    connection.execute("PRAGMA secure_delete = ON")  # a draw that has left the band is overwritten
    if not exists:
        _create(connection, replace(begin(), place=place_of(path)), agreed, form)
    else:
        _check_structure(connection)
    _check_owner(read_life(connection), life, differing(read_agreed(connection), agreed))
    return connection


def open_to_read(path: Path, closing: ExitStack, form: Form = NODE) -> sqlite3.Connection:
    """Open a journal read-only. `closing` closes it.

    Raises JournalEmpty; ValueError or sqlite3.Error with the reason.
    """
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection.text_factory = read_text
    closing.callback(connection.close)
    if not _is_journal(connection, form):
        raise JournalEmpty(f"the journal {path} is empty")
    _check_structure(connection)
    return connection


def application_of(path: Path) -> int:
    """Return the application id of a journal, which identifies its kind of process; 0 of an empty file.

    Raises JournalError if the file cannot be read.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute("PRAGMA application_id").fetchone()[0])
    except sqlite3.Error as error:
        raise JournalError(f"the journal {path} cannot be used: {error}") from error


def read_life(connection: sqlite3.Connection) -> Life:
    """Return the journal's life. Raises ValueError if it is missing or damaged."""
    rows = connection.execute(f"SELECT {_LIFE}, checksum FROM life").fetchall()  # noqa: S608 # names of ours
    row = only_row(rows, "whose it is (life)")
    if row is None:
        raise ValueError("it is broken: it does not say whose it is")
    return Life(*row)


def keep_life(connection: sqlite3.Connection, life: Life) -> None:
    """Replace the journal's life."""
    connection.execute("DELETE FROM life")
    row = astuple(replace(life, carried_epsilon=float(life.carried_epsilon)))  # as SQLite returns it
    marks = ", ".join("?" * (len(row) + 1))
    connection.execute(f"INSERT INTO life VALUES ({marks})", (*row, checksum(*row)))  # noqa: S608 # as above


def keep_agreed(connection: sqlite3.Connection, agreed: str) -> None:
    """Store the text of the settings in a new journal; the journal's digest is that of this text."""
    connection.execute("INSERT INTO agreed VALUES (?, ?)", (agreed, checksum(agreed)))


def read_agreed(connection: sqlite3.Connection) -> str:
    """Return the settings as JSON; empty if the journal was created without them. Raises ValueError."""
    rows = connection.execute("SELECT settings, checksum FROM agreed").fetchall()
    row = only_row(rows, "its settings (agreed)")
    if row is None:
        raise ValueError("it is broken: it does not say by which settings it was made")
    return str(row[0])


def differing(was: str, now: str) -> str:
    """Return `privacy.epsilon is 1, not 2` for the first differing keys; empty if they are unknown."""
    if not was or not now:
        return ""
    before, after = (dict(_leaves("", json.loads(text))) for text in (was, now))
    values = {
        key: (before.get(key, _NONE), after.get(key, _NONE)) for key in sorted(before.keys() | after.keys())
    }
    differences = [
        f"{key} is {elided(old)}, not {elided(new)}" for key, (old, new) in values.items() if old != new
    ]
    suffix = [f"and {len(differences) - _NAMED} more differ"] if len(differences) > _NAMED else []
    return ", ".join([*differences[:_NAMED], *suffix])


def _leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            yield from _leaves(f"{path}.{key}" if path else key, inner)
    else:
        yield path, _NONE if value is None else value if isinstance(value, str) else json.dumps(value)


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read one state of the file, while its process may write to it."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit all writes of the block; if it raises, commit none."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the journal's lock; the kernel frees it when the process dies.

    Raises JournalLocked, or JournalError if the lock file cannot be opened: it may be another user's.
    """
    lock = lock_of(path)
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise JournalError(f"the journal {path} cannot be used: {error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalLocked(f"another process has the journal {path} open: it holds {lock}") from None
        yield
    finally:
        os.close(descriptor)


def _is_journal(connection: sqlite3.Connection, form: Form) -> bool:
    """Return False for an empty file. Raises ValueError unless it is such a journal, of this version."""
    names = ("application_id", "user_version", "schema_version")
    application, version, changes = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    if not (application or version or changes):
        return False
    if application != form.application:
        raise ValueError(f"it is not {form.name}, but a file of another program, version or command")
    if version != SCHEMA:
        raise ValueError(f"it has version {version}, this program reads {SCHEMA}")
    return True


def _check_structure(connection: sqlite3.Connection) -> None:
    """Raise ValueError if SQLite finds its file damaged: a row may be missing, which no checksum shows."""
    if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise ValueError("it is broken")


def _create(connection: sqlite3.Connection, life: Life, agreed: str, form: Form) -> None:
    with transaction(connection):
        connection.execute(f"PRAGMA application_id = {form.application}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        for table in (*form.tables, _LIFE_TABLE, AGREED_TABLE):
            connection.execute(f"CREATE TABLE {table}")
        keep_life(connection, life)
        keep_agreed(connection, agreed)


def _check_owner(life: Life, asked: Life, differing: str) -> None:
    for name in ("run", "node", "digest", "horizon"):
        old, new = getattr(life, name), getattr(asked, name)
        if old != new:
            if name == "digest" and differing:
                raise ValueError(f"its {differing}: other settings of the mesh need a new run")
            texts = [value.hex() if isinstance(value, bytes) else value for value in (old, new)]
            reason = ": other settings of the mesh need a new run" if name == "digest" else ""
            raise ValueError(f"its {name} is {texts[0]}, not {texts[1]}{reason}")
    if life.mesh and asked.mesh and life.mesh != asked.mesh:
        raise ValueError(f"its mesh is {life.mesh}, not {asked.mesh}")


# An open journal: what the journals of nodes and of a collaboration's parties have in common.


class OpenJournal:
    """A journal's file, open until it is closed. Methods raise JournalError."""

    def _start(self, path: Path, opener: Callable[[ExitStack], sqlite3.Connection]) -> None:
        """Open the journal. If that fails, close all that was opened."""
        self._path = path
        with explained(path), ExitStack() as closing:
            self._connection = opener(closing)
            self._life, self._agreed = read_life(self._connection), read_agreed(self._connection)
            self._begin()
            self._closing = closing.pop_all()

    def _begin(self) -> None:
        """Read the values that an append needs."""

    @property
    def life(self) -> Life:
        """The journal's life: its owner, run and settings."""
        return self._life

    @property
    def instance(self) -> str:
        """The journal's own id, which all messages of its process carry."""
        return self._life.instance

    @property
    def price(self) -> Price | None:
        """The price of this life's releases or answers; None: unknown, or there are none."""
        with explained(self._path):
            return from_text(self._life.price)

    @property
    def size(self) -> int:
        """The size on disk in bytes, write-ahead log included. From any thread."""
        files = (self._path, write_ahead_log(self._path))
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close the file and free its lock. Repeating it is harmless."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of the file into JournalError with its name."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError) as error:
        reason = " ".join(str(error).split())  # SQLite quotes a damaged statement with its line breaks
        raise JournalError(f"the journal {path} cannot be used: {reason}") from error


# Reads a node's journal, even while a process writes it.

_LATEST = "SELECT charged, averaged, draws FROM records ORDER BY round DESC LIMIT 1"
_LAST = f"{SELECT} ORDER BY round DESC LIMIT ?"


class JournalReader(OpenJournal):
    """The records of the journal at `path`, even while a process writes it.

    Raises JournalError if it is missing, broken, damaged or of another version.
    """

    def __init__(self, path: Path) -> None:
        self._start(path, lambda closing: open_to_read(path, closing))

    @property
    def charged(self) -> int:
        """The charged rounds so far, those of earlier lives included."""
        last = self.records(1)
        return last[0].charged if last else self.carried

    @property
    def lost(self) -> bool:
        """Whether its last rounds may be lost, because the machine has rebooted since its last bound.

        The newest record's charges and position then count up to the bound.
        """
        return self._lost

    @property
    def carried(self) -> int:
        """The charged rounds of earlier lives."""
        return self._life.carried

    @property
    def spend(self) -> Spend:
        """The spend of this life by the journal; without a price it counts as unprotected.

        The journal does not record where its records begin. Raises JournalError.
        """
        life, price, last = self._life, self.price, self.records(1)
        position = (last[0].data_position if last else None) or ()
        spans = tuple(Span(str(partition), -math.inf, end) for partition, end in position)
        charged = last[0].charged - life.carried if last else 0
        return Spend(
            life.run,
            charged,
            price and price.epsilon,
            price.delta if price else 0.0,
            added(life.carried_epsilon, last[0].epsilon_spent) if last else 0.0,
            price.stream_delta if price else 0.0,
            spans,
            mesh=life.mesh,
            life=life.instance,
            settings=price.settings if price else (),
            node=life.node,
        )

    def records(self, limit: int | None = None) -> tuple[JournalRecord, ...]:
        """Return the last `limit` records (None: H), oldest first; the newest has its average.

        Raises JournalError.
        """
        with explained(self._path):
            rows = self._connection.execute(_LAST, (limit or self._life.horizon + 1,)).fetchall()
            records = tuple(from_row(row) for row in reversed(rows))
        if self._lost and self._bound is not None and records:
            return (*records[:-1], self._bound.inherited(records[-1]))
        return records

    def differing(self, agreed: str) -> str:
        """Return which shared settings of the mesh differ from the journal's; empty if these are unknown."""
        with explained(self._path):
            return differing(self._agreed, agreed)

    def _begin(self) -> None:
        with snapshot(self._connection):
            self._newest = check_chain(
                self._connection.execute(STORED), "the record of round", self._life.horizon + 1
            )
            totals = self._connection.execute("SELECT ifnull(max(round), 0), count(*) FROM records")
            self._last, self._kept = totals.fetchone()
            charged, averaged, draws = self._connection.execute(_LATEST).fetchone() or (0, 0, 0)
            averages = self._connection.execute(
                "SELECT round, rounds, mean, checksum FROM average"
            ).fetchall()
            for row in averages:
                check_row(row, f"the average of round {row[0]}")
            if [row[:2] for row in averages] != ([(self._last, averaged)] if averaged else []):
                raise ValueError(f"it is damaged: its average is not that of round {self._last}")
            check_draws(self._connection, charged, draws)
            self._bound, boot = read_bound(self._connection)
            self._inherited = read_inherited(self._connection)
        may_be_behind = self._bound is not None and self._bound.round > self._last
        self._lost = may_be_behind and (not boot or boot != boot_id())
