"""The mesh file: `mesh`, shared by all parties and public, `nodes.<name>`, each party's own, and `brokers`,
for the nodes here that do not name theirs, and for a scheduler.

`nodes.<name>` may be the path of a file that holds that node's part alone; so may the `schema` of a source.
Where a node's file is not there, its owner has it. Paths are relative to the file they are written in.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from streams.mesh_file.checks import own_problems, shared_problems
from streams.mesh_file.settings.base import Settings
from streams.mesh_file.settings.errors import ABSENT, MeshFileError, Problem, problems
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.node import (
    BrokerSettings,
    BrokersSettings,
    CommonBrokers,
    FileSettings,
    HeldOutSettings,
    NodeSettings,
)
from streams.mesh_file.settings.schema import SchemaSettings
from streams.mesh_file.settings.sparse import SparseSettings
from streams.mesh_file.settings.yaml_file import read_yaml

__all__ = ["MeshFile", "MeshFileError", "load"]

S = TypeVar("S", bound=Settings)
T = TypeVar("T")

_PARTS = ("mesh", "nodes", "brokers", "held_out")


@dataclass(frozen=True, slots=True)
class MeshFile:
    """A mesh file that was found right.

    `nodes` holds the own parts that are here, `elsewhere` the paths of those that are not; `held_out` is a
    file of labelled records that no node learns from: a run in one process scores the last decisions on it;
    `common` are the brokers of the nodes here that do not name theirs.
    """

    path: Path
    mesh: MeshSettings
    nodes: Mapping[str, NodeSettings]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    held_out: FileSettings | SparseSettings | None = None
    common: CommonBrokers | None = None

    def digest(self) -> bytes:
        """Return 16 bytes that are equal iff the settings are on which all nodes must agree."""
        return self.mesh.digest()

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error that the value at `path` of this file is not as `allowed` says."""
        return MeshFileError([Problem(str(self.path), path, allowed, value).line])

    def own(self, node: str) -> NodeSettings:
        """Return the own part of a node. Raises MeshFileError where it is not here."""
        if node in self.elsewhere:
            raise self.refuse(
                ("nodes", node), "no such file: must be here to run the node", self.elsewhere[node]
            )
        if node not in self.nodes:
            raise self.refuse(("nodes", node), "missing: must be here to run the node")
        return self.nodes[node]

    def brokers(self, node: str) -> BrokersSettings:
        """Return the brokers of a node whose own part is here. Raises MeshFileError where none are given."""
        own, common = self.own(node).brokers, self.common
        if own is not None:
            return own
        if common is None:
            raise self.refuse(("nodes", node, "brokers"), "missing: must be given to use a broker")
        if common.data is None:
            raise self.refuse(("brokers", "data"), f"missing: must be given, here or for the node {node}")
        return BrokersSettings.model_validate(dict(common))

    @property
    def mesh_broker(self) -> BrokerSettings:
        """The broker that all share. Raises MeshFileError where none is given."""
        if self.common is not None:
            return self.common.mesh
        for own in self.nodes.values():
            if own.brokers is not None:
                return own.brokers.mesh
        raise self.refuse(("brokers",), "missing: must be given to use a broker")

    def trusts_broker(self, node: str) -> bool:
        """Return whether the mesh broker also carries the node's data, and is trusted, as far as is known."""
        own = self.nodes.get(node)
        brokers = self.common if own is None or own.brokers is None else own.brokers
        return own is not None and brokers is not None and brokers.trust_broker


