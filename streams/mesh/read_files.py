"""Records which files the running command reads, so that it overwrites none of them.

This applies to the command line alone; a program that uses the library decides for itself.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_FILES: ContextVar[set[tuple[int, int]] | None] = ContextVar("files that the command reads", default=None)
"""Each file's device and inode, because a file may have several names."""


@contextmanager
def noting_files() -> Iterator[None]:
    """A context in which the files that a command reads are noted."""
    token = _FILES.set(set())
    try:
        yield
    finally:
        _FILES.reset(token)


def note_file(file: Any) -> None:
    """Note that an open file is read. Every function that reads a file named by a user must call this."""
    with suppress(OSError):  # standard input may be no file of the system
        _note(os.fstat(file.fileno()))


def note_path(path: str) -> None:
    """Note the path of a file of records in the settings. It may be read later, or by another command.

    So an output at the same path is refused before the command does anything.
    """
    with suppress(OSError):
        _note(Path(path).stat())


def _note(status: os.stat_result) -> None:
    files = _FILES.get()
    if files is not None and stat.S_ISREG(status.st_mode):
        files.add((status.st_dev, status.st_ino))


def is_read(path: Path) -> bool:
    """Return whether the current command reads the file at this path, under any of its names."""
    try:
        status = path.stat()
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in (_FILES.get() or ())
