"""Mistakes in what the user gave, found before anything is run."""

import tempfile
from collections.abc import Iterable
from pathlib import Path


class UsageError(Exception):
    """What the user gave cannot be used; the text is one line for the user."""


def chosen(nodes: Iterable[str], node: str | None) -> list[str]:
    """Return the node that was asked for, or all. Raises UsageError for one that the mesh has not."""
    names = list(nodes)
    if node is None:
        return names
    if node not in names:
        raise UsageError(f"{node}: not a node of the mesh: must be one of {', '.join(names)}")
    return [node]


def writable_folder(folder: Path, files: Iterable[str] = ()) -> Path:
    """Return the folder, made if need be, in which `files` can be written. Raises UsageError otherwise."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise UsageError(f"{folder}: is a file: must be a folder, or not there yet") from None
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written to: {error.strerror}") from None
    for name in files:
        if (folder / name).is_dir():
            raise UsageError(f"{folder / name}: is a folder: must be a file, or not there yet")
    return folder
