"""Opens CSV and JSON lines with their schema; errors name the place in the mesh file or model."""

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from streams.mesh.errors import ABSENT, MeshFileError
from streams.mesh.settings.node import FileSettings
from streams.records.decoder import Fields, SchemaDecoder, csv_fields, csv_row, json_fields
from streams.records.lines import lines


class Refuser(Protocol):
    """The holder of settings, which makes errors about them: a mesh file or a model."""

    @property
    def dimension(self) -> int:
        """The dimension d of a decision."""

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error for the value at `path`; `allowed` says what it must be."""


def records_to_predict(
    file: Refuser, settings: FileSettings, path: tuple[str, ...]
) -> tuple[int, Iterator[bytes], SchemaDecoder]:
    """Return the line number of the first record, the records' lines, and their decoder.

    Labels and times may be missing. `path` is that of the settings in `file`. Raises MeshFileError.
    """
    found, decoder = opened_file(file, settings, path, settings.record.features)
    return 2 if settings.kind == "csv" and settings.columns is None else 1, found, decoder


def opened_file(
    file: Refuser, settings: FileSettings, path: tuple[str, ...], needed: Iterable[str] | None = None
) -> tuple[Iterator[bytes], SchemaDecoder]:
    """Return the lines of a file, without its header, and their decoder.

    `needed`: the columns that must be there (by default all).
    """
    found = _lines(file, settings, path)
    if settings.kind == "csv" and settings.columns is None:
        return found, _with_header(file, settings, path, next(found, None), needed)
    return found, file_decoder(file, settings, path, needed)


def file_decoder(
    file: Refuser, settings: FileSettings, path: tuple[str, ...], needed: Iterable[str] | None = None
) -> SchemaDecoder:
    """Return the records' decoder, by the columns of the settings or of the file's header."""
    if settings.kind == "json-lines":
        return _decoder(file, settings, json_fields)
    if settings.columns is not None:
        return _of_columns(file, settings, path, settings.columns, "columns", needed)
    if settings.path in {None, "-"}:
        raise file.refuse((*path, "columns"), "missing: must name the columns of CSV lines without a header")
    return _with_header(file, settings, path, next(_lines(file, settings, path), None))


def _with_header(
    file: Refuser,
    settings: FileSettings,
    path: tuple[str, ...],
    header: bytes | None,
    needed: Iterable[str] | None = None,
) -> SchemaDecoder:
    columns = None if header is None else csv_row(header)
    if columns is None:
        raise file.refuse((*path, "path"), "must be a file that starts with a header row", settings.path)
    return _of_columns(file, settings, path, tuple(columns), f"the header of {settings.path}", needed)


def _of_columns(
    file: Refuser,
    settings: FileSettings,
    path: tuple[str, ...],
    columns: tuple[str, ...],
    where: str,
    needed: Iterable[str] | None,
) -> SchemaDecoder:
    for name in settings.record.columns if needed is None else needed:
        if columns.count(name) != 1:
            what = "twice" if name in columns else "not"
            allowed = f"{what} in {where}, which is {json.dumps(columns)[1:-1]}"
            raise file.refuse((*path, "schema"), allowed, name)
    return _decoder(file, settings, csv_fields(columns), columns)


def _decoder(
    file: Refuser, settings: FileSettings, fields: Fields, columns: tuple[str, ...] | None = None
) -> SchemaDecoder:
    return SchemaDecoder(settings.record, fields, settings.max_record_bytes, file.dimension, columns)


def _lines(file: Refuser, settings: FileSettings, path: tuple[str, ...]) -> Iterator[bytes]:
    if settings.path is None:
        raise file.refuse((*path, "path"), "missing: must be given to read the records here")
    return guarded(file, settings.path, path)


def guarded(file: Refuser, name: str, path: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the lines of a file. Raises MeshFileError if it cannot be read."""
    try:
        yield from lines(name)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise file.refuse((*path, "path"), f"cannot be read: {reason}", name) from None
