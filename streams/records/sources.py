"""Opens the sources of a mesh file: a node's records with their decoder, and the held-out records."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from nodes.sparse import Rows
from nodes.values import FloatArray
from streams.bus.registry import NoRegistryExtra
from streams.mesh.compatibility import by_time
from streams.mesh.errors import ABSENT, MeshFileError
from streams.mesh.file import AnyFile, MeshFile
from streams.mesh.plugins import OwnSource
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import (
    FileSettings,
    FrameSettings,
    HeldOutSettings,
    LocalisationSettings,
    OwnSourceSettings,
    TopicSettings,
)
from streams.mesh.settings.privacy import TimeSlotsSettings
from streams.mesh.settings.schema import ColumnSettings, LabelSettings, SchemaSettings
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings, SparseSettings
from streams.mesh.user_code import UserCode
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.faults import Fault, FaultCounts
from streams.records.lines import ordered
from streams.records.localisation import LABELS, Reading, Readings, sensor
from streams.records.messages import Messages
from streams.records.record import (
    CHUNK,
    Decoder,
    KeptBack,
    RawRecord,
    SparseRow,
    TotalDecoder,
    in_order_of_time,
    moved,
)
from streams.records.schema_files import Refuser, file_decoder, guarded, opened_file
from streams.records.sparse import LibsvmDecoder, NotCsr, csr_lines, is_comment, rows_of

_PLACE = {"x": ColumnSettings(number=True), "y": ColumnSettings(number=True)}
_TRUTH = ("target_x", "target_y")
_FEW = 8
"""With so few records in a slot, decoding by lines is as fast."""


class NoRecord(MeshFileError):
    """The file is readable, but has no record that can be decoded."""


@dataclass(frozen=True, slots=True)
class Source:
    """A node's records, to be read once and lazily, and their decoder."""

    records: Iterator[RawRecord]
    decoder: Decoder


def open_source(file: MeshFile, node: str, seed: int) -> Source:
    """Open the source of a node. `seed` generates and orders data; slots by time sort files by time.

    Raises MeshFileError if the node has no source here, or the source cannot be read.
    """
    settings, path = _source(file, node), ("nodes", node, "source")
    if isinstance(settings, LocalisationSettings):
        return _localisation(settings, file.mesh, node, seed)
    if isinstance(settings, TopicSettings):
        text = "a topic is read by up and node alone: must be a file, or records of your own"
        raise file.refuse((*path, "kind"), text, settings.kind)
    timed = by_time(file.mesh)
    if isinstance(settings, OwnSourceSettings):
        own_source = _own(settings, file, node)
        values = own_source.records(partial(file.refuse, (*path, "name")))
        values = ordered(values, seed, shuffle=settings.shuffle, take=settings.take, by_time=timed)
        return Source(map(RawRecord, values), own_source)
    is_large = not timed and not isinstance(slots := file.mesh.slots, TimeSlotsSettings) and slots.size > _FEW
    lines, decoder = opened_records(file, settings, path, rows=is_large)
    # a record is learnt from when its labels have come
    shift = file.mesh.shift + give_labels(file, settings, path, decoder)
    chosen = ordered(lines, seed, shuffle=settings.shuffle, take=settings.take, by_time=timed)
    _keep_back(file, settings, decoder)
    if timed and isinstance(decoder, SchemaDecoder):
        records = (RawRecord(line, moved(decoder.timestamp(line), shift)) for line in chosen)
        # Standard input may have no end, so it is not sorted, and `run` refuses it.
        return Source(records if settings.path == "-" else in_order_of_time(records), decoder)
    return Source(map(RawRecord, chosen), decoder)


def give_labels(
    file: Refuser, settings: FileSettings | SparseSettings, path: tuple[str, ...], decoder: Decoder
) -> float:
    """Let a file's decoder give the labels that come later, from a file. Return the seconds that records
    wait.

    Raises MeshFileError, which names `path`, if that file cannot be read.
    """
    if not isinstance(settings, FileSettings) or not isinstance(decoder, SchemaDecoder):
        return 0.0
    labels = settings.labels
    if labels is None or labels.path is None:
        return 0.0
    from streams.records.file_labels import FileLabels  # noqa: PLC0415 # few sources have any

    decoder.later = FileLabels(file, settings, labels, path)
    return labels.after


def record_count(file: MeshFile, node: str, most: int) -> int | None:
    """Return the number of records, up to `most`, of a node's file; None without a file that can be read."""
    settings = file.own(node).source if node in file.nodes else None
    if not isinstance(settings, FileSettings | LibsvmSettings | CsrSettings):
        return None
    if not Path(settings.path or "-").is_file():
        return None
    try:
        lines, _ = opened_records(file, settings, ("nodes", node, "source"))
        chosen = ordered(lines, 0, shuffle=False, take=settings.take, by_time=by_time(file.mesh))
        return sum(1 for _ in islice(chosen, most))
    except MeshFileError:
        return None


