"""Opens CSV, JSON lines and Parquet files with their schema.

Errors name the place in the mesh file or model.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from streams.mesh.errors import ABSENT, MeshFileError, meant
from streams.mesh.settings.node import FileSettings, FrameSettings, is_wide
from streams.records.csv_records import csv_records, not_encoded
from streams.records.decoder import USUAL, CsvFields, Fields, SchemaDecoder, json_fields
from streams.records.faults import csv_options
from streams.records.lines import numbered_lines
from streams.records.parquet import (
    NoPyarrow,
    NotParquet,
    RowDecoder,
    RowFields,
    parquet_columns,
    parquet_lines,
    parquet_row_values,
)
from streams.records.record import longest_record


class Refuser(Protocol):
    """What makes errors about settings: the mesh file or the model that contains them."""

    @property
    def dimension(self) -> int:
        """The number of a decision's coordinates that the loss sees."""

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error for the value at `path`; `allowed` says what it must be."""


def records_to_predict(
    file: Refuser, settings: FileSettings, path: tuple[str, ...], also: Sequence[str] = ()
) -> tuple[Iterator[tuple[int, bytes]], SchemaDecoder]:
    """Return the records' lines with their numbers, and their decoder.

    Labels and times may be missing. `also`: columns to read besides the schema's, if they exist. `path` is
    that of the settings in `file`. Raises MeshFileError.
    """
    return _numbered(file, settings, path, settings.record.features, also, rows=not also)


def opened_file(
    file: Refuser,
    settings: FileSettings,
    path: tuple[str, ...],
    needed: Iterable[str] | None = None,
    also: Sequence[str] = (),
    *,
    rows: bool = False,
) -> tuple[Iterator[bytes], SchemaDecoder]:
    """Return the lines of a file, without its header, and their decoder.

    `needed`: the columns that must exist (by default all). `also`: further columns that rows of Parquet get,
    if they exist. `rows`: only the decoder reads the lines, so Parquet needs no lines.
    """
    numbered, decoder = _numbered(file, settings, path, needed, also, rows=rows)
    return map(itemgetter(1), numbered), decoder


def _numbered(
    file: Refuser,
    settings: FileSettings,
    path: tuple[str, ...],
    needed: Iterable[str] | None,
    also: Sequence[str],
    *,
    rows: bool = False,
) -> tuple[Iterator[tuple[int, bytes]], SchemaDecoder]:
    if settings.kind == "parquet":
        # everything else that is read of a record, besides features and label, is read of its line
        record, later = settings.record, settings.labels is not None
        rows = (
            rows and record.truth is None and record.timestamp is None and record.bound is None and not later
        )
        values, decoder = _parquet(file, settings, path, needed, also, rows=rows)
        return enumerate(values, 1), decoder
    if settings.kind == "csv":
        _check_encoding(file, settings, path)
    lines = _lines(file, settings, path)
    if settings.kind == "csv" and settings.columns is None:
        return lines, _with_header(file, settings, path, _first(lines), needed)
    return lines, file_decoder(file, settings, path, needed)


def _first(lines: Iterator[tuple[int, bytes]]) -> bytes | None:
    return next(lines, (0, None))[1]


def file_decoder(
    file: Refuser, settings: FileSettings, path: tuple[str, ...], needed: Iterable[str] | None = None
) -> SchemaDecoder:
    """Return the records' decoder, by the columns of the settings or of the file's header."""
    if settings.kind != "csv":
        return _decoder(file, settings, json_fields)
    if settings.columns is not None:
        return _of_columns(file, settings, path, settings.columns, "columns", needed)
    if settings.path in {None, "-"}:
        raise file.refuse((*path, "columns"), "missing: must name the columns of CSV lines without a header")
    return _with_header(file, settings, path, _first(_lines(file, settings, path)))


def header_columns(file: Refuser, settings: FileSettings, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the columns that the file's header names; None if the file needs no header.

    Raises MeshFileError.
    """
    if settings.kind != "csv" or settings.columns is not None or settings.path in {None, "-"}:
        return None
    return _header(file, settings, path, _first(_lines(file, settings, path)))


def _parquet(
    file: Refuser,
    settings: FileSettings,
    path: tuple[str, ...],
    needed: Iterable[str] | None,
    also: Sequence[str],
    *,
    rows: bool,
) -> tuple[Iterator[bytes], SchemaDecoder]:
    """Return the rows as JSON lines of the schema's columns, and of those in `also` that exist.

    No other column is read, so its content is no fault of a record. `rows`: as values that the decoder
    decodes as it decodes these lines.
    """
    if isinstance(settings, FrameSettings):
        return _frame(file, settings, path, needed, also)
    name = settings.path
    if name is None or name == "-":
        raise file.refuse((*path, "path"), "must be the path of a Parquet file", name or ABSENT)
    with readable(file, name, path):
        columns = parquet_columns(name)
    _check_columns(file, settings, path, columns, f"the columns of {name} with single values", needed)
    column_names = _read(settings, also, columns)

    def values() -> Iterator[bytes]:
        with readable(file, name, path):
            yield from (
                parquet_row_values(name, column_names, settings.record)
                if rows
                else parquet_lines(name, column_names)
            )

    fields, kind = (RowFields(), RowDecoder) if rows else (json_fields, SchemaDecoder)
    return values(), kind(settings.record, fields, settings.max_record_bytes, file.dimension, columns)


def _read(settings: FileSettings, also: Sequence[str], columns: tuple[str, ...]) -> list[str]:
    return [name for name in dict.fromkeys((*settings.record.columns, *also)) if columns.count(name) == 1]


