"""Rows for releases that nothing is tuned for: columns in [0, 1], rows of norm at most 1, two classes.

Adult and an excerpt of Diabetes 130-US hospitals are in the clone, and are read as the example meshes do.
LendingClub and Covertype come from the folder that MIRRORMESH_DATA names. Bounds are public: they follow from
what the columns mean. LendingClub's categories are those that the file has.
"""

import csv
import gzip
import os
from functools import cache
from pathlib import Path

import numpy as np

from experiments.harness.adult import adult
from experiments.harness.data import VARIABLE, Unavailable
from experiments.harness.made_up import Rows
from experiments.harness.one_release import Sets
from nodes.sparse import dense
from nodes.values import BoolArray, FloatArray
from streams.mesh.file import load
from streams.mesh.settings.node import FileSettings
from streams.mesh.shipped import example_mesh
from streams.records.sources import decoded, held_out
from topology.keyed import generator

ENTRIES = {"adult": 12, "diabetes": 12, "lending-club": 13, "covertype": 12}
"""The most columns of a set that can be above 0 at once: one of each category, and the numbers."""
_LOANS = {
    "annual_income": 150_000,
    "dti": 0.3,
    "installment": 1_500,
    "int_rate": 0.25,
    "loan_amount": 35_000,
    "total_acc": 90,
}
_LOAN_WORDS = (
    "grade",
    "home_ownership",
    "purpose",
    "term",
    "verification_status",
    "emp_length",
    "address_state",
)
_LOWEST = np.array([1_800, 0, 0, 0, -200, 0, 0, 0, 0, 0])
_HIGHEST = np.array([4_000, 360, 60, 1_500, 600, 7_500, 255, 255, 255, 7_500])


@cache
def rows_of(name: str) -> Sets | None:
    """Return a set's rows; None where it is not in the clone, and the folder of sets is not named.

    Unavailable where the folder lacks it.
    """
    if name == "adult":
        return _adult()
    if name == "diabetes":
        return _diabetes()
    root = os.environ.get(VARIABLE, "")
    if not root:
        return None
    try:
        return _covertype(Path(root)) if name == "covertype" else _lending_club(Path(root))
    except OSError as error:
        raise Unavailable(f"{name}: cannot read {error.filename}") from None


def required_rows(name: str) -> Sets:
    """Return a set's rows; Unavailable where they are not here."""
    sets = rows_of(name)
    if sets is None:
        raise Unavailable(f"{name}: set {VARIABLE} to a folder that holds lendingclub and covertype")
    return sets


def _adult() -> Sets:
    """Return all training rows: none is declared public."""
    parts = adult()
    features, labels = (np.concatenate(both) for both in zip(parts.pilot, parts.train, strict=True))
    test, test_labels = parts.test
    return Sets(Rows(_without_intercept(features), labels), Rows(_without_intercept(test), test_labels))


def _diabetes() -> Sets:
    file = load(example_mesh("emergency-visits.yaml"))
    parts = []
    for name, part in file.owns.items():
        if isinstance(part.source, FileSettings):
            source = part.source.model_copy(update={"take": None, "shuffle": False})
            features, labels = decoded(file, source, ("nodes", name, "source"))
            parts.append((_without_intercept(dense(features)), labels))
    test, test_labels = held_out(file)
    rows, labels = (np.concatenate(both) for both in zip(*parts, strict=True))
    return Sets(Rows(rows, labels), Rows(_without_intercept(dense(test)), test_labels))


def _without_intercept(features: FloatArray) -> FloatArray:
    """Return rows whose last feature was a 1 that was scaled with them, without it, of norm at most 1."""
    return _bounded(features[:, :-1] / features[:, -1:])


def _bounded(rows: FloatArray) -> FloatArray:
    bounded: FloatArray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    return bounded


def _lending_club(root: Path) -> Sets:
    path = root / "lendingclub" / "lendingclub_2007_2011.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        loans = [row for row in csv.DictReader(file) if row["loan_status"] in {"Charged Off", "Fully Paid"}]
    numbers = np.array([[float(row[name]) / most for name, most in _LOANS.items()] for row in loans])
    blocks = [np.clip(numbers, 0.0, 1.0)]
    for name in _LOAN_WORDS:
        values = np.array([row[name] for row in loans])
        blocks.append((values[:, None] == np.unique(values)).astype(np.float64))
    charged_off = np.array([row["loan_status"] == "Charged Off" for row in loans])
    return _split(np.concatenate(blocks, axis=1), charged_off, len(loans) // 5)


def _covertype(root: Path) -> Sets:
    with np.load(root / "covertype" / "covtype.npz") as file:
        columns, kinds = file["X"].astype(np.float64), file["y"]
    some = generator("covertype", 0).permutation(len(kinds))[:60_000]
    columns, pines = columns[some], kinds[some] == 2
    columns[:, :10] = np.clip((columns[:, :10] - _LOWEST) / (_HIGHEST - _LOWEST), 0.0, 1.0)
    return _split(columns, pines, 15_000)


def _split(rows: FloatArray, positive: BoolArray, test: int) -> Sets:
    order = generator("held out", len(positive)).permutation(len(positive))
    rows, labels = _bounded(rows)[order], np.where(positive, 1.0, -1.0)[order]
    return Sets(Rows(rows[test:], labels[test:]), Rows(rows[:test], labels[:test]))
