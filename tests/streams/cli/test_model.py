"""A model leaves the mesh, and says of held-out records what the run has said of them."""

import csv
import io
import json
import re

import numpy as np
import pytest

from streams.state.journal_file import JournalReader
from tests.streams.cli.test_run import classifying


def score_lines(text):
    return [found[1] for found in re.finditer(r"nodes' .*?: (accuracy .*)\.$", text, re.MULTILINE)]


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def learnt(call, mesh, tmp_path):
    """A run of a mesh of classes, its output in `out`, its journals in `state`; what it has printed."""
    classifying(mesh, tmp_path)
    text = mesh.read_text().replace("mechanism: none", "mechanism: laplace")
    mesh.write_text(text.replace("noise: simulated", "noise: exact"))
    outcome = call("run", mesh, "--output", "out", "--state", "state")
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


BY = {"newest": "newest decision", "average": "average over the rounds"}


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_predictions_on_the_held_out_records_score_what_the_run_has_printed(call, learnt, tmp_path, suffix):
    newest, average = score_lines(learnt)
    for vector, printed in (("newest", newest), ("average", average)):
        done = call("predict", f"out/model.{suffix}", "test.csv", "--vector", vector, "--output", "p.csv")
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines()[0] == f"50 labelled records, by the {BY[vector]}: {printed}."
        if vector == "newest":  # of the last closing round
            assert call("predict", f"out/model.{suffix}", "test.csv", "--output", "p.csv").out == done.out
        with (tmp_path / "test.csv").open() as opened:
            wanted = list(csv.DictReader(opened))
        model = json.loads((tmp_path / "out" / "model.json").read_text())
        rows = table((tmp_path / "p.csv").read_text())
        assert [int(row["line"]) for row in rows] == list(range(2, 52))
        for row, record in zip(rows, wanted, strict=True):
            x, y = model[vector]
            np.testing.assert_allclose(
                float(row["prediction"]), x * float(record["x"]) + y * float(record["y"]), atol=1e-12
            )


def test_a_model_names_no_truth_and_needs_none(call, mesh, tmp_path):
    classifying(mesh, tmp_path)
    mesh.write_text(re.sub(r"( *)(label:.*)", r"\1\2\n\1truth: [u, v]", mesh.read_text()))
    plain = (tmp_path / "test.csv").read_text()
    for path in tmp_path.glob("*.csv"):
        header, *rows = path.read_text().splitlines()
        path.write_text("\n".join([f"{header},u,v", *(f"{row},1,2" for row in rows)]) + "\n")
    assert call("run", mesh, "--output", "out").code == 0
    schema = json.loads((tmp_path / "out" / "model.json").read_text())["source"]["schema"]
    assert schema.keys() == {"features", "label"}
    (tmp_path / "test.csv").write_text(plain)
    assert call("predict", "out/model.json", "test.csv").code == 0


def test_the_model_of_a_run_is_the_mean_of_what_its_nodes_hold(call, learnt, tmp_path):
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert model["newest"] == summary["decision"]
    assert model["average"] == summary["average"]
    assert (model["round"], model["rounds"], model["nodes"]) == (10, 10, 3)
    assert model["guarantee"]["epsilon"] == 1
    assert model["guarantee"]["nodes"]["b"] == summary["nodes"][1]["guarantee"]
    ends = set()
    for node in summary["nodes"]:
        with JournalReader(tmp_path / "state" / f"{node['name']}.journal") as journal:
            newest = journal.records()[-1]
        ends.add(newest.stepped)
        assert node["average"] == newest.average.mean.tolist()
        assert node["averaged"] == newest.average.rounds
    assert len(ends) == 1  # all close together
    assert min(node["averaged"] for node in summary["nodes"]) == 10
    rows = table((tmp_path / "out" / "rounds.csv").read_text())
    for k, node in enumerate(summary["nodes"]):
        decisions = [[float(row["decision_1"]), float(row["decision_2"])] for row in rows[k::3]]
        assert node["decision"] != decisions[-1]  # it has closed
        if node["averaged"] == len(decisions):
            np.testing.assert_allclose(node["average"], np.mean(decisions, 0), rtol=1e-13)


