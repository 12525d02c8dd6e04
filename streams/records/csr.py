"""Reads a matrix in compressed sparse rows and gives each row as a libsvm line."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.mesh.settings.sparse import CsrSettings

Arrays = dict[str, NDArray[Any]]


class NotCsr(ValueError):
    """The file is wrong; the text shows none of its values."""


def csr_lines(path: str, settings: CsrSettings, dimension: int) -> Iterator[bytes]:
    """Return the lines of the selected rows, lazily. Raises NotCsr or OSError at once.

    A row's indices may be in any order. A row with a repeated index, or a value that is not finite, gives a
    line that no decoder takes.
    """
    arrays = _loaded(path, ("data", "indices", "indptr", "shape", "y"), settings.split)
    _check(arrays, dimension)
    wanted = _wanted(arrays, settings)
    return (_line(arrays, k) for k in wanted)


def _loaded(path: str, names: tuple[str, ...], split: int | None) -> Arrays:
    names = names if split is None else (*names, "split")
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            missing = [name for name in names if name not in file]
            if missing:
                raise NotCsr(f"has no array {missing[0]}: must have {', '.join(names)}")
            if "format" in file and file["format"].item() not in {b"csr", "csr"}:
                raise NotCsr("is not in compressed sparse rows: must have the format csr")
            return {name: file[name] for name in names}
    except (ValueError, TypeError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise error if isinstance(error, NotCsr) else NotCsr("must be an .npz file without pickles") from None


def _check(arrays: Arrays, dimension: int) -> None:
    """Raise NotCsr unless the arrays are a matrix with labels, of that many columns."""
    shape, indptr, indices = arrays["shape"], arrays["indptr"], arrays["indices"]
    whole = all(arrays[name].dtype.kind in "iu" for name in ("shape", "indptr", "indices"))
    numbers = all(arrays[name].dtype.kind in "iuf" for name in ("data", "y"))
    if not (whole and numbers) or shape.shape != (2,) or any(array.ndim != 1 for array in arrays.values()):
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
        found: list[int] = np.flatnonzero(arrays["split"] == settings.split).tolist()
        if not found:
            raise NotCsr(f"has no row where split is {settings.split}")
        return found
    first, end = settings.rows or (0, rows)
    if end > rows:
        raise NotCsr(f"has {rows:,} rows: must have the {end:,} that rows asks for")
    return list(range(first, end))


def _line(arrays: Arrays, k: int) -> bytes:
    part = slice(int(arrays["indptr"][k]), int(arrays["indptr"][k + 1]))
    indices, values = arrays["indices"][part], arrays["data"][part].astype(np.float64)
    order = np.argsort(indices, kind="stable")
    pairs = zip((indices[order].astype(np.int64) + 1).tolist(), values[order].tolist(), strict=True)
    return " ".join([repr(float(arrays["y"][k])), *(f"{index}:{value!r}" for index, value in pairs)]).encode()
