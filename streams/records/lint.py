"""Finds settings that are valid but probably unintended, by the graph and the first records of sources."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path

from nodes.machine.slots import TimeSlots
from streams.bus.bus import BusError, Denied, Unreachable
from streams.bus.existing_topic import (
    CREATE_TIME,
    UNSEEN_AGE,
    NoPartition,
    Sample,
    judgements,
    sample,
    too_short,
    topic_configs,
)
from streams.bus.logs import reach
from streams.bus.preflight import PreflightFailed, preflight
from streams.bus.registry import NoRegistryExtra, SchemaRegistry, need_extra
from streams.bus.rights import Access, on_existing_topic
from streams.mesh.compatibility import by_time
from streams.mesh.errors import meant
from streams.mesh.file import MeshFile, MeshFileError
from streams.mesh.settings.base import spelt
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.files import TakeSettings
from streams.mesh.settings.labels import LaterLabelsSettings
from streams.mesh.settings.node import FileSettings, NodeSettings, TopicSettings
from streams.mesh.settings.schema import Unit
from streams.mesh.settings.schema import word as word_of
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings, SparseSettings
from streams.records.avro import SchemaLookup, Schemas
from streams.records.decoder import SchemaDecoder
from streams.records.detection import misread_utf8, proposal
from streams.records.faults import Fault, FaultCounts, NotARecord, some_of
from streams.records.messages import Messages
from streams.records.notation import FILE
from streams.records.record import WholeMessage, as_bytes, message_headers
from streams.records.shared_records import shared_records
from streams.records.sources import message_decoder, opened_records
from streams.records.sparse import LibsvmDecoder, record_of
from streams.records.times import A_SECOND

# Examines the first records of a mesh file's files for settings that are valid but probably unintended.
#
# For the owner alone, as it counts records. The only values that it shows are those that the mesh file lists.

MOST = 10_000
"""The largest number of a file's records that are examined. It is smaller for more than five files."""
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
        """Yield a line on the words that never occur, and a line on each word that occurs in another case.

        The lines name only words of the list. `records`: the examined records, in words.
        """
        never = [f'"{word}"' for word in self._words if not self._exact[word]]
        if never:
            occur = "occurs" if len(never) == 1 else "occur"
            yield f"{self._place}: {some_of(never)} never {occur} in {records}"
        for word, count in self._cased.items():
            differ = "differs" if count == 1 else "differ"
            yield f'{self._place}: {count:,} of {records} {differ} from "{word}" by case alone'


ID_WORDS = (
    *("account", "card", "client", "customer", "device", "employee", "household", "iban", "member"),
    *("passenger", "patient", "person", "phone", "student", "subscriber", "user", "vehicle"),
)
"""Public words: a column of this name may name what has many records."""
_FEWEST_IDS = 10  # fewer are kinds rather than ids
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
_ID_NAME = re.compile(
    rf"(?:.*[\W_])?({'|'.join(ID_WORDS)})s?(?:[\W_]?(?:id|no|nr|number|key|uuid|ref|name))?"
)


class RepeatedIds:
    """Counts the values of columns that are named like an id of people, where a mesh names no unit.

    Its lines show a public word alone, neither the name of a column nor a value.
    """

    def __init__(self) -> None:
        self._counts = dict[str, Counter[str]]()

    def add(self, fields: Mapping[str, object]) -> None:
        """Count the values of a record's fields, and of fields within these."""
        for name, value in fields.items():
            if isinstance(value, Mapping):
                self.add({f"{name}.{key}": inner for key, inner in value.items()})
                continue
            match = _ID_NAME.fullmatch(_HUMP.sub("_", name).lower())
            if match is not None and (text := word_of(value)):
                self._counts.setdefault(match[1], Counter())[text] += 1

    def findings(self, place: str, records: str) -> Iterator[str]:
        """Yield a line for each public word of which most ids are those of several records."""
        for name, counts in sorted(self._counts.items()):
            repeated = sum(count for count in counts.values() if count > 1)
            if len(counts) >= _FEWEST_IDS and 2 * repeated > counts.total():
                cost = (
                    "one with k records is protected at k epsilon, unless mesh.privacy.unit names the column"
                )
                yield f"{place}: {records} seem to have an id of a {name}, which repeats: {cost}"


@dataclass
class DataFile:
    """A file, the first place that names it, and each node's `take` (empty for held-out records)."""

    settings: FileSettings | SparseSettings
    place: tuple[str, ...]
    takes: dict[str, TakeSettings] = field(default_factory=dict)