def test_a_model_of_one_node_is_its_running_average(call, mesh, learnt, tmp_path):
    done = call("model", mesh, "--output", "deep/own", "--state", "state", "--node", "b")
    assert (done.code, done.err) == (0, "")
    assert "of 10 rounds" in done.out
    assert "epsilon 1" in done.out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    model = json.loads((tmp_path / "deep" / "own.json").read_text())
    assert model["average"] == summary["nodes"][1]["average"]
    assert (model["nodes"], model["rounds"]) == (1, 10)
    assert model["round"] > 11  # it relayed while others learnt, and closed
    assert model["source"]["schema"]["label"] == {"column": "class", "positive": ["1"]}
    assert "path" not in model["source"]
    assert call("predict", "deep/own.npz", "test.csv").code == 0


def test_a_model_of_one_node_is_its_decision_of_the_last_closing_round(call, mesh, tmp_path):
    """A run in one process closes in memory: the journals, all here, end with what was learnt last."""
    classifying(mesh, tmp_path)
    assert call("run", mesh, "--output", "out", "--state", "state", "--rounds", "4").code == 0
    nodes = json.loads((tmp_path / "out" / "summary.json").read_text())["nodes"]
    for node in nodes:
        assert call("model", mesh, "--output", "own", "--state", "state", "--node", node["name"]).code == 0
        model = json.loads((tmp_path / "own.json").read_text())
        assert model["newest"] == node["decision"]
        assert model["newest"] != model["average"]
    for node in nodes[1:]:  # of one node alone nobody can mix
        (tmp_path / "state" / f"{node['name']}.journal").unlink()
    name = nodes[0]["name"]
    assert call("model", mesh, "--output", "own", "--state", "state", "--node", name).code == 0
    assert json.loads((tmp_path / "own.json").read_text())["newest"] != nodes[0]["decision"]


def test_a_run_of_one_round_has_no_average(call, mesh, tmp_path):
    """Its only decision is x_1, made before any record: it is neither scored nor kept as a model."""
    classifying(mesh, tmp_path)
    done = call("run", mesh, "--output", "out", "--state", "state", "--rounds", "1")
    assert done.code == 0
    assert len(score_lines(done.out)) == 1
    assert "averages" not in done.out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["average"], summary["average_score"]) == ([], None)
    for options in ([], ["--state", "state", "--node", "b"]):
        if options:
            assert call("model", mesh, "--output", "out/model", *options).code == 0
        model = json.loads((tmp_path / "out" / "model.json").read_text())
        assert model["average"] == model["newest"]
        assert any(model["newest"])
        assert model["averaged"].startswith("the newest decision, as the only round")


def test_records_without_labels_and_broken_ones(call, mesh, learnt, tmp_path):
    (tmp_path / "new.csv").write_text("y,x\n1,2\nsecret,3\n4,5\n6\n")
    done = call("predict", "out/model.json", "new.csv")
    assert done.code == 0
    rows = table(done.out)
    assert [row["line"] for row in rows] == ["2", "3", "4", "5"]
    assert [bool(row["prediction"]) for row in rows] == [True, False, True, False]
    line = "new.csv: 2 of 4 records cannot be read (most often y: not a number): line 3, 5.\n"
    assert done.err == line
    (tmp_path / "new.csv").write_text("y,x\n1,2\nsecret,3\nsecret,5\n")
    line = "new.csv: 2 of 3 records cannot be read (y: not a number): line 3, 4.\n"
    done = call("predict", "out/model.json", "new.csv")
    assert (done.code, done.err, len(table(done.out))) == (3, line, 3)
    assert call("predict", "out/model.json", "new.csv", "--output", "made.csv") == (3, line, line)
    assert [row["line"] for row in table((tmp_path / "made.csv").read_text())] == ["2", "3", "4"]
    (tmp_path / "new.csv").write_text("y,x\nsecret,3\n6\n")
    refused = call("predict", "out/model.json", "new.csv")
    assert refused.code == 2
    assert refused.err.endswith(
        "no record that can be read: y: not a number (1), wrong number of fields (1)\n"
    )


