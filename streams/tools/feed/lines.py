"""The lines of a feed: opens their source, numbers them, and finds the lines that the topic has already."""

import base64
import hashlib
import json
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from itertools import islice, takewhile
from pathlib import Path
from select import select
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from nodes.machine.slots import TimeSlots
from streams.bus.bus import BusError, Unreachable
from streams.bus.connection import PATIENCE, consumer_settings
from streams.bus.logs import Logs
from streams.bus.preflight import preflight
from streams.bus.provision import Admin
from streams.bus.rights import Access
from streams.bus.topic_specs import OVERHEAD
from streams.codec.topics import DataTopics
from streams.mesh.checks import NO_TIMES
from streams.mesh.compatibility import by_time
from streams.mesh.errors import MeshFileError
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.node import FileSettings, LocalisationSettings, OwnSourceSettings, TopicSettings
from streams.mesh.settings.parties import feeder_user
from streams.mesh.settings.sparse import CsrSettings, LibsvmSettings, SparseSettings
from streams.records.decoder import SchemaDecoder
from streams.records.faults import NO_TIME, Fault
from streams.records.record import CHUNK, RawRecord, message_headers, moved
from streams.records.sources import Source, check_source, open_source

_AS_LINES = {"csr": "libsvm", "parquet": "csv or json-lines"}
"""The kinds of files without lines, and the kinds that have the same records in lines."""
TimeOf = Callable[[bytes], float | None]
"""Reads a record's time, in seconds since 1970; None if missing or unreadable."""


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The options of a feed besides the mesh file.

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
    """A source, and how to feed it.

    `timed`: Kafka's timestamps are the records' own times, read by `time_of` if the source does not give
    them. `most`: the number of lines that the topic is to have in the end; None: all. `live`: the records are
    not in order of time, so a record must not wait for its time and delay others. `piped`: from standard
    input. `shift`: the seconds that have been added to each time. `ahead`: how many records may be read
    before the first of them is sent; 1 if the source may wait for its writer.
    """

    source: Source
    timed: bool
    most: int | None
    time_of: TimeOf | None
    live: bool = False
    piped: bool = False
    shift: float = 0.0
    ahead: int = 1

    def is_idle(self) -> bool:
        """Return whether standard input, if that is the source, has nothing to be read now."""
        try:
            return self.piped and not select([sys.stdin], [], [], 0)[0]
        except (OSError, ValueError):  # it is no file
            return False


