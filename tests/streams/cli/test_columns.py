"""Amounts over many sizes and times of day, from the file to the prediction."""

import csv
import json
import random
import re
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from tests.streams.cli.test_model import score_lines, table
from tests.support.meshes.sources import write_parquet

SCHEMA = {
    "features": {
        "amount": {"log": [1, 10_000]},
        "age": {"buckets": [25, 40, 60]},
        "at": {"hour": "Europe/Berlin"},
        "day": {"weekday": "Europe/Berlin"},
    },
    "label": {"column": "fraud", "positive": "yes", "negative": "no"},
    "intercept": True,
    "norm": 2,
    "timestamp": "at",
}
FIRST = datetime(2026, 3, 1, tzinfo=UTC)


def payments(seed, count):
    """Frauds are large, or happen before six in the morning in Berlin."""
    rng = random.Random(seed)  # noqa: S311 # nothing secret
    for _ in range(count):
        at = FIRST + timedelta(seconds=rng.uniform(0, 28 * 86_400))
        night, size = (at.hour + 1) % 24 < 6, rng.uniform(0, 4)
        fraud = size + 2 * night + rng.gauss(0, 0.3) > 3
        yield {
            "amount": round(10**size, 2),
            "age": rng.randrange(18, 90),
            "at": at.isoformat(),
            "day": at.timestamp(),
            "fraud": "yes" if fraud else "no",
        }


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def payments_mesh(folder, write=write_csv, kind="csv"):
    """A mesh of three banks, each with a file, and held-out records; `write` writes a file."""
    for number, name in enumerate(("a", "b", "c", "test")):
        write(folder / f"{name}.{kind}", list(payments(number, 600)))
    mesh = {
        "name": "payments",
        "run": "run-1",
        "nodes": list("abc"),
        "dimension": 1 + 4 + 24 + 7 + 1,
        "algorithm": {
            "name": "dpdo-nc",
            "mirror_map": "euclidean",
            "constraint": {"l2-ball": 10},
            "step_size": {"rule": "inverse-sqrt", "a": 4},
        },
        "loss": "logistic",
        "slots": {"by": "count", "size": 5},
        "privacy": {"mechanism": "none", "gradient_bound": 2, "noise": "simulated"},
        "topology": {"graph": "complete"},
        "rounds": 100,
    }
    source = {"kind": kind, "schema": SCHEMA}
    nodes = {name: {"source": source | {"path": f"{name}.{kind}"}} for name in "abc"}
    held_out = source | {"path": f"test.{kind}"}
    path = folder / "payments.yaml"
    path.write_text(yaml.safe_dump({"mesh": mesh, "nodes": nodes, "held_out": held_out}))
    return path


def learn_and_predict(call, folder, path, kind):
    """Check and run the mesh, and predict its held-out records; return the AUC."""
    checked = call("check", path)
    assert (checked.code, checked.err) == (0, "")
    done = call("run", path, "--output", "out")
    assert (done.code, done.err) == (0, "")
    newest, average = score_lines(done.out)
    for suffix, vector, printed in (("json", "newest", newest), ("npz", "average", average)):
        model, records = f"out/model.{suffix}", f"test.{kind}"
        made = call("predict", model, records, "--vector", vector, "--output", "predictions.csv")
        assert (made.code, made.err) == (0, "")
        assert printed in made.out
    assert len(table((folder / "predictions.csv").read_text())) == 600
    return float(re.search(r"AUC (\d\.\d+)", average)[1])


def test_from_a_csv_file_to_a_prediction(call, tmp_path):
    path = payments_mesh(tmp_path)
    assert learn_and_predict(call, tmp_path, path, "csv") > 0.8
    source = json.loads((tmp_path / "out" / "model.json").read_text())["source"]
    assert source["schema"]["features"] == SCHEMA["features"]


@pytest.mark.parametrize(("column", "value"), [("amount", "1,5"), ("at", "2026-03-01T12:00:00"), ("age", "")])
def test_a_value_of_another_kind_has_no_prediction(call, tmp_path, column, value):
    path = payments_mesh(tmp_path)
    assert call("run", path, "--output", "out").code == 0
    rows = list(payments(9, 3))
    rows[1][column] = value
    write_csv(tmp_path / "new.csv", rows)
    made = call("predict", "out/model.json", "new.csv")
    assert made.code == 0
    assert [row["prediction"] == "" for row in table(made.out)] == [False, True, False]


def as_parquet(path, rows):
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["at"] = [datetime.fromisoformat(at) for at in columns["at"]]
    write_parquet(path, columns)


def test_from_a_parquet_file_to_the_same_model(call, tmp_path):
    """What is learnt is that of the CSV files with the same values, bit for bit."""
    models = []
    for kind, write in (("csv", write_csv), ("parquet", as_parquet)):
        folder = tmp_path / kind
        folder.mkdir()
        path = payments_mesh(folder, write, kind)
        done = call("run", path, "--output", folder / "out")
        assert (done.code, done.err) == (0, "")
        models.append(json.loads((folder / "out" / "model.json").read_text()))
    csv_model, parquet_model = models
    assert parquet_model["source"].pop("kind") == "parquet"
    assert csv_model["source"].pop("kind") == "csv"
    assert parquet_model == csv_model


def test_a_parquet_file_is_checked_learnt_from_and_predicted(call, tmp_path):
    path = payments_mesh(tmp_path, as_parquet, "parquet")
    assert learn_and_predict(call, tmp_path, path, "parquet") > 0.8
    rows = list(payments(9, 3))
    as_parquet(tmp_path / "new.parquet", [row | {"who": f"n{k}"} for k, row in enumerate(rows)])
    made = call("predict", "out/model.json", "new.parquet", "--id", "who")
    assert made.code == 0
    assert [row["id"] for row in table(made.out)] == ["n0", "n1", "n2"]


def test_a_parquet_file_may_be_the_pilot(call, tmp_path):
    path = payments_mesh(tmp_path, as_parquet, "parquet")
    as_parquet(tmp_path / "public.parquet", list(payments(77, 300)))
    path.write_text(path.read_text().replace("mechanism: none", "epsilon: 10\n    mechanism: laplace"))
    done = call("tune", path, "--pilot", "public.parquet", "--records", 50)
    assert (done.code, done.err) == (0, "")
    assert "gradient_bound" in done.out
