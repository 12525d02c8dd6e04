"""Reads Parquet files of numbers as arrays: what their decoder makes of the rows, without a line for each."""

from collections.abc import Callable, Iterator

import numpy as np

from nodes.values import BoolArray, FloatArray, Observations
from streams.mesh.settings.node import FileSettings
from streams.mesh.settings.schema import ColumnSettings, SchemaSettings
from streams.records.parquet import holds_numbers, parquet_numbers
from streams.records.schema_files import Refuser, readable

_MOST_COLUMNS = 128
"""So many numbers are a line that is never too long."""


def number_chunks(
    file: Refuser, settings: object, path: tuple[str, ...], rows: int
) -> Callable[[], Iterator[Observations]] | None:
    """Return what reads the records of a Parquet file anew, up to `rows` at a time; None if lines must.

    All columns must hold numbers and become `number` or `bounds`, and the whole file be taken.
    """
    if not isinstance(settings, FileSettings) or settings.kind != "parquet" or settings.path is None:
        return None
    name, schema = settings.path, settings.record
    columns = (*schema.features, schema.label.column)
    if (
        settings.take
        or settings.max_record_bytes
        or len(schema.columns) > _MOST_COLUMNS
        or not _plain(schema)
    ):
        return None
    with readable(file, name, path):
        if not holds_numbers(name, schema.columns):
            return None

    def chunks() -> Iterator[Observations]:
        with readable(file, name, path):
            for numbers in parquet_numbers(name, columns, rows):
                yield _observations(numbers, schema)

    return chunks


def _plain(schema: SchemaSettings) -> bool:
    label = schema.label
    return (
        schema.norm is None
        and label.positive is None
        and label.classes is None
        and all(column.number or column.bounds is not None for column in schema.features.values())
    )


def _observations(found: FloatArray, schema: SchemaSettings) -> Observations:
    """Return rows (n, features and label) as records; one with a value that is not finite is absent."""
    present: BoolArray = np.logical_and.reduce(np.isfinite(found), 1)
    found[~present] = 0.0
    features = np.empty((present.size, schema.width))
    for k, column in enumerate(schema.features.values()):
        features[:, k] = _scaled(found[:, k], column)
    if schema.intercept:
        features[:, -1] = 1.0
    features[~present] = 0.0
    return Observations(features, found[:, -1].copy(), present)


def _scaled(values: FloatArray, column: ColumnSettings) -> FloatArray:
    if column.bounds is None:
        return values
    lowest, highest = column.bounds
    scaled: FloatArray = (np.minimum(np.maximum(values, lowest), highest) - lowest) / (highest - lowest)
    return scaled
