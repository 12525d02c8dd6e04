"""The secrets of a compose project: each a file, also where the mesh file names a variable."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from streams.tools.export.process_file import ProcessFile
from streams.tools.export.raw_mesh import RawCollaboration, RawMesh
from streams.tools.export.secrets import SIDES, TEXTS

INSIDE = "/run/secrets"
"""Where compose puts a process's secrets."""
OUTSIDE = "${MIRRORMESH_SECRETS:-../secrets}"
"""The folder of all secrets. An export takes the place of its folder, so they are not in there."""


R = TypeVar("R", RawMesh, RawCollaboration)


def as_files(raw: R) -> R:
    """Return the mesh file with a `password_file` for each `password` that is a variable, and so on."""
    tree = dict(raw.tree)
    if tree.get("brokers") is not None:
        tree["brokers"] = _moved(tree["brokers"])
    owns = {
        name: {**node_settings, "brokers": _moved(node_settings["brokers"])}
        if node_settings.get("brokers")
        else node_settings
        for name, node_settings in raw.owns.items()
    }
    return replace(raw, tree=tree, owns=owns)


def _moved(brokers: Mapping[str, Any]) -> dict[str, Any]:
    with_files = dict(brokers)
    for side in SIDES:
        settings = with_files.get(side)
        if settings is None:
            continue
        other_keys = {key: value for key, value in settings.items() if key not in TEXTS}
        files = {f"{key}_file": key for key in TEXTS if settings.get(key) is not None}
        with_files[side] = {**other_keys, **files}
    return with_files


def declared(service: str, file: ProcessFile) -> dict[str, dict[str, str]]:
    """Return the project's secrets of one service: where the file of each is."""
    return {f"{service}-{name}": {"file": f"{OUTSIDE}/{service}/{name}"} for name in file.files}


def used(service: str, file: ProcessFile) -> list[dict[str, str]]:
    """Return a service's own list of its secrets, each under the name that its mesh file knows."""
    return [{"source": f"{service}-{name}", "target": f"{INSIDE}/{name}"} for name in file.files]
