"""Predicts records with a model, and scores the predictions if labels are known."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
from pydantic import ValidationError

from nodes.losses.evaluation import predicted, unweighted
from nodes.losses.losses import Logistic, Loss
from nodes.prequential import Figures
from nodes.values import BoolArray, FloatArray
from streams.local.scoring import Score, score
from streams.mesh.compatibility import features_apart, label_problems
from streams.mesh.errors import (
    ABSENT,
    MeshFileError,
    Problem,
    UsageError,
    as_file,
    as_path,
    check_type,
    check_word,
    problems,
)
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.model_file import Model, VectorName, read_model
from streams.mesh.settings.algorithm import LossSettings
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings, NodeSettings, TopicSettings
from streams.mesh.settings.schema import SchemaSettings
from streams.metrics.verdict import figures_at
from streams.records.decoder import Parts, SchemaDecoder, joined
from streams.records.faults import EMPTY, MISSING, FaultCounts
from streams.records.record import CHUNK
from streams.records.schema_files import Refuser, records_to_predict

# Predicts one of two classes by a threshold, and computes precision and recall.


@dataclass(frozen=True, slots=True)
class Deciding:
    """The outcome of a threshold: `positive` has for each record whether it is predicted positive.

    `taken`: the number of labelled records predicted positive. `precision`: the share of them that are
    positive; None if there are none. `recall`: the share of the positive records that are predicted positive;
    None if no record is positive.
    """

    threshold: float
    positive: list[bool]
    taken: int
    precision: float | None
    recall: float | None


def check_threshold(threshold: float, loss: LossSettings) -> None:
    """Raise UsageError for a threshold that cannot be compared with the predictions."""
    if not loss.signed:
        raise UsageError(f"--threshold: is for losses of two classes, hinge and logistic, not for {loss}")
    if not math.isfinite(threshold) or (loss.logistic and not 0 <= threshold <= 1):
        allowed = "a probability from 0 to 1, for loss logistic" if loss.logistic else "a finite score"
        raise UsageError(f"--threshold is {threshold:g}: must be {allowed}")


def probabilities(loss: Loss, scores: FloatArray) -> FloatArray | None:
    """Return the logistic loss's probability of a positive label, 1/(1 + e^-score); None for other losses."""
    if not isinstance(unweighted(loss), Logistic):
        return None
    probability: FloatArray = np.exp(-np.logaddexp(0.0, -scores))  # no overflow at any score
    return probability


def prediction_columns(
    loss: Loss, predictions: FloatArray, classes: Sequence[str] = (), threshold: float | None = None
) -> dict[str, list[object]]:
    """Return the columns of predictions (n,), by key, for a file and for a topic of scores.

    `classes`: the names of the classes whose numbers are predicted. `threshold`: the least probability, or
    score, of a positive; None: no class is given.
    """
    if classes:
        places = predictions.astype(int).tolist()
        return {"prediction": places, "class": [classes[place] for place in places]}
    columns: dict[str, list[object]] = {"prediction": predictions.tolist()}
    likely = probabilities(loss, predictions)
    if likely is not None:
        columns["probability"] = likely.tolist()
    if threshold is not None:
        positive = (predictions if likely is None else likely) >= threshold
        columns["class"] = ["positive" if sign else "negative" for sign in positive.tolist()]
    return columns


def decided(threshold: float, values: FloatArray, known: BoolArray, labels: FloatArray) -> Deciding:
    """Predict positive for the records (n,) whose value is at or above the threshold. Return the outcome.

    `labels`: of the records that are `known` to have one.
    """
    positive = values >= threshold
    selected, hits = positive[known], labels > 0.0
    right = int((selected & hits).sum())
    return Deciding(
        threshold,
        positive.tolist(),
        int(selected.sum()),
        right / int(selected.sum()) if selected.any() else None,
        right / int(hits.sum()) if hits.any() else None,
    )


