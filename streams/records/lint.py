"""Finds settings that are valid but probably unintended, by the graph and the first records of the files."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path

from nodes.dynamics import LARGEST_RADIUS
from nodes.machine.slots import TimeSlots
from streams.mesh.algorithm import dynamics
from streams.mesh.compatibility import by_time
from streams.mesh.file import MeshFile, MeshFileError
from streams.mesh.settings.files import TakeSettings
from streams.mesh.settings.node import FileSettings, NodeSettings
from streams.mesh.settings.schema import Unit
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings, SparseSettings
from streams.records.decoder import SchemaDecoder
from streams.records.detection import proposal
from streams.records.faults import Fault, FaultCounts, some_of
from streams.records.notation import FILE
from streams.records.shared_records import shared_records
from streams.records.sources import opened_records
from streams.records.sparse import LibsvmDecoder, record_of
from streams.records.times import A_SECOND
from topology.schedules import CycleSchedule, FixedSchedule, window

# Looks at the first records of a mesh file's files, and says what is allowed there but hardly meant.
#
# For the owner alone: it counts records, and shows no value but those that the mesh file lists.

MOST = 10_000
"""The most records of a file that are looked at; fewer if there are more than five files."""
_ALTOGETHER, _LEAST = 5 * MOST, 100
_Values = Callable[[bytes], Sequence[str | None]]


class ListedWords:
    """Counts a column's values that are listed, and those that differ from a listed one by case alone.

    `place`: the key that lists the words.
    """

    def __init__(self, place: str, words: Sequence[str]) -> None:
        self._place, self._words = place, words
        self._exact = dict.fromkeys(words, 0)
        self._cased = Counter[str]()
        self._folded = {word.casefold(): word for word in words}

    def add(self, value: str | None) -> None:
        """Count a value; None: the record has none."""
        if value is None:
            return
        if value in self._exact:
            self._exact[value] += 1
        elif (word := self._folded.get(value.casefold())) is not None:
            self._cased[word] += 1

    def findings(self, records: str) -> Iterator[str]:
        """Yield a line on the words that never occur, and one on each that occurs in another case.

        It names words of the list alone. `records`: what was looked at, in words.
        """
        never = [f'"{word}"' for word in self._words if not self._exact[word]]
        if never:
            occur = "occurs" if len(never) == 1 else "occur"
            yield f"{self._place}: {some_of(never)} never {occur} in {records}"
        for word, count in self._cased.items():
            differ = "differs" if count == 1 else "differ"
            yield f'{self._place}: {count:,} of {records} {differ} from "{word}" by case alone'


@dataclass
class DataFile:
    """A file, the first place that names it, and what each node takes of it (none of held-out records)."""

    settings: FileSettings | SparseSettings
    place: tuple[str, ...]
    takes: dict[str, TakeSettings] = field(default_factory=dict)


def most_looked_at(files: int) -> int:
    """Return how many records of each of so many files are looked at."""
    return max(_LEAST, min(MOST, _ALTOGETHER // max(1, files)))


def data_files(file: MeshFile) -> list[DataFile]:
    """Return the nodes' regular files, each once, and the held-out one."""
    files: dict[str, DataFile] = {}
    for name, part in file.nodes.items():
        for settings, take in _regular(part.source):
            data_file = DataFile(settings, ("nodes", name, "source"))
            files.setdefault(settings.model_dump_json(), data_file).takes[name] = take
    return [*files.values(), *(DataFile(settings, ("held_out",)) for settings, _ in _regular(file.held_out))]


def _regular(source: object) -> Iterator[tuple[FileSettings | SparseSettings, TakeSettings]]:
    """Yield a regular file's settings, as if all of it were read in its order, and what is taken."""
    if not isinstance(source, FileSettings | LibsvmSettings | CsrSettings):
        return
    if source.path not in {None, "-"} and Path(source.path or "").is_file():
        whole = source.model_copy(update={"take": None, "shuffle": False})
        yield whole, source.take or TakeSettings(every=1, offset=0)


