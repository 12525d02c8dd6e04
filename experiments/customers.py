"""What the unit costs: the AUC of made-up payments where epsilon 1 is a customer's, for k = 1, 2, 5 and 20.

    python -m experiments.customers

Four nodes, each with 500 customers of 100 payments, in a random order: ten features, one payment in five is
fraud, and a customer's own mean is spread as widely as the payments around it. Class sums in one pass, k
slots of all payments in order, so T = k, with laplace, and with gaussian at delta 1e-6. Beside it epsilon 1 a
record with laplace, and no noise, in one slot. AUC on 20,000 payments of 200 other customers, median, least
and largest of 20 seeds, each of which makes other customers. Noise is simulated, so that the table can be
made again; it is as large as exact noise. Writes results/customers.csv.
"""

import csv
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from streams.local.results import summarise
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import load
from streams.records.sources import held_out
from topology.keyed import generator

SEEDS, NODES, CUSTOMERS, PAYMENTS, OTHERS, FEATURES = 20, "abcd", 500, 100, 200, 10
OUTPUT = Path(__file__).with_name("results") / "customers.csv"
_FRAUD = -1.5  # of the score before a payment's own chance: one payment in five
MESH = """
mesh:
  name: customers
  run: seed-{seed}
  seed: {seed}
  nodes: [a, b, c, d]
  rounds: {rounds}
  features:
    features: {{{features}}}
    norm: 1
    label: {{column: fraud, positive: ["1"], negative: ["0"]}}
    intercept: outside
  loss: logistic
  algorithm: {{name: class-sums}}
  slots: {{by: count, size: {size}}}
  privacy: {{{privacy}}}
  topology: {{graph: complete}}
nodes: {{{nodes}}}
held_out: {{kind: csv, path: others.csv}}
"""


def payments(folder: Path, name: str, customers: int, seed: int) -> None:
    """Write the payments of new customers, in a random order."""
    random = generator("customers", name, seed)
    who = random.permutation(np.repeat(np.arange(customers), PAYMENTS))
    means = random.standard_normal((customers, FEATURES))
    rows = (means[who] + random.standard_normal((len(who), FEATURES))) / np.sqrt(2)
    direction = np.where(np.arange(FEATURES) % 2, -1.0, 1.0) / np.sqrt(FEATURES)
    fraud = _FRAUD * 1.6 + 2.5 * rows @ direction + random.logistic(0, 1, len(who)) > 0
    lines = [",".join(["customer", *(f"x{k}" for k in range(FEATURES)), "fraud"])]
    lines += [
        f"{name}{customer}," + ",".join(f"{x:.4f}" for x in row) + f",{int(label)}"
        for customer, row, label in zip(who.tolist(), rows.tolist(), fraud.tolist(), strict=True)
    ]
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def settings(mechanism: str, k: int | None) -> tuple[int, str]:
    """Return the rounds, and the privacy part of the file; k None: epsilon is a record's."""
    if mechanism == "none":
        return 1, "mechanism: none"
    unit = "" if k is None else f", unit: {{column: customer, records: {k}}}"
    delta = ", delta: 1.0e-6" if mechanism == "gaussian" else ""
    return k or 1, f"mechanism: {mechanism}{delta}, epsilon: 1, noise: simulated{unit}"


def area(folder: Path, rounds: int, privacy: str, seed: int) -> float:
    """Run the mesh once and return the AUC of the mean of the nodes' decisions."""
    source = "source: {kind: csv, path: NODE.csv}"
    path = folder / "mesh.yaml"
    path.write_text(
        MESH.format(
            seed=seed,
            rounds=rounds,
            size=CUSTOMERS * PAYMENTS // rounds,
            privacy=privacy,
            features=", ".join(f"x{k}: number" for k in range(FEATURES)),
            nodes=", ".join(f"{node}: {{{source.replace('NODE', node)}}}" for node in NODES),
        )
    )
    file = load(path)
    local = LocalRun(mesh_parts(file, seed=seed))
    local.mesh.run()
    local.finish()
    score = summarise(file, local.recorder, held_out(file)).score
    if score is None or score.auc is None:
        raise ValueError("the other customers' payments cannot be scored")
    return score.auc


ROWS: dict[tuple[str, int | None, str], tuple[int, str]] = {
    **{("a customer", k, name): settings(name, k) for name in ("laplace", "gaussian") for k in (1, 2, 5, 20)},
    ("a record", None, "laplace"): settings("laplace", None),
    ("nothing", None, "none"): settings("none", None),
}
"""Rounds and privacy by what epsilon is of, k and mechanism."""


def main(seeds: int = SEEDS, output: Path = OUTPUT) -> None:
    """Run, print and write the table."""
    areas = {row: list[float]() for row in ROWS}
    for seed in range(seeds):
        with TemporaryDirectory() as folder:
            for node in NODES:
                payments(Path(folder), node, CUSTOMERS, seed)
            payments(Path(folder), "others", OTHERS, seed)
            for row, (rounds, privacy) in ROWS.items():
                areas[row].append(area(Path(folder), rounds, privacy, seed))
        print(seed, [f"{values[-1]:.4f}" for values in areas.values()], flush=True)
    with output.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epsilon_1_of", "k", "mechanism", "auc_median", "auc_least", "auc_largest"])
        for (protected, k, name), values in areas.items():
            spread = np.median(values), min(values), max(values)
            writer.writerow([protected, k or "", name, *(f"{value:.4f}" for value in spread)])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
