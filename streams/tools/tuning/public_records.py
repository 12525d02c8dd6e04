"""Finds records to try settings on: public ones in a file, or made-up ones."""

from pathlib import Path

import numpy as np

from nodes.sparse import dense
from nodes.values import FloatArray
from streams.mesh.errors import UsageError
from streams.mesh.file import CollaborationFile, MeshFile
from streams.mesh.settings.node import FileSettings
from streams.records.sources import decoded
from streams.tools.tuning.pilot import MovingTargets, Pilot, Resampled, made_up, made_up_by


def made_up_like(file: MeshFile | CollaborationFile, seed: int, option: str) -> Pilot:
    """Return a random pilot for the mesh's loss. Raises UsageError, about the option, if it has none."""
    loss, dimension = file.mesh.loss, file.mesh.loss_dimension
    _check_one_loss(file)
    if loss.name == "range" and dimension == 2:
        return MovingTargets(file.mesh.target.speed if isinstance(file, MeshFile) else None)
    if loss.signed:
        return made_up(dimension, "signs", seed)
    if loss.name in {"squared", "absolute", "huber"}:
        return made_up(dimension, "numbers", seed)
    raise UsageError(f"{option}: there are no made-up records for loss {loss} in {dimension} dimensions")


def made_up_by_schema(file: MeshFile | CollaborationFile, seed: int, option: str) -> tuple[str | None, Pilot]:
    """Return random records with the features of the first schema that is here, and whose it is.

    None: no schema is here, or the loss has records of its own kind. Raises UsageError as `made_up_like`.
    """
    generic = made_up_like(file, seed, option)
    if not isinstance(generic, Resampled):
        return None, generic
    for name, own in file.owns.items():
        if isinstance(own.source, FileSettings):
            kind = "signs" if file.mesh.loss.signed else "numbers"
            return name, made_up_by(own.source.record, kind, seed)
    return None, generic


def from_file(file: MeshFile | CollaborationFile, pilot: Path) -> Pilot:
    """Return the records of a file, in the format of the first party here that has a file.

    Raises UsageError for a node's own file: nothing may be tuned on private records.
    """
    _check_one_loss(file)
    if pilot.is_dir():
        raise UsageError(f"{pilot}: is a folder: must be a file of public records")
    if not pilot.is_file():
        raise UsageError(f"{pilot}: no such file: must be a file of public records")
    for name, own in file.owns.items():
        path = Path(getattr(own.source, "path", None) or "-")
        if path.exists() and pilot.samefile(path):
            whose = f"{file.member} {name}'s own source"
            raise UsageError(f"{pilot}: is {whose}: must be another file, of public records")
    for name, own in file.owns.items():
        if isinstance(own.source, FileSettings):
            settings = own.source.model_copy(update={"path": str(pilot), "take": None, "shuffle": False})
            rows, labels = decoded(file, settings, (file.part, name, "source"))
            return Resampled(dense(rows), labels)
    raise UsageError(
        f"{file.path}: no {file.member} here reads CSV or JSON lines, so the pilot has no schema: "
        f"use --synthetic"
    )


def _check_one_loss(file: MeshFile | CollaborationFile) -> None:
    """Raise UsageError if nodes have losses of their own: trials run all nodes with one."""
    own = [name for name, node in file.mesh.nodes.items() if node.loss] if isinstance(file, MeshFile) else []
    if own:
        raise UsageError(f"{file.path}: node {own[0]} has its own loss: trials are for one loss of all nodes")


def labelled(file: MeshFile, pilot: Pilot) -> tuple[FloatArray, FloatArray]:
    """Return the pilot's rows and labels. Raises UsageError unless these are of two signs."""
    if file.mesh.loss.decisions_per_feature > 1:
        raise UsageError(f"--auc: is for losses of one score, not for {file.mesh.loss}")
    if not isinstance(pilot, Resampled) or len(np.unique(np.sign(pilot.labels))) != 2:
        raise UsageError("--auc: the pilot must have labels of both signs")
    return pilot.features, pilot.labels