def most_looked_at(files: int) -> int:
    """Return how many records of each file are examined if there are this many files."""
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
    """Yield a regular file's settings, without `take` and `shuffle`, and its `take`."""
    if not isinstance(source, FileSettings | LibsvmSettings | CsrSettings):
        return
    if source.path not in {None, "-"} and Path(source.path or "").is_file():
        full_settings = source.model_copy(update={"take": None, "shuffle": False})
        yield full_settings, source.take or TakeSettings(every=1, offset=0)


def file_findings(file: MeshFile, one: DataFile, most: int, *, counted: bool = True) -> Iterator[str]:
    """Yield a line for each oddity of a file. Raises MeshFileError if it cannot be read that far.

    Without `counted` no line gives the number of malformed records, and none proposes a dialect.
    """
    lines, decoder = opened_records(file, one.settings, one.place)
    words, values = _listed(one, decoder)
    timed, counts, times = file.mesh.slots.by == "time", FaultCounts(), list[float]()
    ids = RepeatedIds() if file.mesh.privacy.unit is None and one.takes and counted else None
    for record in islice(lines, most):
        if ids is not None and isinstance(decoder, SchemaDecoder):
            ids.add(decoder.fields(record))
        moment = decoder.timestamp(record) if isinstance(decoder, SchemaDecoder) else None
        times += [] if moment is None else [moment]
        counts.add(_fault(decoder, record, timed=timed and bool(one.takes)))
        for column, value in zip(words, values(record), strict=True):
            column.add(value)
    size = 0 if timed else file.mesh.slots.size
    needed = max([most, *(take.offset + (size - 1) * take.every for take in one.takes.values())]) + 1
    record_count = counts.records + sum(1 for _ in islice(lines, needed - counts.records))
    records = _looked_at(counts.records, one.settings.path, whole=record_count <= most)
    if counts.notable and counted:
        are = "is" if counts.malformed == 1 else "are"
        yield f"{'.'.join(one.place)}: {counts.malformed:,} of {records} {are} malformed: {counts}"
    text = (counts.malformed and proposal(one.settings)) or misread_utf8(one.settings)
    if counted and text:
        yield f"{'.'.join(one.place)}.dialect: {text}"
    yield from _times(file, one, times, records)
    for column in words:
        yield from column.findings(records)
    yield from () if ids is None else ids.findings(".".join(one.place), records)
    yield from _short(one, record_count, size)


_UNITS: dict[Unit, str] = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_YEARS = 1e8, 1e11
"""Seconds since 1970, from 1973 to 5138. The range has three powers of ten, so a number is in it for one unit
at most."""


def _times(file: MeshFile, one: DataFile, times: Sequence[float], records: str) -> Iterator[str]:
    """Yield a line if no record of a node is in a slot, and a line if times look like those of another unit.

    The unit is never guessed, as the owner gives it.
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
    """Yield a line if nodes use fewer of the file's records than one slot has."""
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
    """Return the columns with listed words (of held-out records the label alone), and what reads their
    values.
    """
    settings, place = one.settings, ".".join(one.place)
    if not isinstance(settings, FileSettings):
        numbers = (*(settings.label.positive or ()), *(settings.label.negative or ()))
        return [ListedWords(f"{place}.label", [f"{number:g}" for number in numbers])], _number
    features, label = settings.record.features, settings.record.label
    listed = {name: column.categories for name, column in features.items() if column.categories and one.takes}
    words = [ListedWords(f"{place}.schema.features.{name}", listed[name]) for name in listed]
    allowed = (*(label.positive or ()), *(label.negative or ()), *(label.classes or ()))
    allowed = () if settings.labels is not None else allowed  # the records contain no label
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
    lines, wrong = [*file.resolved.cautions, *_tested_on_learnt(file)], list[str]()
    files = data_files(file)
    for data_file in files:
        try:
            lines += file_findings(file, data_file, most_looked_at(len(files)))
        except MeshFileError as error:
            wrong += error.lines
    if wrong:
        raise MeshFileError(wrong)
    return lines


