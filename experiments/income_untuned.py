"""AUC on Adult at epsilon = 1 by class sums and moments: one release a node, and no setting that is tuned.

    python experiments/income_untuned.py

Four nodes, so many records each in one slot, whose rows without the intercept have norm 1; delta = 1e-6 but
for class sums with `laplace`, whose rows have at most 12 numbers that are not 0: so many columns of the
schema. The decision is that of the mean of the four releases, what mixing tends to. kappa is 3 up to 1,000
records, then 1. Each row is twenty runs in other orders, with simulated noise of the exact noise's size:
median, 10th and 90th percentile on the 16,281 held-out rows; accuracy is that at the released cut. No row is
declared public, and nothing is chosen on what is reported. Writes results/income-untuned.csv.
"""

import csv
import math
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.harness.adult import NODES, adult
from nodes.discriminant import Discriminant, NearestMean, RidgeDiscriminant
from nodes.losses.losses import scores
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.features import HEIGHT, ClassSums, Moments
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.private import Private
from nodes.values import FloatArray
from streams.local.scoring import auc
from topology.keyed import generator

RECORDS = (250, 1_000, 7_733)
FORMS = ("class-sums, laplace", "class-sums, gaussian", "moments")
RUNS = 20
DELTA = 1e-6
ENTRIES = 12
OUTPUT = Path(__file__).with_name("results") / "income-untuned.csv"


class Measured(NamedTuple):
    """The held-out figures of one run."""

    auc: float
    accuracy: float


def without_intercept(features: FloatArray) -> FloatArray:
    """Return rows (n, d) of norm 1, of features whose last is the intercept."""
    rows = features[:, :-1]
    unit: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def measured(form: str, records: int, seed: int) -> Measured:
    """Return the figures of one run; the order of the rows and the noise come from the seed."""
    parts, nodes = adult(), tuple(f"bank-{k + 1}" for k in range(NODES))
    features, labels = (np.concatenate(both) for both in zip(parts.pilot, parts.train, strict=True))
    order = generator("order", seed).permutation(len(labels))[: NODES * records].reshape(NODES, records)
    rows = np.concatenate([without_intercept(features)[order], (labels[order] > 0)[..., None]], -1)
    columns, sampler = features.shape[1] - 1, SimulatedSampler(seed, nodes)
    common = 1.0, Fraction(1)
    decide: Discriminant = NearestMean(columns, 2, intercept=True)
    mechanism: LaplaceGradient | GaussianGradient
    if form == "class-sums, laplace":
        sums = ClassSums(columns, 2, "l1", entries=ENTRIES)
        mechanism = LaplaceGradient(*common, records, sums.length, sampler, features=sums)
    else:
        kappa = 3.0 if records <= 1_000 else 1.0
        both = ClassSums(columns, 2, "l2") if form == "class-sums, gaussian" else Moments(columns, kappa)
        mechanism = GaussianGradient(*common, DELTA, records, both.length, sampler, features=both)
        decide = RidgeDiscriminant(columns, kappa, intercept=True) if form == "moments" else decide
    releases = mechanism.privatise(1, Private(rows), lambda estimate: estimate).release
    deviation = mechanism.noise_scale(1) / math.sqrt(NODES)
    return _scored(decide(releases.mean(0), np.array(deviation)))


def _scored(decision: FloatArray) -> Measured:
    features, labels = adult().test
    rows = np.concatenate([without_intercept(features), np.full((len(labels), 1), HEIGHT)], 1)
    margins = scores(decision, rows)
    area = auc(margins, labels)
    if area is None:
        raise ValueError("the held-out rows have one label alone")
    return Measured(area, float((np.where(margins > 0, 1.0, -1.0) == labels).mean()))


def main() -> None:
    """Run, print and write the table."""
    rows = []
    for form in FORMS:
        for records in RECORDS:
            runs = [measured(form, records, seed) for seed in range(RUNS)]
            low, middle, high = np.percentile([run.auc for run in runs], [10, 50, 90])
            right = float(np.median([run.accuracy for run in runs]))
            rows.append([form, records, middle, low, high, right])
            print(
                f"{form}, {records:,} records: AUC {middle:.4f} ({low:.4f} to {high:.4f}), {right:.3f} right",
                flush=True,
            )
    with OUTPUT.open("w", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(["form", "records", "auc", "auc_p10", "auc_p90", "accuracy"])
        writer.writerows([*row[:2], *(f"{value:.4f}" for value in row[2:])] for row in rows)


if __name__ == "__main__":
    main()
