"""Records that a program hands over: data frames, Arrow tables, or dicts of columns, in place of a file.

They are read as rows of a Parquet file are: each becomes the JSON line that `streams.records.parquet` makes
of it, so a frame and a file of the same rows give the same records. pandas, polars and Arrow hand over an
Arrow stream, for which pyarrow is needed; a dict of numpy's arrays needs nothing.

A state folder recognises a frame by its given name, as it recognises a file by its path. Nothing of its
content is stored. Not even a hash is, as a hash would reveal something of the content without noise.
"""

import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from streams.mesh.checks import file_problems
from streams.mesh.errors import MeshFileError, UsageError, one_of, printable, refused
from streams.mesh.file import AnyFile
from streams.mesh.settings.node import FileSettings, FrameSettings
from streams.mesh.settings.schema import SchemaSettings
from streams.records.parquet import ROWS, SPOILT, Column, NoPyarrow, arrow_column, row_lines, single_columns

_FRAMES = "must be a data frame of pandas, polars or Arrow, or a dict of columns (numpy arrays)"
_ONE_TYPE = "must be of one type that Arrow has: numbers, texts, times, or true and false"
_LONGEST_NAME = 200
_LONGEST_INTEGER = 1 << 12
"""In bits. Python spells no integer of more than 4,300 digits."""
_NO_VALUE: list[object] = []
"""Marks an object that cannot be a cell of a table, such as bytes. It is a list, as no cell is a list."""
HELD_OUT = "held_out"


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """Records with a name, by which a state folder recognises them in every run that reads them."""

    name: str
    records: Any

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise refused("name", name, f"must be text of 1 to {_LONGEST_NAME} printable characters")


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Rows in memory. `columns` are all columns except those that are read and do not have single values.

    `key` identifies the data (`ledger`). `chunk`: (column, first, end) -> the rows from `first` up to, not
    including, `end`.
    """

    columns: tuple[str, ...]
    rows: int
    chunk: Callable[[str, int, int], Column]
    key: str = ""
    name: str | None = None

    def lines(self, columns: Sequence[str]) -> Iterator[bytes]:
        """Yield each row as a JSON object of these columns."""
        for first in range(0, self.rows, ROWS):
            end = min(first + ROWS, self.rows)
            yield from row_lines(columns, [self.chunk(name, first, end) for name in columns])


def with_records(file: AnyFile, records: object, *, named: bool) -> AnyFile:
    """Return the file with these records, by node or owner, or `held_out`, in place of their sources'.

    A source's schema, `take` and `shuffle` apply to these records too. `named`: whether they must have names,
    by which a state folder recognises them. Raises UsageError for records that cannot be read or lack such a
    name, MeshFileError where the schema does not fit.
    """
    if records is None:
        return file
    if not isinstance(records, Mapping):
        raise refused("records", records, f"must be a mapping from names of {file.part} to records")
    sources = _sources(file, records, named=named)
    parts, wrong = dict[str, Any](file.owns), list[str]()
    for name, settings in sources.items():
        path = (HELD_OUT,) if name == HELD_OUT else (file.part, name, "source")
        wrong += [problem.line for problem in file_problems(str(file.path), path, file.mesh, settings)]
        if name != HELD_OUT:
            part = parts.get(name) or file.kind.own()
            parts[name] = part.model_copy(update={"source": settings})
    if wrong:
        raise MeshFileError(wrong)
    absent = {name: place for name, place in file.elsewhere.items() if name not in sources}
    held_out = sources.get(HELD_OUT, file.held_out)
    changes: dict[str, Any] = {file.part: parts, "elsewhere": absent, "held_out": held_out}
    values: Any = file  # the file is a frozen dataclass of its kind
    changed: AnyFile = replace(values, **changes)
    return changed


def _sources(file: AnyFile, records: Mapping[Any, object], *, named: bool) -> dict[str, FrameSettings]:
    """Return the sources by name, each with the key of its data.

    Equal objects, or equal names, have one key.
    """
    sources = dict[str, FrameSettings]()
    objects, by_name = list[object](), dict[str, object]()
    for name, value in records.items():
        if name != HELD_OUT and name not in file.members:
            members = [*file.members, HELD_OUT]
            raise refused("records", name, f"is no {file.member} of the mesh: {one_of(members, name)}")
        label, data = (value.name, value.records) if isinstance(value, Named) else (None, value)
        if label is None and named and name != HELD_OUT:
            text = "must be Named(name, records) where state is given: the folder knows them by that name"
            raise refused(f"records[{name!r}]", value, text)
        if label is not None and by_name.setdefault(label, data) is not data:
            text = "is the name of other records too: must be of one object alone"
            raise refused(f"records[{name!r}]", label, text)
        number = next((k for k, value in enumerate(objects) if value is data), len(objects))
        if number == len(objects):
            objects.append(data)
        key = f"records #{number}" if label is None else f"records: {label}"
        sources[name] = _settings(file, name, data, key, label)
    return sources


def _settings(file: AnyFile, name: str, data: object, key: str, label: str | None) -> FrameSettings:
    """Return the settings of a frame in place of the source of that name. Raises UsageError."""
    part = file.owns.get(name)
    source: Any = file.held_out if name == HELD_OUT else None if part is None else part.source
    schema = getattr(source, "record", None) or file.mesh.features
    if not isinstance(schema, SchemaSettings):
        text = "says no schema for them: must be given in their source, or as mesh.features"
        raise UsageError(f"records[{name!r}]: {file.path} {text}")
    unit = getattr(file.mesh, "unit", None)
    if unit is not None and name != HELD_OUT:
        schema = schema.with_units(unit.column, unit.apart)
    chosen = source if isinstance(source, FileSettings) else None
    return FrameSettings(
        kind="parquet",
        schema=schema,
        take=None if chosen is None else chosen.take,
        shuffle=chosen is not None and chosen.shuffle,
        max_record_bytes=getattr(source, "max_record_bytes", None),
        frame=replace(_frame(f"records[{name!r}]", data, schema.columns), key=key, name=label),
    )


def _frame(place: str, data: Any, wanted: Collection[str]) -> Frame:
    """Return the frame. Only the columns in `wanted` are read, so that no other column can cause an error."""
    if isinstance(data, Mapping):
        return _of_arrays(place, data, wanted)
    if hasattr(data, "__arrow_c_stream__"):
        return _of_arrow(place, data, wanted)
    raise refused(place, data, _FRAMES)


def _of_arrow(place: str, data: Any, wanted: Collection[str]) -> Frame:
    """Return the frame of an Arrow stream. A frame of pandas or polars is converted column by column."""
    try:
        import pyarrow as pa  # noqa: PLC0415 # an extra
    except ImportError:
        raise UsageError(f"{place}: {NoPyarrow()}") from None
    kind, separate = type(data).__name__, _separate(data)
    if separate is None:
        table = _table(pa, data, f"{place}: {kind} is no table as an Arrow stream", _FRAMES)
        columns, rows = single_columns(pa, table.schema), table.num_rows
        arrays = {name: table.column(name) for name in columns if columns.count(name) == 1}
    else:
        names, rows = [name for name, _ in separate], len(data)
        arrays, odd = dict[str, Any](), set[str]()
        for name, column in separate:
            if name in wanted and names.count(name) == 1:
                wrong = f"{place}[{name!r}]: this column of {kind} is none as an Arrow stream"
                table = _table(pa, column(), wrong, _ONE_TYPE)
                arrays[name] = table.column(0)
                odd.update(() if single_columns(pa, table.schema) else (name,))
        columns = tuple(name for name in names if name not in odd)

    def chunk(name: str, first: int, end: int) -> Column:
        return arrow_column(pa, arrays[name].slice(first, end - first).combine_chunks())

    return Frame(columns, rows, chunk)


def _table(pa: Any, data: Any, wrong: str, allowed: str) -> Any:
    """Return an Arrow table. The text of pyarrow's errors is not passed on, as it may show values."""
    try:
        return pa.RecordBatchReader.from_stream(data).read_all()
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 # whatever the frame's package raises
        raise UsageError(printable(f"{wrong} ({type(error).__name__}): {allowed}")) from None


