"""Opens what the mesh file names: a node's records with their decoder, and the held-out records."""

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from nodes.values import FloatArray
from streams.mesh_file.file import MeshFile
from streams.mesh_file.settings.errors import ABSENT, MeshFileError
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.node import FileSettings, LocalisationSettings, OwnSourceSettings
from streams.mesh_file.settings.privacy import TimeSlots
from streams.mesh_file.settings.schema import ColumnSettings, LabelSettings, SchemaSettings
from streams.sources.decoder import SchemaDecoder, csv_fields, csv_row, json_fields
from streams.sources.lines import lines, ordered
from streams.sources.localisation import measurements, sensor
from streams.sources.own import OwnDecoder
from streams.sources.record import Decoder, RawRecord

_MEASURED = SchemaSettings(
    features={"x": ColumnSettings(number=True), "y": ColumnSettings(number=True)},
    label=LabelSettings(column="distance"),
)


class Refuser(Protocol):
    """What names settings: a mesh file, or a model."""

    def refuse(self, path: tuple[str | int, ...], allowed: str, value: object = ABSENT) -> MeshFileError:
        """Return the error that the value at `path` is not as `allowed` says."""


@dataclass(frozen=True, slots=True)
class Source:
    """A node's records, lazily and once, and what decodes them."""

    records: Iterator[RawRecord]
    decoder: Decoder


def open_source(file: MeshFile, node: str, seed: int) -> Source:
    """Open the source of a node; `seed` makes up data and orders it.

    Raises MeshFileError where the node has no source here, or the source cannot be read.
    """
    settings, path = _source(file, node), ("nodes", node, "source")
    if isinstance(settings, LocalisationSettings):
        return _localisation(settings, file.mesh, node, seed)
    if isinstance(settings, OwnSourceSettings):
        own = OwnDecoder(settings.name, node)
        records = own.records(partial(file.refuse, (*path, "name")))
        records = ordered(records, seed, shuffle=settings.shuffle, take=settings.take)
        return Source(map(RawRecord, records), own)
    found, decoder = _opened(file, settings, path)
    chosen = ordered(found, seed, shuffle=settings.shuffle, take=settings.take)
    if isinstance(file.mesh.slots, TimeSlots):
        return Source((RawRecord(line, decoder.timestamp(line)) for line in chosen), decoder)
    return Source(map(RawRecord, chosen), decoder)


def held_out(file: MeshFile) -> tuple[FloatArray, FloatArray]:
    """Return the held-out records, features (n, d) and labels (n,); what cannot be decoded is left out.

    Raises MeshFileError where there are none.
    """
    if file.held_out is None:
        raise file.refuse(("held_out",), "missing: must be given to score decisions")
    found, decoder = _opened(file, file.held_out, ("held_out",))
    chosen = ordered(found, 0, shuffle=False, take=file.held_out.take)
    decoded = [pair for pair in map(decoder.decode, chosen) if pair is not None]
    if not decoded:
        raise file.refuse(("held_out", "path"), f"{file.held_out.path} holds no record that can be decoded")
    return np.array([features for features, _ in decoded]), np.array([label for _, label in decoded])


def _localisation(settings: LocalisationSettings, mesh: MeshSettings, node: str, seed: int) -> Source:
    number = list(mesh.nodes).index(node)
    position = settings.position or sensor(number, len(mesh.nodes))
    found = measurements(seed, number, position)
    decoder = SchemaDecoder(_MEASURED, json_fields)
    slots = mesh.slots
    if isinstance(slots, TimeSlots):
        middles = (slots.start + (k + 0.5) * slots.period for k in range(1 << 62))
        return Source(map(RawRecord, found, middles), decoder)
    return Source(map(RawRecord, found), decoder)


def decoder(file: MeshFile, node: str) -> Decoder:
    """Return what decodes the node's records, wherever they come from. Raises MeshFileError.

    The columns of a CSV line are those of the settings, or of the header of the file that is named there.
    """
    settings = _source(file, node)
    if isinstance(settings, LocalisationSettings):
        return SchemaDecoder(_MEASURED, json_fields)
    if isinstance(settings, OwnSourceSettings):
        return OwnDecoder(settings.name, node)
    return _decoder(file, settings, ("nodes", node, "source"))


def _source(file: MeshFile, node: str) -> FileSettings | LocalisationSettings | OwnSourceSettings:
    settings = file.own(node).source
    if settings is None:
        raise file.refuse(("nodes", node, "source"), "missing: must be given to run the node here")
    return settings


def records_to_predict(
    file: Refuser, settings: FileSettings, path: tuple[str, ...]
) -> tuple[int, Iterator[bytes], SchemaDecoder]:
    """Return the number of the first record's line, the records' lines, and what decodes their features.

    Their labels and times may be missing. `path` leads to the settings, for `file` to refuse. Raises
    MeshFileError.
    """
    found, decoder = _opened(file, settings, path, settings.record.features)
    return 2 if settings.kind == "csv" and settings.columns is None else 1, found, decoder


def _opened(
    file: Refuser, settings: FileSettings, path: tuple[str, ...], needed: Iterable[str] | None = None
) -> tuple[Iterator[bytes], SchemaDecoder]:
    """Return the lines of a file, after its header where it has one, and their decoder.

    `needed`: the columns that must be there, unless all must.
    """
    found = _lines(file, settings, path)
    if settings.kind == "csv" and settings.columns is None:
        return found, _with_header(file, settings, path, next(found, None), needed)
    return found, _decoder(file, settings, path, needed)


def _decoder(
    file: Refuser, settings: FileSettings, path: tuple[str, ...], needed: Iterable[str] | None = None
) -> SchemaDecoder:
    if settings.kind == "json-lines":
        return SchemaDecoder(settings.record, json_fields)
    if settings.columns is not None:
        return _of_columns(file, settings, path, settings.columns, "columns", needed)
    if settings.path in {None, "-"}:
        raise file.refuse(
            (*path, "columns"), "missing: must say what is on a CSV line that no header goes before"
        )
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
    return SchemaDecoder(settings.record, csv_fields(columns))


def _lines(file: Refuser, settings: FileSettings, path: tuple[str, ...]) -> Iterator[bytes]:
    if settings.path is None:
        raise file.refuse((*path, "path"), "missing: must be given to read the records here")
    return _guarded(file, settings.path, path)


def _guarded(file: Refuser, name: str, path: tuple[str, ...]) -> Iterator[bytes]:
    try:
        yield from lines(name)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise file.refuse((*path, "path"), f"cannot be read: {reason}", name) from None
