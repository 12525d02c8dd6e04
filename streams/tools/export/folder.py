"""Writes an export's folder: all of it, or nothing."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from streams.mesh.errors import UsageError

INDEX = "exported.txt"
"""Names every file of an export, so that a later one replaces nothing else."""


def write_folder(folder: Path, written: Mapping[str, str]) -> None:
    """Write the texts to their paths in the folder, in place of an earlier export. Raises UsageError.

    A folder with any other file is refused. The new folder is made beside, and then takes its place.
    """
    folder = folder.resolve()
    _check(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
            made, earlier = Path(beside) / "new", Path(beside) / "earlier"
            for path, text in {**written, INDEX: _lines(written)}.items():
                (made / path).parent.mkdir(parents=True, exist_ok=True)
                (made / path).write_text(text, "utf-8")
            if folder.exists():
                folder.rename(earlier)
            try:
                made.rename(folder)
            except OSError:
                if earlier.exists():
                    earlier.rename(folder)
                raise
    except OSError as error:
        raise UsageError(f"--output {folder}: cannot be written to: {error.strerror}") from None


def _lines(paths: Iterable[str]) -> str:
    return "".join(f"{path}\n" for path in sorted(paths))


def _check(folder: Path) -> None:
    """Refuse a folder that holds what no export wrote."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"--output {folder}: is a file: must be a folder, or not there yet")
    index = folder / INDEX
    known = {*(index.read_text("utf-8", "replace").splitlines() if index.is_file() else ()), INDEX}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if (path.is_symlink() or not path.is_dir()) and name not in known:
            allowed = "must be empty, an earlier export, or not there yet"
            raise UsageError(f"--output {folder}: holds {name}, which no export wrote: {allowed}")