def file_findings(file: MeshFile, one: DataFile, most: int) -> Iterator[str]:
    """Yield a line for each oddity of a file. Raises MeshFileError if it cannot be read so far."""
    lines, decoder = opened_records(file, one.settings, one.place)
    words, values = _listed(one, decoder)
    timed, counts, times = file.mesh.slots.by == "time", FaultCounts(), list[float]()
    for record in islice(lines, most):
        moment = decoder.timestamp(record) if isinstance(decoder, SchemaDecoder) else None
        times += [] if moment is None else [moment]
        counts.add(_fault(decoder, record, timed=timed and bool(one.takes)))
        for column, value in zip(words, values(record), strict=True):
            column.add(value)
    size = 0 if timed else file.mesh.slots.size
    needed = max([most, *(take.offset + (size - 1) * take.every for take in one.takes.values())]) + 1
    record_count = counts.records + sum(1 for _ in islice(lines, needed - counts.records))
    records = _looked_at(counts.records, one.settings.path, whole=record_count <= most)
    if counts.notable:
        are = "is" if counts.malformed == 1 else "are"
        yield f"{'.'.join(one.place)}: {counts.malformed:,} of {records} {are} malformed: {counts}"
    if counts.malformed and (text := proposal(one.settings)):
        yield f"{'.'.join(one.place)}.dialect: {text}"
    yield from _times(file, one, times, records)
    for column in words:
        yield from column.findings(records)
    yield from _short(one, record_count, size)