# A model file in use: its loss, and its settings for reading records.


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

    @property
    def schema(self) -> SchemaSettings | None:
        """The schema by which the model was learnt; None if the file does not say. Raises MeshFileError."""
        if "schema" not in (self.model.source or {}):
            return None
        source = self._read_as({"topic": "any"} if (self.model.source or {}).get("kind") == "topic" else {})
        return source.record

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

    def messages(self, topic: str) -> FileSettings | TopicSettings:
        """Return the settings to read a topic's messages, or the lines in them. Raises MeshFileError."""
        kind = (self.model.source or {}).get("kind")
        return self._read_as({"topic": topic} if kind == "topic" else {})

    def source(self, records: str) -> FileSettings:
        """Return the settings to read the records at the path. Raises MeshFileError."""
        settings = self._read_as({"path": records})
        if not isinstance(settings, FileSettings):
            raise self.refuse(("source", "kind"), "must be of records in a file", settings.kind)
        return settings

    def _read_as(self, place: Mapping[str, str]) -> FileSettings | TopicSettings:
        settings = self.model.source
        if settings is None:
            raise self.refuse(("source",), "it does not say how records are read: give --mesh MESH NODE")
        if settings.get("kind") == "topic" and "topic" not in place:
            text = "its records came from a topic: give --mesh MESH NODE, of a node whose source is a file"
            raise self.refuse(("source", "kind"), text, "topic")
        tree = {"source": settings | dict(place)}
        try:
            source = NodeSettings.model_validate(tree).source
        except ValidationError as error:
            raise MeshFileError(p.line for p in problems(str(self.path), (), tree, error)) from None
        if not isinstance(source, FileSettings | TopicSettings):
            raise self.refuse(("source", "kind"), "must be of records with a schema", settings.get("kind"))
        return source


def check_fits(
    file: ModelFile, settings: FileSettings | TopicSettings, refuser: Refuser, path: tuple[str, ...]
) -> None:
    """Raise MeshFileError unless the settings' records fit the model's features and loss.

    Where the model says by which columns it was learnt, the settings' columns must become features alike, in
    the same order. They may have other names.
    """
    loss, dimension, width = file.model.loss, file.model.loss_dimension, settings.record.width
    if file.schema is not None and not file.schema.width:
        text = "has no features: its mesh has public places, which a model does not hold"
        raise file.refuse(("source", "schema"), text)
    if loss.own is None and loss.decisions_per_feature * width != dimension:
        classes = "" if loss.softmax is None else f" for each of {loss.softmax} classes"
        text = f"makes {width} features{classes}: must be {dimension}, the model's dimension"
        raise refuser.refuse((*path, "schema"), text)
    learnt = file.schema
    if learnt is not None:
        renamed = _under_names_of(settings.record, learnt)
        odd = features_apart("", (*path, "schema"), settings.record, renamed, "the model's records")
        if odd is not None:
            raise refuser.refuse(odd.path, odd.allowed)
    for problem in label_problems("", (*path, "schema", "label"), loss, settings.record.label):
        raise refuser.refuse(problem.path, problem.allowed)


def _under_names_of(schema: SchemaSettings, learnt: SchemaSettings) -> SchemaSettings:
    """Return a model's schema with other columns' names; as it is where these are the same or not as many."""
    if schema.features.keys() == learnt.features.keys() or len(schema.features) != len(learnt.features):
        return learnt
    columns = zip(schema.features, learnt.features.values(), strict=True)
    return learnt.model_copy(update={"features": dict(columns)})


# Counts the records that predictions and their score leave out, with the reasons, for the records' owner.

_LOOKED_AT = 100
"""The number of records without a label that are examined again. A file without labels has many."""


