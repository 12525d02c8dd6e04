"""The data sets of the experiments, from the folder that MIRRORMESH_DATA names, checked as they are read.

`quick` reads no such folder: the rows of Adult that stand in the repository, and for the other sets rows that
are made up in the same shape. What is made up says nothing about the real set.
"""

import csv
import gzip
import os
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from experiments.harness.features import Table, binary, coded, complete, scaled
from experiments.harness.made_up import Rows, made_up
from streams.commands.usage import UsageError

VARIABLE = "MIRRORMESH_DATA"
EXAMPLE = Path(__file__).parents[2] / "deploy" / "meshes" / "adult"
QUICK_ROWS = 4_000


BROKEN = (ValueError, KeyError, EOFError, BadZipFile, zlib.error)
"""What reading another file, or half of one, may raise beside OSError."""


class Unavailable(UsageError):
    """A data set that is not there, or is another one; the text says which, and where it is from."""


class DataSet(NamedTuple):
    """How a set is read; `rows`, `positive`: how many there are before any is dropped; `columns` p."""

    read: Callable[[Path], tuple[Rows, int, int]]
    folder: str
    rows: int
    positive: int
    columns: int
    share: float
    source: str


_COUNTS = frozenset(
    {
        *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"),
        *("number_outpatient", "number_inpatient", "number_diagnoses"),
    }
)
_MOSTLY_MISSING = frozenset({"weight", "payer_code", "medical_specialty"})
_NOT_FEATURES = frozenset({"encounter_id", "patient_nbr", "number_emergency"})
_ADULT_NUMBERS = frozenset(
    {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
)


def load(name: str, *, quick: bool = False) -> Rows:
    """Return a set's rows in their own order; Unavailable where it is missing or another one."""
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
    if name.startswith("adult"):
        rows, *_ = SETS[name].read(EXAMPLE)
        return Rows(rows.features[:QUICK_ROWS], rows.labels[:QUICK_ROWS])
    return made_up(QUICK_ROWS, SETS[name].columns, SETS[name].share)


def _columns(*paths: Path) -> Table:
    header: list[str] = []
    rows: list[list[str]] = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            header, *more = csv.reader(file)
        rows += more
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def _adult(folder: Path, *, as_binary: bool = False) -> tuple[Rows, int, int]:
    """Read both files; rows with a missing value are dropped: 45,222 of 48,842 stay."""
    table = _columns(folder / "adult_train.csv.gz", folder / "adult_test.csv.gz")
    kept = complete(table, list(table))
    parts = []
    for name in table:
        if name != "income":
            numeric = name in _ADULT_NUMBERS
            parts.append(
                binary(kept[name])
                if as_binary and not numeric
                else coded(kept[name], numeric=numeric)[:, None]
            )
    labels = np.where(np.array(kept["income"]) == ">50K", 1.0, -1.0)
    features = scaled(np.concatenate(parts, -1))
    return Rows(features, labels), len(table["income"]), list(table["income"]).count(">50K")


def _diabetes(folder: Path) -> tuple[Rows, int, int]:
    """Read it without the columns that are mostly missing, then drop rows in which a value is missing.

    With `weight`, 97 % missing, almost none would stay. "None" is a value: not measured.
    """
    table = _columns(folder / "diabetic_data.csv.gz")
    names = [name for name in table if name not in _MOSTLY_MISSING | _NOT_FEATURES]
    kept = complete(table, [*names, "number_emergency"])
    features = np.stack([coded(kept[name], numeric=name in _COUNTS) for name in names], -1)
    labels = np.where(np.array(kept["number_emergency"]) != "0", 1.0, -1.0)
    visits = table["number_emergency"]
    return Rows(scaled(features), labels), len(visits), len(visits) - list(visits).count("0")


def _covertype(folder: Path) -> tuple[Rows, int, int]:
    with (folder / "covtype.npz").open("rb") as opened, np.load(opened) as file:
        features, kinds = file["X"].astype(np.float64), file["y"]
    labels = np.where(kinds == 2, 1.0, -1.0)
    return Rows(scaled(features), labels), len(labels), int((labels > 0).sum())


_UCI = "the UCI Machine Learning Repository"
SETS = {
    "adult": DataSet(_adult, "adult", 48_842, 11_687, 14, 0.24, f"{_UCI} (Adult)"),
    "adult-binary": DataSet(
        partial(_adult, as_binary=True), "adult", 48_842, 11_687, 104, 0.24, f"{_UCI} (Adult)"
    ),
    "diabetes": DataSet(
        _diabetes, "diabetes130", 101_766, 11_383, 44, 0.11, f"{_UCI} (Diabetes 130-US Hospitals)"
    ),
    "covertype": DataSet(_covertype, "covertype", 581_012, 283_301, 54, 0.49, f"{_UCI} (Covertype)"),
}
