"""A mesh file as written, the parties of an export, and the mesh file of each of their processes.

These files have `${NAME}` in place of secrets, which an export never sees.
"""

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from streams.collaboration.file import CollaborationFile
from streams.collaboration.settings import CollaborationSettings
from streams.mesh.errors import MeshFileError, Problem, UsageError, one_of
from streams.mesh.file import AnyFile, MeshFile, load, load_any
from streams.mesh.settings.files import as_yaml, read_yaml
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings
from streams.mesh.settings.parties import Party, feeder_user, score_user
from streams.records.schema_files import file_decoder, header_columns

# Finds the secrets of a mesh file's brokers, and refuses any that is written out.
#
# A secret in an exported mesh file is a variable, `${NAME}`, or a file in the process's folder of secrets.

TEXTS = ("password", "key_password")
"""The settings of a broker that are secrets themselves."""
FILES = ("password_file", "ca", "certificate", "key", "key_password_file", "signing_key")
"""The settings of a broker that name a file."""
SIDES = ("mesh", "data")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

Tree = Mapping[str, Any]


def written_out(brokers: Any, file: str, path: tuple[str, ...]) -> Iterator[Problem]:
    """Yield a problem for each secret that is written out in `brokers`, which is at `path` of the file."""
    for side, settings in _sides(brokers):
        for key in TEXTS:
            value = settings.get(key)
            if value is not None and not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
                name = f"{side}_{key}".upper()
                allowed = f"must be ${{{name}}}, or another variable: an export holds no secret"
                yield Problem(file, (*path, side, key), allowed, value)


def variables(brokers: Any) -> tuple[str, ...]:
    """Return the names of the variables in these settings, each once."""
    texts = (
        value for _, settings in _sides(brokers) for value in settings.values() if isinstance(value, str)
    )
    return tuple(dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text)))


def files(brokers: Any) -> dict[str, str]:
    """Return the files that the settings name: their paths as written, by their names in an export.

    The path of a password may be the password itself, by mistake. So the setting's name stands in its place.
    """
    return {
        file_name(side, key): f"brokers.{side}.{key}" if key.endswith("_file") else str(settings[key])
        for side, settings in _sides(brokers)
        for key in FILES
        if settings.get(key) is not None
    }


def file_name(side: str, key: str) -> str:
    """Return the name of a secret's file in an export: `mesh-ca`, `data-password`."""
    return f"{side}-{key.removesuffix('_file').replace('_', '-')}"


def moved(brokers: Tree, folder: str) -> dict[str, Any]:
    """Return the settings with their files in `folder`, under their names in an export."""
    with_paths = dict(brokers)
    for side, settings in _sides(brokers):
        paths = {key: f"{folder}/{file_name(side, key)}" for key in FILES if settings.get(key) is not None}
        with_paths[side] = {**settings, **paths}
    return with_paths


def _sides(brokers: Any) -> Iterator[tuple[str, Tree]]:
    for side in SIDES:
        settings = brokers.get(side) if isinstance(brokers, Mapping) else None
        if isinstance(settings, Mapping):
            yield side, settings


class UnresolvedTexts(Mapping[str, str]):
    """An environment in which each of `names`, and each variable that is not set, expands to itself."""

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


F = TypeVar("F", bound=AnyFile)


@dataclass(frozen=True)
class Raw(Generic[F]):
    """A file without mistakes. `tree`: as written. `file`: as loaded, with the brokers' variables kept.

    `owns` has the own parts that are here, as written, with the schemas of their sources.
    """

    file: F
    tree: Mapping[str, Any]
    owns: Mapping[str, Mapping[str, Any]]

    def brokers(self, name: str) -> Mapping[str, Any]:
        """Return a participant's brokers, as the file has them.

        Only the mesh broker is returned if the participant's records are on no topic. Raises MeshFileError if
        the file names no brokers, or the participant's own part is not here.
        """
        if name in self.file.on_topics:
            self.file.brokers(name)
            return self._written(name)
        if self.file.own(name).brokers is None and self.file.common is None:
            path = (self.file.part, name, "brokers")
            raise self.file.refuse(path, "missing: must be given to use a broker")
        return {"mesh": self._written(name)["mesh"]}

    def _written(self, name: str) -> Mapping[str, Any]:
        brokers: Mapping[str, Any] = self.owns[name].get("brokers") or self.tree["brokers"]
        return brokers

    def brokers_path(self, name: str) -> tuple[str, ...]:
        """Return the keys that lead to a participant's brokers."""
        return (self.file.part, name, "brokers") if self.owns[name].get("brokers") else ("brokers",)

    def mesh_broker(self, whose: str = "a scheduler") -> Mapping[str, Any]:
        """Return the broker of a process without own part. Raises MeshFileError if there is none."""
        if self.file.common is None:
            raise self.file.refuse(("brokers", "mesh"), f"missing: must be given for {whose}")
        settings: Mapping[str, Any] = self.tree["brokers"]["mesh"]
        return settings


