"""Makes scores of messages: the values that an application reads, or why a record cannot be scored.

Pure: no broker, no clock. Ordinary messages are decoded many at once, as a node decodes them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import orjson

from nodes.losses.evaluation import predicted
from nodes.losses.losses import Loss
from nodes.values import FloatArray
from streams.mesh.model_file import ModelGuarantee, VectorName
from streams.records.decoder import SchemaDecoder
from streams.records.faults import Fault
from streams.tools.model.predicting import ModelFile, prediction_columns


class ModelVersion(NamedTuple):
    """A vector that scores, of shape (m,) as the loss sees it, with the run and round that it is from.

    `decided`: the time of the decision, in seconds since 1970; None: unknown.
    """

    run: str
    round: int
    vector: FloatArray
    decided: float | None = None


class Models(Protocol):
    """The interface to the newest version of a model."""

    def newest(self) -> ModelVersion | None:
        """Return the newest version; None if there is none yet. Raises BusError."""

    def close(self) -> None:
        """Stop following."""


class FixedModel:
    """A model file's vector."""

    def __init__(self, file: ModelFile, vector: VectorName) -> None:
        model = file.model
        self._version = ModelVersion(model.run, model.round, model.seen(vector))

    def newest(self) -> ModelVersion:
        """Return the file's version."""
        return self._version

    def close(self) -> None:
        """Do nothing, as nothing is open."""


NO_PREDICTION = Fault(None, "the loss gives no prediction")
"""The fault if an own loss has failed, or has given a value that is no number."""


class Scorer:
    """Scores messages with versions of one model.

    `classes`: the names of the classes whose numbers softmax predicts. `threshold`: the least probability, or
    score, of a positive; None: no class is given. `whole`: records have values from keys or headers too.
    """

    def __init__(
        self,
        decoder: SchemaDecoder,
        loss: Loss,
        guarantee: ModelGuarantee,
        *,
        classes: tuple[str, ...] = (),
        threshold: float | None = None,
        whole: bool = False,
    ) -> None:
        self.whole = whole
        self._decoder, self._loss = decoder, loss
        self._classes, self._threshold = classes, threshold
        self._guarantee: dict[str, object] = {"epsilon": guarantee.epsilon}
        if guarantee.delta:
            self._guarantee["delta"] = guarantee.delta

    def scores(self, messages: Sequence[bytes | None], version: ModelVersion) -> list[bytes | Fault | None]:
        """Return for each message its score as JSON, the fault of its record, or None: it holds no record.

        Every message has a result, whatever it holds, and whatever a user-defined loss does.
        """
        outcomes: list[bytes | Fault | None] = [None] * len(messages)
        records = [
            (place, value)
            for place, value in enumerate(messages)
            if value is not None and self._decoder.no_record(value) is None
        ]
        if not records:
            return outcomes
        parts, readable = self._decoder.parts_of([value for _, value in records]), list[int]()
        for (place, value), is_readable in zip(records, parts.readable.tolist(), strict=True):
            if is_readable:
                readable.append(place)
            else:
                outcomes[place] = self._decoder.fault(value)
        if readable:
            for place, score in zip(readable, self._scored(parts.features, version), strict=True):
                outcomes[place] = score
        return outcomes

    def _scored(self, rows: FloatArray, version: ModelVersion) -> list[bytes | Fault]:
        with np.errstate(all="ignore"):  # a score beyond all numbers is infinite
            predictions = predicted(self._loss, version.vector, rows)
        columns = prediction_columns(self._loss, predictions, self._classes, self._threshold)
        about = {"round": version.round, "run": version.run} | self._guarantee
        scored = zip(*columns.values(), strict=True)  # an infinite number becomes null in JSON
        return [
            NO_PREDICTION if is_missing else orjson.dumps(dict(zip(columns, row, strict=True)) | about)
            for is_missing, row in zip(np.isnan(predictions).tolist(), scored, strict=True)
        ]
