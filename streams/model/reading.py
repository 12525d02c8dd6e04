"""Reads a model file, JSON or npz: whole, of this version, finite; or says in a line what is wrong."""

import json
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from streams.mesh_file.settings.errors import ABSENT, MeshFileError, Problem, problems
from streams.model.model import FORMAT, Model

_WHOLE = "must be a model that mirrormesh has written, whole"


def read_model(path: Path) -> Model:
    """Return the model in the file (npz by its suffix, else JSON). Raises MeshFileError."""
    tree = _npz(path) if path.suffix == ".npz" else _json(path)
    if not isinstance(tree, dict) or "format" not in tree:
        raise _refused(path, f"is no model: {_WHOLE}")
    if tree["format"] != FORMAT:
        raise _refused(path, f"is of another version: must be {FORMAT}", "format", tree["format"])
    try:
        return Model.model_validate(tree)
    except ValidationError as error:
        raise MeshFileError(found.line for found in problems(str(path), (), tree, error)) from None


def _json(path: Path) -> Any:
    try:
        return json.loads(_bytes(path))
    except (ValueError, RecursionError):
        raise _refused(path, f"is not JSON: {_WHOLE}") from None


def _npz(path: Path) -> Any:
    whole = BytesIO(_bytes(path))  # numpy leaves a broken file open
    try:
        with np.load(whole, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            return about | {name: arrays[name].tolist() for name in ("newest", "average")}
    except (
        *(ValueError, TypeError, KeyError, AttributeError, RuntimeError, MemoryError, OSError),
        *(EOFError, SyntaxError, zipfile.BadZipFile, zlib.error),
    ):  # what numpy and zipfile make of bytes that are none of theirs
        raise _refused(path, f"is broken, or no npz file: {_WHOLE}") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or 'no such file'}") from None
    except ValueError:
        raise _refused(path, "is no path of a file") from None


def _refused(path: Path, allowed: str, key: str | None = None, value: object = ABSENT) -> MeshFileError:
    return MeshFileError([Problem(str(path), () if key is None else (key,), allowed, value).line])
