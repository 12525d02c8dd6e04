"""AUC on Adult at epsilon = 1 and without privacy, by the number of records a node.

    python experiments/income_records.py

Four nodes on a ring, hinge loss, one pass over so many records each; `laplace` with simulated noise of the
exact noise's size. Clip, step and slot size are what the rule of `mirrormesh tune` finds for that number on
a part of the training rows that is declared public and left out. Each row is ten runs in other orders:
median, 10th and 90th percentile. The AUC is that of the mean of the nodes' last decisions on the 16,281
held-out rows. The last row is a plain model of the public part alone. Writes results/income-records.csv.
"""

import csv
import math
from pathlib import Path

import numpy as np

from experiments.harness.adult import adult, pilot_alone
from experiments.utility import INCOME_RUNS, MECHANISMS, income

RECORDS = (250, 1_000, 7_733)
PILOT = "the pilot alone"
OUTPUT = Path(__file__).with_name("results") / "income-records.csv"


def main() -> None:
    """Run, print and write the table."""
    rows = []
    for records in RECORDS:
        for name in ("none", "laplace"):
            found = income(1, privacy=MECHANISMS[name], runs=INCOME_RUNS, records=records)
            bound, step, size = found["setting"].tolist()
            low, high = np.percentile(found["auc"], [10, 90])
            rows.append([records, name, np.median(found["auc"]), low, high, bound, step, size])
            print("{:,} records, {}: AUC {:.4f} ({:.4f} to {:.4f})".format(*rows[-1][:5]), flush=True)
    alone = pilot_alone()
    rows.append([len(adult().pilot[1]), PILOT, alone, alone, alone, math.nan, math.nan, math.nan])
    with OUTPUT.open("w", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(["records", "mechanism", "auc", "auc_p10", "auc_p90", "theta", "a", "h"])
        writer.writerows(
            [records, name, *(f"{value:.4f}" for value in measured), f"{bound:g}", f"{step:g}", f"{size:g}"]
            for records, name, *measured, bound, step, size in rows
        )


if __name__ == "__main__":
    main()
