"""Finds the record in a message of a topic that others write, with or without an envelope.

A change stream wraps a row in an envelope, and has messages that are no record: tombstones, and changes that
the owner's `where` leaves out. Whether a message is a record depends on that message alone. With slots by
count a message without a record keeps its place, as an absent record, since its content must not move later
records. With slots by time it is left out before a slot's first records are chosen, which changes its own
slot alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from nodes.machine.slots import Arrival
from streams.mesh.settings.node import TopicSettings
from streams.mesh.settings.schema import WHOLE, OriginSettings
from streams.records.avro import FRAME, UNFRAMED, AvroFields, Path, Schemas, is_framed
from streams.records.decoder import (
    Columns,
    CsvFields,
    Fields,
    SchemaDecoder,
    columns_of,
    json_fields,
    message_encoding,
)
from streams.records.faults import Fault, NotARecord
from streams.records.notation import JSON, Lookup
from streams.records.record import WholeMessage


class MessageFields(Fields, Protocol):
    """Splits messages of one format, and keys of messages, into their fields."""

    def single(self, value: bytes, /) -> object:
        """Return what the bytes are as one value, without fields. Raises ValueError."""


class FramedFields:
    """Splits JSON objects behind a schema registry's frame. A message without it is unreadable."""

    notation = json_fields.notation
    """How numbers stand there."""

    def __call__(self, value: bytes) -> Mapping[str, object] | None:
        """Return a JSON object's fields."""
        return json_fields(value[FRAME:]) if is_framed(value) else None

    def columns(self, values: Sequence[bytes], names: Sequence[str]) -> Columns | None:
        """Return the columns of many messages; None if one of them is odd."""
        if not all(map(is_framed, values)):
            return None
        return json_fields.columns([value[FRAME:] for value in values], names)

    def fault(self, value: bytes, columns: Sequence[str]) -> Fault:
        """Return why a message has no fields."""
        if not is_framed(value):
            return Fault(None, UNFRAMED)
        return json_fields.fault(value[FRAME:], columns)

    def no_record(self, value: bytes) -> None:
        """Return None: each message is a record."""

    def single(self, value: bytes) -> str:
        """Return the text behind the frame, as one value. Raises ValueError."""
        if not is_framed(value):
            raise ValueError
        return value[FRAME:].decode()


