"""A kind of mesh file: how its files are read, and the functions that differ between kinds.

No other module tests of which kind a file is. Functions of this layer are methods of the file (`OwnParts` is
the interface that all kinds share). Functions of higher layers, which a file must not import, are named in
the kind as `LazyFunction`: the topics and users on brokers, the account, the run in one process, each
command. So a new kind needs its file, its `FileKind`, the functions that this names, and its entry in
`streams.mesh.file.KINDS`.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from nodes.accounting.guarantee import RunGuarantee
from streams.codec.topics import DataTopics
from streams.mesh.errors import (
    ABSENT,
    MeshFileError,
    Problem,
    UsageError,
    check_type,
    one_of,
    problems,
    refused,
    told_once,
)
from streams.mesh.plugins import Code, OwnSource
from streams.mesh.settings.base import Settings
from streams.mesh.settings.brokers import BrokerSettings, BrokersSettings, CommonBrokers
from streams.mesh.settings.files import read_small, read_yaml
from streams.mesh.settings.mesh import NO_DIMENSION
from streams.mesh.settings.node import FileSettings, HeldOutSettings
from streams.mesh.settings.schema import SchemaSettings
from streams.mesh.settings.sparse import SparseSettings

S = TypeVar("S", bound=Settings)
T = TypeVar("T")


class _Own(Protocol):
    @property
    def brokers(self) -> CommonBrokers | None: ...


P = TypeVar("P", bound=_Own)


class OwnParts(Generic[P]):
    """The interface that files of all kinds share: the parties' own parts, their brokers, and the kind.

    `part` is the key of the own parts in the file. `member` is the word for one who has an own part: a node
    or an owner. A member's name is the argument `name` of the methods.
    """

    part: ClassVar[str]
    member: ClassVar[str]
    path: Path
    mesh: Any
    code: Code
    elsewhere: Mapping[str, str]
    common: CommonBrokers | None
    held_out: FileSettings | SparseSettings | None

    @property
    @abstractmethod
    def kind(self) -> "FileKind[Any]":
        """The kind of this file."""

    @property
    @abstractmethod
    def owns(self) -> Mapping[str, P]:
        """The own parts that are here."""

    @property
    @abstractmethod
    def members(self) -> Iterable[str]:
        """The names of all members, whether their own parts are here or elsewhere."""

    @property
    @abstractmethod
    def resolved(self) -> Any:
        """The object that the shared part describes, such as a `Mesh`."""

    @property
    @abstractmethod
    def on_topics(self) -> tuple[str, ...]:
        """The members whose own parts are here and whose records are on a topic of a data broker."""

    @property
    @abstractmethod
    def is_partitioned(self) -> bool:
        """Whether a topic of records may have more than one partition."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The dimension d of the vectors that the members learn."""

    @abstractmethod
    def guarantee(self, name: str) -> RunGuarantee:
        """Return the guarantee of a member."""

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error for the value at `path` of this file; `allowed` says what it must be."""
        return MeshFileError([Problem(str(self.path), path, allowed, value).line])

    def data_topics(self, name: str) -> DataTopics:
        """Return the topics on a member's data broker. Raises ValueError for a bad id.

        The member's records may be on a topic that others created. Only its own part tells so.
        """
        return DataTopics(self.mesh.name, name)

    def records_broker(self, name: str) -> BrokerSettings:
        """Return the broker with a member's records. Raises MeshFileError if there is none."""
        return self.brokers(name).data

    def labels_broker(self, name: str) -> BrokerSettings:
        """Return the broker with a member's labels that come later. Raises MeshFileError if there is none."""
        return self.records_broker(name)

    def sources(self, names: Iterable[str]) -> dict[str, str | None]:
        """Return each member's topic of records if others created it, else None."""
        return {name: self.data_topics(name).source for name in names}

    def label_topics(self, names: Iterable[str]) -> dict[str, str]:  # noqa: ARG002 # few members have any
        """Return the topics of labels that come later than records, on the members' data brokers."""
        return {}

    def own(self, name: str) -> P:
        """Return a member's own part. Raises MeshFileError if it is not here, or if the name is unknown."""
        if name not in self.members:
            allowed = f"is no {self.member} of the mesh: {one_of(self.members, name)}"
            raise self.refuse(("mesh", self.part), allowed, name)
        to_run = f"must be here to run the {self.member}"
        if name in self.elsewhere:
            raise self.refuse((self.part, name), f"no such file: {to_run}", self.elsewhere[name])
        if name not in self.owns:
            raise self.refuse((self.part, name), f"missing: {to_run}")
        return self.owns[name]

    def brokers(self, name: str) -> BrokersSettings:
        """Return a member's brokers.

        Raises MeshFileError if its own part is not here, or names no brokers.
        """
        brokers, common = self.own(name).brokers, self.common
        if isinstance(brokers, BrokersSettings):
            return brokers
        if brokers is not None:
            return self._with_data(name, brokers)
        if common is None:
            raise self.refuse((self.part, name, "brokers"), "missing: must be given to use a broker")
        if common.data is None:
            place = f"here or for the {self.member} {name}"
            raise self.refuse(("brokers", "data"), f"missing: must be given, {place}")
        return BrokersSettings.model_validate(dict(common))

    def _with_data(self, name: str, own: CommonBrokers) -> BrokersSettings:
        """Return a member's own brokers. Raises MeshFileError if they have no data broker."""
        if own.data is None:
            raise self.refuse((self.part, name, "brokers", "data"), "missing: must be given, for its records")
        return BrokersSettings.model_validate(dict(own))

    @property
    def with_own_loss(self) -> list[str]:
        """The names of the members that have their own loss."""
        return []

    @property
    def target_speed(self) -> float | None:
        """The speed of the target that made-up sensors measure; None if it has none or there is no target."""
        return None

    def own_source(self, name: str) -> tuple[OwnSource, int]:
        """Return a source in the user's own code, and its dimension.

        Raises MeshFileError if there is none.
        """
        raise self.refuse((self.part, name, "source", "kind"), "must be own")

    @property
    @abstractmethod
    def named_brokers(self) -> list[BrokerSettings]:
        """All brokers that this file names, each once, the mesh broker first.

        Raises MeshFileError if there is none.
        """

    @property
    def mesh_broker(self) -> BrokerSettings:
        """The broker that all parties share. Raises MeshFileError if there is none."""
        if self.common is not None:
            return self.common.mesh
        for part in self.owns.values():
            if part.brokers is not None:
                return part.brokers.mesh
        raise self.refuse(("brokers",), "missing: must be given to use a broker")

    @property
    def names_brokers(self) -> bool:
        """Whether this file names any broker. Without a broker the file can be run in one process only."""
        return self.common is not None or any(part.brokers is not None for part in self.owns.values())