def _frame(
    file: Refuser,
    settings: FrameSettings,
    path: tuple[str, ...],
    needed: Iterable[str] | None,
    also: Sequence[str],
) -> tuple[Iterator[bytes], SchemaDecoder]:
    """Return rows in memory as rows of a Parquet file are returned."""
    columns = settings.in_memory.columns
    _check_columns(
        file, settings, path, columns, "the columns of the records in memory with single values", needed
    )
    rows = settings.in_memory.lines(_read(settings, also, columns))
    return rows, _decoder(file, settings, json_fields, columns)


def _with_header(
    file: Refuser,
    settings: FileSettings,
    path: tuple[str, ...],
    header: bytes | None,
    needed: Iterable[str] | None = None,
) -> SchemaDecoder:
    columns = _header(file, settings, path, header)
    return _of_columns(file, settings, path, columns, f"the header of {settings.path}", needed)


def _header(
    file: Refuser, settings: FileSettings, path: tuple[str, ...], header: bytes | None
) -> tuple[str, ...]:
    try:
        (columns,) = csv.reader([(header or b"\xff").decode()], **csv_options(settings.dialect or USUAL))
    except (ValueError, csv.Error):
        text = "must be a file that starts with a header row"
        raise file.refuse((*path, "path"), text, settings.path) from None
    if len(columns) == 1 and columns[0] not in settings.record.columns:
        text = f"is not in the header of {settings.path}, which is {json.dumps(columns)[1:-1]}"
        mended = "must be the character between values (mirrormesh check proposes a dialect)"
        delimiter = (settings.dialect or USUAL).delimiter
        raise file.refuse((*path, "dialect", "delimiter"), f"{text}: {mended}", delimiter)
    return tuple(columns)


def _of_columns(
    file: Refuser,
    settings: FileSettings,
    path: tuple[str, ...],
    columns: tuple[str, ...],
    where: str,
    needed: Iterable[str] | None,
) -> SchemaDecoder:
    _check_columns(file, settings, path, columns, where, needed)
    return _decoder(file, settings, CsvFields(columns, settings.dialect), columns)


def _check_columns(
    file: Refuser,
    settings: FileSettings,
    path: tuple[str, ...],
    columns: tuple[str, ...],
    where: str,
    needed: Iterable[str] | None,
) -> None:
    """Raise MeshFileError unless each of the `needed` columns (by default all) exists once."""
    for name in settings.record.columns if needed is None else needed:
        if columns.count(name) != 1:
            times = "twice" if name in columns else "not"
            near = meant(columns, name) if times == "not" else ""
            allowed = f"{times} in {where}, which is {json.dumps(columns)[1:-1]}{near}"
            raise file.refuse((*path, "schema"), allowed, name)


def _decoder(
    file: Refuser, settings: FileSettings, fields: Fields, columns: tuple[str, ...] | None = None
) -> SchemaDecoder:
    return SchemaDecoder(settings.record, fields, settings.max_record_bytes, file.dimension, columns)


def _check_encoding(file: Refuser, settings: FileSettings, path: tuple[str, ...]) -> None:
    """Raise MeshFileError if a regular file is not in its encoding. The whole file is read before any record.

    In a pipe a record that is not in the encoding is unreadable.
    """
    name, encoding = settings.path or "-", (settings.dialect or USUAL).encoding
    if not Path(name).is_file():
        if is_wide(encoding):
            text = "an odd byte of one record would spoil those behind it: must be a regular file, or utf-8"
            raise file.refuse((*path, "path"), f"in {encoding} a pipe cannot be read: {text}", name)
        return
    place = None
    # a damaged rest is reported when it is read, which may never happen
    with readable(file, name, path), suppress(EOFError, zlib.error, gzip.BadGzipFile):
        place = not_encoded(name, encoding)
    if place is not None:
        text = f"line {place.line:,}, at byte {place.byte:,} of the file, is not {encoding}"
        mended = "must be in the encoding that its dialect names (mirrormesh check proposes one)"
        raise file.refuse((*path, "path"), f"{text}: {mended}", name)


def _lines(file: Refuser, settings: FileSettings, path: tuple[str, ...]) -> Iterator[tuple[int, bytes]]:
    if settings.path is None:
        raise file.refuse((*path, "path"), "missing: must be given to read the records here")
    if settings.kind != "csv" or settings.dialect is None:
        return guarded(file, settings.path, path)
    return _csv_lines(file, settings, settings.path, path)


def _csv_lines(
    file: Refuser, settings: FileSettings, name: str, path: tuple[str, ...]
) -> Iterator[tuple[int, bytes]]:
    columns = None if settings.columns is None else len(settings.columns)
    longest = longest_record(settings.record.width, settings.max_record_bytes, file.dimension)
    with readable(file, name, path):
        yield from csv_records(name, settings.dialect, columns, longest)


def guarded(file: Refuser, name: str, path: tuple[str, ...]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers. Raises MeshFileError if it cannot be read."""
    with readable(file, name, path):
        yield from numbered_lines(name)


@contextmanager
def readable(file: Refuser, name: str, path: tuple[str, ...]) -> Iterator[None]:
    """A context that raises MeshFileError for the file if an error of reading it occurs inside."""
    try:
        yield
    except NoPyarrow as error:
        raise file.refuse((*path, "kind"), str(error), "parquet") from None
    except NotParquet as error:
        raise file.refuse((*path, "path"), str(error), name) from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise file.refuse((*path, "path"), f"cannot be read: {reason}", name) from None
