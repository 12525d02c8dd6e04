"""Writes a commented schema by looking at the first records of a file or topic, for their owner to confirm.

No learning code calls this module, as its proposals depend on records. It proposes names, types and
candidates. It leaves bounds and lists open unless the owner states that the records are public, because
bounds fitted to a private stream would break the guarantee.
"""

import csv
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from streams.bus.bus import UnknownTopic
from streams.bus.existing_topic import sample
from streams.bus.logs import reach
from streams.bus.registry import NoRegistryExtra, SchemaRegistry
from streams.mesh.errors import UsageError, elided, printable
from streams.mesh.settings.brokers import BrokerSettings, RegistrySettings
from streams.mesh.settings.files import LONGEST_LINE, as_yaml
from streams.mesh.settings.node import DialectSettings
from streams.mesh.settings.schema import PLACEHOLDER, TimestampSettings, word
from streams.records.avro import AvroFields, SchemaLookup, is_framed
from streams.records.csv_records import csv_records
from streams.records.decoder import CsvFields, json_fields
from streams.records.detection import NoDetectors, detected_dialect, differences
from streams.records.faults import FaultCounts, csv_options
from streams.records.lines import numbered_lines, opened
from streams.records.notation import JSON, Notation, is_missing_label
from streams.records.parquet import NoPyarrow, NotParquet, parquet_columns, parquet_lines
from streams.records.times import moments


@dataclass(frozen=True, slots=True)
class SchemaSample:
    """The first records of a source: `rows` by column, `columns` in their order, and the notation of numbers.

    `place`: where they are from, in words. `source`: the settings that read them, without the schema.
    """

    place: str
    rows: Sequence[Mapping[str, object]]
    columns: tuple[str, ...]
    notation: Notation
    source: Mapping[str, Any]
    repeated: tuple[str, ...] = ()
    header: str = ""
    """The finding about the first row of CSV; empty for other formats."""


# Reads the first records.

_SPARSE = re.compile(rb"[-+0-9.eE,]+(?:[ \t]+(?:qid:\d+|\d+:[-+0-9.eE]+))+\s*(?:#.*)?")
_HEAD = 1 << 16


def sample_of_file(path: str, records: int) -> SchemaSample:
    """Return the first records of a file. Raises UsageError if none can be read, or they need no schema."""
    if path == "-":
        raise UsageError("-: is standard input, which can be read once alone: must be the path of a file")
    try:
        with closing(opened(path)) as file:
            head = file.read(_HEAD)
        if head.startswith(b"PAR1"):
            return _of_parquet(path, records)
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text.startswith(b"{"):
            return _of_json(path, records)
        first = next((line for line in text.splitlines() if line and not line.startswith(b"#")), b"")
        if text.startswith(b"["):
            raise UsageError(f"{path}: holds a JSON list: must have one JSON object a line")
        if _SPARSE.fullmatch(first):
            raise UsageError(f"{path}: {_sparse(path, records)}")
        return _of_csv(path, records)
    except (NoDetectors, NoPyarrow, NotParquet) as error:
        raise UsageError(f"{path}: {error}") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is damaged"
        raise UsageError(f"{path}: cannot be read: {reason}") from None


def sample_of_topic(
    topic: str,
    broker: BrokerSettings,
    records: int,
    registry: RegistrySettings | None = None,
    columns: Sequence[str] | None = None,
) -> SchemaSample:
    """Return the first records of a topic: Avro by a `registry`, CSV lines of `columns`, or JSON objects.

    Raises UsageError, BusError.
    """
    reach(broker)
    try:
        messages = sample(broker, topic, None, records).messages
    except UnknownTopic:
        raise UnknownTopic(f"{broker.servers}: there is no topic {topic}") from None
    values = [value for message in messages if isinstance(value := message.value(), bytes)]
    # secrets, and files of this machine, must be added by the owner
    place = {"servers": broker.servers} | ({} if broker.username is None else {"username": broker.username})
    source: dict[str, Any] = {"kind": "topic", "topic": topic, "broker": place}
    split: AvroFields | CsvFields | None = None
    if registry is not None:
        split = _of_registry(values, registry)
        user = {} if registry.username is None else {"username": registry.username}
        source |= {"format": "avro", "registry": {"url": registry.url} | user}
    elif columns is not None:
        split = CsvFields(tuple(columns), None, "utf-8-sig")
        source |= {"format": "csv", "columns": list(columns)}
    rows = [_flat(fields) for value in values if (fields := (split or json_fields)(value)) is not None]
    if not rows:
        raise UsageError(f"{topic}: of its first {len(messages):,} messages none is {_none(values, split)}")
    names = _named(rows) if columns is None else tuple(columns)
    return SchemaSample(topic, rows, names, JSON if split is None else split.notation, source)


