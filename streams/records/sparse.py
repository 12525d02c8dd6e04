"""Sparse records: libsvm lines, `label index:value ...`, and a matrix in compressed rows as such lines."""

import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.sparse import Rows, SparseRows
from nodes.values import FloatArray, Observations
from streams.mesh.read_files import note_file
from streams.mesh.settings.sparse import CsrSettings, SparseLabelSettings, SparseSettings
from streams.records.columns import bounded
from streams.records.faults import Fault, sparse_fault
from streams.records.record import SparseRow, TotalDecoder

_FOREIGN = re.compile(rb"[^-+0-9.eE:\s]")
"""A character that no line may have. Without such characters Python's numbers are those of the format, except
for 1_0 and inf."""
_QUERY = re.compile(rb"\s*(\S+)\s+qid:[0-9]+(?=\s|$)")
_ABSENT = SparseRow(np.zeros(0, np.int64), np.zeros(0)), 0.0


def is_comment(line: bytes) -> bool:
    """Return whether a line of a file has only a comment, and so no record."""
    return line.lstrip().startswith(b"#")


def record_of(line: bytes) -> bytes:
    """Return a line without what SVMlight allows besides the record: a comment behind #, and `qid:3`."""
    record = line.partition(b"#")[0]
    query = _QUERY.match(record)
    return record if query is None else query[1] + record[query.end() :]


class LibsvmDecoder(TotalDecoder[SparseRow]):
    """Decodes the lines of one source. It is total: for any bytes it returns an observation or None.

    It returns None for a value that is not finite, for an index beyond the dimension or not above the one
    before it, and for a label that is neither positive nor negative.
    """

    def __init__(self, settings: SparseSettings, dimension: int) -> None:
        super().__init__(dimension, settings.max_record_bytes)
        self._label, self._norm, self._base = settings.label, settings.norm, settings.index_base

    def _decoded(self, value: bytes) -> tuple[SparseRow, float] | None:
        line = record_of(value)
        if _FOREIGN.search(line):
            return None
        try:
            first, *pairs = line.split()
            entries = [pair.split(b":") for pair in pairs]
            indices = np.array([int(index) for index, _ in entries], dtype=np.int64) - self._base
            values = np.array([float(number) for _, number in entries], dtype=np.float64)
            label = _label(self._label, float(first))
        except (ValueError, OverflowError):
            return None
        # each index is checked before any difference, as differences of indices out of range may wrap
        if label is None or np.count_nonzero((indices < 0) | (indices >= self.dimension)):
            return None
        if np.count_nonzero(np.diff(indices) <= 0) or not np.isfinite(values).all():
            return None
        return SparseRow(indices, bounded(values, self._norm)), label

    def _fault(self, value: bytes) -> Fault:
        positive, negative = self._label.positive, self._label.negative
        allowed = None if positive is None or negative is None else (*negative, *positive)
        return sparse_fault(record_of(value), allowed, self._base, self.dimension)


def _label(settings: SparseLabelSettings, number: float) -> float | None:
    if not math.isfinite(number):
        return None
    if settings.positive is None:
        return number
    if number in settings.positive:
        return 1.0
    return -1.0 if settings.negative is None or number in settings.negative else None


def rows_of(rows: Sequence[FloatArray | SparseRow], dimension: int) -> Rows:
    """Return the features of decoded records as rows (n, d), sparse where the records are."""
    sparse = [row for row in rows if isinstance(row, SparseRow)]
    return SparseRows.of(sparse, dimension) if sparse else np.array(rows, dtype=np.float64)


def sparse_observations(decoded: Sequence[tuple[SparseRow, float] | None], dimension: int) -> Observations:
    """Return the decoded lines as observations, in order. None becomes an observation that is absent."""
    pairs = [_ABSENT if pair is None else pair for pair in decoded]
    labels: FloatArray = np.array([label for _, label in pairs], dtype=np.float64)
    present = np.array([pair is not None for pair in decoded], dtype=np.bool_)
    return Observations(SparseRows.of([row for row, _ in pairs], dimension), labels, present)


