"""What an owner's own model brings: over the collaboration's model, and over the owner's records alone.

    python experiments/own_models.py

The three banks of `lending.yaml`, as shipped, and where the loans of bank-c are of another kind: those for
homes have a rate that is 5 % higher. After a run of the collaboration each bank fits its own model, as
`mirrormesh model --own` does, and one to its records alone, as for a verdict. The figure is the RMSE beyond
that of the best linear model of public loans of the bank's kind, which nobody learnt from, in basis points of
a loan's rate (1 is 0.01 %).

Twenty runs each, simulated noise. Writes own-models.csv: the median, the least and the largest.
"""

import csv
import gzip
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from experiments.harness.figures import table
from experiments.harness.study import Measured, Study
from nodes.alone import fitted, least_squares
from nodes.collaboration.own_model import own_model
from nodes.losses.losses import Squared
from nodes.prequential import Task
from nodes.sparse import Rows, dense
from nodes.values import FloatArray
from streams.collaboration.file import CollaborationFile
from streams.collaboration.outcome import collaboration_outcome
from streams.collaboration.passes import passes
from streams.collaboration.settings import NoiseSettings
from streams.mesh.file import load_any
from streams.mesh.shipped import example_mesh
from streams.records.frames import with_records
from streams.records.sources import records_to_score

RUNS, POINT = 20, 1e-4
BANKS = ("bank-a", "bank-b", "bank-c")
OTHER, HIGHER = "bank-c", 0.05
MODELS = ("the collaboration's", "alone", "own")


def excess(seed: int, *, other: bool, queries: int) -> Measured:
    """Return the excess of each bank and model, shape (3, 3)."""
    path = example_mesh("lending.yaml")
    alike = cast("CollaborationFile", load_any(path))
    mesh = alike.mesh.model_copy(update={"noise": NoiseSettings(simulated=seed), "queries": queries})
    alike = replace(alike, mesh=mesh)
    folder = path.parent / "lending"
    changed = {name: _of_another_kind(folder / f"{name}.csv.gz") for name in (OTHER, "public")}
    changed["held_out"] = changed.pop("public")
    changed_file = cast("CollaborationFile", with_records(alike, changed, named=False))
    file = changed_file if other else alike
    star = collaboration_outcome(file).average
    rows = [_excess(file, file if bank == OTHER else alike, bank, star) for bank in BANKS]
    return {"value": np.array(rows)}


def _of_another_kind(path: Path) -> dict[str, list[str]]:
    """Return the columns of a bank's file, its loans for homes at a higher rate."""
    with gzip.open(path, "rt") as lines:
        loans = list(csv.DictReader(lines))
    for loan in loans:
        loan["rate"] = str(float(loan["rate"]) + HIGHER * (loan["purpose"] == "home"))
    return {column: [loan[column] for loan in loans] for column in loans[0]}


def _excess(
    file: CollaborationFile, tested_on: CollaborationFile, bank: str, star: FloatArray
) -> list[float]:
    records = passes(file, bank).whole()
    features, labels = dense(records.features), records.labels
    own = own_model(Squared(), features, labels, star).parameters
    alone = fitted(Task.NUMBERS, 0, features, labels)
    public, rates = cast("tuple[Rows, FloatArray]", records_to_score(tested_on))
    rows = dense(public)

    def error(predictions: FloatArray) -> float:
        return float(np.sqrt(np.square(predictions - rates).mean()))

    least = error(rows @ least_squares(rows, rates, 1e-9))
    return [(error(predictions) - least) / POINT for predictions in (rows @ star, alone(rows), rows @ own)]


def main(study: Study) -> None:
    """Write own-models.csv."""
    queries = 5 if study.quick else 200
    cases = {"alike": False, "bank-c of another kind": True}
    runs = study.repeated(
        excess, {name: {"other": other, "queries": queries} for name, other in cases.items()}, RUNS
    )
    rows = [
        [case, bank, model, float(np.median(values)), float(values.min()), float(values.max())]
        for case in cases
        for place, bank in enumerate(BANKS)
        for model, values in zip(MODELS, runs[case]["value"][:, place].T, strict=True)
    ]
    table(study.output, "own-models", ["scenario", "bank", "model", "median", "least", "largest"], rows)


if __name__ == "__main__":
    main(Study(Path(__file__).with_name("results"), workers=1))