def _of_registry(values: Sequence[bytes], registry: RegistrySettings) -> AvroFields:
    """Return what splits these messages, by the schemas that they name. Raises UsageError, BusError.

    It is made twice, as it reads logical types only of the requested fields, which are those of most
    messages.
    """
    try:
        split = AvroFields(())
    except NoRegistryExtra as error:
        raise UsageError(f"--registry: {error}") from None
    with closing(SchemaRegistry(registry)) as client:
        SchemaLookup(client, split.schemas).ask_all(values)
        rows = [_flat(fields) for value in values if (fields := split(value)) is not None]
        split = AvroFields(tuple(name.split(".")) for name in _named(rows))
        SchemaLookup(client, split.schemas).ask_all(values)
    return split


def _none(values: Sequence[bytes], split: AvroFields | CsvFields | None) -> str:
    """Return that no message is a record, in words; of Avro and CSV also why."""
    if split is not None:
        counts = FaultCounts()
        for value in values:
            counts.add(split.fault(value, ()))
        return f"a record: {counts}" if values else "a record"
    framed = sum(map(is_framed, values))
    avro = f": {framed:,} have a schema registry's frame, so name it: --registry URL" if framed else ""
    return f"a JSON object{avro}"


def _of_parquet(path: str, records: int) -> SchemaSample:
    columns = parquet_columns(path)
    single = tuple(name for name in dict.fromkeys(columns) if columns.count(name) == 1)
    lines = islice(parquet_lines(path, single), records)
    rows = _some(path, (json_fields(line) for line in lines if line))
    repeated = tuple(name for name in dict.fromkeys(columns) if columns.count(name) > 1)
    return SchemaSample(path, rows, single, JSON, {"kind": "parquet", "path": path}, repeated)


def _of_json(path: str, records: int) -> SchemaSample:
    rows = _some(path, (json_fields(line) for _, line in islice(numbered_lines(path), records)))
    return SchemaSample(path, rows, _named(rows), JSON, {"kind": "json-lines", "path": path})


def _of_csv(path: str, records: int) -> SchemaSample:
    dialect = detected_dialect(path)
    lines = csv_records(path, dialect, None, LONGEST_LINE)
    source: dict[str, Any] = {"kind": "csv", "path": path}
    changes = differences(dialect)
    if changes:
        source["dialect"] = changes
    with closing(lines):
        header = tuple(_header(path, dialect, next(lines, (0, b""))[1]))
        values = [line for _, line in islice(lines, records)]
    decision = "The first row names the columns."
    if _is_record(header, values, dialect):
        header = tuple(f"column_{k}" for k in range(1, len(header) + 1))
        source["columns"] = list(header)
        decision = (
            "The first row looks like those below it, so it is a record, and the columns have no names."
        )
    fields = CsvFields(header, dialect)
    single = tuple(name for name in dict.fromkeys(header) if header.count(name) == 1)
    repeated = tuple(name for name in dict.fromkeys(header) if header.count(name) > 1)
    return SchemaSample(
        path, _some(path, map(fields, values)), single, fields.notation, source, repeated, decision
    )


def _is_record(row: Sequence[str], lines: Sequence[bytes], dialect: DialectSettings) -> bool:
    """Return whether most cells of a file's first row are like the cells below them."""
    places = tuple(map(str, range(len(row))))
    fields = CsvFields(places, dialect)
    rows = [values for line in lines if (values := fields(line)) is not None]
    columns = [[str(values[place]) for values in rows] for place in places]
    alike = [_is_alike(cell, below, fields.notation) for cell, below in zip(row, columns, strict=True)]
    return 2 * sum(alike) > len(row)


def _is_alike(cell: str, below: Sequence[str], notation: Notation) -> bool:
    """Return whether a cell is like those below: a number of their size, or a text like theirs.

    A year above amounts is not of their size: it is farther from them than they are from one another.
    """
    present = [text for text in below if not is_missing_label(text)]
    numbers = [number for text in present if (number := notation.number(text)) is not None]
    number = notation.number(cell)
    if 2 * len(numbers) > len(present):
        spread = max(numbers) - min(numbers)
        return number is not None and min(numbers) - spread <= number <= max(numbers) + spread
    has_digit = any(character.isdecimal() for character in cell)
    return cell in present or (has_digit and _shape(cell) in set(map(_shape, present)))


def _shape(text: str) -> str:
    return re.sub(r"\d", "0", re.sub(r"[^\W\d_]", "a", text))


