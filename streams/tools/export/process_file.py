"""The mesh file of one process: the shared part, and of the rest what that process alone needs."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streams.mesh.settings.files import as_yaml
from streams.mesh.settings.node import FileSettings
from streams.records.schema_files import file_decoder, header_columns
from streams.tools.export.raw_mesh import RawCollaboration, RawMesh, files, moved, variables


@dataclass(frozen=True, slots=True)
class ProcessFile:
    """A mesh file's text, and what must be there when it is loaded.

    `variables`: names of the environment. `files`: for each name in the folder of secrets what says where
    it is from: the path in the mesh file, or the setting.
    """

    text: str
    variables: tuple[str, ...]
    files: Mapping[str, str]

    @property
    def checksum(self) -> str:
        """The SHA-256 of the text: another one, and the process must be started anew."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def node_file(raw: RawMesh, node: str, folder: str, private: str) -> ProcessFile:
    """Return the mesh file of a node, whose private endpoint is `private`. Raises MeshFileError.

    Its secrets are in `folder`. A path of records is left out, as the node reads them from its data broker;
    the columns that the file's header names are written out.
    """
    brokers = raw.brokers(node)
    node_settings = {key: value for key, value in raw.owns[node].items() if key != "brokers"}
    if isinstance(node_settings.get("source"), Mapping):
        node_settings["source"] = {
            key: value for key, value in node_settings["source"].items() if key != "path"
        }
        node_settings["source"] |= _columns(raw, node)
    node_settings["private_endpoint"] = private
    return _made(raw, brokers, folder, {"nodes": {node: node_settings}})


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
    """Return the name of the file of an owner's set; None: it is a topic. Raises MeshFileError."""
    path = ("owners", owner, "source")
    source = raw.file.own(owner).source
    if source is None:
        raise raw.file.refuse(path, "missing: must be given to run the owner")
    if source.path is None:
        return None
    name = Path(source.path).name
    if "${" in name:
        raise raw.file.refuse((*path, "path"), "must name its file: set its variables", source.path)
    return name


def learner_file(raw: RawCollaboration, folder: str) -> ProcessFile:
    """Return the mesh file of the learner, whose secrets are in `folder`. Raises MeshFileError."""
    return _made(raw, {"mesh": raw.mesh_broker("the learner")}, folder, {})


def _columns(raw: RawMesh | RawCollaboration, name: str) -> Mapping[str, Any]:
    """Return the columns that a header names; refuse what the process itself would refuse when it starts."""
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
