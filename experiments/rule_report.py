"""What the rule (`nodes/rule.py`) chooses on four data sets, and the AUC that it reaches there.

    MIRRORMESH_DATA=... python experiments/rule_report.py

Its thresholds were chosen on other sets (`rule_choice.py`), and nothing is chosen here: the rule reads the
number of records and features, epsilon and delta. Four nodes, one release each, median and 10th to 90th
percentile of twenty runs on held-out rows. Beside it is the larger of the medians of class sums and of
moments with kappa 1 and 3, which nobody could choose without those rows. Columns are one feature for each of
their values, or a number between bounds. Adult needs no folder; MIRRORMESH_DATA names that of the others.
Writes results/rule-report.csv.
"""

import csv
import gzip
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.harness.adult import adult
from experiments.harness.data import VARIABLE, Unavailable
from experiments.harness.one_release import Form, Sets, area
from nodes.rule import Public, chosen
from nodes.values import FloatArray
from topology.keyed import generator

NODES, RUNS, DELTA = 4, 20, 1e-6
RECORDS = (250, 1_000, 5_000)
OUTPUT = Path(__file__).with_name("results") / "rule-report.csv"
HEADER = ("set", "epsilon", "delta", "records", "chosen", "auc", "auc_p10", "auc_p90", "best", "best_auc")
_LOAN_NUMBERS = {
    "annual_income": 150_000.0,
    "dti": 0.3,
    "installment": 1_500.0,
    "int_rate": 0.25,
    "loan_amount": 35_000.0,
    "total_acc": 90.0,
}
_LOAN_WORDS = (
    *("grade", "home_ownership", "purpose", "term", "verification_status", "emp_length", "address_state"),
)
_VISIT_NUMBERS = {
    "time_in_hospital": 14.0,
    "num_medications": 50.0,
    "num_lab_procedures": 132.0,
    "number_outpatient": 5.0,
    "number_inpatient": 5.0,
    "number_diagnoses": 16.0,
}
_VISIT_WORDS = (
    *("race", "gender", "age", "admission_type_id", "admission_source_id", "max_glu_serum"),
    *("A1Cresult", "insulin", "change", "diabetesMed", "medical_specialty"),
)
_MOST_WORDS = 60
_FOREST = (4_000, 360, 66, 1_400, 800, 7_200, 255, 255, 255, 7_200)
_FOREST_ROWS = 60_000


class Known(NamedTuple):
    """Rows to learn from and to score, and the most features of a row that are not 0."""

    sets: Sets
    entries: int


def income() -> Known:
    """Return Adult, without the intercept: all rows of the training file."""
    parts = adult()
    features, labels = (np.concatenate(both) for both in zip(parts.pilot, parts.train, strict=True))
    return Known(Sets((features[:, :-1], labels), (parts.test[0][:, :-1], parts.test[1])), 12)


def loans() -> Known:
    """Return LendingClub's loans that are over: was one charged off?"""
    rows = [
        row for row in _read("lendingclub/lendingclub_2007_2011.csv.gz") if row["loan_status"] != "Current"
    ]
    return _known(rows, _LOAN_NUMBERS, _LOAN_WORDS, lambda row: row["loan_status"] == "Charged Off")


def visits() -> Known:
    """Return Diabetes 130-US hospitals: was the patient an emergency in the year before?"""
    rows = _read("diabetes130/diabetic_data.csv.gz")
    return _known(rows, _VISIT_NUMBERS, _VISIT_WORDS, lambda row: row["number_emergency"] != "0")


def forest() -> Known:
    """Return Covertype: is it the second kind? A negative height counts as 0."""
    path = _folder() / "covertype" / "covtype.npz"
    try:
        with path.open("rb") as opened, np.load(opened) as file:
            features, kinds = file["X"].astype(np.float64), file["y"]
    except OSError:
        raise Unavailable(f"cannot read {path}") from None
    features[:, :10] = np.clip(features[:, :10] / np.array(_FOREST), 0.0, 1.0)
    order = generator("forest", 0).permutation(len(kinds))[:_FOREST_ROWS]
    return Known(_split(features[order], np.where(kinds[order] == 2, 1.0, -1.0)), 12)