@dataclass(slots=True)
class LeftOutRecords:
    """Counts all records, with the faults of those that cannot be read.

    `unlabelled`: the number of those that can be read without a label. `labels`: the faults of the first of
    these, where there is a label that cannot be read.
    """

    records: FaultCounts = field(default_factory=FaultCounts)
    unlabelled: int = 0
    labels: FaultCounts = field(default_factory=FaultCounts)

    def add(self, lines: Sequence[bytes], parts: Parts, decoder: SchemaDecoder) -> None:
        """Add records to the counts, by the results of the decoder."""
        self.records.records += parts.labels.size
        for place in np.flatnonzero(~parts.readable).tolist():
            self.records.add(decoder.fault(lines[place]))
        unlabelled = np.flatnonzero(parts.readable)[np.isnan(parts.labels)]
        for place in unlabelled[: max(0, _LOOKED_AT - self.unlabelled)].tolist():
            fault = decoder.fault(lines[place])
            if fault.kind not in {EMPTY, MISSING}:
                self.labels.add(fault)
        self.unlabelled += unlabelled.size


@dataclass(frozen=True, slots=True)
class PredictionWriter:
    """(line, prediction) of each record, None for an unreadable one. `score` is given if labels are known.

    `classes`: the names of the classes whose numbers are predicted. `left_out`: why some records have no
    prediction, or no label. `ids`: each record's value in the requested column. Of the readable records:
    `probabilities` of a positive label, for the logistic loss; `decided`, the outcome of a threshold;
    `columns`, all columns of their predictions. `places`: partition and offset of messages of a topic. A
    value that does not apply is None. `figures`: the scores beside guessing, with intervals.
    """

    records: list[tuple[int, float | None]]
    classes: tuple[str, ...]
    score: Score | None
    left_out: LeftOutRecords
    ids: list[str | None] | None = None
    probabilities: list[float] | None = None
    decided: Deciding | None = None
    columns: Mapping[str, list[object]] = field(default_factory=dict)
    places: list[tuple[int, int]] | None = None
    figures: Figures | None = None


class ShownColumns(NamedTuple):
    """The output for a record besides its prediction: its value in a column, and the class by a
    `threshold`.
    """

    id_column: str | None = None
    threshold: float | None = None


def predict(
    model: str | Path,
    records: str | Path,
    vector: VectorName = "newest",
    mesh: tuple[MeshFile, str] | None = None,
    *,
    id_column: str | None = None,
    threshold: float | None = None,
) -> PredictionWriter:
    """Predict a file of records with a vector of a model file. Raises MeshFileError, UsageError.

    Records are read as the model says, or like the source of a node of a trusted mesh: (mesh file, node).
    `id_column`: a column to copy. `threshold`: the least probability (logistic) or score of a positive.
    """
    model, records = as_path("model", model), as_file("records", records)
    check_word("vector", vector, get_args(VectorName))
    if id_column is not None:
        check_type("id_column", id_column, str, "must be the name of a column, or None")
    if threshold is not None:
        check_type("threshold", threshold, (int, float), "must be a number, or None")
    file, options = ModelFile(model, read_model(model)), ShownColumns(id_column, threshold)
    if mesh is None:
        return predictions(file, vector, file.source(records), file, ("source",), wanted=options)
    allowed = "must be (mesh file, node), with what mirrormesh.load returns, or None"
    check_type("mesh", mesh, tuple, allowed)
    for value, kind in zip_longest(mesh, (MeshFile, str), fillvalue=type(None)):
        check_type("mesh", value, kind, allowed)
    trusted, node = mesh
    path = ("nodes", node, "source")
    source = trusted.own(node).source
    if not isinstance(source, FileSettings):
        raise trusted.refuse(path, "must be of records in a file to read others as it does")
    settings = source.of_others(str(records))
    return predictions(file, vector, settings, trusted, path, trusted, options)


_NOTHING = ShownColumns()


