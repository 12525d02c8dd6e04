"""Reads Parquet files with pyarrow, an extra: rows as JSON lines, a chunk at a time."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nodes.values import FloatArray
from streams.mesh.settings.files import LONGEST_LINE

_ROWS, _BUFFER = 4096, 1 << 20
_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class NotParquet(ValueError):
    """The file is wrong; the text shows none of its values."""


class NoPyarrow(Exception):
    """The package that reads Parquet files is missing."""

    def __init__(self) -> None:
        super().__init__("needs pyarrow, which is not installed: pip install 'mirrormesh[parquet]'")


def parquet_columns(path: str) -> tuple[str, ...]:
    """Return the columns that hold single values. Raises NoPyarrow, NotParquet or OSError."""
    with _opened(path) as (pa, file):
        return tuple(field.name for field in file.schema_arrow if _is_single(pa, field.type))


def parquet_lines(path: str, columns: Sequence[str]) -> Iterator[bytes]:
    """Yield each row as a JSON object of these columns. Raises NoPyarrow, NotParquet or OSError.

    A time with a zone becomes seconds since 1970; decimals, dates and other times become text. A row longer
    than a line may be becomes an empty one.
    """
    with _opened(path) as (pa, file):
        for chunk in file.iter_batches(_ROWS, columns=list(columns), use_threads=False):
            held = {name: _values(pa, chunk.column(name)) for name in columns}
            for row in zip(*held.values(), strict=True):
                line = json.dumps(dict(zip(held, row, strict=True))).encode()
                yield line if len(line) <= LONGEST_LINE else b""


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
            found = np.empty((chunk.num_rows, len(columns)))
            for k, name in enumerate(columns):
                column = chunk.column(name).cast(pa.float64(), safe=False)
                found[:, k] = column.to_numpy(zero_copy_only=False)
            yield found


@contextmanager
def _opened(path: str) -> Iterator[tuple[Any, Any]]:
    """Open a file; what pyarrow says of it is not passed on, as that may show values."""
    try:
        import pyarrow as pa  # noqa: PLC0415 # an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise NoPyarrow from None
    with Path(path).open("rb") as opened:
        try:
            # not whole row groups at once: a buffer for each column
            with parquet.ParquetFile(opened, pre_buffer=False, buffer_size=_BUFFER) as file:
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


def _values(pa: Any, column: Any) -> list[Any]:
    """Return the column's values as JSON has them; None for one that is absent."""
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_timestamp(kind) and kind.tz is not None:
        second = _A_SECOND[kind.unit]
        return [None if ticks is None else ticks / second for ticks in column.cast(pa.int64()).to_pylist()]
    if types.is_decimal(kind) or types.is_temporal(kind):
        column = column.cast(pa.string())
    elif types.is_floating(kind):
        column = column.cast(pa.float64())
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:  # text is not checked while it is read
        texts = column.cast(pa.large_binary()).to_pylist()
        return [None if text is None else text.decode(errors="replace") for text in texts]
    return found
