"""How many records each node needs until the weakest of twenty runs ranks clearly better than chance.

    python -m experiments.records_needed

Four nodes on a ring, a mesh file with nothing but a `rule`, delta = 1e-6, made-up records of `features`
numbers with the middling signal of `plan --estimate`: the best line reaches an AUC of 0.75. Records are
doubled from 250 on until the least AUC of the twenty runs is at least 0.6. The noise is simulated, as in
`plan --estimate`.
"""

import csv
import math
import tempfile
from pathlib import Path

import yaml

from streams.mesh.file import load
from streams.tools.tuning.signals import SIGNALS, by_signal

RESULT = Path(__file__).with_name("results") / "records-needed.csv"
EPSILONS, FEATURES, POSITIVE = (0.3, 1.0, 4.0), (10, 50), (0.5, 0.05, 0.003)
NODES, FEWEST, MOST, ENOUGH = 4, 250, 128_000, 0.6
MIDDLING = {"middling": SIGNALS["middling"]}


def mesh_file(folder: Path, epsilon: float, features: int, records: int) -> Path:
    """Write a mesh file with settings by rule alone, and return its path."""
    names = [f"n{k}" for k in range(NODES)]
    columns = {f"x{k}": {"bounds": [-1, 1]} for k in range(features)}
    schema = {
        "features": columns,
        "label": {"column": "y", "positive": ["1"]},
        "intercept": "outside",
        "norm": 1.0,
    }
    mesh = {
        "name": "needed",
        "run": "run-1",
        "rule": {"version": 1, "records": records, "members": NODES},
        "nodes": names,
        "features": schema,
        "loss": "hinge",
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "topology": {"graph": "ring"},
    }
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump({"mesh": mesh, "nodes": {}}))
    return path


def needed(folder: Path, epsilon: float, features: int, positive: float) -> tuple[int | None, float]:
    """Return the records a node, None above `MOST`, and the least AUC of the runs with that many."""
    records, low = FEWEST, math.nan
    while records <= MOST:
        file = load(mesh_file(folder, epsilon, features, records), {})
        (row,) = by_signal(file, records=records, positive=positive, signals=MIDDLING).rows
        low = row.low
        if low >= ENOUGH:
            return records, low
        records *= 2
    return None, low


def main() -> None:
    """Measure all cases, and write them."""
    with tempfile.TemporaryDirectory() as folder, RESULT.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["epsilon", "features", "positive", "records", "least_auc"])
        for epsilon in EPSILONS:
            for features in FEATURES:
                for positive in POSITIVE:
                    records, low = needed(Path(folder), epsilon, features, positive)
                    rows.writerow([epsilon, features, positive, records or f"above {MOST}", f"{low:.3f}"])
                    file.flush()


if __name__ == "__main__":
    main()
