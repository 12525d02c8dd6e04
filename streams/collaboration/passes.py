"""Passes over an owner's fixed set of records: a pass per query, in chunks, to bound the memory.

A set of up to 32 MiB is decoded once, and kept in memory. A set that is read as arrays is read again in each
pass. A set must not have a record that cannot be decoded: `fixed` refuses the set before anything is spent.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from nodes.collaboration.messages import ReadSet, RecordSet, SetRead
from nodes.losses.evaluation import slot_gradients
from nodes.losses.losses import Loss
from nodes.privacy.private import Private
from nodes.privacy.query import GradientSum, QueryMechanism
from nodes.sparse import dense
from nodes.values import BoolArray, FloatArray, Observations
from streams.collaboration.file import CollaborationFile
from streams.mesh.errors import MeshFileError, told_once
from streams.mesh.settings.node import FileSettings, FrameSettings
from streams.mesh.settings.schema import ColumnSettings, SchemaSettings
from streams.mesh.settings.sparse import SparseSettings
from streams.records.faults import FaultCounts
from streams.records.lines import ordered
from streams.records.observed import observed
from streams.records.parquet import holds_numbers, parquet_numbers
from streams.records.record import Decoder
from streams.records.schema_files import Refuser, readable
from streams.records.sources import opened_records

_MOST_ROWS, _NUMBERS = 1 << 14, 1 << 20
_KEPT = 1 << 22
"""The most numbers of a set that is kept in memory (32 MiB); a larger one is decoded again for each query."""


class Passes:
    """Passes over the records. `values` yields all records for each pass, always in the same order.

    `extent` returns where the records end. `arrays` reads the same records faster, but reports no faults.
    """

    def __init__(
        self,
        file: CollaborationFile,
        owner: str,
        decoder: Decoder,
        values: Callable[[], Iterator[bytes]],
        extent: Callable[[], tuple[tuple[str, int], ...]],
        arrays: Callable[[], Iterator[Observations]] | None = None,
    ) -> None:
        self._file, self._owner, self._decoder = file, owner, decoder
        self._values, self._extent, self._arrays = values, extent, arrays
        self._mechanism, self._loss = file.resolved.mechanism(owner), file.resolved.loss
        self._kept: tuple[tuple[tuple[str, int], ...], list[Observations]] | None = None
        source = file.own(owner).source
        self._source = "" if source is None else file.mesh.source_text(source)

    def fixed(self) -> RecordSet:
        """Return the set in its current state, after decoding every record.

        Raises MeshFileError, which names owner and field, unless the set holds n_l records that can be
        decoded.
        """
        if self._arrays is not None:
            sizes = [(int(chunk.present.sum()), chunk.present.size) for chunk in self._arrays()]
            if (
                sum(present for present, _ in sizes)
                == sum(size for _, size in sizes)
                == self._mechanism.records
            ):
                return self._set(self._mechanism.records)
        return self._set(self._looked_at())

    def _looked_at(self) -> int:
        """Return the number of records, after decoding each from its line. A small set is kept in memory."""
        counts, chunks_kept, numbers, first = FaultCounts(), list[Observations](), 0, 0
        extent, values = self._extent(), self._values()
        while chunk := list(islice(values, _rows(self._decoder))):
            chunk_observations = observed(tuple(chunk), self._decoder)
            for value, present in zip(chunk, chunk_observations.present.tolist(), strict=True):
                counts.add(None if present else self._decoder.fault(value))
                first = first or (0 if present else counts.records)
            numbers += chunk_observations.labels.size * (self._decoder.dimension + 2)
            chunks_kept = [*chunks_kept, chunk_observations] if numbers <= _KEPT else []
        self._kept = (extent, chunks_kept) if numbers <= _KEPT else None
        path = ("owners", self._owner, "source")
        if counts.malformed:
            allowed = f"{counts.malformed:,} of {counts.records:,} records cannot be read ({counts})"
            first_text = "" if first == 0 else f", the first is record {first:,}"
            raise self._file.refuse(
                path, f"{allowed}{first_text}: must be none, as nothing of a set is left out"
            )
        due = self._mechanism.records
        if counts.records != due:
            count_text = "no record" if not counts.records else f"{counts.records:,} of them"
            field = ("mesh", "owners", self._owner, "records")
            raise self._file.refuse(
                field, f"the set holds {count_text}: must be that number, at least 2", due
            )
        return counts.records

    def read(self, asked: ReadSet, wanted: Callable[[], bool] = lambda: True) -> SetRead | None:
        """Return the sum of the clipped gradients at a query's parameters; None if it is no
        longer `wanted`.
        """
        gradient_pass = GradientPass(self._mechanism, self._loss, asked.parameters)
        for chunk in self._chunks():
            if not wanted():
                return None
            gradient_pass.add(chunk)
        return SetRead(asked.query, self._set(gradient_pass.records), gradient_pass.total)

    def whole(self) -> Observations:
        """Return all records of the set at once, for what stays with its owner.

        Raises MeshFileError, as `fixed` does.
        """
        self.fixed()
        chunks_read = list(self._chunks())
        features = np.concatenate([dense(chunk.features) for chunk in chunks_read])
        labels = np.concatenate([chunk.labels for chunk in chunks_read])
        return Observations(features, labels, np.concatenate([chunk.present for chunk in chunks_read]))

    def _chunks(self) -> Iterator[Observations]:
        """Return the set in chunks; from memory, if the set is small and its end has not changed."""
        if self._kept is not None and self._kept[0] == self._extent():
            return iter(self._kept[1])
        return chunks(self._values(), self._decoder) if self._arrays is None else self._arrays()

    def _set(self, records: int) -> RecordSet:
        return RecordSet(self._source, self._extent(), records)


class GradientPass:
    """One pass: the sum of the clipped gradients at `parameters` (d,), chunk by chunk.

    `records` counts all records. Records beyond n_l are not added, as the set must have changed then.
    """

    def __init__(self, mechanism: QueryMechanism, loss: Loss, parameters: FloatArray) -> None:
        self._mechanism, self._gradients = mechanism, partial(slot_gradients, loss, parameters)
        self.total: Private[GradientSum] = mechanism.begin()
        self.records = 0

    @np.errstate(all="ignore")  # data may overflow, and a warning would show it
    def add(self, chunk: Observations) -> None:
        """Add a chunk's gradients, each clipped on its own."""
        self.records += chunk.labels.size
        if self.records <= self._mechanism.records:
            self.total = self._mechanism.add(self.total, Private(chunk).map(self._gradients))


