"""A mesh file as it is written: with `${NAME}` in place of secrets, which an export never sees."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.mesh.errors import MeshFileError
from streams.mesh.file import MeshFile, load
from streams.mesh.settings.yaml_file import read_yaml
from streams.tools.export.secrets import variables, written_out


class Kept(Mapping[str, str]):
    """An environment in which each of `names`, and whatever is not set, stands for itself."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def __getitem__(self, name: str) -> str:
        itself = f"${{{name}}}"
        return itself if name in self._names else os.environ.get(name, itself)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class RawMesh:
    """A mesh file without mistakes. `tree`: as written; `file`: as loaded, with the brokers' variables kept.

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
    named = tuple(_brokers(path, tree))
    found = [problem.line for brokers, file, place in named for problem in written_out(brokers, file, place)]
    if found:
        raise MeshFileError(found)
    kept = Kept(name for brokers, _, _ in named for name in variables(brokers))
    file = load(path, kept, secrets=False)
    return RawMesh(file, tree, {name: _own(path, tree["nodes"][name]) for name in file.nodes})


def _brokers(path: Path, tree: Any) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
    """Yield all brokers as written, each with the file that has them, and the keys that lead there."""
    if not isinstance(tree, Mapping):
        return
    yield tree.get("brokers"), str(path), ("brokers",)
    nodes = tree.get("nodes")
    for name, own in nodes.items() if isinstance(nodes, Mapping) else ():
        if isinstance(own, Mapping):
            yield own.get("brokers"), str(path), ("nodes", str(name), "brokers")
        elif isinstance(own, str) and (path.parent / own).exists():
            part = read_yaml(path.parent / own)
            if isinstance(part, Mapping):
                yield part.get("brokers"), str(path.parent / own), ("brokers",)


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
