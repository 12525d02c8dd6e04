"""What the rule (`nodes/rule.py`) chooses on four data sets, and the AUC that it reaches there.

    MIRRORMESH_DATA=... python experiments/rule_report.py

Its thresholds were chosen on other sets (`rule_choice.py`), and nothing is chosen here: the rule reads the
number of records and features, epsilon and delta. Four nodes, one release each, median and 10th to 90th
percentile of twenty runs on held-out rows, which are those of `untuned.py`. Beside it is the larger of the
medians of class sums and of moments with kappa 1 and 3, which nobody could choose without those rows.
MIRRORMESH_DATA names the folder of LendingClub and Covertype. Writes results/rule-report.csv.
"""

import csv
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from experiments.harness.one_release import Form, area
from experiments.harness.untuned import ENTRIES, required_rows
from nodes.rule import Public, chosen

NODES, RUNS, DELTA = 4, 20, 1e-6
RECORDS = (250, 1_000, 5_000)
OUTPUT = Path(__file__).with_name("results") / "rule-report.csv"
HEADER = ("set", "epsilon", "delta", "records", "chosen", "auc", "auc_p10", "auc_p90", "best", "best_auc")


def by_rule(name: str, epsilon: Fraction, delta: float | None, records: int) -> Form:
    """Return the form that the rule chooses."""
    columns = required_rows(name).train.features.shape[1]
    public = Public(records, NODES, columns, columns + 1, 2, epsilon, delta, entries=ENTRIES[name])
    choices = {key: choice.value for key, choice in chosen(public).items()}
    if choices["slots.size"] != records:
        raise ValueError("one release is what is measured here")
    return Form(float(epsilon), delta, choices.get("algorithm.kappa"), choices.get("algorithm.entries"))


def measured(name: str, cases: Sequence[tuple[str, float | None, int]]) -> Iterator[list[str]]:
    """Yield a row of the table for each (epsilon, delta, records)."""
    sets = required_rows(name)
    for text, delta, records in cases:
        epsilon = Fraction(text)
        form = by_rule(name, epsilon, delta, records)
        others = [form]
        if delta is not None:
            others = [Form(float(epsilon), delta, kappa) for kappa in (None, 1.0, 3.0)]
        runs = {other: [area(other, sets, NODES, records, seed) for seed in range(RUNS)] for other in others}
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
    for name in ENTRIES:
        cases: list[tuple[str, float | None, int]] = [
            ("1", delta, records) for delta in (DELTA, None) for records in RECORDS
        ]
        if name == "adult":
            cases += [(epsilon, delta, 7_733) for epsilon in ("1", "0.3") for delta in (DELTA, None)]
        for row in measured(name, cases):
            table.append(row)
            print(", ".join(row), flush=True)
    with OUTPUT.open("w", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(HEADER)
        writer.writerows(table)


if __name__ == "__main__":
    main()
