"""Predicts records with a model, and scores the predictions if labels are known."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nodes.losses.losses import Loss
from nodes.losses.predictions import predicted
from nodes.values import FloatArray
from streams.local.scoring import Score, score
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.model_file import VectorName, read_model
from streams.mesh.settings.node import FileSettings
from streams.records.decoder import SchemaDecoder
from streams.records.schema_files import Refuser, records_to_predict
from streams.tools.model.left_out import LeftOut
from streams.tools.model.opened_model import ModelFile, check_fits
from streams.tools.model.threshold import Deciding, check_threshold, decided, probabilities


@dataclass(frozen=True, slots=True)
class Predictions:
    """(line, prediction) of each record, None for an unreadable one; `score` if labels are known.

    `classes`: the names of the classes whose numbers are predicted. `left_out`: why some have no prediction,
    or no label. In the records' order: `ids`, what each holds in the column asked for; and of those that can
    be read `probabilities` of a positive label, for the logistic loss, and what a threshold has `decided`.
    None if there is no such thing.
    """

    records: list[tuple[int, float | None]]
    classes: tuple[str, ...]
    score: Score | None
    left_out: LeftOut
    ids: list[str | None] | None = None
    probabilities: list[float] | None = None
    decided: Deciding | None = None


class Wanted(NamedTuple):
    """What to say of a record beside its prediction: a column of it, and the class by a `threshold`."""

    id_column: str | None = None
    threshold: float | None = None


def predict(
    model: Path,
    records: str,
    vector: VectorName = "average",
    mesh: tuple[MeshFile, str] | None = None,
    *,
    id_column: str | None = None,
    threshold: float | None = None,
) -> Predictions:
    """Predict a file of records with a vector of a model file. Raises MeshFileError, UsageError.

    Records are read as the model says, or like the source of a node of a trusted mesh: (mesh file, node).
    `id_column`: a column to copy. `threshold`: the least probability (logistic) or score of a positive.
    """
    file, options = ModelFile(model, read_model(model)), Wanted(id_column, threshold)
    if mesh is None:
        return predictions(file, vector, file.source(records), file, ("source",), wanted=options)
    trusted, node = mesh
    path = ("nodes", node, "source")
    source = trusted.own(node).source
    if not isinstance(source, FileSettings):
        raise trusted.refuse(path, "must be of records in a file to read others as it does")
    settings = source.model_copy(update={"path": records})
    return predictions(file, vector, settings, trusted, path, trusted, options)


_NOTHING = Wanted()


@np.errstate(over="ignore")  # a score beyond all numbers is infinite
def predictions(
    file: ModelFile,
    which: VectorName,
    settings: FileSettings,
    refuser: Refuser,
    path: tuple[str, ...],
    trusted: MeshFile | None = None,
    wanted: Wanted = _NOTHING,
) -> Predictions:
    """Predict the records at the settings' path with the vector. Raises MeshFileError, UsageError.

    `refuser` is the file that holds the settings, at `path`.
    """
    loss = file.loss(trusted)
    check_fits(file, settings, refuser, path)
    if wanted.threshold is not None:
        check_threshold(wanted.threshold, file.model.loss)
    vector = file.model.seen(which)
    also = () if wanted.id_column is None else (wanted.id_column,)
    first, lines, decoder = records_to_predict(refuser, settings, path, also)
    parts, ids, left_out = [], [], LeftOut()
    if wanted.id_column is not None:
        _check_column(decoder, wanted.id_column, settings.path)
    for line in lines:
        parts.append(decoder.parts(line))
        left_out.add(line, parts[-1], decoder)
        ids.append(None if wanted.id_column is None else decoder.text(line, wanted.id_column))
    readable = [(features, label) for features, label in parts if features is not None]
    if not readable:
        reason = f": {left_out.records}" if parts else ""
        raise refuser.refuse((*path, "path"), f"holds no record that can be read{reason}", settings.path)
    features = np.array([row for row, _ in readable])
    predictions_made = _said(file, loss, vector, features)
    following = iter(predictions_made.tolist())
    records = [(k, None if row is None else next(following)) for k, (row, _) in enumerate(parts, first)]
    classes = (settings.record.label.classes or ()) if file.model.loss.softmax else ()
    is_labelled = np.array([label is not None for _, label in readable])
    labels = np.array([label for _, label in readable if label is not None])
    scored = score(loss, vector, features[is_labelled], labels) if is_labelled.any() else None
    likely = probabilities(loss, predictions_made)
    values = predictions_made if likely is None else likely
    at_threshold = (
        None if wanted.threshold is None else decided(wanted.threshold, values, is_labelled, labels)
    )
    return Predictions(
        records,
        classes,
        scored,
        left_out,
        None if wanted.id_column is None else ids,
        None if likely is None else likely.tolist(),
        at_threshold,
    )


def _check_column(decoder: SchemaDecoder, column: str, where: str | None) -> None:
    """Raise UsageError if the records lack the column; of JSON lines each may have it or not."""
    if decoder.columns is not None and decoder.columns.count(column) != 1:
        columns = json.dumps(decoder.columns)[1:-1]
        raise UsageError(f"--id {column}: must be a column of {where}, once: {columns}")


def _said(file: ModelFile, loss: Loss, vector: FloatArray, features: FloatArray) -> FloatArray:
    try:
        return predicted(loss, vector, features)
    except ValueError as error:  # an own loss whose decision is not as long as its features
        raise file.refuse(("loss",), str(error), {"own": file.model.loss.own}) from None
