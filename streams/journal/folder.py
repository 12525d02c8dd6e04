"""Which state folder it is: a random id, kept in it, that no copy shares."""

import fcntl
import os
import secrets
from pathlib import Path

from streams.journal.durable import write_private
from streams.journal.file import JournalError, place_of

NAME = "folder"


def folder_id(state: Path) -> str:
    """Return the folder's id, made if need be: 32 hex digits. A copy of the folder has another.

    Durable when this returns. Raises JournalError.
    """
    path = state / NAME
    try:
        descriptor = os.open(state, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # for a moment: the nodes of one folder start together
            if not known_folder(state):
                write_private(path, lambda new: f"{secrets.token_hex(16)} {place_of(new)}\n")
            return known_folder(state)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise JournalError(f"{path} cannot be written: {error}") from error


def known_folder(state: Path) -> str:
    """Return the folder's id; "" where it has none yet, or is a copy. Writes nothing."""
    path = state / NAME
    try:
        made, place = path.read_text().split()
        return made if place == place_of(path) else ""
    except (OSError, ValueError):
        return ""
