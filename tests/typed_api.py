"""A program that uses every name of `mirrormesh`: mypy holds its types (tests/test_api.py)."""

from pathlib import Path
from typing import assert_type

import numpy as np

import mirrormesh
from mirrormesh import CollaborationFile, CollaborationOutcome, MeshFile, Model, NodeHistory, Outcome, Summary


def learns(path: Path, folder: Path) -> None:
    """Load, run, take away, predict."""
    file = mirrormesh.load(path)
    assert_type(file, MeshFile)
    assert_type(mirrormesh.load("mesh.yaml"), MeshFile)
    named = mirrormesh.Named("payments", {"x": np.zeros(3)})
    assert_type(mirrormesh.run(file, records={"a": named, "b": {"x": [1, 2]}}, state="state"), Outcome)
    outcome = mirrormesh.run(file, rounds=10, seed=1)
    assert_type(outcome, Outcome)
    assert_type(outcome.summary, Summary)
    assert_type(outcome.nodes, dict[str, NodeHistory])
    model = mirrormesh.run_model(file, outcome.summary)
    assert_type(model, Model)
    assert_type(mirrormesh.write_model(folder / "model", model), tuple[Path, Path])
    assert_type(mirrormesh.read_model(folder / "model.json"), Model)
    found = mirrormesh.predict(folder / "model.json", "new.csv", vector="newest", mesh=(file, "a"))
    assert_type(found, mirrormesh.PredictionWriter)
    assert_type(found.records, list[tuple[int, float | None]])


def collaborates(path: Path, folder: Path) -> None:
    """Do all of that for a collaboration."""
    file = mirrormesh.load_collaboration(path)
    assert_type(file, CollaborationFile)
    outcome = mirrormesh.run(file, rounds=10)
    assert_type(outcome, CollaborationOutcome)
    assert_type(outcome.owners["a"].epsilon_spent, float)
    model = mirrormesh.run_model(file, outcome)
    assert_type(model, Model)
    assert_type(mirrormesh.promise(file, "a").sentence, str)
    account = mirrormesh.budget(file, "a", folder)
    assert_type(account, mirrormesh.OwnerAccount)
    assert_type(account.all_runs.epsilon, float | None)
    assert_type(mirrormesh.forecast(file, synthetic=True), mirrormesh.ForecastValue)


def asks(file: MeshFile, state: Path) -> None:
    """Ask what is promised and spent."""
    assert_type(mirrormesh.promise(file, "a").sentence, str)
    account = mirrormesh.budget(file, "a", state)
    assert_type(account, mirrormesh.PrivacyAccount)
    assert_type(account.charged, int)
    assert_type(mirrormesh.example_mesh("tracking.yaml"), Path)
    assert_type(mirrormesh.examples(), dict[str, Path])


def steps(engine: mirrormesh.Engine, slots: list[mirrormesh.Observations]) -> list[int]:
    """Run the engine."""
    return [step.round for step in engine.steps(slots)]
