"""The data sets of the experiments, from the folder that MIRRORMESH_DATA names, checked as they are read.

`quick` reads no such folder: of Adult, Diabetes and Covertype it takes rows of the excerpts that stand in
`deploy/meshes`, which the licence of these sets allows.
"""

import os
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from experiments.harness import readers
from experiments.harness.made_up import Rows
from experiments.harness.readers import Read
from streams.mesh.errors import UsageError

VARIABLE = "MIRRORMESH_DATA"
MESHES = Path(__file__).parents[2] / "deploy" / "meshes"
QUICK_ROWS = 4_000


BROKEN = (ValueError, KeyError, EOFError, BadZipFile, zlib.error)
"""What reading another file, or half of one, may raise beside OSError."""


class Unavailable(UsageError):
    """A data set that is not there, or is another one; the text says which, and where it is from."""


class DataSet(NamedTuple):
    """How a set is read, and its `excerpt`, a folder of `deploy/meshes`; `folder`: that of the whole set.

    `rows`, `positive`: how many there are before any is dropped; `columns` p.
    """

    read: Callable[[Path], Read]
    read_excerpt: Callable[[Path], Read]
    excerpt: str
    folder: str
    rows: int
    positive: int
    columns: int
    share: float
    source: str


def load(name: str, *, quick: bool = False) -> Rows:
    """Return a set's rows in their own order; Unavailable where it is missing or another one.

    `quick`: QUICK_ROWS of the excerpt, evenly spaced, for the sets are in no random order.
    """
    return _quick(name) if quick else _load(name, os.environ.get(VARIABLE, ""))


@cache
def _load(name: str, root: str) -> Rows:
    known = SETS[name]
    if not root:
        raise Unavailable(
            f"{name}: set {VARIABLE} to a folder that holds {known.folder}, from {known.source}"
        )
    try:
        rows, count, positive = known.read(Path(root) / known.folder)
    except OSError as error:
        missing = error.filename or known.folder
        raise Unavailable(f"{name}: cannot read {missing}; it is from {known.source}") from None
    except BROKEN:
        raise Unavailable(
            f"{name}: {Path(root) / known.folder} holds other files than those from {known.source}"
        ) from None
    if (count, positive) != (known.rows, known.positive):
        raise Unavailable(
            f"{name}: {count} rows, {positive} of them positive: must be {known.rows} and {known.positive}, "
            f"as from {known.source}"
        )
    return rows


@cache
def _quick(name: str) -> Rows:
    rows, *_ = SETS[name].read_excerpt(MESHES / SETS[name].excerpt)
    places = np.linspace(0, len(rows.labels) - 1, QUICK_ROWS).astype(np.int64)
    return Rows(rows.features[places], rows.labels[places])


_UCI = "the UCI Machine Learning Repository"
_ADULT = DataSet(
    *(readers.adult, readers.adult, "adult", "adult"), *(48_842, 11_687, 14, 0.24), f"{_UCI} (Adult)"
)
_AS_BINARY = partial(readers.adult, as_binary=True)
SETS = {
    "adult": _ADULT,
    "adult-binary": _ADULT._replace(read=_AS_BINARY, read_excerpt=_AS_BINARY, columns=104),
    "diabetes": DataSet(
        *(readers.diabetes, readers.diabetes_excerpt, "diabetes", "diabetes130"),
        *(101_766, 11_383, 44, 0.11),
        f"{_UCI} (Diabetes 130-US Hospitals)",
    ),
    "covertype": DataSet(
        *(readers.covertype, readers.covertype_excerpt, "covertype", "covertype"),
        *(581_012, 283_301, 54, 0.49),
        f"{_UCI} (Covertype)",
    ),
}
