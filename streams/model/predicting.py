"""What a model says of records, and how right it is where their labels are known."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from nodes.losses import Loss
from nodes.predictions import predicted
from streams.local.scoring import Score, score
from streams.mesh_file import build
from streams.mesh_file.settings.errors import ABSENT, MeshFileError, Problem, problems
from streams.mesh_file.settings.mesh import LossSettings, MeshSettings
from streams.mesh_file.settings.node import FileSettings, NodeSettings
from streams.model.model import Model, VectorName
from streams.sources.opening import Refuser, records_to_predict


@dataclass(frozen=True, slots=True)
class Predictions:
    """(line, prediction) of each record, None for one that cannot be read; `score` where labels are known."""

    records: list[tuple[int, float | None]]
    score: Score | None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model and the file that it is in."""

    path: Path
    model: Model

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error that the value at `path` of the model is not as `allowed` says."""
        return MeshFileError([Problem(str(self.path), path, allowed, value).line])

    def loss(self) -> Loss:
        """Return the loss that it was learnt with. Raises MeshFileError."""
        given, loss = self.model.loss, TypeAdapter[LossSettings](LossSettings)
        try:
            known = loss.validate_python(given)
        except ValidationError as error:
            found = problems(str(self.path), ("loss",), given, error)
            raise MeshFileError(problem.line for problem in found) from None
        # of the mesh only what its loss is made of is known here
        return build.loss(MeshSettings.model_construct(loss=known, dimension=self.model.dimension))

    def source(self, records: str) -> FileSettings:
        """Return how it reads the records at the path. Raises MeshFileError."""
        given = self.model.source
        if given is None:
            raise self.refuse(("source",), "it does not say how records are read: give --mesh MESH NODE")
        tree = {"source": given | {"path": records}}
        try:
            found = NodeSettings.model_validate(tree).source
        except ValidationError as error:
            raise MeshFileError(p.line for p in problems(str(self.path), (), tree, error)) from None
        if not isinstance(found, FileSettings):
            raise self.refuse(("source", "kind"), "must be of records in a file", given.get("kind"))
        return found


def predict(
    file: ModelFile, which: VectorName, settings: FileSettings, refuser: Refuser, path: tuple[str, ...]
) -> Predictions:
    """Return what the vector says of the records at the settings' path. Raises MeshFileError.

    `refuser` is the file that the settings are from, where they stand at `path`.
    """
    model = file.model
    if settings.record.width != model.dimension:
        text = f"makes {settings.record.width} features: must be {model.dimension}, the model's dimension"
        raise refuser.refuse((*path, "schema"), text)
    vector = np.array(getattr(model, which))
    first, lines, decoder = records_to_predict(refuser, settings, path)
    parts = [decoder.parts(line) for line in lines]
    readable = [(features, label) for features, label in parts if features is not None]
    if not readable:
        raise refuser.refuse((*path, "path"), "holds no record that can be read", settings.path)
    features = np.array([row for row, _ in readable])
    made = iter(predicted(file.loss(), vector, features).tolist())
    records = [(k, None if row is None else next(made)) for k, (row, _) in enumerate(parts, first)]
    known = np.array([label is not None for _, label in readable])
    if settings.record.label.positive is None or not known.any():
        return Predictions(records, None)
    labels = np.array([label for _, label in readable if label is not None])
    return Predictions(records, score(vector, features[known], labels))