RawMesh = Raw[MeshFile]
"""The file of a mesh of nodes."""
RawCollaboration = Raw[CollaborationFile]
"""The file of a collaboration."""


def read(path: Path, code: Iterable[str] = ()) -> RawMesh:
    """Read the file of a mesh. Raises MeshFileError with every mistake; a secret written out is one."""
    tree, texts = _read(path)
    file = load(path, texts, secrets=False, code=code)
    return RawMesh(file, tree, _owns(path, tree, file))


def read_any(path: Path, code: Iterable[str] = ()) -> Raw[AnyFile]:
    """Read a file of either kind, as `read` does."""
    tree, texts = _read(path)
    file = load_any(path, texts, secrets=False, code=code)
    return Raw(file, tree, _owns(path, tree, file))


def _read(path: Path) -> tuple[Any, UnresolvedTexts]:
    """Return the file as written, and the environment to load it with."""
    tree = _with_features(path, read_yaml(path))
    broker_parts = tuple(_brokers(path, tree))
    lines = [
        problem.line for brokers, file, place in broker_parts for problem in written_out(brokers, file, place)
    ]
    if lines:
        raise MeshFileError(lines)
    return tree, UnresolvedTexts(name for brokers, _, _ in broker_parts for name in variables(brokers))


def _with_features(path: Path, tree: Any) -> Any:
    """Return the file as written, with the features that all share, which may be in a file of their own."""
    mesh = tree.get("mesh") if isinstance(tree, Mapping) else None
    if not isinstance(mesh, Mapping) or not isinstance(mesh.get("features"), str):
        return tree
    features = Path(os.path.normpath(path.parent / mesh["features"]))
    if not features.is_file():
        return tree  # loading the file reports that
    return {**tree, "mesh": {**mesh, "features": read_yaml(features)}}


def _owns(path: Path, tree: Any, file: AnyFile) -> dict[str, Mapping[str, Any]]:
    return {name: _own(path, tree[file.part][name]) for name in file.owns}


def _brokers(path: Path, tree: Any) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
    """Yield all brokers as written, each with the file that names them and the keys that lead there."""
    if not isinstance(tree, Mapping):
        return
    yield tree.get("brokers"), str(path), ("brokers",)
    for part in ("nodes", "owners"):
        owns = tree.get(part)
        yield from _brokers_of(path, part, owns) if isinstance(owns, Mapping) else ()


def _brokers_of(path: Path, part: str, owns: Mapping[Any, Any]) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
    for name, member_settings in owns.items():
        if isinstance(member_settings, Mapping):
            yield member_settings.get("brokers"), str(path), (part, str(name), "brokers")
        elif isinstance(member_settings, str) and (path.parent / member_settings).exists():
            part = read_yaml(path.parent / member_settings)
            if isinstance(part, Mapping):
                yield part.get("brokers"), str(path.parent / member_settings), ("brokers",)


def _own(path: Path, own: Any) -> Mapping[str, Any]:
    """Return an own part with its source's schema. Each of them may be in a file of its own."""
    if isinstance(own, str):
        path = path.parent / own
        own = read_yaml(path)
    source = (own or {}).get("source")
    if isinstance(source, Mapping) and isinstance(source.get("schema"), str):
        schema = read_yaml(Path(os.path.normpath(path.parent / source["schema"])))
        return {**own, "source": {**source, "schema": schema}}
    return own or {}


# The parties of an export.


class Participant(NamedTuple):
    """A party of a collaboration: its learner, or an owner."""

    kind: str
    name: str

    @property
    def owner(self) -> bool:
        """Whether it has a set of records."""
        return self.kind == OWNER

    @property
    def nodes(self) -> tuple[str, ...]:
        """The processes of this party that have an own part in the mesh file."""
        return (self.name,) if self.owner else ()


