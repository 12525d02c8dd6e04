"""`predict`: probabilities, classes by a threshold, a column copied, JSON lines."""

import csv
import fcntl
import io
import json
import math
import os
import subprocess
import sys

import pytest

from streams.tools.score.ranges import Edge, edge

FEATURES = {"x": "number", "y": "number"}


def model(folder, loss="logistic", dimension=2, label=None):
    vector = [1.0, -0.5, 0.25, 0.0][:dimension]
    label = label or {"column": "fraud", "positive": ["yes"], "negative": ["no"]}
    tree = {
        "format": 1,
        "mesh": "m",
        "run": "r",
        "round": 1,
        "nodes": 1,
        "rounds": 1,
        "averaged": "all",
        "algorithm": "dpdo-nc",
        "loss": loss,
        "dimension": dimension,
        "source": {"kind": "csv", "schema": {"features": FEATURES, "label": label}},
        "guarantee": {"adjacency": "event", "epsilon": 1.0, "delta": 0.0, "nodes": {"a": "some"}},
        "newest": vector,
        "average": vector,
    }
    (folder / "model.json").write_text(json.dumps(tree))
    return folder / "model.json"


@pytest.fixture
def records(tmp_path):
    rows = ["x,payment,y,fraud", "2,p-1,0,yes", "0,p-2,2,no", "1,p-3,2,yes", "?,p-4,0,no", "-3,p-5,0,no"]
    (tmp_path / "new.csv").write_text("\n".join(rows) + "\n")
    return tmp_path / "new.csv"


SCORES = [2.0, -1.0, 0.0, None, -3.0]


def test_logistic_predictions_have_probabilities(call, tmp_path, records):
    done = call("predict", model(tmp_path), records)
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert list(rows[0]) == ["line", "prediction", "probability"]
    for row, score in zip(rows, SCORES, strict=True):
        if score is None:
            assert (row["prediction"], row["probability"]) == ("", "")
        else:
            assert float(row["prediction"]) == score
            assert float(row["probability"]) == pytest.approx(1 / (1 + math.exp(-score)), rel=1e-15)
    hinge = call("predict", model(tmp_path, "hinge"), records)
    assert hinge.out.startswith("line,prediction\n2,2.0\n")


@pytest.mark.parametrize(
    ("loss", "threshold", "taken"), [("logistic", 0.5, [0, 2]), ("hinge", -1, [0, 1, 2]), ("hinge", 3, [])]
)
def test_a_threshold_decides_and_is_scored(call, tmp_path, records, loss, threshold, taken):
    arguments = ("--threshold", threshold, "--id", "payment", "--json", "--output", tmp_path / "p.jsonl")
    done = call("predict", model(tmp_path, loss), records, *arguments)
    assert (done.code, done.err) == (0, "")
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["p-1", "p-2", "p-3", "p-4", "p-5"]
    assert [row["prediction"] for row in rows] == SCORES
    assert [row["class"] for row in rows] == [
        None if k == 3 else "positive" if k in taken else "negative" for k in range(5)
    ]
    assert ("probability" in rows[0]) == (loss == "logistic")
    right = len({0, 2} & set(taken))
    precision = f"{right / len(taken):.4f}" if taken else "undefined"
    said = f"At {threshold:g} and above: {len(taken)} of the 4 labelled records"
    assert f"{said}, precision {precision}, recall {right / 2:.4f}.\n" in done.out


def test_json_has_no_infinite_numbers(call, tmp_path):
    (tmp_path / "new.csv").write_text("x,y\n1,0\n1.7e308,-1.7e308\n")
    done = call("predict", model(tmp_path, "hinge"), tmp_path / "new.csv", "--json")
    assert done.out.splitlines() == ['{"line": 2, "prediction": 1.0}', '{"line": 3, "prediction": null}']


def test_the_column_of_json_lines_may_be_missing(call, tmp_path):
    path = model(tmp_path)
    tree = json.loads(path.read_text())
    tree["source"]["kind"] = "json-lines"
    path.write_text(json.dumps(tree))
    lines = ['{"x": 1, "y": 2, "n": 7}', '{"x": 1, "y": 2}', '{"y": 2, "n": "a"}', "no json"]
    lines += ['{"x": 1, "y": 2, "n": "\\ud800"}']  # half a character
    (tmp_path / "new.jsonl").write_text("\n".join(lines) + "\n")
    done = call("predict", path, tmp_path / "new.jsonl", "--id", "n")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["line"], row["id"], bool(row["prediction"])) for row in rows] == [
        ("1", "7", True),
        ("2", "", True),
        ("3", "a", False),
        ("4", "", False),
        ("5", "?", True),
    ]


