"""Finds the broker's settings and its list of jars: in an installed wheel, or in the source tree."""

from importlib.resources import files
from pathlib import Path


def deployed(name: str) -> Path:
    """Return the path of `name` of deploy/broker. Raises FileNotFoundError where it is in neither place."""
    package = Path(str(files("streams")))
    for folder in (package / "deploy_broker", package.parent / "deploy" / "broker"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(2, "this installation lacks a file of the development broker", name)
