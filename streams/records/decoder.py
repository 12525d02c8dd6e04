"""Decodes CSV and JSON lines by their schema."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter, methodcaller
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, cast

import numpy as np
import orjson

from nodes.privacy.features import HEIGHT
from nodes.privacy.unit import unit_number
from nodes.values import BoolArray, FloatArray
from streams.mesh.settings.node import DialectSettings, is_utf8
from streams.mesh.settings.schema import SchemaSettings, TimestampSettings, spelt, word
from streams.records.columns import (
    absent_words,
    any_beyond,
    block,
    bounded,
    bounded_rows,
    cell,
    label_words,
    labelled,
    labels_block,
)
from streams.records.faults import (
    MISSING,
    NO_TIME,
    Fault,
    NotARecord,
    csv_fault,
    csv_options,
    feature_fault,
    json_fault,
    label_fault,
    time_fault,
)
from streams.records.notation import JSON, NO_WORDS, Lookup, Notation, csv_notation, is_missing, joined_word
from streams.records.record import TotalDecoder
from streams.records.times import moments

if TYPE_CHECKING:
    from streams.records.avro import Schemas

Columns = Mapping[str, Sequence[object]]
"""The values of many records, by column."""


class Fields(Protocol):
    """Splits records of one format into their fields."""

    @property
    def notation(self) -> Notation:
        """The notation of numbers in records of this format."""

    def __call__(self, value: bytes, /) -> Mapping[str, object] | None:
        """Return a record's fields by column; None if it does not split into fields."""

    def columns(self, values: Sequence[bytes], names: Sequence[str], /) -> Columns | None:
        """Return the named columns that the records have; None or an exception if a record is irregular."""

    def fault(self, value: bytes, columns: Sequence[str], /) -> Fault:
        """Return why a record has no fields. The text names only those of the `columns`."""

    def no_record(self, value: bytes, /) -> NotARecord | None:
        """Return why the bytes are no record according to the owner's settings; None if they may
        be a record.
        """


USUAL = DialectSettings()
"""The dialect of a CSV file that names none."""


def message_encoding(dialect: DialectSettings) -> str:
    """Return the encoding of a message's bytes. With UTF-8 a byte order mark may precede them."""
    return "utf-8-sig" if is_utf8(dialect.encoding) else dialect.encoding


class CsvFields:
    """Splits the records of a CSV dialect into these columns.

    `encoding`: of the records' bytes. Records of a file have been converted to UTF-8, whatever its encoding.
    """

    def __init__(
        self, columns: tuple[str, ...], dialect: DialectSettings | None = None, encoding: str = "utf-8-sig"
    ) -> None:
        self._columns, self._encoding, dialect = columns, encoding, dialect or USUAL
        self._options = csv_options(dialect)
        self.notation = csv_notation(dialect.decimal, dialect.thousands)

    def __call__(self, value: bytes) -> dict[str, object] | None:
        """Return a record's fields."""
        try:
            (row,) = csv.reader([value.decode(self._encoding)], **self._options)
        except (ValueError, csv.Error):
            return None
        if len(row) != len(self._columns):
            return None
        return dict(zip(self._columns, row, strict=True))

    def fault(self, value: bytes, columns: Sequence[str]) -> Fault:  # noqa: ARG002 # as other formats
        """Return why a record has no fields."""
        return Fault(None, csv_fault(value, self._options, self._encoding))

    def single(self, value: bytes) -> str:
        """Return the text that the bytes are as one value. Raises ValueError."""
        return value.decode()

    def no_record(self, value: bytes) -> None:
        """Return None: each value is a record."""

    def columns(self, values: Sequence[bytes], names: Sequence[str]) -> Columns | None:
        """Return the columns of many records; None if one of them is odd."""
        if self._encoding == "utf-8-sig":
            # A line's end is never part of a character. So two records that are not UTF-8 cannot join to
            # valid UTF-8.
            text = b"\n".join(values).decode()
            if "\ufeff" in text:
                return None
            texts = text.split("\n")
            if len(texts) != len(values):
                texts = [value.decode() for value in values]
            elif (plain := self._plain(text, texts)) is not None:
                return {name: plain[k :: len(self._columns)] for k, name in self._places(names)}
        else:
            texts = [value.decode(self._encoding) for value in values]
        # Each row consists of one text or more. If there are as many rows as texts, no row consists of two
        # texts whose open quotes close each other.
        columns = list(zip(*csv.reader(texts, **self._options), strict=True))
        if len(columns) != len(self._columns) or len(columns[0]) != len(values):
            return None
        return {name: columns[k] for k, name in self._places(names)}

    def _places(self, names: Sequence[str]) -> list[tuple[int, str]]:
        """Return (place, name) for those of the names that are columns.

        Of two equal columns it is the last.
        """
        places = {name: k for k, name in enumerate(self._columns)}
        return [(places[name], name) for name in names if name in places]

    def _plain(self, text: str, texts: Sequence[str]) -> list[str] | None:
        """Return the values of all lines in order; None if a line must be read by a CSV reader.

        This is not needed if no line has a quote and each has the right number of delimiters.
        """
        delimiter, quote = self._options["delimiter"], self._options["quotechar"]
        if len(self._columns) == 1 or len(text) > csv.field_size_limit():
            return None
        if "\r" in text or (quote and quote in text):
            return None
        if set(map(methodcaller("count", delimiter), texts)) != {len(self._columns) - 1}:
            return None
        return text.replace("\n", delimiter).split(delimiter)