def _separate(data: Any) -> list[tuple[str, Callable[[], Any]]] | None:
    """Return a frame's columns as (name in Arrow, function that gives a frame of this column alone).

    Returns None for what is neither pandas nor polars, and so has Arrow's types already. A named index of
    pandas is a column, as in a Parquet file, unless it only counts rows.
    """
    polars, pandas = sys.modules.get("polars"), sys.modules.get("pandas")
    if polars is not None and isinstance(data, polars.DataFrame):
        return [
            (name, column.to_frame) for name, column in zip(data.columns, data.get_columns(), strict=True)
        ]
    if pandas is None or not isinstance(data, pandas.DataFrame):
        return None
    names = [str(name) for name in data.columns]
    levels = [] if isinstance(data.index, pandas.RangeIndex) else list(data.index.names)
    return [
        *((name, partial(_column, data, k)) for k, name in enumerate(names)),
        *(
            (str(name), partial(_level, data.index, k))
            for k, name in enumerate(levels)
            if name is not None and str(name) not in names
        ),
    ]


def _column(frame: Any, number: int) -> Any:
    return frame.iloc[:, [number]].reset_index(drop=True)


def _level(index: Any, number: int) -> Any:
    return index.get_level_values(number).to_frame(index=False)


# Columns of numpy. They give the values that pyarrow would give, without pyarrow.