def afterwards(file: MeshFile) -> list[str]:
    """Return the lines of `check` about records of files, for the owner of a mesh that has run.

    Malformed records are counted elsewhere, among all that nodes used, and only `check` looks for a dialect.
    A file that can no longer be read gives no line.
    """
    lines, files = list(_tested_on_learnt(file)), data_files(file)
    for data_file in files:
        with suppress(MeshFileError):
            lines += file_findings(file, data_file, most_looked_at(len(files)), counted=False)
    return lines


def _tested_on_learnt(file: MeshFile) -> Iterator[str]:
    if file.held_out is None:
        return
    tested = NodeSettings.model_construct(source=file.held_out)
    parts = {**file.nodes, "held_out": tested}  # no node's name has an underscore
    names = shared_records(parts, by_time=by_time(file.mesh)).get("held_out")
    if names:
        learn = f"{some_of(names)} {'learns' if len(names) == 1 else 'learn'}"
        yield f"held_out: may hold records that {learn} from (one file, or equal ones): scores look too good"


# The lines of `check` about topics that others created: their settings, and their first messages. Names of
# fields are shown if most messages have them.

MOST_MESSAGES = 1_000
"""The largest number of a topic's messages that are examined."""


@dataclass
class TopicLines:
    """Lines on topics: mistakes in the mesh file, settings that are probably unintended, and what was
    examined.

    `counted`: whether a line gives the number of malformed records.
    """

    counted: bool = True
    wrong: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    looked_at: list[str] = field(default_factory=list)


def topic_lines(file: MeshFile, *, counted: bool = True) -> TopicLines:
    """Examine the topics that nodes here read, if their brokers are named and answer."""
    lines, silent = TopicLines(counted), dict[BrokerSettings, str]()
    for name in file.nodes:
        settings = file.existing_topic(name)
        broker = None if settings is None else _broker(file, name)
        if settings is None or broker is None:
            continue
        try:
            if broker not in silent:
                _look(file, name, settings, broker, lines)
        except Unreachable as error:
            silent[broker] = str(error)
        except MeshFileError as error:
            lines.wrong += error.lines
        except BusError as error:
            lines.wrong += file.refuse(("nodes", name, "source", "topic"), str(error), settings.topic).lines
        if broker in silent:
            lines.looked_at.append(f"{settings.topic} was not looked at: {silent[broker]}")
    _label_topics(file, lines)
    return lines


def _label_topics(file: MeshFile, lines: TopicLines) -> None:
    """Add the lines on topics of labels that come later."""
    for name in file.nodes:
        labels, records_broker = file.later_labels(name), _broker(file, name)
        if labels is not None and labels.topic is not None and records_broker is not None:
            try:
                _look_at_labels(file, name, labels, records_broker, lines)
            except Unreachable as error:
                lines.looked_at.append(f"{labels.origin} was not looked at: {error}")
            except MeshFileError as error:
                lines.wrong += error.lines


def _look_at_labels(
    file: MeshFile, name: str, labels: LaterLabelsSettings, records_broker: BrokerSettings, lines: TopicLines
) -> None:
    """Examine a topic of labels that come later. Raises Unreachable."""
    place, topic, records = ("nodes", name, "source", "labels"), labels.origin, file.data_topics(name).records
    broker = file.labels_broker(name)
    lines.looked_at += _registry_lines(file, (*place, "format"), labels)
    try:
        reach(broker)
        preflight(broker, Access((topic,), ()), {}, several=(topic,), existing=True)
        settings = topic_configs(records_broker, (records,)) | topic_configs(broker, (topic,))
    except Unreachable:
        raise
    except BusError as error:
        lines.wrong += file.refuse((*place, "topic"), "; ".join(str(error).splitlines()), topic).lines
        return
    for read_topic, needed in ((records, labels.after), (topic, labels.window)):
        line = too_short(read_topic, settings[read_topic] or {}, needed)
        lines.wrong += [] if line is None else file.refuse((*place, "after"), line, spelt(labels.after)).lines
    by_topic = settings[topic]
    if by_topic is None:
        lines.odd.append(f"{'.'.join(place)}.topic: {topic}: {UNSEEN_AGE}")
    elif by_topic.get("message.timestamp.type", CREATE_TIME) == CREATE_TIME:
        lines.looked_at.append(f"{topic}: a label's time is what its producer writes ({CREATE_TIME})")
    else:
        lines.looked_at.append(f"{topic}: a label's time is when the broker took it (LogAppendTime)")


