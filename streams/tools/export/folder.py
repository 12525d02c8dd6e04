"""Writes an export's folder: all of it, or nothing."""

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from streams.mesh.errors import UsageError

_FOLDER, _FILE = 0o755, 0o644
INDEX = "exported.txt"
"""Names every file of an export, so that a later one replaces nothing else."""


def write_folder(folder: Path, written: Mapping[str, str]) -> int:
    """Write the texts to their paths in the folder, in place of an earlier export; return how many files.

    A folder with any other file is refused. The new folder is made beside, and then takes its place. Whoever
    may enter it may read all of it, whatever the umask, as processes in containers are other users. Raises
    UsageError.
    """
    folder = folder.resolve()
    _check(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as beside:
            new_folder, earlier = Path(beside) / "new", Path(beside) / "earlier"
            files = {**written, INDEX: _lines(written)}
            for path, text in files.items():
                (new_folder / path).parent.mkdir(parents=True, exist_ok=True)
                (new_folder / path).write_text(text, "utf-8")
            for inner in new_folder.rglob("*"):
                inner.chmod(_FOLDER if inner.is_dir() else _FILE)
            if folder.exists():
                folder.rename(earlier)
            try:
                new_folder.rename(folder)
            except OSError:
                if earlier.exists():
                    earlier.rename(folder)
                raise
    except OSError as error:
        raise UsageError(f"--output {folder}: cannot be written to: {error.strerror}") from None
    return len(files)


def _lines(paths: Iterable[str]) -> str:
    return "".join(f"{path}\n" for path in sorted(paths))


def _check(folder: Path) -> None:
    """Refuse a folder that holds what no export wrote."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"--output {folder}: is a file: must be a folder, or not there yet")
    index = folder / INDEX
    written_names = {*(index.read_text("utf-8", "replace").splitlines() if index.is_file() else ()), INDEX}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if (path.is_symlink() or not path.is_dir()) and name not in written_names:
            allowed = "must be empty, an earlier export, or not there yet"
            raise UsageError(f"--output {folder}: holds {name}, which no export wrote: {allowed}")
