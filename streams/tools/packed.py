"""Files that are shipped with the packages, wherever these are installed."""

from importlib.resources import files
from pathlib import Path


def packed(wheel: str, source: str) -> Path:
    """Return a folder from an installed wheel, or from the source tree. Raises FileNotFoundError."""
    package = Path(str(files("streams")))
    for folder in (package / wheel, package.parent / source):
        if folder.is_dir():
            return folder.resolve()
    raise FileNotFoundError(2, "this installation lacks a folder", source)