def _registry_lines(file: MeshFile, place: tuple[str, ...], labels: LaterLabelsSettings) -> Iterator[str]:
    """Yield a line if the schema registry of labels does not answer. Raises MeshFileError if none can."""
    if labels.registry is None:
        return
    try:
        need_extra()
    except NoRegistryExtra as error:
        raise file.refuse(place, str(error), labels.format) from None
    with closing(SchemaRegistry(labels.registry)) as registry:
        try:
            registry.look()
        except BusError as error:
            yield f"{labels.origin}: its messages are Avro, and cannot be read now: {error}"


def _broker(file: MeshFile, name: str) -> BrokerSettings | None:
    try:
        return file.records_broker(name)
    except MeshFileError:  # a file that names no broker is correct too
        return None


def _look(
    file: MeshFile, name: str, settings: TopicSettings, broker: BrokerSettings, lines: TopicLines
) -> None:
    """Examine one topic. Raises MeshFileError for a mistake that prevents further checks, BusError."""
    place, topic = ("nodes", name, "source"), settings.topic
    try:
        reach(broker)
        preflight(broker, on_existing_topic(file.data_topics(name)), {}, several=(topic,), existing=True)
    except Denied as error:
        raise file.refuse((*place, "broker"), str(error), broker.servers) from None
    except PreflightFailed as error:
        reasons = [
            line.removeprefix(f"{broker.servers}: ").removeprefix(f"{topic}: ") for line in error.lines
        ]
        raise file.refuse((*place, "topic"), f"{broker.servers}: {'; '.join(reasons)}", topic) from None
    judgement = judgements(broker, {topic: settings.lag})[topic]
    key, value = (
        ("topic", topic) if settings.lag is None else ("lag", settings.model_dump(mode="json")["lag"])
    )
    for refusal in judgement.refusals:
        lines.wrong += file.refuse((*place, key), refusal, value).lines
    lines.odd += [f"{'.'.join(place)}.topic: {topic}: {caution}" for caution in judgement.cautions]
    try:
        first = sample(broker, topic, settings.partitions, MOST_MESSAGES)
    except NoPartition as error:
        raise file.refuse((*place, "partitions"), str(error), list(settings.partitions or ())) from None
    message_lines(file, name, settings, first, lines)


def message_lines(
    file: MeshFile, name: str, settings: TopicSettings, first: Sample, lines: TopicLines
) -> None:
    """Add the lines on a topic's first messages."""
    place = ("nodes", name, "source")
    decoder, counts = message_decoder(file, settings, place), FaultCounts()
    values = [
        WholeMessage.of(as_bytes(message.value()), as_bytes(message.key()), message_headers(message))
        for message in first.messages
    ]
    messages = Messages(settings)
    unread = _learn(settings, [messages.schemas, decoder.schemas], values)
    if unread:
        lines.looked_at.append(f"{settings.topic}: its messages are Avro, and were not read: {unread}")
        lines.odd += _keyless(file, name, settings, first)
        with_value = [value.key for value in values if value]
        lines.looked_at += _shared(
            settings, with_value, f"the first {len(with_value):,} messages with a value"
        )
        return
    lines.wrong += _unknown_fields(file, name, settings, messages, values)
    lines.wrong += _unknown_headers(file, name, settings, values)
    reasons, keys = Counter[NotARecord](), list[bytes | None]()
    ids = RepeatedIds()
    for value in values:
        reason = decoder.no_record(value)
        if reason is not None:
            reasons[reason] += 1
            continue
        counts.add(decoder.fault(value) if decoder.decode(value) is None else _untimed(file, decoder, value))
        keys.append(value.key)
        ids.add(decoder.fields(value))
    parts = f"{first.partitions:,} partition{'' if first.partitions == 1 else 's'}"
    lines.looked_at.append(f"{settings.topic}: {parts}; {_held(len(values), counts.records, reasons)}")
    records = f"the first {counts.records:,} record{'' if counts.records == 1 else 's'}"
    if counts.records and counts.malformed == counts.records and not lines.wrong:
        lines.wrong += file.refuse((*place, "schema"), f"fits none of {records}: {counts}").lines
    elif counts.notable and lines.counted:
        are = "is" if counts.malformed == 1 else "are"
        lines.odd.append(f"{'.'.join(place)}: {counts.malformed:,} of {records} {are} malformed: {counts}")
    elif reasons[NotARecord.LEFT_OUT] and not counts.records and not lines.wrong:
        keys_of_where = [key for key in ("where", "where_headers") if getattr(settings, key) is not None]
        text = f"{' and '.join(keys_of_where)} leave no record of the first {len(values):,} messages"
        lines.odd.append(f"{'.'.join(place)}: {text}")
    if file.mesh.privacy.unit is None and lines.counted:
        lines.odd += ids.findings(".".join(place), records)
    lines.odd += _keyless(file, name, settings, first)
    lines.looked_at += _shared(settings, keys, records)


