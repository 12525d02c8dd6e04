"""Looks at the first records of a mesh file's files, and says what is allowed there but hardly meant.

For the owner alone: it counts records, and shows no value but those that the mesh file lists.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from streams.mesh.file import MeshFile
from streams.mesh.settings.files import TakeSettings
from streams.mesh.settings.node import FileSettings
from streams.mesh.settings.schema import CsrSettings, LibsvmSettings, SparseSettings
from streams.records.decoder import SchemaDecoder
from streams.records.faults import Fault, FaultCounts, some_of
from streams.records.listed_words import ListedWords
from streams.records.sources import opened_records
from streams.records.sparse import LibsvmDecoder

MOST = 10_000
"""The most records of a file that are looked at; fewer if there are more than five files."""
_ALTOGETHER, _LEAST = 5 * MOST, 100
_Values = Callable[[bytes], Sequence[str | None]]


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


def file_oddities(file: MeshFile, one: DataFile, most: int) -> Iterator[str]:
    """Yield a line for each oddity of a file. Raises MeshFileError if it cannot be read so far."""
    lines, decoder = opened_records(file, one.settings, one.place)
    words, values = _listed(one, decoder)
    timed, counts = file.mesh.slots.by == "time", FaultCounts()
    for record in islice(lines, most):
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
    for column in words:
        yield from column.oddities(records)
    yield from _short(one, record_count, size)


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
    return decoder.texts(record, columns) if isinstance(decoder, SchemaDecoder) else []


def _number(record: bytes) -> Sequence[str | None]:
    """Return the label of a libsvm line as the mesh file spells it."""
    try:
        return [f"{float(record.split(maxsplit=1)[0]):g}"]
    except (ValueError, IndexError):
        return [None]


def _looked_at(count: int, path: str | None, *, whole: bool) -> str:
    return f"the {'' if whole else 'first '}{count:,} record{'' if count == 1 else 's'} of {path}"
