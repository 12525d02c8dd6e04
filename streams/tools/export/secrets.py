"""The secrets of a mesh file's brokers: which there are, none of them written out.

A secret in an exported mesh file is a variable, `${NAME}`, or a file in the process's folder of secrets.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from streams.mesh.errors import Problem

TEXTS = ("password", "key_password")
"""The settings of a broker that are secret themselves."""
FILES = ("password_file", "ca", "certificate", "key", "key_password_file", "signing_key")
"""The settings of a broker that name a file."""
SIDES = ("mesh", "data")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

Tree = Mapping[str, Any]


def written_out(brokers: Any, file: str, path: tuple[str, ...]) -> Iterator[Problem]:
    """Yield a problem for each secret that stands in `brokers`, at `path` of the file, as it is."""
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
    """Return the files that the settings name, by the names that an export gives: their paths as written.

    A path of a password may be the password itself, by mistake: its setting stands for it.
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
    """Return the settings with their files in `folder`, under the names that an export gives."""
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
