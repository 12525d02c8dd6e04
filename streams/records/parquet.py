"""Reads Parquet files with pyarrow, an extra: rows as JSON lines, a chunk at a time."""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from nodes.values import FloatArray
from streams.mesh.read_files import note_file
from streams.mesh.settings.files import LONGEST_LINE
from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import Columns, JsonFields, SchemaDecoder
from streams.records.faults import Fault
from streams.records.times import A_SECOND

T = TypeVar("T")

ROWS = 4096
"""The most rows that are read at a time."""
_BUFFER = 1 << 20
_CHUNK = 1 << 26
"""The bytes of rows that are read at a time, by the mean size in their row group: `ROWS` rows, or fewer."""
_ONCE = frozenset(("PLAIN", "RLE", "BIT_PACKED", "DELTA_LENGTH_BYTE_ARRAY"))
"""The encodings that store a text for each row. Texts read from these are no longer than the file."""
SPOILT = object()
"""Marks a value that could not be converted. Its row is no record."""


class NotParquet(ValueError):
    """The file is wrong; the text shows none of its values."""


class NoPyarrow(Exception):
    """The package that reads Parquet files is missing."""

    def __init__(self) -> None:
        super().__init__("needs pyarrow, which is not installed: pip install 'mirrormesh[parquet]'")


def parquet_columns(path: str) -> tuple[str, ...]:
    """Return the columns with single values. Raises NoPyarrow, NotParquet or OSError.

    A name that several columns have is repeated, so that a caller can refuse it.
    """
    with _opened(path) as (pa, file):
        return single_columns(pa, file.schema_arrow)


def single_columns(pa: Any, schema: Any) -> tuple[str, ...]:
    """Return the columns of an Arrow schema that hold single values, as `parquet_columns` does."""
    fields = list(schema)
    single = {field.name for field in fields if _is_single(pa, field.type)}
    return tuple(field.name for field in fields if field.name in single)


def parquet_rows(path: str) -> int:
    """Return the number of rows. Raises NoPyarrow, NotParquet or OSError."""
    with _opened(path) as (_, file):
        return int(file.metadata.num_rows)


def parquet_lines(path: str, columns: Sequence[str]) -> Iterator[bytes]:
    """Yield each row as a JSON object of these columns. Raises NoPyarrow, NotParquet or OSError.

    A time with a zone becomes seconds since 1970; decimals, dates and other times become text. Text that is
    not UTF-8 stays unchanged, so that the line is no UTF-8 either. A row that is longer than a line may be
    becomes an empty line, and so does a row with a value that cannot be converted.
    """
    with _opened(path, columns) as (pa, file):
        for batch in _batches(file, columns):
            yield from row_lines(columns, [arrow_column(pa, batch.column(name)) for name in columns])


def _batches(file: Any, columns: Sequence[str]) -> Iterator[Any]:
    batches: Iterator[Any] = file.iter_batches(_rows(file.metadata), columns=list(columns), use_threads=False)
    return batches


def row_lines(columns: Sequence[str], read: Sequence["Column"]) -> Iterator[bytes]:
    """Yield each row of these columns as a JSON object; an empty line for a row without one."""
    spoilt = set[int]().union(*(column.spoilt for column in read))
    for number, row in enumerate(zip(*(column.values for column in read), strict=True)):
        record = dict(zip(columns, row, strict=True))
        yield _spoilt_line(record) if number in spoilt else _short(json.dumps(record).encode())


def _rows(metadata: Any) -> int:
    """Return how many rows to read at a time: fewer where rows are long."""
    rows = ROWS
    for k in range(metadata.num_row_groups):
        group = metadata.row_group(k)
        rows = min(rows, _CHUNK * int(group.num_rows) // max(1, int(group.total_byte_size)))
    return max(1, rows)


def _short(line: bytes) -> bytes:
    return line if len(line) <= LONGEST_LINE else b""


def _spoilt_line(record: dict[str, Any]) -> bytes:
    """Return the line of a row with a text that is not UTF-8, or with a value that could not be converted."""
    if any(value is SPOILT for value in record.values()):
        return b""
    return _short(json.dumps(record, ensure_ascii=False).encode(errors="surrogateescape"))


def holds_numbers(path: str, columns: Sequence[str]) -> bool:
    """Return whether these columns hold integers or floats alone. Raises as `parquet_lines`."""
    with _opened(path) as (pa, file):
        kinds = [file.schema_arrow.field(name).type for name in columns]
        return all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds)