_UNITS: dict[Unit, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_YEARS = 1e8, 1e11
"""Seconds since 1970 from 1973 to 5138: three decades, so of a number one unit at most makes such a time."""


def _times(file: MeshFile, one: DataFile, times: Sequence[float], records: str) -> Iterator[str]:
    """Yield a line if no record of a node lies in a slot, and one if times look like those of another unit.

    Nothing is guessed: the owner says the unit.
    """
    settings, slots = one.settings, file.resolved.slots()
    if not isinstance(settings, FileSettings) or settings.record.timestamp is None or not times:
        return
    place, last = ".".join(one.place), file.mesh.rounds or inf
    if isinstance(slots, TimeSlots) and one.takes:
        inside = [moment for moment in times if 1 <= slots.round_of(moment + file.mesh.shift) <= last]
        if not inside:
            yield f"{place}: none of {records} lies in a slot, by its time"
    timestamp, (earliest, latest) = settings.record.timestamp, _YEARS
    for unit, name in _UNITS.items():
        ratio = A_SECOND[timestamp.unit] / A_SECOND[unit]
        alike = sum(earliest <= moment * ratio < latest for moment in times)
        if unit != timestamp.unit and 2 * alike > len(times):
            mended = f"timestamp: {{column: {timestamp.column}, unit: {unit}}}"
            yield f"{place}.schema.timestamp: the numbers look like {name} since 1970: say {mended}"


def _short(one: DataFile, records: int, size: int) -> Iterator[str]:
    """Yield a line if nodes take fewer of the file's records than one slot holds."""
    counts = {name: len(range(take.offset, records, take.every)) for name, take in one.takes.items()}
    names = [name for name, count in counts.items() if count < size]
    if names:
        most_held = f"{max(counts[name] for name in names):,}{' at most' if len(names) > 1 else ''}"
        subject = (
            f"{some_of(names)} {'takes' if len(names) == 1 else 'take'} of {one.settings.path} ({most_held})"
        )
        yield f"mesh.slots.size: {size:,} is more than the records that {subject}: they fill no slot"


def _fault(decoder: SchemaDecoder | LibsvmDecoder, record: bytes, *, timed: bool) -> Fault | None:
    if decoder.decode(record) is None:
        return decoder.fault(record)
    return decoder.time_fault(record) if timed and isinstance(decoder, SchemaDecoder) else None


def _listed(one: DataFile, decoder: SchemaDecoder | LibsvmDecoder) -> tuple[list[ListedWords], _Values]:
    """Return the columns with listed words (of held-out records the label alone), and what reads them."""
    settings, place = one.settings, ".".join(one.place)
    if not isinstance(settings, FileSettings):
        numbers = (*(settings.label.positive or ()), *(settings.label.negative or ()))
        return [ListedWords(f"{place}.label", [f"{number:g}" for number in numbers])], _number
    features, label = settings.record.features, settings.record.label
    listed = {name: column.categories for name, column in features.items() if column.categories and one.takes}
    words = [ListedWords(f"{place}.schema.features.{name}", listed[name]) for name in listed]
    allowed = (*(label.positive or ()), *(label.negative or ()), *(label.classes or ()))
    words.append(ListedWords(f"{place}.schema.label", allowed))
    return words, partial(_texts, decoder, (*listed, label.column))


def _texts(decoder: SchemaDecoder | LibsvmDecoder, columns: Sequence[str], record: bytes) -> list[str | None]:
    return decoder.words(record, columns) if isinstance(decoder, SchemaDecoder) else []


def _number(record: bytes) -> Sequence[str | None]:
    """Return the label of a libsvm line as the mesh file spells it."""
    first = record_of(record).split(maxsplit=1)
    number = FILE.number(first[0].decode("ascii", "replace")) if first else None
    return [None if number is None else f"{number:g}"]


def _looked_at(count: int, path: str | None, *, whole: bool) -> str:
    return f"the {'' if whole else 'first '}{count:,} record{'' if count == 1 else 's'} of {path}"


# Counts the listed words of a column in records: those that never occur, or occur in another case. Pure.


def findings(file: MeshFile) -> list[str]:
    """Return a line for each oddity. Raises MeshFileError for all files that cannot be read so far."""
    lines, wrong = [*_unconnected(file), *_growing(file), *_tested_on_learnt(file)], list[str]()
    files = data_files(file)
    for data_file in files:
        try:
            lines += file_findings(file, data_file, most_looked_at(len(files)))
        except MeshFileError as error:
            wrong += error.lines
    if wrong:
        raise MeshFileError(wrong)
    return lines


def _unconnected(file: MeshFile) -> Iterator[str]:
    """Yield a line if the graph is not connected over the horizon; switched edges: over its first rounds."""
    schedule, horizon = file.resolved.schedule, file.mesh.horizon
    turns = len(schedule.parts) if isinstance(schedule, CycleSchedule) else 1
    repeats = isinstance(schedule, CycleSchedule | FixedSchedule)
    if window(schedule, min(turns, horizon) if repeats else horizon, turns) is None:
        over = f"{horizon} rounds, the horizon"
        yield f"mesh.topology: not connected over {over}: what some nodes learn does not reach all others"


def _growing(file: MeshFile) -> Iterator[str]:
    """Yield a line if states grow geometrically under the motion model."""
    model = dynamics(file.mesh)
    radius = 0.0 if model is None else model.spectral_radius()
    if radius > LARGEST_RADIUS:
        allowed = "above 1, so states grow until the set holds them: hardly a model of anything that moves"
        yield f"mesh.algorithm.dynamics.matrix: spectral radius {radius:.6g}: {allowed}"


def _tested_on_learnt(file: MeshFile) -> Iterator[str]:
    if file.held_out is None:
        return
    tested = NodeSettings.model_construct(source=file.held_out)
    parts = {**file.nodes, "held_out": tested}  # no node's name has a _
    names = shared_records(parts, by_time=by_time(file.mesh)).get("held_out")
    if names:
        learn = f"{some_of(names)} {'learns' if len(names) == 1 else 'learn'}"
        yield f"held_out: may hold records that {learn} from (one file, or equal ones): scores look too good"