SETS: dict[str, Callable[[], Known]] = {
    "Adult": income,
    "LendingClub": loans,
    "Diabetes-130": visits,
    "Covertype": forest,
}


def _folder() -> Path:
    root = os.environ.get(VARIABLE, "")
    if not root:
        raise Unavailable(f"set {VARIABLE} to a folder that holds lendingclub, diabetes130 and covertype")
    return Path(root)


def _read(name: str) -> list[dict[str, str]]:
    path = _folder() / name
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError:
        raise Unavailable(f"cannot read {path}") from None


def _known(
    rows: Sequence[Mapping[str, str]],
    numbers: Mapping[str, float],
    words: Sequence[str],
    is_positive: Callable[[Mapping[str, str]], bool],
) -> Known:
    """Return rows as features: numbers from 0 to 1, and a feature for each word."""
    parts = [
        np.clip([[float(row[name]) / bound] for row in rows], 0.0, 1.0) for name, bound in numbers.items()
    ]
    for name in words:
        column = np.array([row[name] for row in rows])
        distinct, counts = np.unique(column, return_counts=True)
        listed = distinct[np.argsort(-counts)][:_MOST_WORDS]
        parts.append((column[:, None] == listed).astype(np.float64))
    labels = np.where([is_positive(row) for row in rows], 1.0, -1.0)
    return Known(_split(np.concatenate(parts, 1), labels), len(numbers) + len(words))


def _split(features: FloatArray, labels: FloatArray) -> Sets:
    order = generator("held out", 0).permutation(len(labels))
    learnt, scored = np.split(order, [int(0.75 * len(order))])
    return Sets((features[learnt], labels[learnt]), (features[scored], labels[scored]))


def by_rule(known: Known, epsilon: Fraction, delta: float | None, records: int) -> Form:
    """Return the form that the rule chooses."""
    columns = known.sets.train[0].shape[1]
    public = Public(records, NODES, columns, columns + 1, 2, epsilon, delta, entries=known.entries)
    choices = {key: choice.value for key, choice in chosen(public).items()}
    if choices["slots.size"] != records:
        raise ValueError("one release is what is measured here")
    return Form(float(epsilon), delta, choices.get("algorithm.kappa"), choices.get("algorithm.entries"))


def rows_of(name: str, known: Known, cases: Sequence[tuple[str, float | None, int]]) -> Iterator[list[str]]:
    """Yield a row of the table for each (epsilon, delta, records)."""
    for text, delta, records in cases:
        epsilon = Fraction(text)
        form = by_rule(known, epsilon, delta, records)
        others = [form]
        if delta is not None:
            others = [Form(float(epsilon), delta, kappa) for kappa in (None, 1.0, 3.0)]
        runs = {
            other: [area(other, known.sets, NODES, records, seed) for seed in range(RUNS)] for other in others
        }
        best = max(runs, key=lambda other: float(np.median(runs[other])))
        low, middle, high = np.percentile(runs[form], [10, 50, 90])
        figures = [f"{value:.4f}" for value in (middle, low, high)]
        known_delta = "" if delta is None else f"{delta:g}"
        last = [_named(best), f"{np.median(runs[best]):.4f}"]
        yield [name, text, known_delta, str(records), _named(form), *figures, *last]


def _named(form: Form) -> str:
    noise = "laplace" if form.delta is None else "gaussian"
    return f"class-sums, {noise}" if form.kappa is None else f"moments, kappa {form.kappa:g}"


def main() -> None:
    """Run, print and write the table."""
    table = []
    for name, read in SETS.items():
        known = read()
        cases: list[tuple[str, float | None, int]] = [
            ("1", delta, records) for delta in (DELTA, None) for records in RECORDS
        ]
        if name == "Adult":
            cases += [(epsilon, delta, 7_733) for epsilon in ("1", "0.3") for delta in (DELTA, None)]
        for row in rows_of(name, known, cases):
            table.append(row)
            print(", ".join(row), flush=True)
    with OUTPUT.open("w", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(HEADER)
        writer.writerows(table)


if __name__ == "__main__":
    main()