def parquet_numbers(path: str, columns: Sequence[str], rows: int) -> Iterator[FloatArray]:
    """Yield up to `rows` rows of these columns at a time, (n, columns); NaN for a value that is absent.

    The numbers are those in the lines of `parquet_lines`. Raises as it does.
    """
    with _opened(path) as (pa, file):
        for chunk in file.iter_batches(rows, columns=list(dict.fromkeys(columns)), use_threads=False):
            numbers = np.empty((chunk.num_rows, len(columns)))
            for k, name in enumerate(columns):
                column = chunk.column(name).cast(pa.float64(), safe=False)
                numbers[:, k] = column.to_numpy(zero_copy_only=False)
            yield numbers


@contextmanager
def _opened(path: str, columns: Collection[str] = ()) -> Iterator[tuple[Any, Any]]:
    """Open a file. The text of pyarrow's errors is not passed on, as it may show values.

    Text in these `columns` is read as a dictionary of its words, unless it is stored row by row. The indices
    then have 32 bits, whatever their writer used. Otherwise pyarrow would check all words of a row group when
    it casts indices, and fail on a word that is not UTF-8. In a dictionary a long word exists once, however
    many rows have it.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 # an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise NoPyarrow from None
    with Path(path).open("rb") as stream:
        note_file(stream)
        try:
            # whole row groups are not read at once, as this needs a buffer for each column
            limits = {"pre_buffer": False, "buffer_size": _BUFFER}
            with parquet.ParquetFile(stream, **limits) as file:
                coded = [
                    field.name
                    for field in file.schema_arrow
                    if field.name in columns and _is_text(pa, field.type) and _is_coded(pa, file, field)
                ]
                if coded:
                    file = parquet.ParquetFile(  # noqa: PLW2901 # the same one
                        stream, metadata=file.metadata, read_dictionary=coded, **limits
                    )
                yield pa, file
        except (pa.ArrowException, OSError):
            raise NotParquet("must be a Parquet file, whole and not encrypted") from None


def _is_single(pa: Any, kind: Any) -> bool:
    """Return whether values of the type are single: numbers, text, times, true or false."""
    types = pa.types
    if types.is_dictionary(kind):
        return _is_single(pa, kind.value_type)
    return any(
        is_kind(kind)
        for is_kind in (
            *(types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null),
            *(types.is_string, types.is_large_string, types.is_string_view),
            *(types.is_timestamp, types.is_date, types.is_time),
        )
    )


def _is_text(pa: Any, kind: Any) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return _is_text(pa, kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_coded(pa: Any, file: Any, field: Any) -> bool:
    """Return whether a text column is a dictionary, or is stored so that rows may share a text."""
    if pa.types.is_dictionary(field.type):
        return True
    number = [file.schema.column(k).path for k in range(len(file.schema))].index(field.name)
    groups = (file.metadata.row_group(k) for k in range(file.metadata.num_row_groups))
    return any(not _ONCE.issuperset(group.column(number).encodings) for group in groups)


class Column(NamedTuple):
    """A chunk of a column: its values as JSON values, None for an absent one, and the rows with `spoilt`
    values.

    In a spoilt row a text has an escape (PEP 383) in place of each byte that is not UTF-8. `SPOILT` replaces
    a text that is longer than a line may be, and a value that could not be converted.
    """

    values: list[Any]
    spoilt: Collection[int] = ()


def arrow_column(pa: Any, chunk: Any) -> Column:
    """Return the values of a chunk: all at once, or one by one if that fails."""
    if _is_text(pa, chunk.type):
        return _texts(pa, chunk)
    try:
        return Column(_values(pa, chunk))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 # whatever pyarrow raises, a value costs its own row alone
        rows = len(chunk)
    if rows == 1:
        return Column([SPOILT], (0,))
    rows_alone = [arrow_column(pa, chunk.slice(row, 1)) for row in range(rows)]
    return Column(
        [row.values[0] for row in rows_alone], [k for k, row in enumerate(rows_alone) if row.spoilt]
    )


def _values(pa: Any, chunk: Any) -> list[Any]:
    """Return the values of a chunk that is no text."""
    types, kind = pa.types, chunk.type
    if types.is_timestamp(kind) and kind.tz is not None:
        second = A_SECOND[kind.unit]
        return [None if ticks is None else ticks / second for ticks in chunk.cast(pa.int64()).to_pylist()]
    if types.is_decimal(kind) or types.is_temporal(kind):
        chunk = chunk.cast(pa.string())
    elif types.is_floating(kind):
        chunk = chunk.cast(pa.float64())
    values: list[Any] = chunk.to_pylist()
    return values


def _texts(pa: Any, chunk: Any) -> Column:
    """Return a chunk of text. A word is decoded once, and the rows with this word share it.

    A word that is too long for any line is never copied, as a small file may contain a word of a GiB.
    """
    from pyarrow import compute  # noqa: PLC0415 # an extra

    coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    words, places = coded.dictionary, coded.indices
    if len(words) > len(places):  # the dictionary may have all words of the row group
        places = places.dictionary_encode()
        words, places = words.take(places.dictionary), places.indices
    words = words.cast(pa.large_binary())
    too_long = compute.greater(compute.binary_length(words), LONGEST_LINE)
    if too_long.true_count:
        words = compute.if_else(too_long, None, words)
    decoded: list[object] = []
    spoilt = set[int]()
    for number, word in enumerate(words.to_pylist()):
        if word is None:
            decoded.append(SPOILT)
            spoilt.add(number)
            continue
        try:
            decoded.append(word.decode())
        except UnicodeDecodeError:  # pyarrow does not check text while it reads it
            decoded.append(word.decode(errors="surrogateescape"))
            spoilt.add(number)
    numbers = places.fill_null(len(decoded)).to_pylist()
    decoded.append(None)
    values = [decoded[number] for number in numbers]
    return Column(values, [row for row, number in enumerate(numbers) if number in spoilt] if spoilt else ())


# Converts the rows of a whole slot or chunk to arrays column by column, without making lines.
#
# A `Row` takes the place of a record's bytes. It is empty bytes, so code that does not know it sees a bad
# record, and never another one. `RowDecoder` makes it a line when a record is decoded alone.

_NUMBER, _ESCAPED = 32, 6
"""The most characters of a number in JSON, and of an escaped byte of text."""


class RowBatch:
    """Rows of a Parquet file: `numbers` (rows, columns) of the columns `numeric`, and the `others` as JSON
    values.

    No line of a row is longer than `longest`.
    """

    def __init__(self, pa: Any, batch: Any, columns: Sequence[str], numeric: Collection[str]) -> None:
        self._pa, self._batch, self._columns = pa, batch, tuple(columns)
        self._line_list: list[bytes] | None = None
        self.place: dict[str, int] = {}
        self.others: dict[str, list[Any]] = {}
        self.spoilt = frozenset[int]()
        arrays, self.longest = list[FloatArray](), 2
        for name in columns:
            column, length = batch.column(name), _NUMBER
            array = _array(pa, column) if name in numeric else None
            if array is not None:
                self.place[name] = len(arrays)
                arrays.append(array)
            else:
                values, spoilt = arrow_column(pa, column)
                self.others[name], self.spoilt = values, self.spoilt.union(spoilt)
                texts = [value for value in set(values) if isinstance(value, str)]
                length = max(
                    [_NUMBER, *(_ESCAPED * len(text.encode(errors="surrogateescape")) + 2 for text in texts)]
                )
            self.longest += len(json.dumps(name)) + 4 + length
        self.numbers = np.column_stack(arrays) if arrays else np.empty((batch.num_rows, 0))

    def line(self, number: int) -> bytes:
        """Return the line of this row.

        The lines of all rows are made at once, as others will be needed too.
        """
        if self._line_list is None:
            arrays = [arrow_column(self._pa, self._batch.column(name)) for name in self._columns]
            self._line_list = list(row_lines(self._columns, arrays))
        return self._line_list[number]


def _array(pa: Any, column: Any) -> FloatArray | None:
    """Return numbers (rows,), NaN for an absent one; None for a column that `_column` must convert."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return None
    try:
        array: FloatArray = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except pa.ArrowException:
        return None
    return array


