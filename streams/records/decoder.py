"""Decodes CSV and JSON lines by their schema."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nodes.values import FloatArray
from streams.mesh.settings.schema import SchemaSettings, spelt
from streams.records.columns import bounded, cell, labelled, moment, number
from streams.records.faults import (
    MISSING,
    NO_TIME,
    Fault,
    csv_fault,
    feature_fault,
    json_fault,
    label_fault,
    time_fault,
)
from streams.records.record import TotalDecoder

Fields = Callable[[bytes], Mapping[str, object] | None]
"""Splits a record's bytes into its columns; None if that fails."""


def csv_row(value: bytes) -> list[str] | None:
    """Return the values on a CSV line; None for other bytes."""
    try:
        (row,) = csv.reader([value.decode("utf-8-sig")], strict=True)
    except (ValueError, csv.Error):
        return None
    return row


def csv_fields(columns: tuple[str, ...]) -> Fields:
    """Return the function that splits a CSV line into these columns."""

    def fields(value: bytes) -> dict[str, object] | None:
        row = csv_row(value)
        if row is None or len(row) != len(columns):
            return None
        return dict(zip(columns, row, strict=True))

    return fields


def json_fields(value: bytes) -> Mapping[str, object] | None:
    """Return a JSON object's fields."""
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


class SchemaDecoder(TotalDecoder[FloatArray]):
    """Decodes records by one schema. Total: it returns an observation or None for any bytes.

    `columns`: the columns of CSV lines; None for JSON lines, each of which names its own.
    """

    def __init__(
        self,
        schema: SchemaSettings,
        fields: Fields,
        longest: int | None = None,
        learnt: int = 0,
        columns: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(schema.width, longest, learnt)
        self._schema, self._fields, self.columns = schema, fields, columns
        self._cells = [(name, cell(name, column)) for name, column in schema.features.items()]
        self._label_column, self._label = schema.label.column, labelled(schema.label)
        self._tail = [1.0] if schema.intercept else []
        self._norm, self._time = schema.norm, schema.timestamp
        self.truth_columns = schema.truth or ()

    def parts(self, value: bytes) -> tuple[FloatArray | None, float | None]:
        """Return (features (d,), label); None for a part that the record lacks."""
        return self._total(self._parts, value) or (None, None)

    def text(self, value: bytes, column: str) -> str | None:
        """Return what the record holds in a column, as text; None if it holds no single value there."""
        return self.texts(value, (column,))[0]

    def texts(self, value: bytes, columns: Sequence[str]) -> list[str | None]:
        """Return `text` of each of the columns."""
        fields = self._total(self._fields, value) or {}
        return [spelt(fields.get(column)) for column in columns]

    def truth(self, value: bytes) -> FloatArray | None:
        """Return the right decision, (d,) and finite; None if the record does not hold it."""
        return self._total(self._truth, value)

    def timestamp(self, value: bytes) -> float | None:
        """Return the record's time in seconds since 1970; None if it has none, or an unreadable one."""
        return self._total(self._timestamp, value)

    def time_fault(self, value: bytes) -> Fault | None:
        """Return why `timestamp` gives None for a record; None if it gives a time."""
        if len(value) > self.longest or not value:
            return self.fault(value)
        return self._total(self._why_timeless, value)

    def _decoded(self, value: bytes) -> tuple[FloatArray, float] | None:
        features, label = self._parts(value)
        return None if features is None or label is None else (features, label)

    def _parts(self, value: bytes) -> tuple[FloatArray | None, float | None]:
        fields = self._fields(value)
        if fields is None:
            return None, None
        column = self._label_column
        label = self._label(fields[column]) if column in fields else None
        row: list[float] = []
        for name, features_of in self._cells:
            features = features_of(fields[name]) if name in fields else None
            if features is None:
                return None, label
            row += features
        return bounded(np.array(row + self._tail), self._norm), label

    def _fault(self, value: bytes) -> Fault | None:
        fields = self._fields(value)
        if fields is None:
            return self._unsplit(value)
        for name, column in self._schema.features.items():
            kind = feature_fault(column, fields[name]) if name in fields else MISSING
            if kind is not None:
                return Fault(name, kind)
        label = self._schema.label
        kind = label_fault(label, fields[label.column]) if label.column in fields else MISSING
        return None if kind is None else Fault(label.column, kind)

    def _why_timeless(self, value: bytes) -> Fault | None:
        fields = self._fields(value)
        if fields is None:
            return self._unsplit(value)
        if self._time is None:
            return Fault(None, NO_TIME)
        kind = time_fault(fields[self._time]) if self._time in fields else MISSING
        return None if kind is None else Fault(self._time, kind)

    def _unsplit(self, value: bytes) -> Fault:
        return Fault(None, json_fault(value) if self._fields is json_fields else csv_fault(value))

    def _truth(self, value: bytes) -> FloatArray | None:
        fields = self._fields(value) if self.truth_columns else None
        numbers = [number(fields.get(name)) for name in self.truth_columns] if fields is not None else [None]
        return None if None in numbers else np.array(numbers, dtype=np.float64)

    def _timestamp(self, value: bytes) -> float | None:
        fields = self._fields(value) if self._time is not None else None
        return None if fields is None else moment(fields.get(self._time or ""))
