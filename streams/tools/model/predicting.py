"""Predicts records with a model, and scores the predictions if labels are known."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from nodes.losses.losses import Loss
from nodes.losses.predictions import predicted
from nodes.values import FloatArray
from streams.local.scoring import Score, score
from streams.mesh.errors import ABSENT, MeshFileError, Problem, problems
from streams.mesh.file import MeshFile
from streams.mesh.fits import label_problems
from streams.mesh.mesh import Mesh
from streams.mesh.model_file import Model, VectorName, read_model
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings, NodeSettings
from streams.records.schema_files import Refuser, records_to_predict


@dataclass(frozen=True, slots=True)
class Predictions:
    """(line, prediction) of each record, None for an unreadable one; `score` if labels are known.

    `classes`: the names of the classes whose numbers are predicted.
    """

    records: list[tuple[int, float | None]]
    classes: tuple[str, ...]
    score: Score | None


def predict(
    model: Path, records: str, vector: VectorName = "average", mesh: tuple[MeshFile, str] | None = None
) -> Predictions:
    """Predict a file of records with a vector of a model file. Raises MeshFileError.

    Records are read as the model says, or like the source of a node of a trusted mesh: (mesh file, node).
    """
    file = ModelFile(model, read_model(model))
    if mesh is None:
        return predictions(file, vector, file.source(records), file, ("source",))
    trusted, node = mesh
    path = ("nodes", node, "source")
    own = trusted.own(node).source
    if not isinstance(own, FileSettings):
        raise trusted.refuse(path, "must be of records in a file to read others as it does")
    settings = own.model_copy(update={"path": records})
    return predictions(file, vector, settings, trusted, path, trusted.mesh)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model and its file."""

    path: Path
    model: Model

    @property
    def dimension(self) -> int:
        """The dimension d of the model's vectors."""
        return self.model.dimension

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error for the value at `path` of the model; `allowed` says what it must be."""
        return MeshFileError([Problem(str(self.path), path, allowed, value).line])

    def loss(self, trusted: MeshSettings | None) -> Loss:
        """Return the model's loss. Raises MeshFileError.

        A model may come from anybody, so it never runs code: a `trusted` mesh must have the same own loss.
        """
        loss = self.model.loss
        if loss.own is not None and (trusted is None or trusted.loss != loss):
            allowed = "code that no model may have run: give --mesh MESH NODE, of a mesh with that loss"
            raise self.refuse(("loss",), allowed, {"own": loss.own})
        # only the settings of the loss are known here
        return Mesh(MeshSettings.model_construct(loss=loss, dimension=self.model.dimension)).loss

    def source(self, records: str) -> FileSettings:
        """Return the settings to read the records at the path. Raises MeshFileError."""
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


def predictions(
    file: ModelFile,
    which: VectorName,
    settings: FileSettings,
    refuser: Refuser,
    path: tuple[str, ...],
    trusted: MeshSettings | None = None,
) -> Predictions:
    """Predict the records at the settings' path with the vector. Raises MeshFileError.

    `refuser` is the file that holds the settings, at `path`.
    """
    loss = file.loss(trusted)
    _fits(file, settings, refuser, path)
    vector = np.array(getattr(file.model, which))
    first, lines, decoder = records_to_predict(refuser, settings, path)
    parts = [decoder.parts(line) for line in lines]
    readable = [(features, label) for features, label in parts if features is not None]
    if not readable:
        raise refuser.refuse((*path, "path"), "holds no record that can be read", settings.path)
    features = np.array([row for row, _ in readable])
    made = iter(_said(file, loss, vector, features))
    records = [(k, None if row is None else next(made)) for k, (row, _) in enumerate(parts, first)]
    classes = (settings.record.label.classes or ()) if file.model.loss.softmax else ()
    known = np.array([label is not None for _, label in readable])
    if not known.any():
        return Predictions(records, classes, None)
    labels = np.array([label for _, label in readable if label is not None])
    return Predictions(records, classes, score(loss, vector, features[known], labels))


def _fits(file: ModelFile, settings: FileSettings, refuser: Refuser, path: tuple[str, ...]) -> None:
    """Raise MeshFileError unless the settings' records fit the model's dimension and loss."""
    loss, dimension, width = file.model.loss, file.model.dimension, settings.record.width
    if loss.own is None and loss.decisions_per_feature * width != dimension:
        classes = "" if loss.softmax is None else f" for each of {loss.softmax} classes"
        text = f"makes {width} features{classes}: must be {dimension}, the model's dimension"
        raise refuser.refuse((*path, "schema"), text)
    for problem in label_problems("", (*path, "schema", "label"), loss, settings.record.label):
        raise refuser.refuse(problem.path, problem.allowed)


def _said(file: ModelFile, loss: Loss, vector: FloatArray, features: FloatArray) -> list[float]:
    try:
        made: list[float] = predicted(loss, vector, features).tolist()
    except ValueError as error:  # an own loss whose decision is not as long as its features
        raise file.refuse(("loss",), str(error), {"own": file.model.loss.own}) from None
    return made