class Messages:
    """Splits messages into the fields of their records, as `Fields` does.

    `schemas`: the known schemas of a registry; None: no registry is needed. Raises NoRegistryExtra.
    """

    def __init__(self, settings: TopicSettings) -> None:
        self._origins = _origins(settings)
        self._value = settings.value
        self.schemas: Schemas | None = None
        self._split: MessageFields = self._of_format(settings)
        self.notation = self._split.notation
        self._where = {path: Lookup(words, self.notation) for path, words in (settings.where or {}).items()}
        self._headers = {name: Lookup(words, JSON) for name, words in (settings.where_headers or {}).items()}
        self._last: tuple[bytes | None, Mapping[str, object] | None] = None, None

    def _of_format(self, settings: TopicSettings) -> MessageFields:
        match settings.format:
            case "csv":
                dialect = settings.dialect
                encoding = "utf-8-sig" if dialect is None else message_encoding(dialect)
                return CsvFields(settings.columns or (), dialect, encoding)
            case "avro":
                fields = AvroFields(_paths(settings))
                self.schemas = fields.schemas
                return fields
        return FramedFields() if settings.framed else json_fields

    def __call__(self, message: bytes) -> Mapping[str, object] | None:
        """Return the record's fields. Values elsewhere in the message get their columns' names."""
        fields = self._fields_of(message) if self._may_pass(message) else None
        if fields is None or not self._passes(fields):
            return None
        record = fields if self._value is None else field_at(fields, self._value)
        if not isinstance(record, Mapping):
            return None
        if not self._origins:
            return record
        columns = dict(record)
        for name, origin in self._origins.items():
            value = self._at(origin, record, message)
            if value is not _NOTHING:
                columns[name] = value
            else:
                columns.pop(name, None)
        return columns

    def columns(self, values: Sequence[bytes], names: Sequence[str]) -> Columns | None:
        """Return the columns of many messages; None if one is odd, or if each must be decoded alone."""
        if self._where or self._headers:  # messages that these leave out would make most slots odd
            return None
        if self._value is None and not self._origins:
            return self._split.columns(values, names)
        records = [record for value in values if (record := self(value)) is not None]
        return columns_of(records, names) if len(records) == len(values) else None

    def fault(self, message: bytes, columns: Sequence[str]) -> Fault:
        """Return why a message gives no fields."""
        fields = self._fields_of(message)
        if fields is None:
            return self._split.fault(message, columns)
        if not (self._may_pass(message) and self._passes(fields)):
            return Fault(None, NotARecord.LEFT_OUT.value)
        return Fault(None, f"no JSON object at {self._value}")

    def no_record(self, message: bytes) -> NotARecord | None:
        """Return why a message contains no record; None if it may contain one, readable or not."""
        if not message:
            return NotARecord.TOMBSTONE
        if not self._may_pass(message):
            return NotARecord.LEFT_OUT
        if not self._where:
            return None
        fields = self._fields_of(message)
        return NotARecord.LEFT_OUT if fields is not None and not self._passes(fields) else None

    def _fields_of(self, message: bytes) -> Mapping[str, object] | None:
        """Return a message's fields from a cache, as its kind, time and record are read one after
        the other.
        """
        last, fields = self._last  # read once, as threads share it
        if last is not message:
            fields = self._split(message)
            self._last = message, fields
        return fields

    def _may_pass(self, message: bytes) -> bool:
        return all(words.find(_header(message, name)) is not None for name, words in self._headers.items())

    def fields(self, message: bytes) -> Mapping[str, object] | None:
        """Return the fields of a whole message; None if it cannot be read."""
        try:
            return self._fields_of(message)
        except Exception:  # noqa: BLE001 # as `TotalDecoder`: the exception may show it
            return None

    @staticmethod
    def has(fields: Mapping[str, object], path: str) -> bool:
        """Return whether a message has a field at a path."""
        return field_at(fields, path) is not _NOTHING

    @staticmethod
    def names(fields: Mapping[str, object], path: str) -> list[str]:
        """Return the names of the fields within that at a path; "": of the message."""
        within = field_at(fields, path) if path else fields
        return list(within) if isinstance(within, Mapping) else []

    def _passes(self, fields: Mapping[str, object]) -> bool:
        return all(words.find(field_at(fields, path)) is not None for path, words in self._where.items())

    def _at(self, origin: OriginSettings, record: Mapping[str, object], message: bytes) -> object:
        """Return the message's value at an origin; an object that is no value if it has none."""
        if origin.path is not None:
            return field_at(record, origin.path)
        if origin.header is not None:
            text = _header(message, origin.header)
            return _NOTHING if text is None else text
        key = message.key if isinstance(message, WholeMessage) else None
        if key is None:
            return _NOTHING
        if origin.key == WHOLE:
            return self._split.single(key)
        fields = self._split(key)
        return _NOTHING if fields is None else field_at(fields, origin.key or "")


def _header(message: bytes, name: str) -> str | None:
    """Return the text of a message's header; None if the header is missing or has no text."""
    header = message.headers.get(name) if isinstance(message, WholeMessage) else None
    try:
        return None if header is None else header.decode()
    except UnicodeDecodeError:
        return None


def _origins(settings: TopicSettings) -> dict[str, OriginSettings]:
    """Return the origins of columns that are not in a field of their name. A name with dots is a path."""
    within = {name: OriginSettings(path=name) for name in settings.record.columns if "." in name}
    return within | settings.record.origins


def _paths(settings: TopicSettings) -> Iterator[Path]:
    """Yield the paths of all fields that are read, in messages and in their keys."""
    envelope = () if settings.value is None else tuple(settings.value.split("."))
    origins = _origins(settings)
    for name in settings.record.columns:
        origin = origins.get(name, OriginSettings(path=name))
        if origin.path is not None:
            yield (*envelope, *origin.path.split("."))
        elif origin.key is not None:
            yield () if origin.key == WHOLE else tuple(origin.key.split("."))
    yield from (tuple(path.split(".")) for path in settings.where or ())


_NOTHING = object()


def field_at(fields: Mapping[str, object], path: str) -> object:
    """Return the value of the field at a path of names with dots; a non-value object if there is none."""
    if path in fields:
        return fields[path]
    value: object = fields
    for name in path.split("."):
        value = value.get(name, _NOTHING) if isinstance(value, Mapping) else _NOTHING
    return value


class TimedMessages:
    """Places messages by time. It leaves out those without a record, and gives others their own time, if any.

    A record whose own time cannot be read belongs to no slot, like a record before the first slot.
    """

    def __init__(self, decoder: SchemaDecoder) -> None:
        self._decoder = decoder

    def __call__(self, arrival: Arrival[bytes]) -> Arrival[bytes] | NotARecord:
        """Return the arrival with its record's time, or why it is left out."""
        reason = self._decoder.no_record(arrival.value)
        if reason is not None:
            return reason
        if not self._decoder.timed:
            return arrival
        time = self._decoder.timestamp(arrival.value)
        return arrival._replace(timestamp=-math.inf if time is None else time)