@pytest.mark.parametrize(
    ("loss", "arguments", "said"),
    [
        (
            "logistic",
            ["--threshold", "1.5"],
            "--threshold is 1.5: must be a probability from 0 to 1, for loss",
        ),
        ("hinge", ["--threshold", "nan"], "--threshold is nan: must be a finite score"),
        (
            "squared",
            ["--threshold", "1"],
            "--threshold: is for losses of two classes, hinge and logistic, not",
        ),
        ("hinge", ["--id", "account"], 'new.csv, once: "x", "payment", "y", "fraud"'),
    ],
    ids=["above 1", "no number", "numbers", "no column"],
)
def test_what_no_record_can_be_held_against_is_refused(call, tmp_path, records, loss, arguments, said):
    label = {"column": "fraud"} if loss == "squared" else None
    done = call("predict", model(tmp_path, loss, label=label), records, *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_stops_after_the_first_lines_ends_it_without_a_word(tmp_path, unbuffered):
    (tmp_path / "new.csv").write_text("x,y\n" + "1,2\n" * 3_000)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4_096)  # it cannot end before the reader does
    process = subprocess.Popen(
        [sys.executable, "-c", "from streams.cli import main; main()", "predict", model(tmp_path), "new.csv"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    head = os.read(reading, 4_096)
    os.close(reading)
    _, err = process.communicate(timeout=120)
    assert head.startswith(b"line,prediction,probability\n")
    assert (process.returncode, err) == (141, "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["new.csv", "--topic", "t"], "FILE and --topic: must be one of them"),
        ([], "FILE and --topic: must be one of them"),
        (["new.csv", "--from", "3"], "--from 3: goes with --topic"),
        (["new.csv", "--registry", "http://r"], "--registry http://r: goes with --topic"),
        (
            ["--topic", "t", "--servers", "k:1", "--columns", "x,y", "--from", "2026-11-27T04:00"],
            "--from 2026-11-27T04:00: must be an offset, or a time with its zone, as 2026-11-27T04:00Z",
        ),
        (
            ["--topic", "t", "--servers", "k:1", "--columns", "x,y", "--to", "-4"],
            "--to -4: must be an offset, or a time with its zone, as 2026-11-27T04:00Z",
        ),
        (
            ["--topic", "t", "--columns", "x,y"],
            "--servers or --broker: must be given with --model, as a model names no broker",
        ),
        (
            ["--topic", "t", "--servers", "127.0.0.1:1", "--columns", "x"],
            "--columns x: must name each of these once: x, y",
        ),
    ],
)
def test_mistakes_with_a_range_of_a_topic_are_one_line(call, tmp_path, words, line):
    done = call("predict", model(tmp_path), *words)
    assert (done.code, done.err) == (2, f"{line}\n")


@pytest.mark.parametrize("text", ["2026-11-27T04:00Z", "2026-11-27T05:00+01:00"])
def test_an_edge_is_an_offset_or_a_time(text):
    assert edge("--from", "12") == Edge(12)
    assert edge("--from", text) == Edge(None, 1_795_752_000_000)
    assert edge("--to", None) is None


def test_parquet_is_predicted_as_the_same_records_in_csv_are(call, tmp_path, records):
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'mirrormesh[parquet]'")
    from pyarrow import parquet  # noqa: PLC0415 # an extra

    columns = {"x": [2.0, 0.0, 1.0, None, -3.0], "y": [0.0, 2.0, 2.0, 0.0, 0.0]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "new.parquet")
    path = model(tmp_path)
    tree = json.loads(path.read_text())
    tree["source"]["kind"] = "parquet"
    (tmp_path / "of-parquet.json").write_text(json.dumps(tree))
    done = call("predict", tmp_path / "of-parquet.json", tmp_path / "new.parquet", "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["prediction"] for row in rows] == SCORES