LEARNER, OWNER = "learner", "owner"


def party(mesh: MeshSettings, name: str) -> Party:
    """Return a party of the mesh. Raises UsageError if there is no party of that name."""
    parties = {party.name: party for party in mesh.all_parties}
    return parties[_known(parties, name)]


def participant(settings: CollaborationSettings, name: str) -> Participant:
    """Return a party of a collaboration. Raises UsageError if there is no party of that name."""
    member = _known((settings.learner, *settings.owners), name)
    return Participant(LEARNER if member == settings.learner else OWNER, member)


def _known(names: Collection[str], name: str) -> str:
    if name not in names:
        raise UsageError(f"--party {name}: {one_of(names, name)}")
    return name


# The mesh file of one process: the shared part, and of the rest only what that process needs.


@dataclass(frozen=True, slots=True)
class ProcessFile:
    """A mesh file's text, and the variables and files that must exist when it is loaded.

    `variables`: names of the environment. `files`: for each name in the folder of secrets the origin of that
    secret, which is the path in the mesh file, or the setting.
    """

    text: str
    variables: tuple[str, ...]
    files: Mapping[str, str]

    @property
    def checksum(self) -> str:
        """The SHA-256 of the text. If it changes, the process must be started again."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def node_file(raw: RawMesh, node: str, folder: str, private: str) -> ProcessFile:
    """Return the mesh file of a node, whose private endpoint is `private`. Raises MeshFileError.

    The node's secrets are in `folder`. A path of records is left out, as the node reads its records from its
    data broker; the columns that the file's header names are written out.
    """
    node_settings, own_variables = _own_settings(raw, node)
    node_settings["private_endpoint"] = private
    return _of_node(raw, node, raw.brokers(node), folder, node_settings, own_variables)


def score_file(raw: RawMesh, node: str, folder: str, private: str) -> ProcessFile:
    """Return the mesh file of a process that scores with a node's decisions, as `node_file` does.

    The process has its own user on the data broker. It knows the address of the mesh broker, and no user.
    """
    node_settings, own_variables = _own_settings(raw, node)
    node_settings["score"] = {**node_settings["score"], "private_endpoint": private}
    node_settings.pop("private_endpoint", None)
    return _of_node(raw, node, _data_alone(raw, node, score_user(node)), folder, node_settings, own_variables)


def feed_file(raw: RawMesh, node: str, folder: str, sets: str) -> ProcessFile:
    """Return the mesh file of a process that feeds a node's file from `sets`, as `score_file` does."""
    node_settings, own_variables = _own_settings(raw, node)
    node_settings = {"source": {**raw.owns[node]["source"], "path": f"{sets}/{fed_file(raw, node)}"}}
    return _of_node(
        raw, node, _data_alone(raw, node, feeder_user(node)), folder, node_settings, own_variables
    )


def fed_file(raw: RawMesh, node: str) -> str | None:
    """Return the name of the file that is fed to a node's topic; None: none. Raises MeshFileError."""
    return _file_name(raw, ("nodes", node, "source"), getattr(raw.file.own(node).source, "path", None))


def _data_alone(raw: RawMesh, node: str, user: str) -> Tree:
    """Return the brokers of a process beside a node: `user` on the data broker, of the mesh's the address."""
    brokers = raw.brokers(node)
    data, node_user = dict(brokers["data"]), brokers["data"].get("username")
    if isinstance(node_user, str) and _VARIABLE.search(node_user) is None:
        data["username"] = user
    return {**brokers, "mesh": {"servers": brokers["mesh"]["servers"]}, "data": data}