def columns_of(objects: Sequence[Mapping[str, object]], names: Sequence[str]) -> Columns | None:
    """Return the named columns that all objects have; None if only some objects have one of them."""
    present = [name for name in names if name in objects[0]]
    if len(present) < len(names) and any(
        not fields.keys().isdisjoint(set(names).difference(present)) for fields in objects
    ):
        return None
    if len(present) == 1:
        return {present[0]: [fields[present[0]] for fields in objects]}
    return dict(zip(present, zip(*map(itemgetter(*present), objects), strict=True), strict=True))


class JsonFields:
    """Splits JSON objects, each of which names its own columns."""

    notation = JSON
    """The notation of numbers in JSON."""

    def __call__(self, value: bytes) -> Mapping[str, object] | None:
        """Return a JSON object's fields; None if an object, at any depth, has a key twice."""
        try:
            fields = json.loads(value, object_pairs_hook=_distinct)
        except (ValueError, RecursionError):
            return None
        return fields if isinstance(fields, dict) else None

    def columns(self, values: Sequence[bytes], names: Sequence[str]) -> Columns | None:
        """Return the columns that all of many JSON objects have; None if one of the objects is odd.

        orjson is stricter than json except in three cases, so these count as odd: deep nesting, of which it
        reads more; a key that occurs twice; and integers beyond 64 bits, which it reads as floats
        (`columns.block` handles them). Each object is parsed alone, as two broken objects may become whole
        ones when joined.
        """
        objects = list(map(orjson.loads, values))
        joined = b"".join(values)  # for counting alone
        if b"[" in joined or joined.count(b"{") != len(values):
            return None
        # Each record has two quotes for each key and each text, and more if a key is repeated or a text
        # contains a quote. No record has fewer. So if the sums are right, each record's number is.
        marks, parsed = joined.count(b'"'), sum(map(len, objects))
        if marks != 2 * parsed:
            texts = sum(type(field) is str for fields in objects for field in fields.values())
            if marks != 2 * (parsed + texts):
                return None
        return columns_of(objects, names)

    def fault(self, value: bytes, columns: Sequence[str]) -> Fault:
        """Return why the bytes are no JSON object with distinct keys."""
        return json_fault(value, columns)

    def single(self, value: bytes) -> str:
        """Return the text that the bytes are as one value. Raises ValueError."""
        return value.decode()

    def no_record(self, value: bytes) -> None:
        """Return None: each line is a record."""


json_fields = JsonFields()


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError
    return fields


class Parts(NamedTuple):
    """Decodings of n records: `readable` (n,); for the r readable ones features (r, d) and labels (r,).

    A missing label is NaN.
    """

    readable: BoolArray
    features: FloatArray
    labels: FloatArray


def joined(parts: Iterable[Parts]) -> Parts:
    """Return the concatenation of at least one batch of parts."""
    return Parts(*map(np.concatenate, zip(*parts, strict=True)))


_ALONE = 32
"""The number of records from which a batch with an odd record is halved, and each half is decoded at once. In
a smaller batch each record is decoded alone."""


class FileLabelCounts(NamedTuple):
    """Counts of the labels in a file, for the owner alone.

    `late` came after a record of theirs was due. `unmatched` were never used by a record.
    """

    came: int
    unreadable: int
    late: int
    unmatched: int