def check_file(name: str, value: object) -> None:
    """Raise UsageError unless an argument is a loaded mesh file."""
    check_type(name, value, OwnParts, "must be what mirrormesh.load, or load_collaboration, returns")


def check_member(argument: str, value: object, file: "OwnParts[Any]") -> None:
    """Raise UsageError unless an argument is the name of a member of the file."""
    check_type(argument, value, str, f"must be the name of a {file.member}")
    name = str(value)
    if name not in file.members:
        raise refused(argument, name, f"is no {file.member} of the mesh: {one_of(file.members, name)}")


F = TypeVar("F", bound=OwnParts[Any])
F_co = TypeVar("F_co", bound=OwnParts[Any], covariant=True)


@dataclass(frozen=True, slots=True)
class LazyFunction:
    """A function in a higher layer: `module:name`, imported at its first call."""

    path: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function."""
        return self.function(*arguments, **options)

    @property
    def function(self) -> Callable[..., Any]:
        """The function, imported now if it was not imported before."""
        module, _, name = self.path.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), name)
        return function


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class FileKind(Generic[F_co]):
    """A kind of mesh file.

    Attributes
    ----------
    key, words
        What `mesh.kind` says (None: it is not given), and what a file of the kind describes, in words.
    file, shared, own
        The classes of a file without mistakes, of its shared part, and of an own part.
    shared_problems, own_problems
        Return the mistakes in the shared part, and where own parts do not fit it.
    topics
        (file, name) -> specs: the topics on the mesh broker (name None), or on the data broker of one.
    users, data_users
        (file) -> users of the mesh broker; (file, names) -> those of these parties' data brokers.
    messages
        What its processes send over the mesh broker, in words.
    account
        (file, name, state) -> the account of one of its members.
    outcome
        (file, rounds, seed, state, other_data=) -> the outcome of its run in this process.
    model
        (file, result) -> the model that such a run has learnt.
    histories
        (file) -> the stage of its simulated histories.
    exported
        (raw file, format, name) -> the files that run the processes of a party (None: of the operator), and
        what to warn of.
    journals
        By the application id of its processes' journals: (path, name) -> the lives in one that are of `name`.
        A node's needs none.
    commands
        The function that does each command for files of the kind: the command's own, if that is the same for
        all kinds.
    """

    key: str | None
    words: str
    file: Callable[..., F_co]
    part: str
    shared: type[Settings]
    own: type[Settings]
    shared_problems: Callable[..., list[Problem]]
    own_problems: Callable[..., list[Problem]]
    topics: LazyFunction
    users: LazyFunction
    data_users: LazyFunction
    account: LazyFunction
    outcome: LazyFunction
    model: LazyFunction
    histories: LazyFunction
    exported: LazyFunction
    journals: Mapping[int, LazyFunction]
    messages: str
    commands: Mapping[str, LazyFunction]


@dataclass(frozen=True, slots=True)
class LazyKind:
    """A kind by its key. `path` is `module:name`; it is imported with the first file of the kind."""

    key: str | None
    path: str

    @property
    def kind(self) -> FileKind[Any]:
        """The kind, imported now if it was not imported before."""
        module, _, name = self.path.partition(":")
        kind: FileKind[Any] = getattr(import_module(module), name)
        return kind


class WrongKind(MeshFileError):
    """The file is of a kind for which there is no such command or function.

    `needed` names the needed kind.
    """

    def __init__(self, path: Path, kind: FileKind[Any], needed: str) -> None:
        self._described, self._needed = f"{path} describes {kind.words}", needed
        super().__init__([f"{self._described}: must be {needed}"])

    def of_command(self, command: str) -> UsageError:
        """Return the error for the user who has called the command."""
        return UsageError(f"`{command}` needs {self._needed}; {self._described}.")


def dispatch(command: str, file: OwnParts[Any], *arguments: Any, **options: Any) -> None:
    """Call the function that does a command for files of this kind.

    Raises WrongKind if the kind has no such command.
    """
    place = file.kind.commands.get(command)
    if place is None:
        raise WrongKind(file.path, file.kind, "another kind of mesh file")
    place(file, *arguments, **options)


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads the parts of one mesh file and collects every mistake.

    `secrets`: the files of secrets are here.
    """

    environment: Mapping[str, str]
    secrets: bool = True
    wrong: list[str] = field(default_factory=list)

    def attempt(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read`. If it raises MeshFileError, note the mistakes and return None."""
        try:
            return read()
        except MeshFileError as error:
            self.wrong.extend(error.lines)
            return None

    def note(self, problems: list[Problem]) -> None:
        """Add these mistakes to those collected."""
        self.wrong.extend(problem.line for problem in problems)

    def hint(self, part: str, parts: Mapping[str, Any]) -> None:
        """Add a hint to the line of a missing dimension: the number of features of the first schema in
        `parts`.
        """
        sources = ((name, getattr(settings, "source", None)) for name, settings in parts.items())
        schemas = ((name, getattr(source, "record", None)) for name, source in sources)
        first = next(((name, schema) for name, schema in schemas if schema is not None), None)
        for number, line in enumerate(self.wrong):
            if first is not None and line.endswith(NO_DIMENSION):
                name, schema = first
                self.wrong[number] = f"{line} ({part}.{name}.source.schema makes {schema.width} features)"

    def parts(self, path: Path, kinds: Sequence[LazyKind]) -> tuple[FileKind[Any], dict[str, Any]]:
        """Return the kind of the file, and its parts by key. The part with the members' own parts is a
        mapping.

        A part that is missing is None.
        """
        tree = read_yaml(path)
        if not isinstance(tree, dict) or "mesh" not in tree:
            raise MeshFileError([Problem(str(path), (), "must be a mapping with keys mesh and nodes").line])
        kind = _kind_of(tree["mesh"], kinds)
        part = kind.part
        allowed = ("mesh", part, "brokers", "held_out")
        unknown = [key for key in tree if key not in allowed]
        self.note([Problem(str(path), (key,), f"unknown key: {one_of(allowed, key)}") for key in unknown])
        owns = tree.get(part)
        if not isinstance(owns, dict | None):
            self.note([Problem(str(path), (part,), "must be a mapping from names to own parts", owns)])
            owns = None
        return kind, {key: tree.get(key) for key in allowed} | {part: owns or {}}

    def validated(self, kind: type[S], tree: object, file: Path, path: tuple[str, ...]) -> S:
        """Return the settings in `tree`, at `path` of the file. Raises MeshFileError."""
        return self.adapted(TypeAdapter(kind), tree, file, path)

    def adapted(self, kind: TypeAdapter[T], tree: object, file: Path, path: tuple[str, ...]) -> T:
        """Return what `kind` reads from `tree`, as `validated` does."""
        context = {"folder": file.parent, "environment": self.environment, "secrets": self.secrets}
        try:
            return kind.validate_python(tree, context=context)
        except ValidationError as error:
            wrong = problems(str(file), path, tree, error)
        raise MeshFileError(problem.line for problem in wrong)

    def shared(self, kind: type[Settings], tree: object, file: Path) -> tuple[object, SchemaSettings | None]:
        """Return the shared part with the features that all records share, and these features.

        Raises MeshFileError.
        """
        if "features" not in kind.model_fields:
            return tree, None
        tree = self._with_schema(tree, file, ("mesh",), "features")
        if not isinstance(tree, dict) or not isinstance(tree.get("features"), dict | SchemaSettings):
            return tree, None
        features = self.validated(SchemaSettings, tree["features"], file, ("mesh", "features"))
        return tree | {"features": features}, features

    def own(
        self, kind: type[S], tree: object, file: Path, path: tuple[str, ...], features: SchemaSettings | None
    ) -> S:
        """Return a member's own part, which may be in a file of its own. Raises MeshFileError."""
        if isinstance(tree, str):
            file, path = file.parent / tree, ()
            tree = read_yaml(file)
        if isinstance(tree, dict) and "source" in tree:
            source = self._with_schema(tree["source"], file, (*path, "source"))
            tree = tree | {"source": _with_features(source, features)}
        return self.validated(kind, tree, file, path)

    def source(
        self, tree: object, file: Path, features: SchemaSettings | None
    ) -> FileSettings | SparseSettings:
        """Return the held-out file's settings. Raises MeshFileError."""
        kind: TypeAdapter[FileSettings | SparseSettings] = TypeAdapter(HeldOutSettings)
        source = _with_features(self._with_schema(tree, file, ("held_out",)), features)
        return self.adapted(kind, source, file, ("held_out",))

    def _with_schema(self, source: object, file: Path, path: tuple[str, ...], key: str = "schema") -> object:
        """Return a mapping, at `path` of the file, in which the schema has replaced the path of a schema's
        file.
        """
        if not isinstance(source, dict) or not isinstance(source.get(key), str):
            return source
        schema_file = Path(os.path.normpath(file.parent / source[key]))
        try:
            read_small(schema_file)
        except OSError as error:
            reason = f"cannot be read: {error.strerror or 'no such file'}: must be a YAML file, or a mapping"
            raise MeshFileError([Problem(str(file), (*path, key), reason, source[key]).line]) from None
        return source | {key: self.validated(SchemaSettings, read_yaml(schema_file), schema_file, ())}


def read_file(
    path: Path,
    among: Sequence[LazyKind],
    kinds: Sequence[FileKind[F]] | None,
    environment: Mapping[str, str] | None,
    *,
    secrets: bool,
    code: Iterable[str],
) -> F:
    """Read a mesh file. `among` has all kinds, `kinds` those that the caller can use (None: all of them).

    Raises MeshFileError with every mistake found, one line each; only WrongKind if the file is of another
    kind.
    """
    allowed = Code.of(str(path), code)
    reader = FileReader(os.environ if environment is None else environment, secrets)
    actual, tree = reader.parts(path, among)
    kind: FileKind[F] = actual
    if kinds is not None and actual not in kinds:
        raise WrongKind(path, actual, " or ".join(kind.words for kind in kinds))
    shared, features = reader.shared(kind.shared, tree["mesh"], path)
    mesh = reader.attempt(partial(reader.validated, kind.shared, shared, path, ("mesh",)))
    owns = {name: part for name, part in tree[kind.part].items() if not _is_elsewhere(path, part)}
    results = {
        name: reader.attempt(partial(reader.own, kind.own, part, path, (kind.part, name), features))
        for name, part in owns.items()
    }
    parts = {name: part for name, part in results.items() if part is not None}
    if mesh is None:
        reader.hint(kind.part, parts)
    held_out, common = None, None
    if tree["held_out"] is not None:
        held_out = reader.attempt(partial(reader.source, tree["held_out"], path, features))
    if tree["brokers"] is not None:
        common = reader.attempt(partial(reader.validated, CommonBrokers, tree["brokers"], path, ("brokers",)))
    absent = {name: str(path.parent / part) for name, part in tree[kind.part].items() if name not in owns}
    file = None if mesh is None else kind.file(path, mesh, parts, absent, held_out, common, allowed)
    if file is not None:
        reader.note(kind.shared_problems(str(path), file.resolved))
        reader.note(kind.own_problems(str(path), mesh, tuple(tree[kind.part]), parts, held_out))
    if reader.wrong or file is None:
        raise MeshFileError(told_once(reader.wrong))
    return file


def _with_features(source: object, features: SchemaSettings | None) -> object:
    """Return the settings of a source. One with records and without a schema gets the shared features."""
    if features is None or not isinstance(source, dict) or "schema" in source:
        return source
    return source | {"schema": features} if source.get("kind") in _WITH_SCHEMA else source


_WITH_SCHEMA = {"csv", "json-lines", "parquet", "topic"}


def _kind_of(mesh: object, among: Sequence[LazyKind]) -> FileKind[Any]:
    """Return the kind that the shared part names. An unknown name is read as a kind that has a key."""
    key = mesh.get("kind") if isinstance(mesh, dict) else None
    with_key = next(kind for kind in among if kind.key is not None)
    return next((kind for kind in among if kind.key == key), with_key).kind


def _is_elsewhere(path: Path, own: object) -> bool:
    return isinstance(own, str) and not (path.parent / own).exists()