def load(path: Path, environment: Mapping[str, str] | None = None) -> MeshFile:
    """Return what the mesh file says. Raises MeshFileError with every mistake found, a line each.

    `${NAME}` under `brokers` is taken from `environment` (the process's own unless given).
    """
    reader = _Reader(os.environ if environment is None else environment)
    tree = reader.parts(path)
    mesh = reader.attempt(partial(reader.validated, MeshSettings, tree["mesh"], path, ("mesh",)))
    owns = {name: own for name, own in tree["nodes"].items() if not _is_elsewhere(path, own)}
    read = {name: reader.attempt(partial(reader.node, own, path, name)) for name, own in owns.items()}
    nodes = {name: own for name, own in read.items() if own is not None}
    held_out, common = None, None
    if tree["held_out"] is not None:
        held_out = reader.attempt(partial(reader.source, tree["held_out"], path))
    if tree["brokers"] is not None:
        common = reader.attempt(partial(reader.validated, CommonBrokers, tree["brokers"], path, ("brokers",)))
    if mesh is not None:
        reader.note(shared_problems(str(path), mesh))
        reader.note(own_problems(str(path), mesh, tuple(tree["nodes"]), nodes, held_out))
    if reader.wrong or mesh is None:
        raise MeshFileError(reader.wrong)
    elsewhere = {name: str(path.parent / own) for name, own in tree["nodes"].items() if name not in owns}
    return MeshFile(path, mesh, nodes, elsewhere, held_out, common)


def _is_elsewhere(path: Path, own: object) -> bool:
    return isinstance(own, str) and not (path.parent / own).exists()


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the parts of one mesh file, and gathers every mistake."""

    environment: Mapping[str, str]
    wrong: list[str] = field(default_factory=list)

    def attempt(self, read: Callable[[], T]) -> T | None:
        """Return what `read` does, or None after mistakes."""
        try:
            return read()
        except MeshFileError as error:
            self.wrong.extend(error.lines)
            return None

    def note(self, found: list[Problem]) -> None:
        """Gather mistakes."""
        self.wrong.extend(problem.line for problem in found)

    def parts(self, path: Path) -> dict[str, Any]:
        """Return the parts of the file, `nodes` a mapping, the others None unless given."""
        tree = read_yaml(path)
        if not isinstance(tree, dict) or "mesh" not in tree:
            raise MeshFileError([Problem(str(path), (), "must be a mapping with keys mesh and nodes").line])
        unknown = f"unknown key: must be one of {', '.join(_PARTS)}"
        self.note([Problem(str(path), (key,), unknown) for key in tree if key not in _PARTS])
        nodes = tree.get("nodes")
        if not isinstance(nodes, dict | None):
            self.note([Problem(str(path), ("nodes",), "must be a mapping from names to own parts", nodes)])
            nodes = None
        return {key: tree.get(key) for key in _PARTS} | {"nodes": nodes or {}}

    def validated(self, kind: type[S], tree: object, file: Path, path: tuple[str, ...]) -> S:
        """Return the settings in `tree`, which stands at `path` of the file. Raises MeshFileError."""
        return self.adapted(TypeAdapter(kind), tree, file, path)

    def adapted(self, kind: TypeAdapter[T], tree: object, file: Path, path: tuple[str, ...]) -> T:
        """Return as `validated` does what `kind` reads."""
        context = {"folder": file.parent, "environment": self.environment}
        try:
            return kind.validate_python(tree, context=context)
        except ValidationError as error:
            found = problems(str(file), path, tree, error)
        raise MeshFileError(problem.line for problem in found)

    def node(self, tree: object, file: Path, name: str) -> NodeSettings:
        """Return a node's own part, which may stand in a file of its own. Raises MeshFileError."""
        path: tuple[str, ...] = ("nodes", name)
        if isinstance(tree, str):
            file, path = file.parent / tree, ()
            tree = read_yaml(file)
        if isinstance(tree, dict) and "source" in tree:
            tree = tree | {"source": self._with_schema(tree["source"], file)}
        return self.validated(NodeSettings, tree, file, path)

    def source(self, tree: object, file: Path) -> FileSettings | SparseSettings:
        """Return the held-out file's settings. Raises MeshFileError."""
        kind: TypeAdapter[FileSettings | SparseSettings] = TypeAdapter(HeldOutSettings)
        return self.adapted(kind, self._with_schema(tree, file), file, ("held_out",))

    def _with_schema(self, source: object, file: Path) -> object:
        """Return the source with its schema in place of the schema's path."""
        if not isinstance(source, dict) or not isinstance(source.get("schema"), str):
            return source
        schema_file = Path(os.path.normpath(file.parent / source["schema"]))
        return source | {"schema": self.validated(SchemaSettings, read_yaml(schema_file), schema_file, ())}