def check_source(file: MeshFile, node: str) -> None:
    """Raise MeshFileError if a file of lines cannot be read or, with slots by count, holds no record.

    With slots by time a file may also have no record, as a stream without records has empty slots. A pipe is
    not opened, as bytes read from it are gone.
    """
    settings, path = _source(file, node), ("nodes", node, "source")
    readable = isinstance(settings, FrameSettings) or Path(getattr(settings, "path", None) or "-").is_file()
    if isinstance(settings, FileSettings | LibsvmSettings) and readable:
        lines, _ = opened_records(file, settings, path)
        if by_time(file.mesh):
            next(lines, None)
        elif next(ordered(lines, 0, shuffle=False, take=settings.take, by_time=False), None) is None:
            raise file.refuse((*path, "path"), "holds no record", settings.path or ABSENT)


def held_out(file: AnyFile, counts: FaultCounts | None = None) -> tuple[Rows, FloatArray]:
    """Return the held-out records: features (n, d), sparse if the source is, and labels (n,).

    Records that cannot be decoded are left out, and counted in `counts`. Raises MeshFileError if none remain.
    """
    if file.held_out is None:
        raise file.refuse(("held_out",), "missing: must be given to score decisions")
    return decoded(file, file.held_out, ("held_out",), counts)


def records_to_score(file: AnyFile, counts: FaultCounts | None = None) -> tuple[Rows, FloatArray] | None:
    """Return the held-out records as `held_out` does; None if there are none on which to score decisions.

    With slots by time a file of held-out records may be empty: one additional record in a file that `take`
    splits must not decide whether a run ends.
    """
    if file.held_out is None:
        return None
    counts = FaultCounts() if counts is None else counts
    try:
        return held_out(file, counts)
    except NoRecord:
        if by_time(file.mesh) and not counts.records:
            return None
        raise


def decoded(
    file: AnyFile,
    settings: HeldOutSettings,
    path: tuple[str, ...],
    counts: FaultCounts | None = None,
) -> tuple[Rows, FloatArray]:
    """Return a file's records, features (n, d) and labels (n,), without those that cannot be decoded.

    All are counted in `counts`. Raises MeshFileError, which names `path`, if none remain.
    """
    timed = by_time(file.mesh)
    lines, decoder = opened_records(file, settings, path, rows=not timed)
    give_labels(file, settings, path, decoder)
    counts = FaultCounts() if counts is None else counts
    pairs = list[tuple[FloatArray | SparseRow, float]]()
    values = ordered(lines, 0, shuffle=False, take=settings.take, by_time=timed)
    while chunk := list(islice(values, CHUNK)):
        for value, pair in zip(chunk, decoder.decode_each(chunk), strict=True):
            counts.add(None if pair is not None else decoder.fault(value))
            if pair is not None:
                pairs.append(pair)
    if not pairs:
        counts_text = f": {counts}" if counts.malformed else ""
        allowed = f"{settings.path or 'what is in memory'} holds no record that can be decoded{counts_text}"
        refusal = file.refuse((*path, "path"), allowed)
        raise NoRecord(refusal.lines)
    rows, labels = [row for row, _ in pairs], np.array([label for _, label in pairs])
    return rows_of(rows, decoder.dimension), labels


def _localisation(settings: LocalisationSettings, mesh: MeshSettings, node: str, seed: int) -> Source:
    number = list(mesh.nodes).index(node)
    position = settings.position or sensor(number, len(mesh.nodes))
    place = mesh.nodes[node].place
    if place is not None:
        position = (place[0], place[1])
    slots, decoder = mesh.slots, _measured(settings, mesh, node)
    size = 1 if isinstance(slots, TimeSlotsSettings) else slots.size
    readings = Readings(seed, number, position, settings, mesh.target, mesh.loss_of(node), size)
    if isinstance(slots, TimeSlotsSettings):
        return Source(_in_time(islice(readings, settings.last), slots), decoder)
    return Source((RawRecord(reading.value) for reading in readings), decoder)


def _in_time(readings: Iterable[Reading], slots: TimeSlotsSettings) -> Iterator[RawRecord]:
    """Yield the readings that are sent, one in the middle of each slot."""
    for k, reading in enumerate(readings):
        if reading.sent:
            yield RawRecord(reading.value, slots.start + (k + 0.5) * slots.period)


def _measured(settings: LocalisationSettings, mesh: MeshSettings, node: str) -> SchemaDecoder:
    label = LabelSettings(column=LABELS.get(mesh.loss_of(node).name, "distance"))
    schema = SchemaSettings(
        features={} if mesh.public_places else _PLACE, label=label, truth=_TRUTH if settings.truth else None
    )
    return SchemaDecoder(schema, json_fields, settings.max_record_bytes, mesh.loss_dimension)


def _own(settings: OwnSourceSettings, file: MeshFile, node: str) -> "OwnDecoder":
    source, dimension = file.own_source(node)
    return OwnDecoder(source, dimension, settings.max_record_bytes, file.mesh.loss_dimension)


