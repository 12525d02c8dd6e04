"""A mesh file as it is written: with `${NAME}` in place of secrets, which an export never sees."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.mesh.errors import MeshFileError
from streams.mesh.file import MeshFile, load
from streams.mesh.settings.yaml_file import read_yaml
from streams.tools.export.secrets import written_out


class Kept(Mapping[str, str]):
    """An environment in which each variable stands for itself."""

    def __getitem__(self, name: str) -> str:
        return f"${{{name}}}"

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True)
class RawMesh:
    """A mesh file without mistakes. `file`: as loaded, each variable for itself; `tree`: as written.

    `owns` holds the own parts that are here, as written, with the schemas of their sources.
    """

    file: MeshFile
    tree: Mapping[str, Any]
    owns: Mapping[str, Mapping[str, Any]]

    def brokers(self, node: str) -> Mapping[str, Any]:
        """Return the brokers of a node, as written. Raises MeshFileError if it has none, or is not here."""
        self.file.brokers(node)
        own: Mapping[str, Any] = self.owns[node].get("brokers") or self.tree["brokers"]
        return own

    def brokers_path(self, node: str) -> tuple[str, ...]:
        """Return the keys that lead to a node's brokers."""
        return ("nodes", node, "brokers") if self.owns[node].get("brokers") else ("brokers",)

    def mesh_broker(self) -> Mapping[str, Any]:
        """Return the mesh broker of the scheduler, as written. Raises MeshFileError if there is none."""
        if self.file.common is None:
            raise self.file.refuse(("brokers", "mesh"), "missing: must be given for a scheduler")
        found: Mapping[str, Any] = self.tree["brokers"]["mesh"]
        return found


def read(path: Path) -> RawMesh:
    """Read a mesh file. Raises MeshFileError with every mistake; a secret that is written out is one."""
    tree = read_yaml(path)
    found = tuple(problem.line for problem in _written_out(path, tree))
    if found:
        raise MeshFileError(found)
    file = load(path, Kept(), secrets=False)
    return RawMesh(file, tree, {name: _own(path, tree["nodes"][name]) for name in file.nodes})


def _written_out(path: Path, tree: Any) -> Iterator[Any]:
    if not isinstance(tree, Mapping):
        return
    yield from written_out(tree.get("brokers"), str(path), ("brokers",))
    nodes = tree.get("nodes")
    for name, own in nodes.items() if isinstance(nodes, Mapping) else ():
        file = path
        place: tuple[str, ...] = ("nodes", str(name), "brokers")
        if isinstance(own, str):
            file, place = path.parent / own, ("brokers",)
            own = read_yaml(file) if file.exists() else None  # noqa: PLW2901 # the part itself
        if isinstance(own, Mapping):
            yield from written_out(own.get("brokers"), str(file), place)


def _own(path: Path, own: Any) -> Mapping[str, Any]:
    """Return an own part with its source's schema, each of which may stand in a file."""
    if isinstance(own, str):
        path = path.parent / own
        own = read_yaml(path)
    source = (own or {}).get("source")
    if isinstance(source, Mapping) and isinstance(source.get("schema"), str):
        schema = read_yaml(Path(os.path.normpath(path.parent / source["schema"])))
        return {**own, "source": {**source, "schema": schema}}
    return own or {}
