"""Reads Parquet files with pyarrow, an extra: rows as JSON lines, a chunk at a time."""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nodes.values import FloatArray
from streams.mesh.read_files import note_file
from streams.mesh.settings.files import LONGEST_LINE
from streams.records.columns import A_SECOND

ROWS = 4096
"""The most rows that are read at a time."""
_BUFFER = 1 << 20
_CHUNK = 1 << 26
"""Bytes of rows that are read at a time, by their row group's mean: `ROWS` of them, or fewer."""
_ONCE = frozenset(("PLAIN", "RLE", "BIT_PACKED", "DELTA_LENGTH_BYTE_ARRAY"))
"""The encodings that store a text for each row, so that what is read is no longer than what is stored."""
SPOILT = object()
"""Stands for a value that could not be converted: its row is no record."""


class NotParquet(ValueError):
    """The file is wrong; the text shows none of its values."""


class NoPyarrow(Exception):
    """The package that reads Parquet files is missing."""

    def __init__(self) -> None:
        super().__init__("needs pyarrow, which is not installed: pip install 'mirrormesh[parquet]'")


def parquet_columns(path: str) -> tuple[str, ...]:
    """Return the columns that hold single values. Raises NoPyarrow, NotParquet or OSError.

    A name that several columns have comes more than once, so that nobody reads one of them for the other.
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
    not UTF-8 stays as it is, so that the line is none either. A row longer than a line may be becomes an
    empty one, as does one with a value that cannot be converted.
    """
    with _opened(path, columns) as (pa, file):
        for chunk in file.iter_batches(_rows(file.metadata), columns=list(columns), use_threads=False):
            yield from row_lines(columns, [arrow_column(pa, chunk.column(name)) for name in columns])


def row_lines(columns: Sequence[str], read: Sequence["Column"]) -> Iterator[bytes]:
    """Yield each row of these columns as a JSON object; an empty line for one that has none."""
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

    The numbers are those that `parquet_lines` spells. Raises as that.
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
    """Open a file; what pyarrow says of it is not passed on, as that may show values.

    Text in these `columns` is read as a dictionary of its words, unless it is stored row by row. The indices
    then have 32 bits, whatever their writer's had: pyarrow would check all words of a row group as it casts
    indices, and fail on one that is not UTF-8. And a long word is there once, however many rows hold it.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 # an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise NoPyarrow from None
    with Path(path).open("rb") as opened:
        note_file(opened)
        try:
            # not whole row groups at once: a buffer for each column
            limits = {"pre_buffer": False, "buffer_size": _BUFFER}
            with parquet.ParquetFile(opened, **limits) as file:
                coded = [
                    field.name
                    for field in file.schema_arrow
                    if field.name in columns and _is_text(pa, field.type) and _is_coded(pa, file, field)
                ]
                if coded:
                    file = parquet.ParquetFile(  # noqa: PLW2901 # the same one
                        opened, metadata=file.metadata, read_dictionary=coded, **limits
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
    """Return whether a text column is a dictionary, or stored in a way that rows may share a text."""
    if pa.types.is_dictionary(field.type):
        return True
    number = [file.schema.column(k).path for k in range(len(file.schema))].index(field.name)
    groups = (file.metadata.row_group(k) for k in range(file.metadata.num_row_groups))
    return any(not _ONCE.issuperset(group.column(number).encodings) for group in groups)


class Column(NamedTuple):
    """A chunk of a column: its values as JSON has them, None for one that is absent, and the `spoilt` rows.

    In these a text has an escape (PEP 383) in place of each byte that is not UTF-8, or `SPOILT` stands for
    a text that is longer than a line may be, or for a value that could not be converted.
    """

    values: list[Any]
    spoilt: Collection[int] = ()


def arrow_column(pa: Any, chunk: Any) -> Column:
    """Return the values of a chunk: all at once, or each alone if one of them fails."""
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
    """Return a chunk of text. A word is decoded once, and the rows that hold it share it.

    A word that no line can hold is never copied: a small file may hold one of a GiB.
    """
    from pyarrow import compute  # noqa: PLC0415 # an extra

    coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    words, places = coded.dictionary, coded.indices
    if len(words) > len(places):  # it may have all words of the row group
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
