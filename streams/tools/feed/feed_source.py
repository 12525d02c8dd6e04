"""Opens the source of a feed: the mesh file's, or the file given in its place."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from pathlib import Path

from nodes.machine.time_slots import TimeSlots
from streams.mesh.compatibility import by_time
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.node import FileSettings, LocalisationSettings, OwnSourceSettings, TopicSettings
from streams.mesh.settings.schema import CsrSettings, LibsvmSettings, SparseSettings
from streams.records.decoder import SchemaDecoder
from streams.records.record import CHUNK, RawRecord, moved
from streams.records.sources import Source, check_source, open_source

_AS_LINES = {"csr": "libsvm", "parquet": "csv or json-lines"}
"""Kinds that are no lines, and those that hold the same in lines."""
TimeOf = Callable[[bytes], float | None]
"""Reads a record's time, in seconds since 1970; None if missing or unreadable."""


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The request, beside the mesh file.

    `path`: a file to feed in place of the source's own, `-` for standard input. `records`: feed only the
    first ones. `rate`: records per second. `timestamps`: feed at the pace of the records' times. `shift`: the
    seconds that are added to each of these times, if the mesh file names none.
    """

    path: str | None = None
    records: int | None = None
    rate: float | None = None
    timestamps: bool = False
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class Opened:
    """A source and how to feed it.

    `timed`: Kafka's timestamps are the records' own, read by `time_of` if the source does not give them.
    `most`: the number of lines that the topic is to hold in the end; None: all. `live`: the records are not
    in order of time, so none may wait for its time and hold up others. `piped`: from standard input. `shift`:
    the seconds that have been added to each time. `ahead`: how many records may be read before the first of
    them is sent: of what may wait for its writer, one.
    """

    source: Source
    timed: bool
    most: int | None
    time_of: TimeOf | None
    live: bool = False
    piped: bool = False
    shift: float = 0.0
    ahead: int = 1


def opened(file: MeshFile, node: str, wanted: FeedOptions) -> Opened:
    """Open the source of a node. Raises MeshFileError if it cannot be fed as requested.

    With slots by time a file is sorted by time, and ends with the last slot of the mesh's rounds: later
    records would be waited for, and no slot takes them.
    """
    check_pace(file, rate=wanted.rate, records=wanted.records)
    settings = file.own(node).source
    if wanted.path is not None:
        settings = _in_place(file, node, wanted.path)
        part = file.own(node).model_copy(update={"source": settings})
        file = replace(file, nodes={**file.nodes, node: part})
    if wanted.timestamps:
        _check_times(file, node)
    if wanted.shift and file.mesh.shift:
        text = "the mesh file moves all times already: must be 0 with --shift"
        raise file.refuse(("mesh", "slots", "shift"), text, file.mesh.shift)
    if wanted.shift and not wanted.timestamps and file.mesh.slots.by != "time":
        text = "--shift moves records' times: must be time, or give --timestamps"
        raise file.refuse(("mesh", "slots", "by"), text, file.mesh.slots.by)
    most = wanted.records
    if most is None and isinstance(settings, LocalisationSettings):
        most = _whole_run(file, paced=wanted.timestamps or wanted.rate is not None)
    check_source(file, node)
    source = open_source(file, node, file.mesh.seed)
    timed = by_time(file.mesh)
    # With slots by time the source itself gives the times: a generator's records do not hold them.
    decoder = source.decoder
    read = None
    if not timed and isinstance(decoder, SchemaDecoder):
        read = partial(_later, wanted.shift, decoder.timestamp)
    piped = getattr(settings, "path", None) == "-"
    live = timed and piped
    if wanted.shift:
        later = (RawRecord(value, moved(time, wanted.shift)) for value, time in source.records)
        source = replace(source, records=later)
    if timed and not live:
        source = replace(source, records=takewhile(_inside(file.resolved), source.records))
    shift = wanted.shift or _shift(file, settings)
    ahead = CHUNK if Path(getattr(settings, "path", None) or "-").is_file() else 1
    return Opened(source, timed or wanted.timestamps, most, read, live, piped, shift, ahead)


def check_pace(file: MeshFile, *, rate: float | None = None, records: int | None = None) -> None:
    """Raise MeshFileError for what goes by the places of records, with slots by time, where none may count.

    One record more would delay all later ones at a `rate`, perhaps into another slot, and keep the last of
    the first `records` out.
    """
    if by_time(file.mesh):
        options = {"--rate": rate, "--records": records}
        for option in [option for option, value in options.items() if value is not None]:
            text = (
                f"{option} goes by the place of each record, and with slots by time none may count: must be"
            )
            raise file.refuse(("mesh", "slots", "by"), f"{text} count, or leave {option} out", "time")


def _shift(file: MeshFile, source: object) -> float:
    """Return the seconds by which `open_source` moves times: those of files, as others follow the start."""
    return file.mesh.shift if isinstance(source, FileSettings) else 0.0


def _later(shift: float, time_of: TimeOf, value: bytes) -> float | None:
    return moved(time_of(value), shift)


def _inside(mesh: Mesh) -> Callable[[RawRecord], bool]:
    """Return a function that tells whether a record lies before the end of the last round."""
    slots, rounds = mesh.slots(), mesh.settings.rounds
    if rounds is None or not isinstance(slots, TimeSlots):
        return lambda _: True
    return lambda record: record.timestamp is None or slots.round_of(record.timestamp) <= rounds


def _in_place(file: MeshFile, node: str, path: str) -> FileSettings | SparseSettings:
    settings, at = file.own(node).source, ("nodes", node, "source")
    if settings is None or isinstance(settings, LocalisationSettings | TopicSettings | OwnSourceSettings):
        raise file.refuse(at, f"must have the kind and schema of {path}")
    if path == "-" and settings.kind in _AS_LINES:
        text = f"standard input holds lines: must be {_AS_LINES[settings.kind]}"
        raise file.refuse((*at, "kind"), text, settings.kind)
    if path == "-" and settings.shuffle:
        raise file.refuse((*at, "shuffle"), "standard input cannot be shuffled: must be false", value=True)
    return settings.model_copy(update={"path": path})


def _check_times(file: MeshFile, node: str) -> None:
    settings, at = file.own(node).source, ("nodes", node, "source")
    if isinstance(settings, FileSettings) and settings.record.timestamp is None:
        raise file.refuse((*at, "schema", "timestamp"), "missing: --timestamps needs a column")
    if isinstance(settings, LibsvmSettings | CsrSettings):
        raise file.refuse((*at, "kind"), "has no times, and --timestamps needs them", settings.kind)
    if isinstance(settings, FileSettings) and settings.path == "-" and file.mesh.slots.by == "time":
        text = "standard input goes as it comes with slots by time: --timestamps needs a file"
        raise file.refuse((*at, "path"), text, "-")
    if not isinstance(settings, FileSettings) and file.mesh.slots.by != "time":
        raise file.refuse(at, "--timestamps needs records that have a time: must be a file, or slots by time")


def _whole_run(file: MeshFile, *, paced: bool) -> int | None:
    """Return the number of records that a run takes from a generator, which has no end."""
    mesh = file.mesh
    if mesh.rounds is None and not paced:
        options = "--timestamps" if by_time(mesh) else "--records or --rate"
        text = f"none, and a generator has no end: must be a number, or give {options}"
        raise file.refuse(("mesh", "rounds"), text)
    size = 1 if by_time(mesh) else mesh.slots.size  # one a period
    return None if mesh.rounds is None else mesh.rounds * size
