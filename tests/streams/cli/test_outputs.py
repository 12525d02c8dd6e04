"""No command writes over a file that it reads, by whatever name: it says so, and all stays as it was."""

import os
from io import TextIOWrapper

import pytest

from tests.support.processes.in_process import MESH, Commands

SCHEMA = "{features: {x: {bounds: [0, 9]}, y: number}, label: {column: z, positive: [yes]}}"
ROWS = "x,y,z\n" + "1,2,yes\n3,1,no\n" * 40


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Run commands in a folder with a mesh file, its records, and what a run made of them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.csv").write_text(ROWS)
    (tmp_path / "held.csv").write_text(ROWS)
    source = f"{{kind: csv, path: records.csv, schema: {SCHEMA}}}"
    nodes = "\n".join(f"  {name}: {{source: {source}}}" for name in "abc")
    mesh = MESH.replace("loss: range", "loss: hinge").split("nodes:\n  a")[0]
    held = f"held_out: {{kind: csv, path: held.csv, schema: {SCHEMA}}}"
    (tmp_path / "mesh.yaml").write_text(f"{mesh}nodes:\n{nodes}\n{held}\n")
    commands = Commands(capsys)
    outcome = commands("run", "mesh.yaml", "--quiet", "--output", "out")
    assert outcome.code == 0, outcome.err
    return commands


def linked(tmp_path, name):
    """Another name of the file."""
    other = tmp_path / "other-name"
    other.unlink(missing_ok=True)
    os.link(tmp_path / name, other)
    return "other-name"


PREDICT = ("predict", "out/model.json", "records.csv", "--output")


@pytest.mark.parametrize(
    ("command", "target"),
    [
        (PREDICT, "records.csv"),
        (PREDICT, "out/model.json"),
        ((*PREDICT[:-1], "--mesh", "mesh.yaml", "a", "--output"), "mesh.yaml"),
    ],
)
@pytest.mark.parametrize("by_another_name", [False, True])
def test_predictions_do_not_replace_what_they_are_made_of(call, tmp_path, command, target, by_another_name):
    before = (tmp_path / target).read_bytes()
    given = linked(tmp_path, target) if by_another_name else target
    outcome = call(*command, given)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{given}: this command reads it: must be another file, or not there yet" in outcome.err
    assert (tmp_path / target).read_bytes() == before


def test_a_run_does_not_replace_its_records_by_its_table(call, tmp_path):
    (tmp_path / "out").joinpath("rounds.csv").unlink()
    os.link(tmp_path / "records.csv", tmp_path / "out" / "rounds.csv")
    outcome = call("run", "mesh.yaml", "--quiet", "--output", "out")
    assert outcome.code == 2
    assert "rounds.csv: this command reads it" in outcome.err
    assert (tmp_path / "records.csv").read_text() == ROWS


def test_a_second_run_replaces_the_results_of_the_first(call):
    assert call("run", "mesh.yaml", "--quiet", "--output", "out").code == 0
    assert call(*PREDICT, "predictions.csv").code == 0
    assert call(*PREDICT, "predictions.csv").code == 0


def test_a_command_knows_nothing_of_what_the_one_before_it_read(call, tmp_path):
    assert call("predict", "out/model.json", "records.csv", "--output", "new.csv").code == 0
    assert call("predict", "out/model.json", "held.csv", "--output", "records.csv").code == 0
    assert (tmp_path / "records.csv").read_text() != ROWS


def test_predictions_do_not_replace_what_comes_by_standard_input(call, tmp_path, monkeypatch):
    with (tmp_path / "records.csv").open("rb") as records:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(records))
        outcome = call("predict", "out/model.json", "-", "--output", "records.csv")
        assert outcome.code == 2
        assert "records.csv: this command reads it" in outcome.err
        assert (tmp_path / "records.csv").read_text() == ROWS


@pytest.mark.parametrize("name", ["rounds.csv", "summary.json", "model.npz", "model.json"])
@pytest.mark.parametrize("source", ["records.csv", "held.csv", "mesh.yaml"])
def test_a_run_writes_nothing_if_one_of_its_results_would_replace_what_it_reads(call, tmp_path, name, source):
    folder = tmp_path / "new"
    folder.mkdir()
    os.link(tmp_path / source, folder / name)
    outcome = call("run", "mesh.yaml", "--quiet", "--output", "new")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{name}: this command reads it" in outcome.err
    assert [path.name for path in folder.iterdir()] == [name]


def test_a_model_does_not_replace_the_records_of_its_mesh(call, tmp_path):
    os.link(tmp_path / "records.csv", tmp_path / "fraud.json")
    outcome = call("model", "mesh.yaml", "--output", "fraud")
    assert outcome.code == 2
    assert "fraud.json: this command reads it" in outcome.err


def test_an_export_does_not_replace_the_file_that_it_is_made_of(call, tmp_path):
    mesh = tmp_path / "mesh.yaml"
    mesh.write_text(mesh.read_text() + "brokers: {mesh: {servers: 'kafka.example:9092'}}\n")
    options = ("--mesh-operator", "--image", f"registry.example/mesh@sha256:{'a' * 64}", "--output", "ex")
    assert call("export", "compose", "mesh.yaml", *options).code == 0
    assert call("export", "compose", "mesh.yaml", *options).code == 0
    (exported,) = (tmp_path / "ex" / "mesh").iterdir()
    exported.write_text(exported.read_text() + "# a word of the operator's own\n")
    before = exported.read_text()
    outcome = call("export", "compose", str(exported), *options)
    assert outcome.code == 2
    assert f"{exported.name}: this command reads it" in outcome.err
    assert exported.read_text() == before