@np.errstate(over="ignore")  # a score beyond all numbers is infinite
def predictions(
    file: ModelFile,
    which: VectorName,
    settings: FileSettings,
    refuser: Refuser,
    path: tuple[str, ...],
    trusted: MeshFile | None = None,
    wanted: ShownColumns = _NOTHING,
) -> PredictionWriter:
    """Predict the records at the settings' path with the vector. Raises MeshFileError, UsageError.

    `refuser` is the file that holds the settings, at `path`.
    """
    loss = file.loss(trusted)
    check_fits(file, settings, refuser, path)
    if wanted.threshold is not None:
        check_threshold(wanted.threshold, file.model.loss)
    vector = file.model.seen(which)
    also = () if wanted.id_column is None else (wanted.id_column,)
    lines, decoder = records_to_predict(refuser, settings, path, also)
    blocks, ids, left_out, numbers = [], list[str | None](), LeftOutRecords(), list[int]()
    if wanted.id_column is not None:
        _check_column(decoder, wanted.id_column, settings.path)
    while chunk := list(islice(lines, CHUNK)):
        records_read = [line for _, line in chunk]
        numbers += [number for number, _ in chunk]
        blocks.append(decoder.parts_of(records_read))
        left_out.add(records_read, blocks[-1], decoder)
        if wanted.id_column is not None:
            ids += decoder.texts(records_read, wanted.id_column)
    if left_out.records.malformed == len(numbers):
        reason = f": {left_out.records}" if numbers else ""
        raise refuser.refuse((*path, "path"), f"holds no record that can be read{reason}", settings.path)
    classes = (settings.record.label.classes or ()) if file.model.loss.softmax else ()
    given_ids = None if wanted.id_column is None else ids
    reading = RecordsRead(numbers, blocks, left_out, given_ids)
    return written(reading, loss, partial(_said, file, loss, vector), vector, classes, wanted.threshold)


class RecordsRead(NamedTuple):
    """What was read of records: the number of each, the decoder's blocks, and those that are left out.

    `ids`: each record's value in the requested column. `places`: the partition and offset of each, in a
    topic.
    """

    numbers: list[int]
    blocks: list[Parts]
    left_out: LeftOutRecords
    ids: list[str | None] | None = None
    places: list[tuple[int, int]] | None = None


def written(
    reading: RecordsRead,
    loss: Loss,
    predict_rows: Callable[[FloatArray], FloatArray],
    vector: FloatArray,
    classes: tuple[str, ...],
    threshold: float | None,
) -> PredictionWriter:
    """Return the predictions of records, at least one of which is readable. `predict_rows` predicts rows."""
    numbers, blocks, left_out, ids, places = reading
    readable, features, labels = joined(blocks)
    predictions_made = predict_rows(features)
    following = iter(predictions_made.tolist())
    records = [
        (number, next(following) if is_readable else None)
        for number, is_readable in zip(numbers, readable.tolist(), strict=True)
    ]
    is_labelled = ~np.isnan(labels)
    labels = labels[is_labelled]
    with_label = features if is_labelled.all() else features[is_labelled]
    scored = score(loss, vector, with_label, labels) if labels.size else None
    likely = probabilities(loss, predictions_made)
    values = predictions_made if likely is None else likely
    at_threshold = None if threshold is None else decided(threshold, values, is_labelled, labels)
    return PredictionWriter(
        records,
        classes,
        scored,
        left_out,
        ids,
        None if likely is None else likely.tolist(),
        at_threshold,
        prediction_columns(loss, predictions_made, classes, threshold),
        places,
        figures_at(loss, vector, with_label, labels),
    )


def _check_column(decoder: SchemaDecoder, column: str, where: str | None) -> None:
    """Raise UsageError if the records lack the column. Of JSON lines each may have it or not."""
    if decoder.columns is not None and decoder.columns.count(column) != 1:
        columns = json.dumps(decoder.columns)[1:-1]
        raise UsageError(f"--id {column}: must be a column of {where}, once: {columns}")


def _said(file: ModelFile, loss: Loss, vector: FloatArray, features: FloatArray) -> FloatArray:
    try:
        return predicted(loss, vector, features)
    except ValueError as error:  # an own loss whose decision is not as long as its features
        raise file.refuse(("loss",), str(error), {"own": file.model.loss.own}) from None