def _own_settings(raw: RawMesh, node: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a node's own part without brokers, as its process reads it, and the variables in it.

    Raises MeshFileError if the part is not here.
    """
    raw.file.own(node)
    node_settings = {key: value for key, value in raw.owns[node].items() if key != "brokers"}
    own_variables: tuple[str, ...] = ()
    if isinstance(node_settings.get("source"), Mapping):
        own_variables = _of_source(str(raw.file.path), ("nodes", node, "source"), node_settings["source"])
        node_settings["source"] = {
            key: value for key, value in node_settings["source"].items() if key != "path"
        }
        node_settings["source"] |= _columns(raw, node)
    return node_settings, own_variables


def _of_node(
    raw: RawMesh,
    node: str,
    brokers: Tree,
    folder: str,
    node_settings: Tree,
    own_variables: tuple[str, ...],
) -> ProcessFile:
    made_file = _made(raw, brokers, folder, {"nodes": {node: node_settings}})
    return replace(made_file, variables=tuple(dict.fromkeys((*made_file.variables, *own_variables))))


def _of_source(file: str, path: tuple[str, ...], source: Tree) -> tuple[str, ...]:
    """Return the variables of a source's own broker and registry, and of those of its later labels.

    Raises MeshFileError for a secret that is written out or in a file, as an export supports neither.
    """
    wrong, texts = list[str](), list[str]()
    later = source.get("labels")
    labels = _of_source(file, (*path, "labels"), later) if isinstance(later, Mapping) else ()
    for side in ("broker", "registry"):
        settings = source.get(side)
        for key, value in settings.items() if isinstance(settings, Mapping) else ():
            place = (*path, side, key)
            if key in TEXTS and not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
                name = f"{side}_{key}".upper()
                allowed = f"must be ${{{name}}}, or another variable: an export holds no secret"
                wrong.append(Problem(file, place, allowed, value).line)
            elif key in FILES:
                allowed = "must not be given: an export takes files of brokers.mesh and brokers.data alone"
                wrong.append(Problem(file, place, allowed, value).line)
            elif isinstance(value, str):
                texts.append(value)
    if wrong:
        raise MeshFileError(wrong)
    return (*(name for text in texts for name in _VARIABLE.findall(text)), *labels)


def owner_file(raw: RawCollaboration, owner: str, folder: str, private: str, sets: str) -> ProcessFile:
    """Return the mesh file of an owner, as `node_file` does; its set, if it is a file, is in `sets`."""
    brokers, file = raw.brokers(owner), set_file(raw, owner)
    owner_settings = {key: value for key, value in raw.owns[owner].items() if key != "brokers"}
    if file is None:
        owner_settings["source"] = {**owner_settings["source"], **_columns(raw, owner)}
    else:
        owner_settings["source"] = {**owner_settings["source"], "path": f"{sets}/{file}"}
    owner_settings["private_endpoint"] = private
    return _made(raw, brokers, folder, {"owners": {owner: owner_settings}})


def set_file(raw: RawCollaboration, owner: str) -> str | None:
    """Return the name of the file of an owner's set; None if the set is a topic. Raises MeshFileError."""
    path = ("owners", owner, "source")
    source = raw.file.own(owner).source
    if source is None:
        raise raw.file.refuse(path, "missing: must be given to run the owner")
    return _file_name(raw, path, source.path)


def _file_name(raw: RawMesh | RawCollaboration, place: tuple[str, ...], path: str | None) -> str | None:
    if path is None or path == "-":
        return None
    name = Path(path).name
    if "${" in name:
        raise raw.file.refuse((*place, "path"), "must name its file: set its variables", path)
    return name


def learner_file(raw: RawCollaboration, folder: str) -> ProcessFile:
    """Return the mesh file of the learner, whose secrets are in `folder`. Raises MeshFileError."""
    return _made(raw, {"mesh": raw.mesh_broker("the learner")}, folder, {})


def _columns(raw: RawMesh | RawCollaboration, name: str) -> Mapping[str, Any]:
    """Return the columns that a header names. Refuses what the process itself would refuse when it starts."""
    source, path = raw.file.own(name).source, (raw.file.part, name, "source")
    if not isinstance(source, FileSettings):
        return {}
    file_decoder(raw.file, source, path)
    columns = header_columns(raw.file, source, path)
    return {} if columns is None else {"columns": list(columns)}


def scheduler_file(raw: RawMesh, folder: str) -> ProcessFile:
    """Return the mesh file of a scheduler, whose secrets are in `folder`. Raises MeshFileError."""
    return _made(raw, {"mesh": raw.mesh_broker()}, folder, {})


def _made(
    raw: RawMesh | RawCollaboration, brokers: Mapping[str, Any], folder: str, rest: Mapping[str, Any]
) -> ProcessFile:
    tree = {"mesh": raw.tree["mesh"], "brokers": moved(brokers, folder), **rest}
    return ProcessFile(as_yaml(tree), variables(moved(brokers, "")), files(brokers))