Arrays = dict[str, NDArray[Any]]


class NotCsr(ValueError):
    """The file is wrong; the text shows none of its values."""


def csr_lines(path: str, settings: CsrSettings, dimension: int) -> Iterator[bytes]:
    """Return the lines of the selected rows, lazily. Raises NotCsr or OSError at once.

    Indices may be in any order. A row with a repeated index, or with a value that is not finite, gives a
    malformed line.
    """
    arrays = _loaded(path, ("data", "indices", "indptr", "shape", "y"), settings.split)
    _check(arrays, dimension)
    row_numbers = _wanted(arrays, settings)
    return (_line(arrays, k) for k in row_numbers)


def _loaded(path: str, names: tuple[str, ...], split: int | None) -> Arrays:
    names = names if split is None else (*names, "split")
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            note_file(stream)
            missing = [name for name in names if name not in file]
            if missing:
                raise NotCsr(f"has no array {missing[0]}: must have {', '.join(names)}")
            if "format" in file and file["format"].item() not in {b"csr", "csr"}:
                raise NotCsr("is not in compressed sparse rows: must have the format csr")
            return {name: file[name] for name in names}
    except (ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise error if isinstance(error, NotCsr) else NotCsr("must be an .npz file without pickles") from None


def _check(arrays: Arrays, dimension: int) -> None:
    """Raise NotCsr unless the arrays are a matrix with this many columns, and labels."""
    shape, indptr, indices = arrays["shape"], arrays["indptr"], arrays["indices"]
    integers = all(arrays[name].dtype.kind in "iu" for name in ("shape", "indptr", "indices"))
    numbers = all(arrays[name].dtype.kind in "iuf" for name in ("data", "y"))
    if not (integers and numbers) or shape.shape != (2,) or any(array.ndim != 1 for array in arrays.values()):
        raise NotCsr("must hold one-dimensional arrays of numbers, whole ones in indices, indptr and shape")
    rows, columns = (int(size) for size in shape)
    if columns != dimension:
        raise NotCsr(f"has {columns:,} columns: must have {dimension:,}, the dimension of the mesh")
    rising = 0 < indptr.size == rows + 1 and indptr[0] == 0 and not np.count_nonzero(indptr[1:] < indptr[:-1])
    if not rising or not indptr[-1] == indices.size == arrays["data"].size:
        raise NotCsr("has an indptr that does not fit its indices and data")
    for name in ("y", "split"):
        if name in arrays and arrays[name].size != rows:
            raise NotCsr(f"has {arrays[name].size:,} numbers in {name}: must have {rows:,}, one a row")


def _wanted(arrays: Arrays, settings: CsrSettings) -> list[int]:
    rows = arrays["y"].size
    if settings.split is not None:
        in_split: list[int] = np.flatnonzero(arrays["split"] == settings.split).tolist()
        if not in_split:
            raise NotCsr(f"has no row where split is {settings.split}")
        return in_split
    first, end = settings.rows or (0, rows)
    if end > rows:
        raise NotCsr(f"has {rows:,} rows: must have the {end:,} that rows asks for")
    return list(range(first, end))


@np.errstate(over="ignore")  # a long double may be no double, and a warning would show it
def _line(arrays: Arrays, k: int) -> bytes:
    part = slice(int(arrays["indptr"][k]), int(arrays["indptr"][k + 1]))
    indices, values = arrays["indices"][part], arrays["data"][part].astype(np.float64)
    order = np.argsort(indices, kind="stable")
    pairs = zip((indices[order].astype(np.int64) + 1).tolist(), values[order].tolist(), strict=True)
    return " ".join([repr(float(arrays["y"][k])), *(f"{index}:{value!r}" for index, value in pairs)]).encode()