def opened(file: MeshFile, node: str, wanted: FeedOptions) -> Opened:
    """Open the source of a node. Raises MeshFileError if it cannot be fed as requested.

    With slots by time a file is sorted by time, and ends with the last slot of the mesh's rounds. The feed
    would wait for later records although they are in no slot.
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
    record_limit = wanted.records
    if record_limit is None and isinstance(settings, LocalisationSettings):
        record_limit = _whole_run(file, paced=wanted.timestamps or wanted.rate is not None)
    file.refuse_file_labels(node)
    check_source(file, node)
    source = open_source(file, node, file.mesh.seed)
    timed = by_time(file.mesh)
    # With slots by time the source itself gives the times, as a generator's records do not contain them.
    decoder = source.decoder
    time_of = None
    if not timed and isinstance(decoder, SchemaDecoder):
        time_of = partial(_later, wanted.shift, decoder.timestamp)
    piped = getattr(settings, "path", None) == "-"
    live = timed and piped
    if wanted.shift:
        later = (RawRecord(value, moved(time, wanted.shift)) for value, time in source.records)
        source = replace(source, records=later)
    if timed and not live:
        source = replace(source, records=takewhile(_inside(file.resolved), source.records))
    shift = wanted.shift or _shift(file, settings)
    ahead = CHUNK if Path(getattr(settings, "path", None) or "-").is_file() else 1
    return Opened(source, timed or wanted.timestamps, record_limit, time_of, live, piped, shift, ahead)


def check_pace(file: MeshFile, *, rate: float | None = None, records: int | None = None) -> None:
    """Raise MeshFileError for options that depend on records' places, which slots by time forbid.

    One additional record would delay all later records at a `rate`, perhaps into another slot, and would
    exclude the last of the first `records`.
    """
    if by_time(file.mesh):
        options = {"--rate": rate, "--records": records}
        for option in [option for option, value in options.items() if value is not None]:
            text = (
                f"{option} goes by the place of each record, and with slots by time none may count: must be"
            )
            raise file.refuse(("mesh", "slots", "by"), f"{text} count, or leave {option} out", "time")


def _shift(file: MeshFile, source: object) -> float:
    """Return the seconds by which `open_source` moves times.

    It moves those of files; others follow the start.
    """
    return file.mesh.shift if isinstance(source, FileSettings) else 0.0


def _later(shift: float, time_of: TimeOf, value: bytes) -> float | None:
    return moved(time_of(value), shift)


def _inside(mesh: Mesh) -> Callable[[RawRecord], bool]:
    """Return a function that returns whether a record is before the end of the last round."""
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
    if by_time(file.mesh) and isinstance(settings, FileSettings) and settings.record.timestamp is None:
        raise file.refuse((*at, "schema", "timestamp"), NO_TIMES)
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
    size = 1 if by_time(mesh) else mesh.slots.size  # one record a period
    return None if mesh.rounds is None else mesh.rounds * size


# The numbered records of a feed, and the dead letters of bad ones.
#
# A dead letter is for the owner alone: {"line": 17, "reason": ..., "value": base64}

FURTHEST = 253_402_300_800.0
"""The first second of the year 10000: a later time is a mistake."""


class Line(NamedTuple):
    """A record of the feed, its `number` from 1 on, and its own Kafka timestamp, if any.

    `mark`: a digest of all lines up to this one, and of the shift of their times. `bad`: the reason why the
    node cannot learn from the record, if any, for its owner.
    """

    number: int
    value: bytes
    timestamp: float | None
    mark: bytes
    bad: Fault | None


class Lines(Iterator[Line]):
    """The lines of a source whose topic takes records of up to `largest` bytes."""

    def __init__(self, opened: Opened, largest: int) -> None:
        self._records, self._decoder = opened.source.records, opened.source.decoder
        self._timed, self._time_of, self._largest = opened.timed, opened.time_of, largest
        self._ahead = opened.ahead
        self._next = deque[Line]()
        self._broken: MeshFileError | None = None
        self._read = 0
        shift = repr(opened.shift).encode() if opened.shift else b""  # a topic never has lines of two shifts
        self._hash = hashlib.blake2b(shift, digest_size=8)

    def skip(self, count: int) -> bytes | None:
        """Skip the first lines; return the mark of the last of them, or None if there are fewer."""
        while self._read < count:
            record = next(self._records, None)
            if record is None:
                return None
            self._note(record.value)
        return self._hash.digest()

    def __next__(self) -> Line:
        """Return the next line."""
        if not self._next:
            self._next.extend(self._read_ahead())
        return self._next.popleft()

    def batch(self) -> list[Line]:
        """Return the next lines that are read together; none at the end."""
        if not self._next:
            try:
                return self._read_ahead()
            except StopIteration:
                return []
        lines = list(self._next)
        self._next.clear()
        return lines

    def _read_ahead(self) -> list[Line]:
        """Read the next lines. Raises StopIteration, or the source's error after the lines before it."""
        records = list[RawRecord]()
        try:
            if self._broken is not None:
                raise self._broken
            records.extend(islice(self._records, self._ahead))
        except MeshFileError as error:
            if not records:
                raise
            self._broken = error
        if not records:
            raise StopIteration
        decoded = self._decoder.decode_each([record.value for record in records])
        return [self._line(record, pair is not None) for record, pair in zip(records, decoded, strict=True)]

    def _line(self, record: RawRecord, decodes: bool) -> Line:  # noqa: FBT001 # called for each record
        value = record.value
        timestamp = self._timestamp(record) if self._timed else None
        ordinary = decodes and not self._timed and len(value) <= self._largest
        bad = None if ordinary else self._wrong_with(value, timestamp, decodes=decodes)
        self._note(value)
        return Line(self._read, value, timestamp, self._hash.digest(), bad)

    def _note(self, value: bytes) -> None:
        self._read += 1
        # the length separates records
        self._hash.update(len(value).to_bytes(4, "little") + value)

    def _timestamp(self, record: RawRecord) -> float | None:
        timestamp = record.timestamp if self._time_of is None else self._time_of(record.value)
        return timestamp if timestamp is not None and 0.0 <= timestamp < FURTHEST else None

    def _wrong_with(self, value: bytes, timestamp: float | None, *, decodes: bool) -> Fault | None:
        decoder = self._decoder
        if len(value) > self._largest:
            return Fault(None, f"longer than {self._largest:,} bytes, the most that the topic takes")
        if not decodes:
            return decoder.fault(value)
        if self._timed and timestamp is None:
            fault = decoder.time_fault(value) if isinstance(decoder, SchemaDecoder) else None
            return fault or Fault(None, NO_TIME)
        return None