def _header(path: str, dialect: DialectSettings, line: bytes) -> list[str]:
    try:
        (row,) = csv.reader([line.decode()], **csv_options(dialect))
    except (ValueError, csv.Error):
        row = []
    if not row:
        raise UsageError(f"{path}: does not begin with a row of CSV, a JSON object, or as Parquet does")
    return row


def _some(path: str, fields: Iterable[Mapping[str, object] | None]) -> list[Mapping[str, object]]:
    rows = [row for row in fields if row is not None]
    if not rows:
        raise UsageError(f"{path}: holds no record that can be read")
    return rows


def _named(rows: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the columns that most records have, in the order of the first of these records."""
    counts = Counter(name for row in rows for name in row)
    return tuple(name for name, count in counts.items() if 2 * count >= len(rows))


def _flat(fields: Mapping[str, object], before: str = "", depth: int = 0) -> dict[str, object]:
    """Return a message's fields. Fields within fields are named by their paths."""
    flat: dict[str, object] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping) and value and depth < _DEEPEST:
            flat |= _flat(value, f"{before}{name}.", depth + 1)
        else:
            flat[f"{before}{name}"] = value
    return flat


_DEEPEST = 8


def _sparse(path: str, records: int) -> str:
    """Return the text for a file of libsvm lines, which need no schema."""
    largest, least, labels = 0, 1, Counter[str]()
    for _, line in islice(numbered_lines(path), records):
        label, *pairs = line.partition(b"#")[0].decode("ascii", "replace").split() or [""]
        labels[label] += bool(label)
        indices = [int(index) for index, _, _ in (pair.partition(":") for pair in pairs) if index.isdecimal()]
        largest, least = max([largest, *indices]), min([least, *indices])
    source: dict[str, Any] = {"kind": "libsvm", "path": path}
    if least == 0:
        source["index_base"] = 0
    return (
        f"holds libsvm lines, which need no schema: source: {_flow(source)} with a label that says what is "
        f"positive, and mesh.dimension of {largest + (least == 0):,} or more, the largest index of the first "
        f"{records:,} lines"
    )


# Finds the type of a column: that of most of its values.