def decoder(file: MeshFile, node: str) -> Decoder:
    """Return the decoder of the node's records, wherever they come from. Raises MeshFileError.

    The columns of a CSV line come from the settings, or from the header of the file named there.
    """
    settings = _source(file, node)
    if isinstance(settings, LocalisationSettings):
        return _measured(settings, file.mesh, node)
    if isinstance(settings, OwnSourceSettings):
        return _own(settings, file, node)
    records_decoder: SchemaDecoder | LibsvmDecoder
    if isinstance(settings, FileSettings):
        records_decoder = file_decoder(file, settings, ("nodes", node, "source"))
    elif isinstance(settings, TopicSettings):
        records_decoder = message_decoder(file, settings, ("nodes", node, "source"))
    else:
        records_decoder = LibsvmDecoder(settings, file.dimension)
    return _keep_back(file, settings, records_decoder)


def _keep_back(
    file: MeshFile,
    settings: FileSettings | SparseSettings | TopicSettings,
    decoder: SchemaDecoder | LibsvmDecoder,
) -> SchemaDecoder | LibsvmDecoder:
    """Let the decoder know which of the node's records are kept back."""
    if settings.keep_back is not None:
        decoder.kept_back = KeptBack(settings.keep_back, by_content=file.mesh.slots.by == "time")
    return decoder


def message_decoder(file: Refuser, settings: TopicSettings, path: tuple[str, ...]) -> SchemaDecoder:
    """Return the decoder of the messages of an existing topic.

    Raises MeshFileError, which names `path`, if the packages that decode them are not installed.
    """
    try:
        messages = Messages(settings)
    except NoRegistryExtra as error:
        raise file.refuse((*path, "format"), str(error), settings.format) from None
    return SchemaDecoder(settings.record, messages, settings.max_record_bytes, file.dimension)


def _source(
    file: MeshFile, node: str
) -> FileSettings | SparseSettings | TopicSettings | LocalisationSettings | OwnSourceSettings:
    settings = file.own(node).source
    if settings is None:
        raise file.refuse(("nodes", node, "source"), "missing: must be given to run the node here")
    return settings


def opened_records(
    file: Refuser, settings: FileSettings | SparseSettings, path: tuple[str, ...], *, rows: bool = False
) -> tuple[Iterator[bytes], SchemaDecoder | LibsvmDecoder]:
    """Return a file's lines in its order, and their decoder. Raises MeshFileError, which names `path`.

    `rows`: as in `opened_file`.
    """
    if isinstance(settings, FileSettings):
        return opened_file(file, settings, path, rows=rows)
    decoder = LibsvmDecoder(settings, file.dimension)
    if settings.path is None:
        raise file.refuse((*path, "path"), "missing: must be given to read the records here")
    if not isinstance(settings, CsrSettings):
        lines = (line for _, line in guarded(file, settings.path, path) if not is_comment(line))
        return lines, decoder
    try:
        return csr_lines(settings.path, settings, file.dimension), decoder
    except NotCsr as error:
        raise file.refuse((*path, "path"), str(error), settings.path) from None
    except OSError as error:
        raise file.refuse((*path, "path"), f"cannot be read: {error.strerror}", settings.path) from None


# Decodes records with a user's own source.

_END = object()


class OwnDecoder(TotalDecoder[FloatArray]):
    """Decodes with a user's own source. It is total: it returns an observation or None, whatever the source
    does.

    An exception of the source is a fault of the record. Like all faults it is reported to the owner, by the
    exception's type alone.
    """

    def __init__(
        self, source: OwnSource, dimension: int, longest: int | None = None, learnt: int = 0
    ) -> None:
        self._source = source
        super().__init__(dimension, longest, learnt)

    def records(self, refusal: Callable[[str], Exception]) -> Iterator[bytes]:
        """Yield the records. The refusal names only the type of an exception, whose text may hold data."""
        raised: list[str] = []
        with UserCode(raised.append):
            values = iter(self._source.records())
        while not raised:
            record: object = None
            with UserCode(raised.append):
                record = next(values, _END)
            if record is _END:
                return
            if isinstance(record, bytes):
                yield record
            elif not raised:
                raised = ["TypeError"]
        raise refusal(f"reading its records raised {raised[0]}")

    def _fault(self, value: bytes) -> Fault:
        kinds: list[str] = []
        self._attempt(value, kinds)
        return Fault(None, f"its source: {kinds[0]}" if kinds else "not a record, by its source")

    def _decoded(self, value: bytes) -> tuple[FloatArray, float] | None:
        return self._attempt(value, [])

    def _attempt(self, value: bytes, kinds: list[str]) -> tuple[FloatArray, float] | None:
        """Return what the source decodes; None for no record. The kind of a failure is added to `kinds`."""
        with UserCode(kinds.append):
            decoded = self._source.decode(value)
            if decoded is None:
                return None
            raw_features, label = np.asarray(decoded[0]), decoded[1]
            if any(isinstance(number, str | bytes) for number in (*raw_features.flat, label)):
                # numpy and Python would read text as numbers, by grammars of their own
                kinds.append("text where a number must be")
                return None
            features, label = raw_features.astype(np.float64), float(label)
            if features.shape == (self.dimension,):
                return (features, label) if np.isfinite(features).all() and np.isfinite(label) else None
            kinds.append("features of another shape")
        return None