def _learn(settings: TopicSettings, known: Iterable[Schemas | None], values: Sequence[WholeMessage]) -> str:
    """Ask the registry for the schemas that messages name. Return why this fails, or nothing."""
    if settings.registry is None:
        return ""
    framed = [*values, *(value.key or b"" for value in values if settings.record.of_keys)]
    with closing(SchemaRegistry(settings.registry)) as registry:
        try:
            for schemas in filter(None, known):
                SchemaLookup(registry, schemas).ask_all(framed)
        except BusError as error:
            return str(error)
    return ""


def _shared(settings: TopicSettings, keys: Sequence[bytes | None], records: str) -> Iterator[str]:
    """Yield a line if keys of records are equal. `records` describes the examined records."""
    counts = Counter(key for key in keys if key is not None)
    shared, largest = sum(count for count in counts.values() if count > 1), max(counts.values(), default=0)
    if shared:
        cost = f"up to {largest:,} a key: what is in {largest:,} records is protected at {largest:,} epsilon"
        yield f"{settings.topic}: {shared:,} of {records} share their key with another, {cost}"


def _unknown_headers(
    file: MeshFile, name: str, settings: TopicSettings, values: Sequence[WholeMessage]
) -> list[str]:
    """Return a line for each name of `where_headers` of which no message has a header."""
    lines = list[str]()
    names = Counter(header for value in values for header in value.headers)
    for header, words in (settings.where_headers or {}).items() if values else ():
        if header not in names:
            usual = [name for name, count in names.items() if 2 * count > len(values)]
            text = f"no header of the first {len(values):,} messages"
            text += f": they have {some_of(usual)}{meant(usual, header)}" if usual else ""
            lines += file.refuse(("nodes", name, "source", "where_headers", header), text, list(words)).lines
    return lines


def _unknown_fields(
    file: MeshFile, name: str, settings: TopicSettings, messages: Messages, values: Sequence[bytes]
) -> list[str]:
    """Return a line for each path of `where` at which no message has a field."""
    readable = [fields for fields in map(messages.fields, values) if fields is not None]
    lines = list[str]()
    for path, words in (settings.where or {}).items() if readable else ():
        if not any(messages.has(fields, path) for fields in readable):
            parent, _, last = path.rpartition(".")
            names = Counter(name for fields in readable for name in messages.names(fields, parent))
            usual = [name for name, count in names.items() if 2 * count > len(readable)]
            usual = [] if settings.registry is not None else usual  # of Avro only needed fields are decoded
            within = f"{parent} has" if parent else "they have"
            text = f"no field of the first {len(readable):,} messages"
            text += f": {within} {some_of(usual)}{meant(usual, last)}" if usual else ""
            lines += file.refuse(("nodes", name, "source", "where", path), text, list(words)).lines
    return lines


def _keyless(file: MeshFile, name: str, settings: TopicSettings, first: Sample) -> Iterator[str]:
    """Yield a line if producers may choose partitions by bytes, so that one record's size moves others."""
    keyless = sum(message.key() is None for message in first.messages)
    if not keyless or first.partitions == 1 or (by_time(file.mesh) and settings.partitions is None):
        return
    have = "has" if keyless == 1 else "have"
    counted = f"{keyless:,} of the first {len(first.messages):,} messages {have} no key"
    harm = "so that producers may choose partitions by bytes, and one record's size may move others"
    yield f"nodes.{name}.source.topic: {counted}, {harm}: give records a key, or use one partition"


def _untimed(file: MeshFile, decoder: SchemaDecoder, value: bytes) -> Fault | None:
    return decoder.time_fault(value) if by_time(file.mesh) and decoder.timed else None


def _held(messages: int, records: int, reasons: Mapping[NotARecord, int]) -> str:
    """Return the counts of the first messages: records, and messages without a record by reason."""
    if not messages:
        return "no message yet"
    excluded = [f"{count:,} {reason.value}" for reason, count in reasons.items()]
    return ", ".join([f"of the first {messages:,} messages {records:,} hold a record", *excluded])