def test_labels_that_cannot_be_read_are_left_out_of_the_score_aloud(call, mesh, tmp_path):
    classifying(mesh, tmp_path)
    mesh.write_text(mesh.read_text().replace('positive: "1"', 'positive: "1", negative: "0"'))
    assert call("run", mesh, "--output", "out").code == 0
    (tmp_path / "new.csv").write_text("x,y,class\n1,0,1\n1,0,no\n-1,0,0\n1,0,no\n1,0,\n")
    done = call("predict", "out/model.json", "new.csv")
    assert done.code == 0
    assert done.err.startswith(
        "2 labelled records (3 left out, class: not one of 0, 1), by the newest decision: accuracy 1.0000"
    )
    (tmp_path / "new.csv").write_text("x,y,class\n1,0,yes\n-1,0,no\n")
    done = call("predict", "out/model.json", "new.csv")
    assert done.err == "No score: 2 records left out, class: not one of 0, 1.\n"
    (tmp_path / "new.csv").write_text("x,y\n1,0\n-1,0\n")
    assert call("predict", "out/model.json", "new.csv").err == ""


def test_records_are_read_as_a_node_reads_them(call, mesh, learnt, tmp_path):
    text = mesh.read_text().replace("features: {x: number, y: number}", "features: {u: number, v: number}", 1)
    (tmp_path / "other.yaml").write_text(text)
    (tmp_path / "a.csv").write_text("u,v,class\n1,2,1\n")
    (tmp_path / "new.csv").write_text("v,u\n0.5,2\n")
    done = call("predict", "out/model.json", "new.csv", "--mesh", "other.yaml", "a", "--vector", "newest")
    x, y = json.loads((tmp_path / "out" / "model.json").read_text())["newest"]
    assert float(table(done.out)[0]["prediction"]) == 2 * x + 0.5 * y
    refused = call("predict", "out/model.json", "new.csv", "--mesh", "other.yaml", "b")
    assert refused.code == 2
    assert "nodes.b.source.schema" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model", "mesh.yaml", "--output", "m", "--state", "state"], "--state and --node"),
        (["model", "mesh.yaml", "--output", "m", "--state", "state", "--node", "z"], "z: not a node"),
        (["model", "mesh.yaml", "--output", "m", "--state", "away", "--node", "a"], "away/a.journal"),
        (["model", "mesh.yaml", "--output", "m"], "brokers"),
        (["predict", "no.json", "test.csv"], "no.json: cannot be read: No such file"),
        (["predict", "no.npz", "test.csv"], "no.npz: cannot be read: No such file"),
        (["predict", "out/model.json", "no.csv"], 'source.path: "no.csv": cannot be read: No such file'),
        (["predict", "test.csv", "test.csv"], "test.csv: is not JSON"),
        (["predict", "out/summary.json", "test.csv"], "out/summary.json: is no model"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_told_in_a_line(call, learnt, arguments, said):
    done = call(*arguments)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_the_model_of_sensors_says_how_far_away_they_would_be(call, mesh, tmp_path):
    assert call("run", mesh, "--output", "out").code == 0
    assert json.loads((tmp_path / "out" / "model.json").read_text())["source"] is None
    (tmp_path / "places.jsonl").write_text('{"x": 1, "y": 2}\n')
    refused = call("predict", "out/model.json", "places.jsonl")
    assert refused.code == 2
    assert "give --mesh MESH NODE" in refused.err


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["source", "schema", "features"], {"x": "number"}, "source.schema: makes 1 features: must be 2"),
        (["source", "kind"], "xml", "source.kind"),
        (["loss"], "crossing", 'loss: "crossing": must be'),
        (["loss"], {"softmax": 2}, "source.schema: makes 2 features for each of 2 classes: must be 2, the"),
        (["loss"], "squared", "source.schema.label: must be a number, for loss squared"),
        (["loss"], {"own": "os:getcwd"}, 'loss: {"own": "os:getcwd"}: code that no model may have run'),
    ],
    ids=["dimension", "kind", "loss", "classes", "label", "own"],
)
def test_a_model_that_cannot_be_used_is_refused_in_a_line(call, learnt, tmp_path, path, value, said):
    model = json.loads((tmp_path / "out" / "model.json").read_text())
    place = model
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (tmp_path / "m.json").write_text(json.dumps(model))
    done = call("predict", "m.json", "test.csv")
    assert done.code == 2
    assert done.err.startswith(f"m.json: {said}")
    assert done.err.count("\n") == 1
