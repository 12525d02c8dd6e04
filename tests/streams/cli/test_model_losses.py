"""A model of any loss says of held-out records what the run has said of them; so does that of any example."""

import csv
import io
import json
import re

import numpy as np
import pytest
import yaml

from streams.mesh.file import load
from tests.support.meshes.examples import EACH, ROUNDS, example

CLASSES = ["oak", "ash, or elm", "7"]
BY = {"newest": "newest decision", "average": "average over the rounds"}
OWN = """
import numpy as np

class Median:
    def value(self, decision, observations):
        rest = observations.labels - decision[..., None, 0]
        return np.where(observations.present, np.abs(rest), 0.0)

    def gradients(self, decision, observations):
        rest = observations.labels - decision[..., None, 0]
        gradients = np.zeros((*rest.shape, 3))
        gradients[..., 0] = np.where(observations.present, -np.sign(rest), 0.0)
        return gradients

class Level(Median):
    def predict(self, decision, features):
        return np.full(features.shape[:-1], decision[..., 0])
"""


def held_out_scores(text):
    """What a run has printed: (records, score) of the newest, and of the average."""
    return re.findall(r"^Held-out, ([\d,]+) records, mean of .*?: (.*)\.$", text, re.MULTILINE)


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


def classifying(folder, mesh, loss, label, dimension=2, **shared):
    """Turn the mesh into one of x, y and three ways to say what they are; 50 records are held out."""
    chance = np.random.Generator(np.random.Philox(5))
    for name in ("a", "b", "c", "test"):
        rows = [["x", "y", "sign", "tree", "number"]]
        for x, y in chance.normal(size=(50, 2)).round(3).tolist():
            rows.append([x, y, int(x > y), CLASSES[(x > 0) + (y > 1)], round(2 * x - y, 2)])
        with (folder / f"{name}.csv").open("w", newline="") as opened:
            csv.writer(opened).writerows(rows)
    tree = yaml.safe_load(mesh.read_text())
    tree["mesh"] |= {"loss": loss, "dimension": dimension, "rounds": 20} | shared
    schema = {"features": {"x": "number", "y": "number"}, "label": label}
    records = {"kind": "csv", "schema": schema}
    tree["nodes"] = {name: {"source": records | {"path": f"{name}.csv"}} for name in "abc"}
    tree["held_out"] = records | {"path": "test.csv"}
    mesh.write_text(yaml.safe_dump(tree))


def score_of(x, records):
    return x[0] * records[:, 0] + x[1] * records[:, 1]


def best_of(x, records):
    return (records @ x.reshape(3, 2).T).argmax(1)


def from_minus_four_to_six(x, records):
    return -4 + 10 * score_of(x, records)


