"""Finds files that are shipped with the packages, such as example meshes, in a wheel or the source tree."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from streams.mesh.errors import as_file, meant, refused
from streams.mesh.settings.files import read_yaml


def packed(wheel: str, source: str) -> Path:
    """Return a folder from an installed wheel, or from the source tree. Raises FileNotFoundError."""
    package = Path(str(files("streams")))
    for folder in (package / wheel, package.parent / source):
        if folder.is_dir():
            return folder.resolve()
    raise FileNotFoundError(2, "this installation lacks a folder", source)


def example_mesh(name: str) -> Path:
    """Return the path of the example mesh `name`.

    Raises UsageError if this installation has none of that name.
    """
    name = as_file("name", name)
    for folder in _folders():
        if (folder / name).is_file():
            return folder / name
    near = meant([f"{example}.yaml" for example in examples()], name)
    raise refused("name", name, f"must be that of an example mesh of this installation{near}")


def examples() -> dict[str, Path]:
    """Return the paths of all example meshes, by name without `.yaml`, in the order of names."""
    folder = next((folder for folder in _folders() if folder.is_dir()), None)
    examples_by_name = {} if folder is None else {path.stem: path for path in folder.glob("*.yaml")}
    return dict(sorted(examples_by_name.items()))


def about(example: Path) -> str:
    """Return the first sentence of the example's opening comment."""
    lines = example.read_text("utf-8").splitlines()
    end = next((k for k, line in enumerate(lines) if not line.removeprefix("#").strip()), len(lines))
    comment = " ".join(line.removeprefix("#").strip() for line in lines[:end])
    return f"{comment.partition('. ')[0].rstrip('.')}."


def data(example: Path) -> list[Path]:
    """Return the files that an example needs, with their notices, as paths relative to its folder."""
    paths = {Path(text) for text in _paths(read_yaml(example))}
    beside = {path.parts[0] for path in paths if not path.is_absolute() and len(path.parts) > 1}
    files = (path for folder in beside for path in (example.parent / folder).rglob("*") if path.is_file())
    return sorted(path.relative_to(example.parent) for path in files)


def _folders() -> Iterator[Path]:
    package = Path(str(files("streams")))
    yield from (package / "meshes", package.parent / "deploy" / "meshes")


def _paths(tree: object) -> Iterator[str]:
    """Yield every text under the keys `path`, `schema` and `features`."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key in {"path", "schema", "features"} and isinstance(value, str):
                yield value
            else:
                yield from _paths(value)