class Row(bytes):
    """A row of a batch. It takes the place of a record's bytes."""

    batch: RowBatch
    number: int


def parquet_row_values(path: str, columns: Sequence[str], schema: SchemaSettings) -> Iterator[Row]:
    """Yield each row. `RowDecoder` decodes it as it decodes its line in `parquet_lines`.

    Raises as `parquet_lines`.
    """
    numeric = _numeric(schema)
    with _opened(path, columns) as (pa, file):
        for record_batch in _batches(file, columns):
            batch = RowBatch(pa, record_batch, columns, numeric)
            for number in range(record_batch.num_rows):
                row = Row()
                row.batch, row.number = batch, number
                yield row


def _numeric(schema: SchemaSettings) -> frozenset[str]:
    """Return the columns that are read as numbers only."""
    features = schema.features.items()
    numbers = {name for name, kind in features if kind.number or kind.bounds or kind.log or kind.buckets}
    is_number = schema.label.positive is None and schema.label.classes is None
    return frozenset({*numbers, schema.label.column} if is_number else numbers)


def _line(value: bytes) -> bytes:
    return value.batch.line(value.number) if isinstance(value, Row) else value


class RowFields(JsonFields):
    """Splits rows into their columns. A row that is decoded alone is decoded as its line."""

    def columns(self, values: Sequence[bytes], names: Sequence[str]) -> Columns | None:
        """Return the columns of many rows; None if one of them has a text that is not UTF-8."""
        places: dict[RowBatch, list[tuple[int, int]]] = {}
        for place, row in enumerate(cast("Sequence[Row]", values)):
            places.setdefault(row.batch, []).append((place, row.number))
        first = next(iter(places))
        numbers = np.empty((len(values), first.numbers.shape[1]))
        lists: dict[str, list[Any]] = {name: [None] * len(values) for name in names if name in first.others}
        for batch, pairs in places.items():
            if not batch.spoilt.isdisjoint(number for _, number in pairs):
                return None
            chosen = np.array(pairs)
            numbers[chosen[:, 0]] = batch.numbers[chosen[:, 1]]
            for name, column in lists.items():
                batch_column = batch.others[name]
                for place, number in pairs:
                    column[place] = batch_column[number]
        columns: dict[str, Any] = {
            name: numbers[:, first.place[name]] for name in names if name in first.place
        }
        return columns | lists


class RowDecoder(SchemaDecoder):
    """Decodes rows: many at once column by column, or one by one, as lines, if a row is odd."""

    fewest = 1

    def at_once(self, values: Sequence[bytes]) -> tuple[FloatArray, FloatArray | None] | None:
        """Return the results of `parts` for all rows at once; None if a row is odd."""
        batches = {row.batch for row in cast("Sequence[Row]", values)}
        if any(batch.longest > self.longest for batch in batches):
            return None
        return super().at_once(values)

    def fault(self, value: bytes) -> Fault:
        """Return why a row does not decode."""
        return super().fault(_line(value))

    def time_fault(self, value: bytes) -> Fault | None:
        """Return why a row has no time that can be read; None if it has."""
        return super().time_fault(_line(value))

    def _total(self, read: Callable[[bytes], T | None], value: bytes) -> T | None:
        return super()._total(read, _line(value))