SIGN = {"column": "sign", "positive": [1]}
NUMBER = {"column": "number"}
TREE = {"column": "tree", "classes": CLASSES}
LOSSES = {
    "hinge": ("hinge", SIGN, {}, "accuracy .*, AUC", score_of),
    "weighted": ("logistic", SIGN, {"class_weights": [1, 9]}, "accuracy .*, AUC", score_of),
    "squared": ("squared", NUMBER, {}, "mean loss .*, RMSE", score_of),
    "absolute": ("absolute", NUMBER, {}, "mean loss .*, RMSE", score_of),
    "huber": ({"huber": 0.5}, NUMBER, {}, "mean loss .*, RMSE", score_of),
    "scaled": (
        *({"absolute": True, "bounds": [-4, 6]}, NUMBER, {}, "mean loss .*, RMSE"),
        from_minus_four_to_six,
    ),
    "scaled huber": (
        *({"huber": 2, "bounds": [-4, 6]}, NUMBER, {}, "mean loss .*, RMSE"),
        from_minus_four_to_six,
    ),
    "linear": ("linear", NUMBER, {}, "mean loss", score_of),
    "softmax": (
        *({"softmax": 3}, TREE, {"dimension": 6, "class_weights": [1, 2, 3]}),
        *("accuracy .*, mean cross-entropy", best_of),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_model_of_any_loss_scores_what_the_run_has_printed(call, mesh, tmp_path, name):
    loss, label, shared, words, wanted = LOSSES[name]
    classifying(tmp_path, mesh, loss, label, **shared)
    ran = call("run", mesh, "--output", "out")
    assert (ran.code, ran.err) == (0, "")
    scores = held_out_scores(ran.out)
    assert len(set(scores)) == 2
    given = [[float(row["x"]), float(row["y"])] for row in table((tmp_path / "test.csv").read_text())]
    for vector, (count, score) in zip(("newest", "average"), scores, strict=True):
        assert (count, bool(re.match(words, score))) == ("50", True)
        done = call("predict", "out/model.npz", "test.csv", "--vector", vector)
        assert (done.code, done.err.splitlines()[0]) == (
            0,
            f"50 labelled records, by the {BY[vector]}: {score}.",
        )
        x = np.array(json.loads((tmp_path / "out" / "model.json").read_text())[vector])
        rows = table(done.out)
        found = [float(row["prediction"]) for row in rows]
        np.testing.assert_allclose(found, wanted(x, np.array(given)), atol=1e-12)
        if name == "softmax":
            assert [row["class"] for row in rows] == [CLASSES[int(row["prediction"])] for row in rows]
            assert {row["prediction"] for row in rows} <= {"0", "1", "2"}
        else:
            more = ["probability"] if loss == "logistic" else []
            assert list(rows[0]) == ["line", "prediction", *more]


@pytest.mark.parametrize("name", LOSSES)
def test_an_intercept_outside_the_norm_goes_with_any_loss(call, mesh, tmp_path, name):
    """Rows are scaled to norm 1, and then get a feature of 1/3: in learning, scores, models, predictions."""
    loss, label, shared, _, _ = LOSSES[name]
    classifying(tmp_path, mesh, loss, label, **shared | {"dimension": 9 if name == "softmax" else 3})
    tree = yaml.safe_load(mesh.read_text())
    for source in (*(own["source"] for own in tree["nodes"].values()), tree["held_out"]):
        source["schema"] = source["schema"] | {"norm": 1, "intercept": "outside"}
    mesh.write_text(yaml.safe_dump(tree))
    ran = call("run", mesh, "--output", "out")
    assert (ran.code, ran.err) == (0, "")
    done = call("predict", "out/model.npz", "test.csv", "--vector", "newest")
    assert (
        done.err.splitlines()[0]
        == f"50 labelled records, by the newest decision: {held_out_scores(ran.out)[0][1]}."
    )
    x = np.array(json.loads((tmp_path / "out" / "model.json").read_text())["newest"])
    given = table((tmp_path / "test.csv").read_text())
    plane = np.array([[float(row["x"]), float(row["y"])] for row in given])
    plane /= np.maximum(np.sqrt((plane * plane).sum(1, keepdims=True)), 1.0)
    rows = np.concatenate([plane, np.full((50, 1), 1 / 3)], axis=1)
    expected = (rows @ x.reshape(3, 3).T).argmax(1) if name == "softmax" else rows @ x
    expected = -4 + 10 * expected if name.startswith("scaled") else expected
    found = [float(row["prediction"]) for row in table(done.out)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_class_that_nobody_can_read_has_no_name(call, mesh, tmp_path):
    classifying(tmp_path, mesh, {"softmax": 3}, TREE, dimension=6)
    assert call("run", mesh, "--output", "out").code == 0
    (tmp_path / "new.csv").write_text("y,x\n1,2\nz,1\n")
    done = call("predict", "out/model.json", "new.csv", "--output", "p.csv")
    assert done.code == 0
    known, unknown = table((tmp_path / "p.csv").read_text())
    assert known["class"] in CLASSES
    assert unknown == {"line": "3", "prediction": "", "class": ""}


def test_code_runs_for_a_mesh_file_that_names_it_and_never_for_a_model(call, mesh, tmp_path, monkeypatch):
    (tmp_path / "own_median.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    own = {"own": "own_median:Level"}
    classifying(tmp_path, mesh, own, NUMBER, dimension=3)
    allowed = ("--code", own["own"])
    ran = call("run", mesh, "--output", "out", *allowed)
    assert (ran.code, ran.err) == (0, "")
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert model["loss"] == own
    refused = call("predict", "out/model.json", "test.csv", *allowed)
    assert refused.code == 2
    assert refused.err.startswith('out/model.json: loss: {"own": "own_median:Level"}: ')
    assert refused.err.count("\n") == 1
    refused = call("predict", "out/model.json", "test.csv", "--mesh", mesh, "a")
    assert refused.code == 2
    assert refused.err.endswith("give --code own_median:Level, or name an entry point of mirrormesh.losses\n")
    done = call("predict", "out/model.json", "test.csv", "--mesh", mesh, "a", *allowed)
    assert (
        done.err.splitlines()[0]
        == f"50 labelled records, by the newest decision: {held_out_scores(ran.out)[0][1]}."
    )  # of the closing round
    assert {float(row["prediction"]) for row in table(done.out)} == {model["newest"][0]}
    mesh.write_text(mesh.read_text().replace("Level", "Median"))
    refused = call("predict", "out/model.json", "test.csv", "--mesh", mesh, "a")
    assert (refused.code, "of a mesh with that loss" in refused.err) == (2, True)
    (tmp_path / "m.json").write_text(json.dumps(model | {"loss": {"own": "own_median:Median"}}))
    refused = call("predict", "m.json", "test.csv", "--mesh", mesh, "a", "--code", "own_median:Median")
    assert (refused.code, "2 features at dimension 3" in refused.err) == (2, True)


@pytest.mark.parametrize("name", EACH)
def test_a_model_of_any_example(call, name, tmp_path, monkeypatch):
    path = example(name, tmp_path, monkeypatch)
    file = load(path)
    ran = call("run", path, "--rounds", ROUNDS, "--output", "out")
    assert (ran.code, ran.err) == (0, "")
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    assert (model["rounds"], len(model["average"])) == (ROUNDS, file.mesh.dimension)
    sources = [file.held_out, *(own.source for own in file.nodes.values())]
    records = next((found.path for found in sources if found is not None and found.kind == "csv"), None)
    if records is None:
        assert model["source"] is None
        return
    scores = held_out_scores(ran.out)
    assert len(scores) == (0 if file.held_out is None else 2)
    for vector, (count, score) in zip(("newest", "average"), scores, strict=False):
        done = call("predict", "out/model.json", records, "--vector", vector, "--output", "p.csv")
        assert f"{count} labelled records, by the {BY[vector]}: {score}.\n" in done.out
    done = call("predict", "out/model.npz", records, "--output", "p.csv")
    if name == "uwb":  # a record is a distance alone
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "source.schema: has no features: its mesh has public places" in done.err
        return
    assert (done.code, done.err) == (0, "")
    assert all(row["prediction"] for row in table((tmp_path / "p.csv").read_text()))
