"""Which state folder it is: a random id, kept in it, that no copy shares."""

import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from streams.state.journal_file import JournalError, place_of

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


def write_private(path: Path, text: Callable[[Path], str]) -> None:
    """Write `text(the new file)`, mode 0600; durable when this returns. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # its mode may be another
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text(new))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
