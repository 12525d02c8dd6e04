"""The files of a state folder, and the tables of a journal."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from streams.collaboration.journals import LearnerJournal, OwnerJournal, PartyJournal, RunParty
from streams.state.folder import StateFolder, lock_of, write_ahead_log
from streams.state.journal import SqliteJournal
from streams.state.journal_file import NODE, SCHEMA, Form


class StateFile(NamedTuple):
    """A file of a state folder: its name (`<node>` for any), who writes it, what it holds."""

    name: str | Path
    writer: str
    holds: str


_FOLDER = StateFolder(Path())
_JOURNAL, _SPENDS = _FOLDER.journal("<node>"), _FOLDER.spends("<node>")
_ASIDE = _FOLDER.place_aside("<node>", "<run>")
_LOG, _LOCK = write_ahead_log(_JOURNAL), lock_of(_JOURNAL)

FILES = (
    StateFile(_JOURNAL, "node, run", "The node's last rounds: an SQLite database."),
    StateFile(_LOG, "node, run", "Its write-ahead log, while it is open or after a kill."),
    StateFile("<node>.journal-shm", "node, run", "SQLite's index of that log."),
    StateFile(_LOCK, "node, run", "Held by the process that writes the journal."),
    StateFile(
        _ASIDE,
        "node, run",
        "An earlier run's journal, put aside, without secrets.",
    ),
    StateFile("<node>.<run>.2.journal", "node, run", "The next one of that run, and so on."),
    StateFile(
        _SPENDS,
        "node, run, feed",
        "What each life has spent, on which data, and what was fed: a line each, with a checksum.",
    ),
    StateFile(
        _FOLDER.leaving("<node>"), "leave", "The round from which on the node is not in the run: JSON."
    ),
    StateFile(
        _FOLDER.verdict("<node>"),
        "node",
        "What the owner's records say of the node's last process: JSON, for the owner alone.",
    ),
    StateFile(
        _FOLDER.journal("<learner>"),
        "learner, run",
        "All that a collaboration's learner has asked in this run, and the answers: an SQLite database.",
    ),
    StateFile(
        _FOLDER.journal("<owner>"), "owner, run", "All that an owner has answered in this run: another."
    ),
    StateFile(
        _FOLDER.spends("<owner>"),
        "owner, run, feed",
        "What each of its journals has spent, and on which set: a line with a checksum.",
    ),
    StateFile(
        _FOLDER.id_file, "node, owner, run, feed", "The folder's id: a copy of the folder has another."
    ),
    StateFile(
        _FOLDER.order,
        "run",
        "What chooses and orders the records of each run: another order is refused.",
    ),
    StateFile(f"{_FOLDER.faust}/", "node", "Faust's own files. The truth is in the journal, never here."),
    StateFile(_FOLDER.up_lock, "up", "Held by the `up` that works in this folder."),
    StateFile(_FOLDER.replay, "up", "The mesh file that runs, with `--replay`: slots begin with the replay."),
    StateFile(f"{_FOLDER.logs}/", "up", "The log of each process."),
    StateFile(f"{_FOLDER.broker()}/", "up", "The development broker's data, where `up` started one."),
    StateFile(f"{_FOLDER.observe}/", "up", "What Prometheus and Grafana have kept, with `--observe`."),
)


def files() -> str:
    """Return a line for each file."""
    rows = [f"| `{name}` | {writer} | {holds} |" for name, writer, holds in FILES]
    return "\n".join(["| file | written by | holds |", "|---|---|---|", *rows])


def journal() -> str:
    """Return the tables of a new journal, as SQLite keeps them."""
    with TemporaryDirectory() as folder:
        path = StateFolder(Path(folder)).journal("node")
        life: dict[str, Any] = {
            "run": "run",
            "node": "node",
            "digest": bytes(16),
            "instance": "0" * 32,
            "horizon": 4,
        }
        SqliteJournal(path, **life).close()
        return _tables(path, NODE)


def owner_journal() -> str:
    """Return the tables of a new journal of an owner."""
    return _of_party(OwnerJournal)


def learner_journal() -> str:
    """Return the tables of a new journal of a learner."""
    return _of_party(LearnerJournal)


def _of_party(kind: type[PartyJournal]) -> str:
    with TemporaryDirectory() as folder:
        path = StateFolder(Path(folder)).journal("party")
        kind.opened(path, RunParty("mesh", "run", "party", bytes(16)), "0" * 32).close()
        return _tables(path, kind.form, lambda name: name not in {"life", "agreed"})


def _tables(path: Path, form: Form, shown: Callable[[str], bool] = bool) -> str:
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    told = [_statement(text) for name, text in made if shown(name)]
    pragmas = f"-- PRAGMA application_id = {form.application:#x}\n-- PRAGMA user_version = {SCHEMA}\n"
    return f"```sql\n{pragmas}{''.join(told)}```"


def _statement(text: str) -> str:
    name, _, columns = " ".join(text.split()).removesuffix(")").partition("(")
    parts = re.split(r",(?![^(]*\))", columns)  # the comma of a key of two columns stays
    listed = ",\n".join(f"    {column.strip()}" for column in parts)
    return f"{name.strip()} (\n{listed}\n);\n"


def is_listed(name: str) -> bool:
    """Whether a file or folder of that name is one of those."""
    patterns = (re.escape(str(one.name).rstrip("/")) for one in FILES)
    return any(re.fullmatch(re.sub("<.*?>", "[a-z0-9-]+", pattern), name) for pattern in patterns)