BYTES = 8 * 2**20
"""The largest total of dead letters in flight, in bytes (or one letter). It is less than their topic
keeps."""


def encode_letter(line: Line) -> bytes:
    """Return the dead letter of a bad line."""
    content = base64.b64encode(line.value).decode("ascii")
    return json.dumps({"line": line.number, "reason": str(line.bad), "value": content}).encode()


def digest(letter: bytes) -> bytes:
    """Return a digest that identifies a letter."""
    return blake2b(letter, digest_size=16).digest()


def lacking(lines: Iterable[Line], there: Collection[bytes]) -> list[bytes]:
    """Return the letters of bad lines whose digests are not in `there`: the last `BYTES` of them, in order.

    A killed feed can lose only these letters. Earlier missing letters were deleted by their log's retention.
    """
    letters, size = deque[bytes](), 0
    for line in lines:
        if line.bad is None or digest(letter := encode_letter(line)) in there:
            continue
        letters.append(letter)
        size += len(letter)
        while size > BYTES and len(letters) > 1:
            size -= len(letters.popleft())
    return list(letters)


# Checks a data topic before a feed, and finds the lines that it has.
#
# A feed writes its lines to partition 0, in order, each once, with two headers. So a later feed knows them
# among records that others have written, and detects missing or repeated lines. Records of open and aborted
# transactions count as others', as they have offsets. For this the feed reads the data topic uncommitted,
# unlike all other readers.

LINE, MARK = "line", "mark"
"""The headers of a fed record: its number in ASCII, and the mark of all lines up to it."""
ANEW = "feed what it was begun with, or delete it, provision it, and give the run a new name"
_AT_ONCE = 1_000


class FeedFailed(BusError):
    """The feed cannot continue; the text is one line for the user, and never shows a record."""


@dataclass(frozen=True, slots=True)
class HeldLines:
    """The lines that a data topic holds: `line` of them; the last has the `mark`.

    `end`: the offset of the next record of partition 0. `others`: the records of others in all partitions.
    """

    line: int
    mark: bytes | None
    end: int
    others: int


@dataclass(frozen=True, slots=True)
class FeedTopic:
    """A data topic that can be fed, and the lines that it has.

    `largest`: the longest value that the topic accepts, in bytes. With `timed` records keep their own times,
    which may be `ahead` seconds ahead of the clock. `lettered`: the digests of the stored dead letters.
    `access`: the broker access that the feed needs.
    """

    name: str
    letters: str
    largest: int
    ahead: float
    timed: bool
    held: HeldLines
    lettered: frozenset[bytes]
    access: Access

    @property
    def line(self) -> int:
        """The number of lines that the topic has."""
        return self.held.line