class LabelOf(Protocol):
    """Gives the labels in a file that come later than their records."""

    @property
    def counts(self) -> FileLabelCounts:
        """The counts, given the records that were decoded so far."""

    @property
    def timed(self) -> bool:
        """Whether labels and records are compared by their times."""

    def __call__(self, key: str, time: float | None, /) -> float:
        """Return the label of a record with this key and time, in seconds since 1970."""


class SchemaDecoder(TotalDecoder[FloatArray]):
    """Decodes records by one schema. It is total: for any bytes it returns an observation or None.

    If labels come later, a record's label is 0 here, and a record without the joining column is bad. If
    `later` is given, the label is that of the record's key and time; a record without a time is bad too if
    `later` is `timed`.

    `columns`: the columns of CSV lines; None for JSON lines, each of which names its own. `fewest`: the least
    number of records that are decoded at once; fewer are decoded faster one by one.
    """

    fewest: ClassVar[int] = 8

    def __init__(
        self,
        schema: SchemaSettings,
        fields: Fields,
        longest: int | None = None,
        learnt: int = 0,
        columns: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(schema.width, longest, learnt)
        self.schema, self._fields, self.columns = schema, fields, columns
        self._notation = notation = fields.notation
        self._absent = absent = absent_words(schema.missing, notation)
        self._columns = [
            (name, column, notation, self._timestamp_of(name), absent)
            for name, column in schema.features.items()
        ]
        self._cells = [(column[0], cell(*column)) for column in self._columns]
        self._joined = schema.joined
        self.later: LabelOf | None = None
        self._label_column, self._label = schema.label.column, labelled(schema.label, notation, absent)
        self._blocks = [(column[0], block(*column)) for column in self._columns]
        self._labels = labels_block(schema.label, notation, absent)
        self._listed = {
            name: Lookup(column.categories or (), notation) for name, column in schema.features.items()
        } | {self._label_column: label_words(schema.label, notation)}
        self._outside = schema.intercept == "outside"
        self._tail = [1.0] if schema.intercept and not self._outside else []
        self._norm = schema.norm
        self._time = None if schema.timestamp is None else schema.timestamp.column
        self._moment = moments(notation, schema.timestamp)
        self.truth_columns = schema.truth or ()
        self.bound = schema.bound
        """The bound on the units of records; None: each record is protected by itself."""

    def _timestamp_of(self, name: str) -> TimestampSettings | None:
        """Return how times in a column are read, for the column of the records' times; None for others."""
        timestamp = self.schema.timestamp
        return timestamp if timestamp is not None and timestamp.column == name else None

    def parts(self, value: bytes) -> tuple[FloatArray | None, float | None]:
        """Return (features (d,), label); None for a part that the record lacks."""
        return self._total(self._parts, value) or (None, None)

    def at_once(self, values: Sequence[bytes]) -> tuple[FloatArray, FloatArray | None] | None:
        """Return the results of `parts` for all records at once: features (n, d) and labels (n,).

        Labels are None where no record has that column. Returns None if a record is odd in any way, as each
        must then be decoded alone. It also returns None for few records, which are faster alone.
        """
        if len(values) < self.fewest or max(map(len, values)) > self.longest:
            return None
        try:
            return self._arrays(values)
        except Exception:  # noqa: BLE001 # an odd one; the exception may show it
            return None

    @np.errstate(all="ignore")  # data may overflow, and a warning would show it
    def _arrays(self, values: Sequence[bytes]) -> tuple[FloatArray, FloatArray | None] | None:
        names = [name for name, _ in self._blocks]
        columns = self._fields.columns(values, (*names, self._joined or self._label_column))
        if columns is None:
            return None
        features, end = np.empty((len(values), self.dimension)), 0
        for name, features_of in self._blocks:
            column = features_of(columns[name])
            if column is None:
                return None
            end += column.shape[1]
            features[:, end - column.shape[1] : end] = column
        if self._tail:
            features[:, end:] = self._tail
        if self._outside:
            features[:, :-1] = bounded_rows(features[:, :-1], self._norm)
            features[:, -1] = HEIGHT
        else:
            features = bounded_rows(features, self._norm)
        if self._joined is not None:
            if self.later is not None:
                return None
            keys = map(partial(joined_word, self._notation), columns[self._joined])
            return None if None in keys else (features, np.zeros(len(values)))
        if self._label_column not in columns:
            return features, None
        labels = self._labels(columns[self._label_column])
        return None if labels is None else (features, labels)

    def decode_each(self, values: Sequence[bytes]) -> Sequence[tuple[FloatArray, float] | None]:
        """Return `decode` of each record, at once if they are ordinary."""
        arrays = self.at_once(values)
        if arrays is None or arrays[1] is None:
            return super().decode_each(values)
        return list(zip(arrays[0], arrays[1].tolist(), strict=True))

    def parts_of(self, values: Sequence[bytes]) -> Parts:
        """Return `parts` of all records, decoded at once as far as they are ordinary."""
        arrays = self.at_once(values)
        if arrays is not None:
            features, labels = arrays
            labels = np.full(len(values), math.nan) if labels is None else labels
            return Parts(np.ones(len(values), np.bool_), features, labels)
        if len(values) > _ALONE:
            middle = len(values) // 2
            return joined((self.parts_of(values[:middle]), self.parts_of(values[middle:])))
        pairs = [self.parts(value) for value in values]
        rows = [(row, label) for row, label in pairs if row is not None]
        return Parts(
            np.array([row is not None for row, _ in pairs], np.bool_),
            np.array([row for row, _ in rows]).reshape(len(rows), self.dimension),
            np.array([math.nan if label is None else label for _, label in rows]),
        )

    def texts(self, values: Sequence[bytes], column: str) -> list[str | None]:
        """Return `text` of each record, at once if they are ordinary and hold texts there."""
        with suppress(Exception):  # a record is odd; the exception's text may show it
            if len(values) >= self.fewest and max(map(len, values)) <= self.longest:
                texts = (self._fields.columns(values, (column,)) or {}).get(column, ())
                if len(texts) and set(map(type, texts)) == {str}:
                    return list(cast("Sequence[str]", texts))
        return [self.text(value, column) for value in values]

    def unit(self, value: bytes) -> int | None:
        """Return the number of the record's unit, whatever the rest holds; None if it cannot be read."""
        word = None if self.bound is None else self.key(value, self.bound.column)
        return None if word is None else unit_number(word)

    def units(self, values: Sequence[bytes]) -> list[int | None]:
        """Return `unit` of each record, at once if they are ordinary."""
        bound = self.bound
        if bound is None:
            return [None] * len(values)
        with suppress(Exception):  # a record is odd; the exception's text may show it
            if len(values) >= self.fewest and max(map(len, values)) <= self.longest:
                names = (self._fields.columns(values, (bound.column,)) or {}).get(bound.column, ())
                if len(names) and not any_beyond(names):
                    words = [joined_word(self._notation, name) for name in names]
                    return [None if word is None else unit_number(word) for word in words]
        return [self.unit(value) for value in values]

    @property
    def schemas(self) -> "Schemas | None":
        """The known schemas that records were written with; None: the format needs none."""
        return getattr(self._fields, "schemas", None)

    @property
    def timed(self) -> bool:
        """Whether records hold their own time."""
        return self._time is not None

    def no_record(self, value: bytes) -> NotARecord | None:
        """Return why a message has no record by its owner's settings; None if it may have one, or is too
        long.
        """
        return self._total(self._fields.no_record, value)

    def text(self, value: bytes, column: str) -> str | None:
        """Return the text of the record's value in a column; None if it is not a single value."""
        return spelt((self._total(self._fields, value) or {}).get(column))

    def fields(self, value: bytes) -> Mapping[str, object]:
        """Return the record's fields by column, and those that are no feature; none if it has none."""
        return self._total(self._fields, value) or {}

    @property
    def label_counts(self) -> FileLabelCounts | None:
        """The counts of the labels in a file that come later; None: there are none."""
        return None if self.later is None else self.later.counts

    def key(self, value: bytes, column: str | None = None) -> str | None:
        """Return the word that joins a record with a label that comes later; None if it has none.

        `column`: the column of the word, if it is not the one that joins labels to these records.
        """
        column = self._joined if column is None else column
        return None if column is None else self._total(partial(self._key, column=column), value)

    def label(self, value: bytes) -> float | None:
        """Return the record's label, whatever its other columns contain; None if it has none."""
        return self._total(self._own_label, value)

    def _own_label(self, value: bytes) -> float | None:
        fields = self._fields(value)
        column = self._label_column
        return self._label(fields[column]) if fields is not None and column in fields else None

    def words(self, value: bytes, columns: Sequence[str]) -> list[str | None]:
        """Return the record's value in each column.

        A value that matches a listed word is returned as this word.
        """
        fields = self._total(self._fields, value) or {}
        return [
            self._listed.get(column, NO_WORDS).find(fields.get(column)) or word(fields.get(column))
            for column in columns
        ]

    def truth(self, value: bytes) -> FloatArray | None:
        """Return the right decision, (d,) and finite; None if the record does not contain it."""
        return self._total(self._truth, value)

    def timestamp(self, value: bytes) -> float | None:
        """Return the record's time in seconds since 1970; None if it has none, or an unreadable one."""
        return self._total(self._timestamp, value)

    def time_fault(self, value: bytes) -> Fault | None:
        """Return why `timestamp` gives None for a record; None if it gives a time."""
        if len(value) > self.longest or not value:
            return self.fault(value)
        return self._total(self._why_timeless, value)

    def _decoded(self, value: bytes) -> tuple[FloatArray, float] | None:
        features, label = self._parts(value)
        return None if features is None or label is None else (features, label)

    def _parts(self, value: bytes) -> tuple[FloatArray | None, float | None]:
        fields = self._fields(value)
        if fields is None:
            return None, None
        column = self._label_column
        if self._joined is not None:
            label = self._later_label(fields)
        else:
            label = self._label(fields[column]) if column in fields else None
        row: list[float] = []
        for name, features_of in self._cells:
            features = features_of(fields.get(name))
            if features is None:
                return None, label
            row += features
        numbers = bounded(np.array(row + self._tail), self._norm)
        return np.append(numbers, HEIGHT) if self._outside else numbers, label

    def _later_label(self, fields: Mapping[str, object]) -> float | None:
        key = joined_word(self._notation, fields.get(self._joined or ""))
        if key is None or self.later is None:
            return None if key is None else 0.0
        time = self._time_in(fields) if self.later.timed else None
        return None if self.later.timed and time is None else self.later(key, time)

    def _key(self, value: bytes, column: str) -> str | None:
        fields = self._fields(value)
        return None if fields is None else joined_word(self._notation, fields.get(column))

    def _fault(self, value: bytes) -> Fault | None:
        fields = self._fields(value)
        if fields is None:
            return self._fields.fault(value, self.schema.columns)
        for column in self._columns:
            name = column[0]
            kind = feature_fault(*column, fields.get(name))
            if kind is not None:
                return Fault(name, kind if name in fields else MISSING)
        if self._joined is not None:
            key = joined_word(self._notation, fields.get(self._joined))
            is_late = self.later is not None and self.later.timed
            return (
                Fault(self._joined, MISSING)
                if key is None
                else self._why_timeless(value)
                if is_late
                else None
            )
        label, kind = self.schema.label, MISSING
        if label.column in fields:
            kind = label_fault(label, fields[label.column], self._notation, self._absent)
        return None if kind is None else Fault(label.column, kind)

    def _why_timeless(self, value: bytes) -> Fault | None:
        fields = self._fields(value)
        if fields is None:
            return self._fields.fault(value, self.schema.columns)
        if self._time is None:
            return Fault(None, NO_TIME)
        kind = MISSING
        if self._time in fields:
            moment = fields[self._time]
            if not self._is_absent(moment):
                kind = time_fault(moment, self._notation, self.schema.timestamp) or ""
        return Fault(self._time, kind) if kind else None

    def _truth(self, value: bytes) -> FloatArray | None:
        fields = self._fields(value) if self.truth_columns else None
        numbers = (
            [self._notation.number(fields.get(name)) for name in self.truth_columns]
            if fields is not None
            else [None]
        )
        return None if None in numbers else np.array(numbers, dtype=np.float64)

    def _timestamp(self, value: bytes) -> float | None:
        fields = self._fields(value) if self._time is not None else None
        return None if fields is None else self._time_in(fields)

    def _time_in(self, fields: Mapping[str, object]) -> float | None:
        moment = fields.get(self._time or "")
        return None if self._is_absent(moment) else self._moment(moment)

    def _is_absent(self, value: object) -> bool:
        return self._absent is not None and is_missing(self._absent, NO_WORDS, value)