_SHARE = 0.01
"""The share of missing values from which on a column gets the key `missing`."""
_USUAL = ("NA", "N/A", "#N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None")
_GAPS = ("?", "-", "--", ".", "\\N")
_CATEGORIES, _HASHED = 50, 16
_EPOCHS = {"s": 1e8, "ms": 1e11, "us": 1e14, "ns": 1e17}
_TIME_NAMES = re.compile(
    r"(?:^|[_.\W])(?:at|ts|time|date|datum|zeit|when|timestamp|created|updated)|(?:At|Time|Date)$"
)
_ID_NAMES = re.compile(r"(?:^|[_.\W])(?:id|uuid|guid|key)$|(?:Id|ID)$", re.ASCII)
_LABEL_NAMES = ("label", "target", "class", "y", "fraud", "is_fraud", "churn", "outcome", "default", "income")
_FORMATS = (
    *(f"%Y-%m-%d{rest}" for rest in (" %H:%M:%S", " %H:%M", "")),
    *(f"%d.%m.%Y{rest}" for rest in (" %H:%M:%S", " %H:%M", "")),
    *(f"%m/%d/%Y{rest}" for rest in (" %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "")),
    *(f"%d/%m/%Y{rest}" for rest in (" %H:%M:%S", " %H:%M", "")),
    *(f"%d-%m-%Y{rest}" for rest in (" %H:%M:%S", " %H:%M", "")),
)


class SampleColumn(NamedTuple):
    """A column: its `kind`, its existing values, and whether some are missing.

    `time`: how its times are read, for a column of times. `gaps`: texts that stand for missing values, and
    are not among the usual ones.
    """

    name: str
    kind: str
    values: list[object]
    missing: bool
    time: Mapping[str, str]
    gaps: frozenset[str]

    @property
    def words(self) -> Counter[str]:
        """The values as words, with their counts."""
        return Counter(text for value in self.values if (text := word(value)) is not None)


def column_of(name: str, values: Sequence[object], notation: Notation) -> SampleColumn:
    """Return the description of a column of a sample."""
    spelt = [value for value in values if not is_missing_label(value)]
    gaps = frozenset(text for value in spelt if isinstance(value, str) and (text := value.strip()) in _GAPS)
    present = [value for value in spelt if not (isinstance(value, str) and value.strip() in _GAPS)]
    missing = len(values) - len(present) >= max(1, _SHARE * len(values))
    kind, time = _kind(name, present, notation)
    return SampleColumn(name, kind, present, missing, time, gaps)


def _kind(name: str, values: Sequence[object], notation: Notation) -> tuple[str, Mapping[str, str]]:
    half = len(values) / 2
    if not values:
        return "empty", {}
    if sum(word(value) is None for value in values) > half:
        return "nested", {}
    numbers = [number for value in values if (number := notation.number(value)) is not None]
    padded = sum(isinstance(value, str) and re.fullmatch(r"0\d+", value) is not None for value in values)
    if len(numbers) > half and 2 * padded <= len(values):
        unit = _unit(name, sorted(numbers))
        return ("number", {}) if unit is None else ("time", {} if unit == "s" else {"unit": unit})
    time = None if padded > half else _time(values, notation)
    if time is not None:
        return "time", time
    distinct = len({word(value) for value in values})
    if distinct <= _CATEGORIES and (distinct <= 2 or distinct <= half):
        return "words", {}
    return ("texts", {}) if distinct <= 0.9 * len(values) else ("ids", {})


def _unit(name: str, numbers: Sequence[float]) -> str | None:
    """Return what numbers count since 1970, if by name and size they are times."""
    middle = numbers[len(numbers) // 2]
    unit = next((unit for unit, least in _EPOCHS.items() if least <= middle < 100 * least), None)
    return unit if _TIME_NAMES.search(name) else None


def _time(values: Sequence[object], notation: Notation) -> Mapping[str, str] | None:
    """Return how most values are read as times, by the keys of a timestamp; None if they are no times."""
    keys: list[dict[str, str]] = [{}, {"zone": "UTC"}]
    keys += [{"format": form, "zone": "UTC"} for form in _FORMATS]
    texts = [value for value in values if isinstance(value, str)]
    counts = [_readable(texts, notation, form) for form in keys]
    best = max(counts)
    return keys[counts.index(best)] if 2 * best > len(values) else None


def _readable(texts: Iterable[str], notation: Notation, keys: Mapping[str, str]) -> int:
    moment = moments(notation, TimestampSettings.model_validate({"column": "at", **keys}))
    return sum(moment(text) is not None for text in texts)


# Writes the schema.


@dataclass(slots=True)
class _Lines:
    """The lines of a schema, each with its comment."""

    lines: list[str] = field(default_factory=list)

    def add(self, text: str, comment: str = "") -> None:
        self.lines.append(f"{text:<44}  # {printable(comment)}" if comment else text)


def schema_text(sample: SchemaSample, *, public: bool, output: Path = Path("schema.yaml")) -> str:
    """Return the schema of a sample, as YAML with comments. `output`: the file that it will be written to.

    The paths of its source are relative to that file's folder.

    Bounds and lists are fitted if the records are `public`, and otherwise left open. Raises UsageError if no
    column can be a feature.
    """
    columns = [
        column_of(name, [row.get(name) for row in sample.rows], sample.notation) for name in sample.columns
    ]
    labels = _label_candidates(columns)
    label = labels[0] if labels else None
    out = _Lines(_top(sample, output, public=public))
    out.add("features:")
    makers = 0
    stamp = next((column for column in columns if column.kind == "time"), None)
    for column in columns:
        if column is not label:
            is_stamp = column is stamp
            makers += _add_feature(out, column, sample.notation, public=public, is_stamp=is_stamp)
    for name in sample.repeated:
        out.add(f"  # {_key(name)}", "left out: several columns have this name")
    if label is None or not makers:
        raise UsageError(f"{sample.place}: must have a column for the label and one for a feature at least")
    candidates = ", ".join(elided(column.name) for column in labels[1:4])
    out.add(*_label(label, f"or {candidates}" if candidates else "", public=public))
    gaps = set[str]().union(*(column.gaps for column in columns))
    if gaps:
        listed = [*_USUAL, *(text for text in _GAPS if text in gaps)]
        out.add(f"missing: {_flow(listed)}", "texts that stand for a missing value")
    if stamp is not None:
        keys = {"column": stamp.name, **_time_keys(stamp)}
        out.add(f"# timestamp: {_flow(keys)}", "a candidate for slots by time")
    return "\n".join([*out.lines, ""])


def _time_keys(column: SampleColumn) -> dict[str, str]:
    """Return how a column's times are read. The zone is not derived from records."""
    return {**column.time} | ({"zone": PLACEHOLDER} if "zone" in column.time else {})


def _top(sample: SchemaSample, output: Path, *, public: bool) -> list[str]:
    source = {**sample.source, "schema": output.name}
    path = source.get("path", "-")
    if path != "-" and not Path(path).is_absolute():
        source["path"] = os.path.relpath(path, output.parent)
    fitted = (
        "# The records are public, as --public says: bounds and lists are fitted to them.",
        f"# {PLACEHOLDER} stands for bounds and lists that you know without looking at the records: what is",
        "# fitted to private ones breaks the guarantee. `mirrormesh check` refuses it until it is filled in.",
    )
    return [
        f"# Made by `mirrormesh schema` by LOOKING AT the first {len(sample.rows):,} records of",
        f"# {printable(sample.place)}: names, types and choices are read off them. Confirm each line.",
        *([f"# {sample.header}"] if sample.header else []),
        *(fitted[:1] if public else fitted[1:]),
        "#",
        "# The source that reads it:",
        f"#   source: {_flow(source)}",
        "",
    ]


def _add_feature(
    out: _Lines, column: SampleColumn, notation: Notation, *, public: bool, is_stamp: bool
) -> bool:
    """Add the line of a column. Return whether it is a feature.

    `is_stamp`: `timestamp` gives how its times are read.
    """
    key, settings, comment = _key(column.name), dict[str, Any](), ""
    match column.kind:
        case "number" if _ID_NAMES.search(column.name):
            out.add(f"  # {key}", "left out: by its name it tells one record from another")
        case "number":
            settings["bounds"] = _bounds(column, notation) if public else PLACEHOLDER
            comment = "a number; or {log: [...]}, {buckets: [...]}, number"
        case "words":
            settings["categories"] = _listed(column) if public else PLACEHOLDER
            comment = f"few different values; or {{hashed: {_HASHED}}}"
        case "texts":
            settings["hashed"], comment = _HASHED, "many different values; or {categories: [...]}"
        case "time":
            hour = {"hour": PLACEHOLDER} | ({} if is_stamp else _time_keys(column))
            reading = "read as timestamp below says; " if is_stamp else ""
            out.add(f"  # {key}: {_flow(hour)}", f"times, {reading}or {{weekday: ...}}")
        case _:
            reason = {"nested": "objects or lists", "ids": "another value in nearly each record"}
            out.add(f"  # {key}", f"left out: {reason.get(column.kind, 'no value')}")
    if settings and column.missing:
        settings["missing"] = {"as": "indicator"}
    if settings:
        out.add(f"  {key}: {_flow(settings)}", comment)
    return bool(settings)


def _label_candidates(columns: Sequence[SampleColumn]) -> list[SampleColumn]:
    """Return the candidates for the label, the likeliest first: by name, then columns of two values, from the
    last.
    """
    usable = [column for column in columns if column.kind in {"number", "words"}]

    def rank(column: SampleColumn) -> tuple[bool, bool]:
        last = column.name.rpartition(".")[2].lower()
        return last not in _LABEL_NAMES, len(column.words) > 2

    likely = [column for column in reversed(usable) if rank(column) != (True, True)]
    return sorted(likely, key=rank) or usable[-1:]


def _label(column: SampleColumn, others: str, *, public: bool) -> tuple[str, str]:
    """Return the label's line and its comment."""
    words, settings = column.words, {"column": column.name}
    listed: dict[str, Any] = {}
    if len(words) <= 2:
        listed["positive"] = [words.most_common()[-1][0]] if public else PLACEHOLDER
        comment = "two values: for hinge and logistic"
    elif column.kind == "words":
        listed["classes"] = _listed(column) if public else PLACEHOLDER
        comment = "for softmax"
    else:
        comment = "a number: for squared, absolute and huber"
    return f"label: {_flow(settings | listed)}", f"{comment}; {others}" if others else comment


def _bounds(column: SampleColumn, notation: Notation) -> list[float]:
    numbers = [number for value in column.values if (number := notation.number(value)) is not None]
    lowest, highest = min(numbers), max(numbers)
    pair = (lowest, highest) if lowest < highest else (lowest, lowest + max(1.0, abs(lowest)))
    return [int(number) if number.is_integer() and abs(number) < 2**53 else number for number in pair]


def _listed(column: SampleColumn) -> list[str]:
    """Return a column's words, the most frequent first."""
    return [text for text, _ in sorted(column.words.items(), key=lambda pair: (-pair[1], pair[0]))]


def _key(name: str) -> str:
    return _scalar(name)


def _flow(value: object) -> str:
    """Return a value in one line, as YAML that any reader reads as the same."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{_scalar(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case str():
            return _scalar(value)
        case _:
            return json.dumps(value)


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")


def _scalar(text: str) -> str:
    """Return text as YAML: unquoted if it cannot be read as another value, otherwise in quotes."""
    if _PLAIN.fullmatch(text) and as_yaml([text]) == f"- {text}\n":
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
