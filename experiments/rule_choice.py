"""Chooses the rule's thresholds, nu and kappa (`nodes/rule.py`), on data sets that packages bring with them.

    pip install scikit-learn river
    python experiments/rule_choice.py

Nothing is fetched, and none of these sets is one that `rule_report.py` reports on. Half of each set is
learnt from, half is scored. Four nodes, delta = 1e-6, one release a node; each cell is a set, an epsilon and
a number of records whose nu lies where the choice matters. For each cell the AUC is the median of eight runs
of class sums and of moments with some kappa. A pair of thresholds falls short in a cell by the difference
from the best of that cell. The thresholds with the least mean are chosen. Writes results/rule-choice.csv.
"""

import csv
import importlib
import itertools
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.harness.made_up import Rows
from experiments.harness.one_release import Form, Sets, area
from nodes.rule import PlannedSlots, Public, noise_size
from nodes.values import FloatArray
from topology.keyed import generator

NODES, RUNS, DELTA = 4, 8, 1e-6
EPSILONS, RECORDS = (0.3, 1.0, 3.0), (100, 250, 1_000, 4_000)
KAPPAS = (None, 1.0, 2.0, 3.0)
"""The forms: class sums, and moments by kappa."""
RANGE = 0.005, 0.4
"""The nu of the cells: below it moments are far better, above it class sums."""
LARGEST = (0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2)
SMALL = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1)
MOST = 5_000
OUTPUT = Path(__file__).with_name("results") / "rule-choice.csv"


class Cell(NamedTuple):
    """A set, an epsilon and a number of records: nu, and the AUC of each of `KAPPAS`."""

    name: str
    epsilon: float
    records: int
    nu: float
    areas: tuple[float, ...]


def scaled(features: FloatArray) -> FloatArray:
    """Return each column from 0 to 1."""
    low, high = features.min(0), features.max(0)
    columns: FloatArray = (features - low) / np.where(high > low, high - low, 1.0)
    return columns


def bucketed(features: FloatArray, buckets: int) -> FloatArray:
    """Return each column as so many, one of which is 1."""
    places = np.minimum((scaled(features) * buckets).astype(np.int64), buckets - 1)
    return np.concatenate([(places == k).astype(np.float64) for k in range(buckets)], 1)


def signs(labels: Iterable[Any]) -> FloatArray:
    """Return +1 for a label that is true, else -1."""
    return np.where(np.array(list(labels), bool), 1.0, -1.0)


def sets() -> dict[str, Rows]:
    """Return the packaged sets by name."""
    scikit = importlib.import_module("sklearn.datasets")
    cancer, digits = scikit.load_breast_cancer(), scikit.load_digits()
    phishing, labels = streamed("Phishing")
    bananas, kinds = streamed("Bananas")
    segments, classes = streamed("ImageSegments")
    return {
        "breast cancer": Rows(scaled(cancer.data), signs(cancer.target == 0)),
        "digits below 5": Rows(digits.data / 16, signs(digits.target < 5)),
        "digit 8": Rows(digits.data / 16, signs(digits.target == 8)),
        "Phishing": Rows(scaled(phishing), signs(labels)),
        "Phishing, buckets": Rows(bucketed(phishing, 3), signs(labels)),
        "Bananas, buckets": Rows(bucketed(bananas, 8), signs(kinds)),
        "ImageSegments": Rows(
            scaled(segments),
            signs(name in {"brickface", "foliage", "window"} for name in classes),
        ),
        "ImageSegments, buckets": Rows(bucketed(segments, 4), signs(name == "cement" for name in classes)),
    }


def streamed(name: str) -> tuple[FloatArray, list[Any]]:
    """Return the features and labels of a set of river."""
    stream = getattr(importlib.import_module("river.datasets"), name)()
    rows, labels = zip(*stream, strict=True)
    return np.array([[float(row[key]) for key in sorted(row)] for row in rows]), list(labels)


def halves(rows: Rows) -> Sets:
    """Return a random half to learn from, and the other half."""
    features, labels = rows
    order = generator("halves", 0).permutation(len(labels))
    learnt, scored = order[: len(order) // 2], order[len(order) // 2 :][:MOST]
    return Sets(Rows(features[learnt], labels[learnt]), Rows(features[scored], labels[scored]))


def cells(name: str, rows: Rows) -> Iterator[Cell]:
    """Yield the cells of a set."""
    parts, columns = halves(rows), rows.features.shape[1]
    for epsilon, records in itertools.product(EPSILONS, RECORDS):
        public = Public(records, NODES, columns, columns, 2, Fraction(epsilon), DELTA)
        nu = noise_size(public, PlannedSlots(records, 1, "gaussian"), Fraction(epsilon), DELTA)
        if not RANGE[0] <= nu <= RANGE[1]:
            continue
        areas = []
        for kappa in KAPPAS:
            form = Form(epsilon, DELTA, kappa)
            runs = [area(form, parts, NODES, records, seed) for seed in range(RUNS)]
            areas.append(float(np.median(runs)))
        yield Cell(name, epsilon, records, nu, tuple(areas))


def shortfall(cell: Cell, largest: float, small: float, weak: float) -> float:
    """Return by how much the rule's choice in a cell is below the best of the cell.

    `weak`: kappa up to `small`, which is 3 above it.
    """
    kappa = None if cell.nu > largest else (weak if cell.nu <= small else 3.0)
    return max(cell.areas) - cell.areas[KAPPAS.index(kappa)]


def main() -> None:
    """Measure, print and write the cells; print how far each pair of thresholds falls short."""
    measured = []
    for name, rows in sets().items():
        for cell in cells(name, rows):
            measured.append(cell)
            areas = ", ".join(f"{value:.3f}" for value in cell.areas)
            print(
                f"{name}, epsilon {cell.epsilon:g}, {cell.records:,}: nu {cell.nu:.4f}: {areas}", flush=True
            )
    ranked = sorted(
        (float(np.mean([shortfall(cell, *pair) for cell in measured])), pair)
        for pair in itertools.product(LARGEST, SMALL, KAPPAS[1:3])
    )
    for mean, (largest, small, weak) in ranked[:12]:
        print(f"nu at most {largest:g}, kappa {weak:g} up to {small:g}, else 3: short by {mean:.4f}")
    with OUTPUT.open("w", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(["set", "epsilon", "records", "nu", "class_sums", "kappa_1", "kappa_2", "kappa_3"])
        for cell in measured:
            figures = [f"{value:.4f}" for value in (cell.nu, *cell.areas)]
            writer.writerow([cell.name, f"{cell.epsilon:g}", cell.records, *figures])


if __name__ == "__main__":
    main()
