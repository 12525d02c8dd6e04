"""Damages to a node's journal while no process has it open: `damage(state folder, node, backup, random)`.

`backup`: a folder with an older copy of the journal, by `saved`.
"""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

from streams.state.folder import StateFolder, place_of, write_ahead_log
from streams.state.journal_file import keep_life, read_life


def saved(state, node, backup):
    """Copy the journal into a new folder as it is at one moment, also where a process writes to it."""
    backup.mkdir()
    journal = StateFolder(state).journal(node)
    with (
        closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(backup / journal.name)) as copy,
    ):
        source.backup(copy)


def put_back(journal):
    """Make a copy pass for the file that was copied, as a restored disk does."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        keep_life(connection, replace(read_life(connection), place=place_of(journal)))  # with its checksum


def deleted(state, node, _backup=None, _random=None):
    """The journal is gone."""
    for file in state.glob(f"{node}.journal*"):
        file.unlink()


def restored(state, node, backup, _random=None):
    """An older backup stands in its place."""
    deleted(state, node)
    for file in backup.glob(f"{node}.journal*"):
        shutil.copy(file, state / file.name)
    put_back(StateFolder(state).journal(node))


def flipped(state, node, _backup, random):
    """A byte of the file is another."""
    _flip(StateFolder(state).journal(node), random)


def log_flipped(state, node, _backup, random):
    """A byte of the write-ahead log is another."""
    _flip(write_ahead_log(StateFolder(state).journal(node)), random)


def cut(state, node, _backup, random):
    """The file has lost its end."""
    path = StateFolder(state).journal(node)
    with path.open("r+b") as file:
        file.truncate(random.randrange(1, path.stat().st_size))


def emptied(state, node, _backup=None, _random=None):
    """The file has no bytes; the write-ahead log is as it was."""
    StateFolder(state).journal(node).write_bytes(b"")


def log_deleted(state, node, _backup=None, _random=None):
    """The write-ahead log is gone: the file is as old as its last checkpoint."""
    write_ahead_log(StateFolder(state).journal(node)).unlink()


def _flip(path, random):
    with path.open("r+b") as file:
        at = random.randrange(path.stat().st_size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << random.randrange(8))]))
