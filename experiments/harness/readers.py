"""How each data set is read: its files as they were published, or the excerpt in `deploy/meshes`.

A reader takes a folder and returns the rows, and how many records and positive ones there were before any
was dropped.
"""

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.harness.features import Table, binary, coded, complete, scaled
from experiments.harness.made_up import Rows
from nodes.values import BoolArray, FloatArray

Read = tuple[Rows, int, int]

_ADULT_NUMBERS = frozenset(
    {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}
)
_COUNTS = frozenset(
    {
        *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications"),
        *("number_outpatient", "number_inpatient", "number_diagnoses"),
    }
)
_MOSTLY_MISSING = frozenset({"weight", "payer_code", "medical_specialty"})
_NOT_FEATURES = frozenset({"encounter_id", "patient_nbr", "number_emergency", "emergency"})
_WILDERNESS, _SOILS = 4, 40
LODGEPOLE = 2
"""The kind of forest that is told from the rest."""


def adult(folder: Path, *, as_binary: bool = False) -> Read:
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


def diabetes(folder: Path) -> Read:
    """Read all of Diabetes 130-US hospitals."""
    table = _columns(folder / "diabetic_data.csv.gz")
    return _visits(table, ["no" if visits == "0" else "yes" for visits in table["number_emergency"]])


def diabetes_excerpt(folder: Path) -> Read:
    """Read the four hospitals of the excerpt, which has 12 of the columns."""
    table = _columns(*(folder / f"hospital-{number}.csv.gz" for number in range(1, 5)))
    return _visits(table, table["emergency"])


def covertype(folder: Path) -> Read:
    """Read all of Covertype."""
    with (folder / "covtype.npz").open("rb") as opened, np.load(opened) as file:
        return _forest(file["X"].astype(np.float64), file["y"] == LODGEPOLE)


def covertype_excerpt(folder: Path) -> Read:
    """Read the excerpt to learn from; its area and soil, a number each, become the digits they were."""
    table = _columns(folder / "covertype_train.csv.gz")
    *numbers, areas, soils, kinds = (np.array(column, np.int64) for column in table.values())
    digits = (np.eye(_WILDERNESS)[areas - 1], np.eye(_SOILS)[soils - 1])
    return _forest(
        np.concatenate([np.stack(numbers, -1).astype(np.float64), *digits], -1), kinds == LODGEPOLE
    )


def _visits(table: Table, emergency: Sequence[str]) -> Read:
    """Leave out the columns that are mostly missing, then drop rows in which a value is missing.

    With `weight`, 97 % missing, almost none would stay. "None" is a value: not measured.
    """
    names = [name for name in table if name not in _MOSTLY_MISSING | _NOT_FEATURES]
    kept = complete({**table, "label": emergency}, [*names, "label"])
    features = np.stack([coded(kept[name], numeric=name in _COUNTS) for name in names], -1)
    labels = np.where(np.array(kept["label"]) == "yes", 1.0, -1.0)
    return Rows(scaled(features), labels), len(emergency), list(emergency).count("yes")


def _forest(features: FloatArray, pines: BoolArray) -> Read:
    return Rows(scaled(features), np.where(pines, 1.0, -1.0)), len(pines), int(pines.sum())


def _columns(*paths: Path) -> Table:
    header: list[str] = []
    rows: list[list[str]] = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            header, *more = csv.reader(file)
        rows += more
    return dict(zip(header, zip(*rows, strict=True), strict=True))
