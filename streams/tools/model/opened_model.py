"""A model file that is to be used: its loss, and how it says that records are read."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from nodes.losses.losses import Loss
from streams.mesh.errors import ABSENT, MeshFileError, Problem, problems
from streams.mesh.file import MeshFile
from streams.mesh.fits import label_problems
from streams.mesh.mesh import Mesh
from streams.mesh.model_file import Model
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings, NodeSettings
from streams.records.schema_files import Refuser


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model and its file."""

    path: Path
    model: Model

    @property
    def dimension(self) -> int:
        """The number of coordinates that the loss sees, which records must fit."""
        return self.model.loss_dimension

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error for the value at `path` of the model; `allowed` says what it must be."""
        return MeshFileError([Problem(str(self.path), path, allowed, value).line])

    def loss(self, trusted: MeshFile | None) -> Loss:
        """Return the model's loss. Raises MeshFileError.

        A model may come from anybody, so it never runs code: a `trusted` mesh must have the same own loss,
        and must be allowed to run it.
        """
        loss = self.model.loss
        if loss.own is not None:
            if trusted is None or trusted.mesh.loss != loss:
                allowed = "code that no model may have run: give --mesh MESH NODE, of a mesh with that loss"
                raise self.refuse(("loss",), allowed, {"own": loss.own})
            return trusted.resolved.loss
        # only the settings of the loss are known here
        return Mesh(MeshSettings.model_construct(loss=loss, dimension=self.model.dimension)).loss

    def source(self, records: str) -> FileSettings:
        """Return the settings to read the records at the path. Raises MeshFileError."""
        settings = self.model.source
        if settings is None:
            raise self.refuse(("source",), "it does not say how records are read: give --mesh MESH NODE")
        tree = {"source": settings | {"path": records}}
        try:
            source = NodeSettings.model_validate(tree).source
        except ValidationError as error:
            raise MeshFileError(p.line for p in problems(str(self.path), (), tree, error)) from None
        if not isinstance(source, FileSettings):
            raise self.refuse(("source", "kind"), "must be of records in a file", settings.get("kind"))
        return source


def check_fits(file: ModelFile, settings: FileSettings, refuser: Refuser, path: tuple[str, ...]) -> None:
    """Raise MeshFileError unless the settings' records fit the model's dimension and loss."""
    loss, dimension, width = file.model.loss, file.model.loss_dimension, settings.record.width
    if loss.own is None and loss.decisions_per_feature * width != dimension:
        classes = "" if loss.softmax is None else f" for each of {loss.softmax} classes"
        text = f"makes {width} features{classes}: must be {dimension}, the model's dimension"
        raise refuser.refuse((*path, "schema"), text)
    for problem in label_problems("", (*path, "schema", "label"), loss, settings.record.label):
        raise refuser.refuse(problem.path, problem.allowed)