def feed_topic(
    broker: BrokerSettings, topics: DataTopics, access: Access, *, by_time: bool, timed: bool
) -> FeedTopic:
    """Check the data topic of a node or an owner. `access`: the rights that the feed needs on it.

    Raises BusError if it cannot be fed: see `PreflightFailed`.
    """
    name = topics.records
    preflight(broker, access, {}, (name,) if by_time else (), feeder_user(topics.node))
    with Admin(broker) as admin:
        description = admin.topics([name])[name]
    if timed and description.configs["message.timestamp.type"] != "CreateTime":
        words = "slots go by the records' own times" if by_time else "the records' own times are wanted"
        raise FeedFailed(f"{name}: message.timestamp.type must be CreateTime: {words}")
    return FeedTopic(
        name,
        topics.dead_letters,
        max(0, int(description.configs["max.message.bytes"]) - OVERHEAD),
        int(description.configs["message.timestamp.after.max.ms"])
        / 2000,  # half, as the broker's clock may differ
        timed,
        _held(broker, name, description.partitions),
        _lettered(broker, topics.dead_letters) if topics.dead_letters in access.reads else frozenset(),
        access,
    )


def _held(broker: BrokerSettings, topic: str, partitions: int) -> HeldLines:
    """Return the lines in a topic. Raises FeedFailed if they are not the first lines of one feed.

    The whole topic is read only where others have written to it.
    """
    logs = Logs(broker)
    try:
        foreign = sum(logs.span(topic, partition)[1] for partition in range(1, partitions))
        first, end = logs.span(topic)
    finally:
        logs.close()
    if end == 0:
        return HeldLines(0, None, 0, foreign)
    if first == end:
        raise FeedFailed(f"{topic}: its records are gone, so nobody knows the last line that was fed: {ANEW}")
    newest = list(lines_of_feeds(broker, topic, end - 1, end))
    if newest and newest[0].number == end:
        return HeldLines(end, newest[0].mark, end, foreign)
    count, mark = None if first else 0, None  # the first lines may be gone
    for line in lines_of_feeds(broker, topic, first, end):
        check_next(topic, line, count)
        count, mark = line.number, line.mark
    if count is None:
        text = "its first records are gone and the rest is others': nobody knows the last line that was fed"
        raise FeedFailed(f"{topic}: {text}: {ANEW}")
    return HeldLines(count, mark, end, end - count + foreign)


class StoredLine(NamedTuple):
    """A record that a feed wrote: its offset, the line's number, and its mark."""

    offset: int
    number: int
    mark: bytes


def check_next(topic: str, line: StoredLine, before: int | None) -> None:
    """Raise FeedFailed unless a line in a topic follows the line `before` it. None: that line is gone."""
    place = f"{topic}: line {line.number:,} is its record {line.offset + 1:,}"
    if before is not None and line.number != before + 1:
        raise FeedFailed(f"{place}, behind line {before:,}: another feed wrote to it: {ANEW}")
    if line.number > line.offset + 1:
        raise FeedFailed(f"{place}: records before it are lost: {ANEW}")


def lines_of_feeds(broker: BrokerSettings, topic: str, first: int, end: int) -> Iterator[StoredLine]:
    """Yield the lines of feeds at the offsets from `first` on and before `end`, in partition 0.

    Raises Unreachable.
    """
    consumer = Consumer(consumer_settings(broker) | {"log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, first)])
        while True:
            messages = consumer.consume(_AT_ONCE, PATIENCE)
            if not messages:
                raise Unreachable(f"{broker.servers}: the records of {topic} cannot be read")
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 # librdkafka's name
                    if offset is not None and offset >= end:
                        return
                elif error is not None or offset is None:
                    raise Unreachable(f"{broker.servers}: the records of {topic} cannot be read")
                elif offset >= end:
                    return
                elif (line := _line_of(message, offset)) is not None:
                    yield line
                if error is None and offset == end - 1:
                    return
    finally:
        consumer.close()


def _line_of(message: "Message[bytes, bytes]", offset: int) -> StoredLine | None:
    """Return the line that a record is; None if no feed wrote the record."""
    headers = dict(message_headers(message))
    number, mark = headers.get(LINE), headers.get(MARK)
    if not isinstance(number, bytes) or not number.isdigit() or not isinstance(mark, bytes):
        return None
    return StoredLine(offset, int(number), mark)


def _lettered(broker: BrokerSettings, topic: str) -> frozenset[bytes]:
    logs = Logs(broker)
    try:
        return frozenset(digest(letter.value) for letter in logs.stored({topic: logs.span(topic)[0]})[topic])
    finally:
        logs.close()
