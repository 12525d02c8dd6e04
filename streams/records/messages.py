"""Finds the record in a message of a topic that others write: in an envelope, or in none.

A change stream wraps a row in an envelope, and has messages that are no record: tombstones, and changes that
the owner's `where` leaves out. Whether a message is one of them is a fact of that message alone. With slots
by count it keeps its place, as an absent record, since its content must not move later ones. With slots by
time it is left out before a slot's first records are chosen, which changes its own slot alone.
"""

import math
from collections.abc import Mapping, Sequence

from nodes.machine.slots import Arrival
from streams.mesh.settings.node import TopicSettings
from streams.mesh.settings.schema import word
from streams.records.decoder import Columns, CsvFields, Fields, SchemaDecoder, json_fields, message_encoding
from streams.records.faults import Fault, NotARecord


class Messages:
    """Splits messages into the fields of their records, as `Fields` does."""

    def __init__(self, settings: TopicSettings) -> None:
        self._nested = tuple(name for name in settings.record.columns if "." in name)
        self._value = settings.value
        self._where = {path: frozenset(words) for path, words in (settings.where or {}).items()}
        self._split: Fields = json_fields
        if settings.columns is not None:
            dialect = settings.dialect
            encoding = "utf-8-sig" if dialect is None else message_encoding(dialect)
            self._split = CsvFields(settings.columns, dialect, encoding)
        self.notation = self._split.notation

    def __call__(self, message: bytes) -> Mapping[str, object] | None:
        """Return the record's fields, with those within fields under their names with dots."""
        fields = self._split(message)
        if fields is None or not self._passes(fields):
            return None
        record = fields if self._value is None else field_at(fields, self._value)
        if not isinstance(record, Mapping):
            return None
        nested = {name: field_at(record, name) for name in self._nested if name not in record}
        present = {name: value for name, value in nested.items() if value is not _NOTHING}
        return {**record, **present} if present else record

    def columns(self, values: Sequence[bytes], names: Sequence[str]) -> Columns | None:
        """Return the columns of many messages; None if one is odd, or each is to be looked at alone."""
        if self._value is not None or self._where or self._nested:
            return None
        return self._split.columns(values, names)

    def fault(self, message: bytes, columns: Sequence[str]) -> Fault:
        """Return why a message gives no fields."""
        fields = self._split(message)
        if fields is None:
            return self._split.fault(message, columns)
        if not self._passes(fields):
            return Fault(None, NotARecord.LEFT_OUT.value)
        return Fault(None, f"no JSON object at {self._value}")

    def no_record(self, message: bytes) -> NotARecord | None:
        """Return why a message holds no record; None if it may hold one, unreadable or not."""
        if not message:
            return NotARecord.TOMBSTONE
        if not self._where:
            return None
        fields = self._split(message)
        return NotARecord.LEFT_OUT if fields is not None and not self._passes(fields) else None

    def _passes(self, fields: Mapping[str, object]) -> bool:
        return all(word(field_at(fields, path)) in words for path, words in self._where.items())


_NOTHING = object()


def field_at(fields: Mapping[str, object], path: str) -> object:
    """Return the value of the field at a path of names with dots; something that is no value if none is."""
    if path in fields:
        return fields[path]
    value: object = fields
    for name in path.split("."):
        value = value.get(name, _NOTHING) if isinstance(value, Mapping) else _NOTHING
    return value


class TimedMessages:
    """Places messages by time: those without a record nowhere, the others by their own time if they have one.

    A record whose own time cannot be read is of no slot, as one before the first.
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