def chunks(values: Iterator[bytes], decoder: Decoder) -> Iterator[Observations]:
    """Yield the records in chunks of up to 2^20 numbers.

    A record that does not decode is absent in its place.
    """
    while chunk := list(islice(values, _rows(decoder))):
        yield observed(tuple(chunk), decoder)


def _rows(decoder: Decoder) -> int:
    return max(1, min(_MOST_ROWS, _NUMBERS // decoder.dimension))


def passes(file: CollaborationFile, owner: str) -> Passes:
    """Return the passes over an owner's file. Raises MeshFileError if there is none that can be read."""
    path = ("owners", owner, "source")
    settings = file.own(owner).source
    if settings is None:
        raise file.refuse(path, "missing: must be given to run the owner here")
    if isinstance(settings, FrameSettings):
        rows = settings.in_memory.rows
        return _passes(file, owner, settings, lambda: (("rows", rows),))
    if settings.path is None:
        raise file.refuse((*path, "path"), "missing: must be given to read the records here")
    place = Path(settings.path)
    if place.exists() and not place.is_file():
        allowed = "is no file that can be read again and again: must be one, as every query reads it"
        raise file.refuse((*path, "path"), allowed, settings.path)

    def extent() -> tuple[tuple[str, int], ...]:
        try:
            return (("bytes", place.stat().st_size),)
        except OSError as error:
            raise file.refuse((*path, "path"), f"cannot be read: {error.strerror}", settings.path) from None

    return _passes(file, owner, settings, extent)


def _passes(
    file: CollaborationFile,
    owner: str,
    settings: FileSettings | SparseSettings,
    extent: Callable[[], tuple[tuple[str, int], ...]],
) -> Passes:
    path = ("owners", owner, "source")
    _, decoder = opened_records(file, settings, path)

    def values() -> Iterator[bytes]:
        lines, _ = opened_records(file, settings, path)
        return ordered(lines, 0, shuffle=False, take=settings.take, by_time=False)

    arrays = number_chunks(file, settings, path, _rows(decoder))
    return Passes(file, owner, decoder, values, extent, arrays)


def fixed_sets(file: CollaborationFile, owners: Iterable[str]) -> dict[str, tuple[Passes, RecordSet]]:
    """Return the owners' passes, and their sets in their current state.

    Raises MeshFileError with all mistakes.
    """
    sets, wrong = {}, list[str]()
    for name in owners:
        try:
            owner_passes = passes(file, name)
            sets[name] = owner_passes, owner_passes.fixed()
        except MeshFileError as error:
            wrong += error.lines
    if wrong:
        raise MeshFileError(told_once(wrong))
    return sets


# Reads Parquet files of numbers as arrays, with the values that their decoder gives, without a line for each
# row.

_MOST_COLUMNS = 128
"""A line of this many numbers is never too long."""


def number_chunks(
    file: Refuser, settings: object, path: tuple[str, ...], rows: int
) -> Callable[[], Iterator[Observations]] | None:
    """Return a reader of a Parquet file's records, up to `rows` at a time; None if it must be read as lines.

    All columns must hold numbers and become `number` or `bounds`, and the source must use the whole file.
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
        and schema.missing is None
        and label.positive is None
        and label.classes is None
        and all(
            column.missing is None and (column.number or column.bounds is not None)
            for column in schema.features.values()
        )
    )


def _observations(found: FloatArray, schema: SchemaSettings) -> Observations:
    """Return rows (n, features and label) as records. A row with a value that is not finite is absent."""
    present: BoolArray = np.logical_and.reduce(np.isfinite(found), 1)
    found[~present] = 0.0
    features = np.empty((present.size, schema.width))
    for k, column in enumerate(schema.features.values()):
        features[:, k] = _scaled(found[:, k], column)
    if schema.intercept:
        features[:, -1] = schema.height
    features[~present] = 0.0
    return Observations(features, found[:, -1].copy(), present)


def _scaled(values: FloatArray, column: ColumnSettings) -> FloatArray:
    if column.bounds is None:
        return values
    lowest, highest = column.bounds
    scaled: FloatArray = (np.minimum(np.maximum(values, lowest), highest) - lowest) / (highest - lowest)
    return scaled
