"""`mesh.features`: a schema that all nodes share stands in place of the dimension, in every command."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import mirrormesh
from mirrormesh import MeshFileError
from streams.mesh.file import load
from streams.mesh.settings.files import as_yaml
from streams.mesh.shipped import data
from streams.tools.export.raw_mesh import node_file, read
from streams.tools.up.programs import _moved
from tests.support.processes.in_process import Commands

SCHEMA = """
features:
  age: {bounds: [0, 90]}
  country: {categories: [de, fr]}
label: {column: fraud, positive: [1]}
"""
MESH = """
mesh:
  name: payments
  run: run-1
  nodes: [north, south]
  features: shared/schema.yaml
  algorithm: {name: dpdo-nc, constraint: {l2-ball: 5}, step_size: {rule: inverse-sqrt, a: 1}}
  loss: logistic
  slots: {by: count, size: 10}
  privacy: {mechanism: laplace, noise: simulated, epsilon: 1, gradient_bound: 1}
  topology: {graph: ring}
  rounds: 5
brokers:
  mesh: {servers: "127.0.0.1:19099"}
  data: {servers: "127.0.0.1:19099"}
  trust_broker: true
nodes:
  north: {source: {kind: csv, path: north.csv}}
  south: {source: {kind: csv, path: south.csv, schema: own.yaml}}
