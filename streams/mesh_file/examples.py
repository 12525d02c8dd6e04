"""Finds the meshes that come with the project: in an installed wheel, or in the source tree."""

from importlib.resources import files
from pathlib import Path


def example_mesh(name: str) -> Path:
    """Return the path of the example mesh `name`. Raises FileNotFoundError where it is in neither place."""
    package = Path(str(files("streams")))
    for folder in (package / "meshes", package.parent / "deploy" / "meshes"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(2, "this installation lacks the example mesh", name)
