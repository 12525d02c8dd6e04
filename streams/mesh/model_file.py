"""Reads model files, JSON or npz."""

import json
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator

from nodes.values import FloatArray
from streams.mesh.errors import ABSENT, MeshFileError, Problem, as_path, problems
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.base import Count, Name, Settings, Vector, absent, refusal
from streams.mesh.settings.files import read_small

FORMAT: Final = 1
"""The version of the file's format."""
VectorName = Literal["newest", "average"]

Observed = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1)]


class ModelGuarantee(Settings):
    """The guarantee of this run to the owners of the records, which is that of the weakest node.

    `adjacency`: what it protects, one record (event), or all records of one person (unit), as `nodes` says.

    `epsilon` is null if some node's stream is not protected. `nodes` has each node's sentence.
    """

    adjacency: Literal["event", "unit"]
    epsilon: Annotated[float, Field(gt=0)] | None
    delta: Annotated[float, Field(ge=0, lt=1)]
    nodes: dict[str, str]


class Model(Settings):
    """A model. It is a function of releases and so public. `newest` and `average` have shape (d,).

    `newest` was made from `nodes` nodes at `round`. `average` is over `rounds` rounds, in the way that
    `averaged` describes. `loss` (of the user's own loss only its name) and `source` (kind, schema, columns)
    are as in a mesh file. `observes`: the coordinates of the state that the loss sees, with a motion model;
    None: all.
    """

    format: Literal[1]
    mesh: Name
    run: Name
    round: Count
    nodes: Count
    rounds: Count
    averaged: str
    algorithm: str
    loss: LossSettings
    dimension: Count
    observes: Observed | None = Field(default=None, exclude_if=absent)
    source: dict[str, Any] | None
    guarantee: ModelGuarantee
    own: Name | None = Field(default=None, exclude_if=absent)
    """The owner whose own model this is, fitted to its records without noise: it is not private."""
    newest: Vector
    average: Vector

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for name, vector in (("newest", self.newest), ("average", self.average)):
            if len(vector) != self.dimension:
                raise refusal(f"{name} has {len(vector)} numbers: must have that many", "dimension")
        if self.observes is not None and max(self.observes) >= self.dimension:
            raise refusal(f"must be coordinates from 0 to {self.dimension - 1}", "observes")
        return self

    def seen(self, vector: VectorName) -> FloatArray:
        """Return the coordinates of a vector that the loss sees, shape (m,)."""
        full_vector = np.array(getattr(self, vector))
        return full_vector if self.observes is None else full_vector[list(self.observes)]

    @property
    def loss_dimension(self) -> int:
        """The number of coordinates that the loss sees."""
        return self.dimension if self.observes is None else len(self.observes)


_LARGEST = 1 << 30
_WHOLE = "must be a model that mirrormesh has written, whole"


def read_model(path: str | Path) -> Model:
    """Return the model in the file (npz by its suffix, else JSON). Raises MeshFileError, UsageError."""
    path = as_path("path", path)
    tree = _npz(path) if path.suffix == ".npz" else _json(path)
    if not isinstance(tree, dict) or "format" not in tree:
        raise _refused(path, f"is no model: {_WHOLE}")
    if tree["format"] != FORMAT:
        raise _refused(path, f"is of another version: must be {FORMAT}", "format", tree["format"])
    try:
        return Model.model_validate(tree)
    except ValidationError as error:
        raise MeshFileError(problem.line for problem in problems(str(path), (), tree, error)) from None


def _json(path: Path) -> Any:
    try:
        return json.loads(_bytes(path))
    except (ValueError, RecursionError):
        raise _refused(path, f"is not JSON: {_WHOLE}") from None


def _npz(path: Path) -> Any:
    buffer = BytesIO(_bytes(path))  # numpy leaves a broken file open
    try:
        with np.load(buffer, allow_pickle=False) as arrays:
            about = json.loads(str(arrays["about"]))
            return about | {name: arrays[name].tolist() for name in ("newest", "average")}
    except (
        *(ValueError, TypeError, KeyError, AttributeError, RuntimeError, MemoryError, OSError),
        *(EOFError, SyntaxError, zipfile.BadZipFile, zlib.error),
    ):  # raised by numpy and zipfile for bytes that are not in their format
        raise _refused(path, f"is broken, or no npz file: {_WHOLE}") from None


def _bytes(path: Path) -> bytes:
    try:
        return read_small(path, _LARGEST)
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or 'no such file'}") from None


def _refused(path: Path, allowed: str, key: str | None = None, value: object = ABSENT) -> MeshFileError:
    return MeshFileError([Problem(str(path), () if key is None else (key,), allowed, value).line])