held_out: {kind: csv, path: north.csv}
"""
OWN = SCHEMA.replace("fraud, positive: [1]", "bad, positive: [yes]")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "own.yaml").write_text(OWN)
    rng = np.random.default_rng(1)
    rows = [(age, "de" if age < 40 else "fr", age % 2) for age in rng.integers(0, 90, 60).tolist()]
    (tmp_path / "north.csv").write_text(
        "age,country,fraud\n" + "".join(f"{age},{country},{label}\n" for age, country, label in rows)
    )
    (tmp_path / "south.csv").write_text(
        "bad,age,country\n" + "".join(f"{'yes' if label else 'no'},{a},{c}\n" for a, c, label in rows)
    )
    (tmp_path / "mesh.yaml").write_text(MESH)
    return tmp_path


def edited(folder, *changes, name="mesh.yaml"):
    path = folder / name
    for before, after in changes:
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after))
    return folder / "mesh.yaml"


def with_dimension(folder):
    """Write the mesh as it is without features: a dimension, and a schema in each source."""
    path = folder / "dimension.yaml"
    text = MESH.replace("features: shared/schema.yaml", "dimension: 3")
    path.write_text(text.replace("path: north.csv", "path: north.csv, schema: shared/schema.yaml"))
    return path


def test_the_dimension_is_that_of_the_features_and_sources_take_the_schema(folder):
    file = load(folder / "mesh.yaml")
    assert file.mesh.dimension == file.dimension == 3
    assert file.own("north").source.record == file.held_out.record == file.mesh.features
    assert file.own("south").source.record.label.column == "bad"
    assert load(with_dimension(folder)).mesh.features is None


def test_a_run_is_that_of_a_mesh_with_a_dimension(folder):
    runs = [mirrormesh.run(mirrormesh.load(path)) for path in (folder / "mesh.yaml", with_dimension(folder))]
    assert runs[0].summary == runs[1].summary
    assert runs[0].summary.score is not None


@pytest.mark.parametrize("place", ["written in the file", "with the dimension beside it"])
def test_it_may_be(folder, place):
    first = load(folder / "mesh.yaml")
    features = json.dumps(yaml.safe_load(SCHEMA))
    after = (
        f"features: {features}"
        if place.startswith("written")
        else "features: shared/schema.yaml\n  dimension: 3"
    )
    file = load(edited(folder, ("features: shared/schema.yaml", after)))
    assert file.digest() == first.digest()


def test_softmax_has_as_many_decisions_for_each_class(folder):
    edited(folder, ("positive: [1]", "classes: [0, 1]"), name="shared/schema.yaml")
    edited(folder, ("positive: [yes]", 'classes: ["no", "yes"]'), name="own.yaml")
    file = load(edited(folder, ("loss: logistic", "loss: {softmax: 2}")))
    assert file.mesh.dimension == 6


CHANGES = {
    "order": (
        "  age: {bounds: [0, 90]}\n  country: {categories: [de, fr]}",
        "  country: {categories: [de, fr]}\n  age: {bounds: [0, 90]}",
    ),
    "order of categories": ("[de, fr]", "[fr, de]"),
    "bounds": ("[0, 90]", "[0, 91]"),
    "kind": ("{bounds: [0, 90]}", "number"),
    "name": ("age:", "years:"),
    "intercept": ("features:", "intercept: true\nfeatures:"),
    "norm": ("features:", "norm: 2\nfeatures:"),
    "label": ("positive: [1]", "positive: [0]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_all_of_the_schema_is_in_the_digest(folder, change):
    before = load(folder / "mesh.yaml").digest()
    edited(folder, CHANGES[change], name="shared/schema.yaml")
    path = edited(folder, (", schema: own.yaml", ""))
    assert load(path).digest() != before


def test_a_default_that_is_written_changes_no_digest(folder):
    before = load(folder / "mesh.yaml").digest()
    edited(folder, ("features:", "intercept: false\nfeatures:"), name="shared/schema.yaml")
    assert load(folder / "mesh.yaml").digest() == before


OTHERS = {
    "order": r"features: country: \{categories: \[\"de\", \"fr\"\]\} where mesh.features have age: \{bounds",
    "order of categories": r"features: country: .*\[\"fr\", \"de\"\]\} where mesh.features have country: ",
    "bounds": r"features: age: \{bounds: \[0, 91\]\} where mesh.features have age: \{bounds: \[0, 90\]\}",
    "kind": r"features: age: number where mesh.features have age: \{bounds: \[0, 90\]\}",
    "name": r"features: years: .* where mesh.features have age: .*: must make the same features, in their",
    "intercept": r"intercept: true: must be false, as in mesh.features",
    "norm": r"norm: 2.0: must not be given, as in mesh.features",
}


@pytest.mark.parametrize("change", OTHERS)
def test_a_nodes_own_schema_must_make_the_same_features(folder, change):
    edited(folder, CHANGES[change], name="own.yaml")
    with pytest.raises(MeshFileError, match=rf"nodes.south.source.schema.{OTHERS[change]}") as error:
        load(folder / "mesh.yaml")
    assert len(error.value.lines) == 1


MANY = json.dumps([f"{number:03}" for number in range(100)])
MARKED = {
    "bounds": ("bounds: [0, 90]", "indicator"),
    "number": ("number: true", "indicator"),
    "categories": ("categories: [de, fr]", "category"),
    "a long list": (f"categories: {MANY}", "category"),
}


@pytest.mark.parametrize("name", MARKED)
def test_a_difference_in_what_missing_values_make_alone_is_told(folder, name):
    settings, substitute = MARKED[name]
    for file, missing in (("shared/schema.yaml", ""), ("own.yaml", f", missing: {{as: {substitute}}}")):
        edited(folder, ("{bounds: [0, 90]}", f"{{{settings}{missing}}}"), name=file)
    with pytest.raises(MeshFileError) as error:
        load(folder / "mesh.yaml")
    (line,) = error.value.lines
    actual, needed = line.split(" where mesh.features have ")
    assert actual.endswith(f", missing: {{as: {substitute}}}}}")
    assert needed.startswith("age: ")
    assert "missing" not in needed


def test_a_difference_in_the_midst_of_a_long_list_is_told(folder):
    edited(folder, ("{bounds: [0, 90]}", f"{{categories: {MANY}}}"), name="shared/schema.yaml")
    edited(folder, ("{bounds: [0, 90]}", f"{{categories: {MANY}}}"), name="own.yaml")
    edited(folder, ('"050"', '"x"'), name="own.yaml")
    with pytest.raises(
        MeshFileError, match=r'\(at place 51: "x" where they have "050"\): must make the same'
    ):
        load(folder / "mesh.yaml")


def test_a_column_fewer_or_more_is_named(folder):
    edited(folder, ("  country: {categories: [de, fr]}\n", ""), name="own.yaml")
    with pytest.raises(MeshFileError, match=r"features: no column where mesh.features have country: "):
        load(folder / "mesh.yaml")


MISTAKES = {
    "a file that is not there": (
        "shared/schema.yaml",
        "none.yaml",
        r'mesh.features: "none.yaml": cannot be read',
    ),
    "another dimension": (
        "features: shared/schema.yaml",
        "features: shared/schema.yaml\n  dimension: 4",
        "mesh.dimension: 4: must be 3, by mesh.features, or not be given",
    ),
    "neither": (
        "  features: shared/schema.yaml\n",
        "",
        r"mesh.dimension: missing: must be given, or features \(nodes.south.source.schema makes 3 features\)",
    ),
    "text": (
        "shared/schema.yaml",
        "3",
        r"mesh.features: 3: must be a mapping with keys among features, label",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_a_line(folder, name):
    before, after, line = MISTAKES[name]
    with pytest.raises(MeshFileError, match=line):
        load(edited(folder, (before, after)))


def test_a_mistake_in_the_shared_file_names_that_file(folder):
    edited(folder, ("[0, 90]", "[90, 0]"), name="shared/schema.yaml")
    with pytest.raises(MeshFileError, match=r"shared/schema.yaml: features.age.bounds: \[90, 0\]: must be"):
        load(folder / "mesh.yaml")


def test_a_dimension_that_is_wrong_is_told_with_the_right_one(folder):
    path = with_dimension(folder)
    path.write_text(path.read_text().replace("dimension: 3", "dimension: 5"))
    with pytest.raises(
        MeshFileError, match=r"makes 3 features: must be 5, .*\(mesh.dimension, if that should be 3\)"
    ):
        load(path)


def test_a_collaboration_knows_no_features_yet(folder):
    text = "mesh: {kind: collaboration, features: shared/schema.yaml}\nowners: {}\n"
    (folder / "c.yaml").write_text(text)
    with pytest.raises(MeshFileError, match=r"mesh.features: .* unknown key"):
        mirrormesh.load_collaboration(folder / "c.yaml")


def test_commands_serve_it(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    call = Commands(capsys)
    assert "right" in call("check", "mesh.yaml").out
    assert "dimension 3" in call("plan", "mesh.yaml").out
    call("run", "mesh.yaml", "--output", "out")
    assert len(call("predict", "out/model.json", "north.csv").out.splitlines()) >= 60
    call("predict", "out/model.json", "south.csv", "--mesh", "mesh.yaml", "south")


def test_an_export_holds_the_features_and_has_the_same_digest(folder):
    mesh = folder / "mesh.yaml"
    raw = read(mesh)
    for node in ("north", "south"):
        path = folder / f"exported-{node}.yaml"
        path.write_text(node_file(raw, node, "secrets", "0.0.0.0:9101").text)
        (folder / "shared" / "schema.yaml").rename(folder / "away.yaml")
        exported = load(path)
        (folder / "away.yaml").rename(folder / "shared" / "schema.yaml")
        assert exported.digest() == load(mesh).digest()
        assert exported.own(node).source.record == load(mesh).own(node).source.record


def test_a_replay_finds_the_features_from_any_folder(folder, monkeypatch):
    edited(folder, ("label:", "timestamp: at\nlabel:"), name="shared/schema.yaml")
    edited(folder, ("label:", "timestamp: at\nlabel:"), name="own.yaml")
    path = edited(folder, ("{by: count, size: 10}", "{by: time, period: 20, start: 2026-01-01T00:00:00Z}"))
    file = load(path)
    monkeypatch.chdir(folder.parent)
    tree = _moved(load(path.relative_to(folder.parent)), file.mesh.slots, 60.0)
    (folder / "elsewhere").mkdir()
    replay = folder / "elsewhere" / "replay.yaml"
    replay.write_text(as_yaml(tree))
    assert load(replay).mesh.features == file.mesh.features


def test_an_example_knows_that_the_features_are_a_file_of_it(folder):
    assert Path("shared/schema.yaml") in data(folder / "mesh.yaml")
