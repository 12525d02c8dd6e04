"""Loads a mesh file: `mesh`, public and shared by all parties; `nodes.<name>`, each party's own part; and
`brokers`, for a scheduler and for nodes that do not name their own.

`nodes.<name>` may be the path of a file with that node's part; so may the `schema` of a source be a path. If
a node's file is missing, its owner has it. Paths are relative to the file that names them.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, overload

from pydantic import TypeAdapter, ValidationError

from nodes.accounting.guarantee import Guarantee
from nodes.collaboration.guarantee import AnswerGuarantee
from streams.mesh import checks, collaboration_file
from streams.mesh.collaboration_file import CollaborationFile
from streams.mesh.errors import MeshFileError, Problem, one_of, problems, told_once
from streams.mesh.fits import width_problems
from streams.mesh.mesh import Mesh
from streams.mesh.own_parts import OwnParts
from streams.mesh.plugins import NO_CODE, Code, OwnSource
from streams.mesh.settings.base import Settings
from streams.mesh.settings.brokers import CommonBrokers
from streams.mesh.settings.collaboration import CollaborationSettings, OwnerSettings
from streams.mesh.settings.files import read_small
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings, HeldOutSettings, NodeSettings, OwnSourceSettings
from streams.mesh.settings.schema import SchemaSettings, SparseSettings
from streams.mesh.settings.yaml_file import read_yaml

# Reads the parts of a mesh file and collects all mistakes before reporting them.

S = TypeVar("S", bound=Settings)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads the parts of one mesh file and collects every mistake. `secrets`: their files are here."""

    environment: Mapping[str, str]
    secrets: bool = True
    wrong: list[str] = field(default_factory=list)

    def attempt(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`, or None after mistakes."""
        try:
            return read()
        except MeshFileError as error:
            self.wrong.extend(error.lines)
            return None

    def note(self, problems: list[Problem]) -> None:
        """Add mistakes."""
        self.wrong.extend(problem.line for problem in problems)

    def parts(self, path: Path) -> dict[str, Any]:
        """Return the parts of the file: `nodes`, or `owners` of a collaboration, is a mapping.

        Missing others are None.
        """
        tree = read_yaml(path)
        if not isinstance(tree, dict) or "mesh" not in tree:
            raise MeshFileError([Problem(str(path), (), "must be a mapping with keys mesh and nodes").line])
        part = "owners" if _is_collaboration(tree["mesh"]) else "nodes"
        allowed = ("mesh", part, "brokers", "held_out")
        unknown = [key for key in tree if key not in allowed]
        self.note([Problem(str(path), (key,), f"unknown key: {one_of(allowed, key)}") for key in unknown])
        owns = tree.get(part)
        if not isinstance(owns, dict | None):
            self.note([Problem(str(path), (part,), "must be a mapping from names to own parts", owns)])
            owns = None
        return {key: tree.get(key) for key in allowed} | {part: owns or {}}

    def validated(self, kind: type[S], tree: object, file: Path, path: tuple[str, ...]) -> S:
        """Return the settings in `tree`, at `path` of the file. Raises MeshFileError."""
        return self.adapted(TypeAdapter(kind), tree, file, path)

    def adapted(self, kind: TypeAdapter[T], tree: object, file: Path, path: tuple[str, ...]) -> T:
        """Return what `kind` reads, as `validated` does."""
        context = {"folder": file.parent, "environment": self.environment, "secrets": self.secrets}
        try:
            return kind.validate_python(tree, context=context)
        except ValidationError as error:
            wrong = problems(str(file), path, tree, error)
        raise MeshFileError(problem.line for problem in wrong)

    def own(self, kind: type[S], tree: object, file: Path, path: tuple[str, ...]) -> S:
        """Return an own part, which may be in its own file. Raises MeshFileError."""
        if isinstance(tree, str):
            file, path = file.parent / tree, ()
            tree = read_yaml(file)
        if isinstance(tree, dict) and "source" in tree:
            tree = tree | {"source": self._with_schema(tree["source"], file, (*path, "source"))}
        return self.validated(kind, tree, file, path)

    def source(self, tree: object, file: Path) -> FileSettings | SparseSettings:
        """Return the held-out file's settings. Raises MeshFileError."""
        kind: TypeAdapter[FileSettings | SparseSettings] = TypeAdapter(HeldOutSettings)
        return self.adapted(kind, self._with_schema(tree, file, ("held_out",)), file, ("held_out",))

    def _with_schema(self, source: object, file: Path, path: tuple[str, ...]) -> object:
        """Return the source, at `path` of the file, with the path of a schema replaced by the schema."""
        if not isinstance(source, dict) or not isinstance(source.get("schema"), str):
            return source
        schema_file = Path(os.path.normpath(file.parent / source["schema"]))
        try:
            read_small(schema_file)
        except OSError as error:
            reason = f"cannot be read: {error.strerror or 'no such file'}: must be a YAML file, or a mapping"
            raise MeshFileError(
                [Problem(str(file), (*path, "schema"), reason, source["schema"]).line]
            ) from None
        return source | {"schema": self.validated(SchemaSettings, read_yaml(schema_file), schema_file, ())}


def _is_collaboration(mesh: object) -> bool:
    return isinstance(mesh, dict) and "kind" in mesh


__all__ = [
    "CollaborationFile",
    "MeshFile",
    "MeshFileError",
    "load",
    "load_any",
    "load_collaboration",
    "promise",
]


@dataclass(frozen=True)
class MeshFile(OwnParts[NodeSettings]):
    """A mesh file without mistakes.

    `nodes` holds the own parts that are here, `elsewhere` the paths of those that are not. `held_out` is a
    file of labelled records that no node learns from: a run in one process scores its last decisions on it.
    `common` holds the brokers of nodes that do not name their own. `code`: what of the user's code may run.
    """

    part: ClassVar[str] = "nodes"
    member: ClassVar[str] = "node"

    path: Path
    mesh: MeshSettings
    nodes: Mapping[str, NodeSettings]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    held_out: FileSettings | SparseSettings | None = None
    common: CommonBrokers | None = None
    code: Code = NO_CODE

    @property
    def owns(self) -> Mapping[str, NodeSettings]:
        """The own parts that are here."""
        return self.nodes

    @property
    def members(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(self.mesh.nodes)

    @cached_property
    def resolved(self) -> Mesh:
        """The mesh that the shared part describes; the brokers here tell which nodes trust the mesh's."""
        trusting = frozenset(name for name in self.mesh.nodes if self.trusts_broker(name))
        return Mesh(self.mesh, trusting, self.code)

    @property
    def dimension(self) -> int:
        """The number of a decision's coordinates that the loss sees: what records must fit."""
        return self.mesh.loss_dimension

    def digest(self) -> bytes:
        """Return 16 bytes that are equal iff the settings that all nodes must share are equal."""
        return self.mesh.digest()

    @property
    def unallowed(self) -> list[str]:
        """The losses and sources of the user's own that are named here and may not run, each once."""
        losses = [self.mesh.loss_of(name).own for name in self.mesh.nodes]
        sources = [
            node.source.name for node in self.nodes.values() if isinstance(node.source, OwnSourceSettings)
        ]
        return [name for name in dict.fromkeys([*losses, *sources]) if name and not self.code.allows(name)]

    def code_of(self, node: str) -> list[str]:
        """Return the names that the node's process must be allowed. Raises MeshFileError if one is not."""
        loss, names = self.mesh.loss_of(node), list[str]()
        if loss.own is not None:
            self.code.check_loss(loss.own, None if loss == self.mesh.loss else node)
            names.append(loss.own)
        source = self.nodes[node].source
        if isinstance(source, OwnSourceSettings):
            self.code.check_source(source.name, node)
            names.append(source.name)
        return [name for name in dict.fromkeys(names) if ":" in name]

    def make_code(self, nodes: Iterable[str]) -> None:
        """Make the losses and sources of the user's own, of these nodes. Raises MeshFileError, all at once.

        Whoever needs them calls it before anything is started or written.
        """
        wrong: list[str] = []
        for name in nodes:
            try:
                _ = self.resolved.node(name).loss
            except MeshFileError as error:
                wrong += error.lines
            if name in self.nodes and isinstance(self.nodes[name].source, OwnSourceSettings):
                try:
                    self.own_source(name)
                except MeshFileError as error:
                    wrong += error.lines
        if wrong:
            raise MeshFileError(told_once(wrong))

    def own_source(self, node: str) -> tuple[OwnSource, int]:
        """Return the node's source of the user's own, and its dimension. Raises MeshFileError."""
        settings = self.nodes[node].source
        if not isinstance(settings, OwnSourceSettings):
            raise self.refuse(("nodes", node, "source", "kind"), "must be own")
        source, width = self.code.source(settings.name, node)
        path = ("nodes", node, "source", "name")
        problems = width_problems(str(self.path), path, self.mesh, width)
        if problems:
            raise MeshFileError(problem.line for problem in problems)
        return source, width

    def trusts_broker(self, node: str) -> bool:
        """Return whether the mesh broker is known to carry the node's data too, and is trusted."""
        part = self.nodes.get(node)
        brokers = self.common if part is None or part.brokers is None else part.brokers
        return part is not None and brokers is not None and brokers.trust_broker


def load(
    path: Path,
    environment: Mapping[str, str] | None = None,
    *,
    secrets: bool = True,
    code: Iterable[str] = (),
) -> MeshFile:
    """Load the file of a mesh. Raises MeshFileError with every mistake, also for a collaboration.

    It runs no code, of whomever: losses and sources of the user's own are made when they are needed, by
    entry points and by the `code`, each module:attribute, that is allowed here.
    """
    file = load_any(path, environment, secrets=secrets, code=code)
    if isinstance(file, CollaborationFile):
        allowed = "this is for a mesh of nodes: must not be given"
        raise file.refuse(("mesh", "kind"), allowed, file.mesh.kind)
    return file


def load_collaboration(path: Path) -> CollaborationFile:
    """Load the file of a collaboration. Raises MeshFileError with every mistake, also for a mesh of nodes."""
    file = load_any(path)
    if isinstance(file, MeshFile):
        raise file.refuse(("mesh", "kind"), "missing: must be collaboration, as this is for its processes")
    return file


def load_any(
    path: Path,
    environment: Mapping[str, str] | None = None,
    *,
    secrets: bool = True,
    code: Iterable[str] = (),
) -> MeshFile | CollaborationFile:
    """Load a mesh file of either kind. Raises MeshFileError with every mistake found, one line each.

    `${NAME}` under `brokers` is replaced from `environment` (by default the process's own).
    Files of passwords, certificates and keys are read, unless the file is for elsewhere (`secrets` False).
    """
    allowed = Code.of(str(path), code)
    reader = FileReader(os.environ if environment is None else environment, secrets)
    tree = reader.parts(path)
    kind: FileKind = _COLLABORATION if "owners" in tree else _MESH
    mesh = reader.attempt(partial(reader.validated, kind.shared, tree["mesh"], path, ("mesh",)))
    owns = {name: part for name, part in tree[kind.part].items() if not _is_elsewhere(path, part)}
    read = {
        name: reader.attempt(partial(reader.own, kind.own, part, path, (kind.part, name)))
        for name, part in owns.items()
    }
    parts = {name: part for name, part in read.items() if part is not None}
    held_out, common = None, None
    if tree["held_out"] is not None:
        held_out = reader.attempt(partial(reader.source, tree["held_out"], path))
    if tree["brokers"] is not None:
        common = reader.attempt(partial(reader.validated, CommonBrokers, tree["brokers"], path, ("brokers",)))
    absent = {name: str(path.parent / part) for name, part in tree[kind.part].items() if name not in owns}
    file = None if mesh is None else kind.file(path, mesh, parts, absent, held_out, common)
    if isinstance(file, MeshFile):
        file = replace(file, code=allowed)
    if file is not None:
        reader.note(kind.shared_problems(str(path), file.resolved))
        reader.note(kind.own_problems(str(path), file.mesh, tuple(tree[kind.part]), parts, held_out))
    if reader.wrong or file is None:
        raise MeshFileError(told_once(reader.wrong))
    return file


class FileKind(NamedTuple):
    """How the files of one kind are read: the classes of their parts, and the checks of what fits."""

    part: str
    shared: type[Any]
    own: type[Any]
    file: Callable[..., MeshFile | CollaborationFile]
    shared_problems: Callable[..., list[Problem]]
    own_problems: Callable[..., list[Problem]]


_MESH = FileKind("nodes", MeshSettings, NodeSettings, MeshFile, checks.shared_problems, checks.own_problems)
_COLLABORATION = FileKind(
    "owners",
    CollaborationSettings,
    OwnerSettings,
    CollaborationFile,
    collaboration_file.shared_problems,
    collaboration_file.own_problems,
)


@overload
def promise(file: MeshFile, node: str) -> Guarantee: ...


@overload
def promise(file: CollaborationFile, node: str) -> AnswerGuarantee: ...


def promise(file: MeshFile | CollaborationFile, node: str) -> Guarantee | AnswerGuarantee:
    """Return the guarantee of a node, given the brokers that the mesh file names, or of an owner."""
    if isinstance(file, CollaborationFile):
        return file.resolved.guarantee(node)
    return file.resolved.node(node).guarantee


def _is_elsewhere(path: Path, own: object) -> bool:
    return isinstance(own, str) and not (path.parent / own).exists()