def _of_arrays(place: str, columns: Mapping[Any, Any], wanted: Collection[str]) -> Frame:
    for name in columns:
        if not isinstance(name, str):
            raise refused(place, name, "must be a dict whose keys are names of columns")
    if not columns:
        raise UsageError(f"{place}: has no column: {_FRAMES}")
    # if no column is wanted, the first one gives the number of rows
    names = [name for name in columns if name in wanted] or list(columns)[:1]
    arrays = {name: _array(f"{place}[{name!r}]", columns[name]) for name in names}
    lengths = {name: len(array) for name, array in arrays.items()}
    first = next(iter(lengths))
    odd = next((name for name, length in lengths.items() if length != lengths[first]), None)
    if odd is not None:
        text = f"has {lengths[odd]:,} values, but {first!r} has {lengths[first]:,}: must be the same number"
        raise UsageError(f"{place}[{odd!r}]: {text}")
    return Frame(tuple(columns), lengths[first], lambda name, first, end: _values(arrays[name][first:end]))


def _array(place: str, values: Any) -> np.ndarray[Any, Any]:
    allowed = "must be an array of one axis, of numbers, texts, times or objects"
    if isinstance(values, np.ma.MaskedArray):
        masked, values = np.ma.getmaskarray(values), values.data.astype(object)
        values[masked] = None
    elif isinstance(values, list | tuple):
        items, values = values, np.empty(len(values), dtype=object)
        values[:] = items
    elif isinstance(values, str | bytes | Mapping) or not hasattr(values, "__array__"):
        raise refused(place, values, allowed)
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "biufUMO":
        raise UsageError(f"{place} has {array.ndim} axes and type {array.dtype}: {allowed}")
    return array


def _values(array: np.ndarray[Any, Any]) -> Column:
    kind = array.dtype.kind
    if kind == "f":
        return Column(array.astype(np.float64).tolist())
    if kind == "M":
        return Column(_moments(array))
    if kind != "O":
        return Column(array.tolist())
    values = [_value(value) for value in array.tolist()]
    return Column(values, [k for k, value in enumerate(values) if value is SPOILT])


def _moments(array: np.ndarray[Any, Any]) -> list[str | None]:
    """Return times as text in Arrow's spelling.

    They have no zone, so none of them can be the time of a record.
    """
    unit = np.datetime_data(array.dtype)[0]
    spelt = array if unit in {"D", "s", "ms", "us", "ns"} else array.astype("datetime64[s]")
    texts = np.datetime_as_string(spelt)
    return [None if text == "NaT" else text.replace("T", " ") for text in texts.tolist()]


def _value(value: object) -> object:
    """Return an object as a JSON value: None for a gap, `SPOILT` for an integer that is too long."""
    if isinstance(value, np.datetime64):
        return _moments(np.array([value]))[0]
    if isinstance(value, np.generic):
        value = value.item()
    if _is_gap(value):
        return None
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER:
        return SPOILT
    if isinstance(value, str | int):
        return value
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.timestamp()
    return str(value) if isinstance(value, datetime | date | time | Decimal) else _NO_VALUE


def _is_gap(value: object) -> bool:
    """Return whether Arrow reads an object as null: None, not a number, or pandas' NA and NaT."""
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, Decimal):
        return value.is_nan()
    pandas = sys.modules.get("pandas")  # no object is of a package that was never imported
    return value is None or (pandas is not None and (value is pandas.NA or value is pandas.NaT))
