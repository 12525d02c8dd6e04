"""Opens what the mesh file names: a node's records with their decoder, and the held-out records."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nodes.values import FloatArray
from streams.mesh_file.file import MeshFile
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.node import FileSettings, LocalisationSettings
from streams.mesh_file.settings.privacy import TimeSlots
from streams.mesh_file.settings.schema import ColumnSettings, LabelSettings, SchemaSettings
from streams.sources.decoder import SchemaDecoder, csv_fields, csv_row, json_fields
from streams.sources.lines import lines, ordered
from streams.sources.localisation import measurements, sensor
from streams.sources.record import Decoder, RawRecord

_MEASURED = SchemaSettings(
    features={"x": ColumnSettings(number=True), "y": ColumnSettings(number=True)},
    label=LabelSettings(column="distance"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """A node's records, lazily and once, and what decodes them."""

    records: Iterator[RawRecord]
    decoder: Decoder


def open_source(file: MeshFile, node: str, seed: int) -> Source:
    """Open the source of a node; `seed` makes up data and orders it.

    Raises MeshFileError where the node has no source here, or the source cannot be read.
    """
    settings, path = file.own(node).source, ("nodes", node, "source")
    if settings is None:
        raise file.refuse(path, "missing: must be given to run the node here")
    if isinstance(settings, LocalisationSettings):
        return _localisation(settings, file.mesh, node, seed)
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


def _opened(
    file: MeshFile, settings: FileSettings, path: tuple[str, ...]
) -> tuple[Iterator[bytes], SchemaDecoder]:
    """Return the lines of a file, after its header where it has one, and their decoder."""
    found = _guarded(file, settings.path, path)
    if settings.kind == "json-lines":
        return found, SchemaDecoder(settings.record, json_fields)
    header = next(found, None)
    columns = None if header is None else csv_row(header)
    if columns is None:
        raise file.refuse((*path, "path"), "must be a file that starts with a header row", settings.path)
    for name in settings.record.columns:
        if columns.count(name) != 1:
            what = "twice" if name in columns else "not"
            allowed = f"{what} in the header of {settings.path}, which is {json.dumps(columns)[1:-1]}"
            raise file.refuse((*path, "schema"), allowed, name)
    return found, SchemaDecoder(settings.record, csv_fields(tuple(columns)))


def _guarded(file: MeshFile, name: str, path: tuple[str, ...]) -> Iterator[bytes]:
    try:
        yield from lines(name)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise file.refuse((*path, "path"), f"cannot be read: {reason}", name) from None
