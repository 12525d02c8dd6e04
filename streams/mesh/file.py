"""Loads a mesh file: `mesh`, public and shared by all parties; `nodes.<name>`, each party's own part; and
`brokers`, for a scheduler and for nodes that do not name their own.

`nodes.<name>` may be the path of a file with that node's part; so may the `schema` of a source be a path. If
a node's file is missing, its owner has it. Paths are relative to the file that names them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from nodes.accounting.guarantee import Guarantee
from streams.mesh.checks import own_problems, shared_problems
from streams.mesh.errors import ABSENT, MeshFileError, Problem, one_of, told_once
from streams.mesh.mesh import Mesh
from streams.mesh.reader import Reader
from streams.mesh.settings.brokers import BrokerSettings, BrokersSettings, CommonBrokers
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings, NodeSettings
from streams.mesh.settings.sparse import SparseSettings

__all__ = ["MeshFile", "MeshFileError", "load", "promise"]


@dataclass(frozen=True)
class MeshFile:
    """A mesh file without mistakes.

    `nodes` holds the own parts that are here, `elsewhere` the paths of those that are not. `held_out` is a
    file of labelled records that no node learns from: a run in one process scores its last decisions on it.
    `common` holds the brokers of nodes that do not name their own.
    """

    path: Path
    mesh: MeshSettings
    nodes: Mapping[str, NodeSettings]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    held_out: FileSettings | SparseSettings | None = None
    common: CommonBrokers | None = None

    @cached_property
    def resolved(self) -> Mesh:
        """The mesh that the shared part describes; the brokers here tell which nodes trust the mesh's."""
        trusting = frozenset(name for name in self.mesh.nodes if self.trusts_broker(name))
        return Mesh(self.mesh, trusting)

    @property
    def dimension(self) -> int:
        """The dimension d of a decision."""
        return self.mesh.dimension

    def digest(self) -> bytes:
        """Return 16 bytes that are equal iff the settings that all nodes must share are equal."""
        return self.mesh.digest()

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error for the value at `path` of this file; `allowed` says what it must be."""
        return MeshFileError([Problem(str(self.path), path, allowed, value).line])

    def own(self, node: str) -> NodeSettings:
        """Return the own part of a node. Raises MeshFileError if it is not here, or the node is unknown."""
        if node not in self.mesh.nodes:
            allowed = f"is no node of the mesh: {one_of(self.mesh.nodes, node)}"
            raise self.refuse(("mesh", "nodes"), allowed, node)
        if node in self.elsewhere:
            raise self.refuse(
                ("nodes", node), "no such file: must be here to run the node", self.elsewhere[node]
            )
        if node not in self.nodes:
            raise self.refuse(("nodes", node), "missing: must be here to run the node")
        return self.nodes[node]

    def brokers(self, node: str) -> BrokersSettings:
        """Return the brokers of a node whose own part is here. Raises MeshFileError if there are none."""
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
        """The broker that all share. Raises MeshFileError if there is none."""
        if self.common is not None:
            return self.common.mesh
        for own in self.nodes.values():
            if own.brokers is not None:
                return own.brokers.mesh
        raise self.refuse(("brokers",), "missing: must be given to use a broker")

    @property
    def names_brokers(self) -> bool:
        """Whether any broker is named here: without one the mesh runs in one process only."""
        return self.common is not None or any(own.brokers is not None for own in self.nodes.values())

    def trusts_broker(self, node: str) -> bool:
        """Return whether the mesh broker is known to carry the node's data too, and is trusted."""
        own = self.nodes.get(node)
        brokers = self.common if own is None or own.brokers is None else own.brokers
        return own is not None and brokers is not None and brokers.trust_broker


def load(path: Path, environment: Mapping[str, str] | None = None, *, secrets: bool = True) -> MeshFile:
    """Load a mesh file. Raises MeshFileError with every mistake found, one line each.

    `${NAME}` under `brokers` is replaced from `environment` (by default the process's own).
    Files of passwords, certificates and keys are read, unless the file is for elsewhere (`secrets` False).
    """
    reader = Reader(os.environ if environment is None else environment, secrets)
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
    elsewhere = {name: str(path.parent / own) for name, own in tree["nodes"].items() if name not in owns}
    file = None if mesh is None else MeshFile(path, mesh, nodes, elsewhere, held_out, common)
    if file is not None:
        reader.note(shared_problems(str(path), file.resolved))
        reader.note(own_problems(str(path), file.mesh, tuple(tree["nodes"]), nodes, held_out))
    if reader.wrong or file is None:
        raise MeshFileError(told_once(reader.wrong))
    return file


def promise(file: MeshFile, node: str) -> Guarantee:
    """Return the guarantee of a node, given the brokers that the mesh file names."""
    return file.resolved.node(node).guarantee


def _is_elsewhere(path: Path, own: object) -> bool:
    return isinstance(own, str) and not (path.parent / own).exists()
