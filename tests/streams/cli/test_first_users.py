"""Two data sets as first users bring them: from CSV to predictions, in one process."""

import csv
import json
import re

import numpy as np
import pytest

from tests.support.meshes.first_users import OPEN, PRIVATE, payments, readings


def held_out(folder):
    with (folder / "held-out.csv").open() as opened:
        return list(csv.DictReader(opened))


def number(text, name):
    """The number behind `name` in the line about the last decisions."""
    line = next(
        line for line in text.splitlines() if line.startswith("Held-out") and "last decisions" in line
    )
    return float(re.search(rf"{name} (\d+\.\d+)", line)[1])


@pytest.mark.slow
@pytest.mark.parametrize(("privacy", "least"), [(OPEN, 0.78), (PRIVATE, 0.65)])
def test_card_payments(call, tmp_path, privacy, least):
    path = payments(tmp_path, privacy)
    checked = call("check", path)
    assert (checked.code, checked.err) == (0, "")
    assert "warning" not in checked.out.lower()
    run = call("run", path, "--output", "out")
    assert (run.code, run.err) == (0, "")
    auc = number(run.out, "AUC")
    assert auc > least
    done = call("predict", "out/model.json", "held-out.csv", "--vector", "newest", "--id", "id", "--json")
    assert done.code == 0
    told, wanted = [json.loads(line) for line in done.out.splitlines()], held_out(tmp_path)
    assert [row["id"] for row in told] == [row["id"] for row in wanted]
    chances = np.array([row["probability"] for row in told])
    assert ((chances > 0) & (chances < 1)).all()
    fraud = np.array([row["is_fraud"] == "fraud" for row in wanted])
    above = chances[fraud, np.newaxis] - chances[~fraud]  # (frauds, others)
    assert round(float(np.mean((above > 0) + 0.5 * (above == 0))), 4) == pytest.approx(auc, abs=2e-4)


def test_readings_with_times(call, tmp_path):
    path = readings(tmp_path)
    assert call("check", path).code == 0
    run = call("run", path, "--output", "out")
    assert (run.code, run.err) == (0, "")
    inside = np.array([float(row["inside"]) for row in held_out(tmp_path)])
    assert number(run.out, "RMSE") < 0.7 * inside.std()
    done = call("predict", "out/model.json", "held-out.csv", "--vector", "newest", "--output", "p.csv")
    assert (done.code, done.err) == (0, "")
    with (tmp_path / "p.csv").open() as opened:
        told = np.array([float(row["prediction"]) for row in csv.DictReader(opened)])
    assert round(float(np.sqrt(np.mean((told - inside) ** 2))), 4) == number(run.out, "RMSE")
