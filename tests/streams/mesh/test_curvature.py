"""Public directions in a mesh file: each mistake in a line, what is said, and records without features."""

import json

import numpy as np
import pytest

from mirrormesh import read_model, run, run_model, write_model
from nodes.following import packed_length
from streams.cli import main
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.errors import MeshFileError
from streams.terminal.plan_text import facts
from streams.terminal.text import headline
from tests.streams.mesh.test_dynamics import moving
from tests.support.meshes.files import REMOVED, changed, loaded, with_value, written
from tests.support.meshes.following import PLACES, following

A, N, P = "mesh.algorithm", "mesh.nodes", "mesh.privacy"
OWN = {"kind": "own", "name": "tests.nodes.test_engine:Pinball"}
SCHEMA = {"features": {"x": {"number": True}}, "label": {"column": "distance"}}
CSV = {"kind": "csv", "path": "a.csv"}
TRUTH = SCHEMA | {"features": {}, "truth": ["x"]}
MISTAKES = [
    (f"{A}.curvature", "private", "must be public"),
    (f"{A}.curvature", REMOVED, "jerk: 0.05: goes with curvature: public: must not be given without it"),
    (f"{A}.name", "dola", "dola has no curvature: must be dpdo-nc"),
    (f"{A}.step_size", {"rule": "constant", "a": 1}, "curvature: public computes the step: must not be"),
    (f"{A}.gains", [0.5, 0.1], "gains: [0.5, 0.1]: curvature: public computes the step: must not be given"),
    (f"{A}.mirror_map", "euclidean", "computes the step: must not be given"),
    (f"{A}.observes", [0, 1], "computes the step: must not be given"),
    (f"{A}.gradient_at", "decision", "computes the step: must not be given"),
    (f"{A}.dynamics", REMOVED, "dynamics: missing: curvature: public needs a motion model"),
    (f"{A}.dynamics", {"matrix": np.eye(4).tolist()}, "must be constant-velocity or constant-acceleration"),
    (f"{A}.dynamics.dimensions", 4, "curvature: public is for positions: must be at most 3"),
    (f"{A}.constraint", REMOVED, "constraint: missing: must be given"),
    (f"{A}.constraint", {"l2-ball": 1}, "bounds of their own: must be {reach: ...} or {box: ...}"),
    (f"{A}.jerk", REMOVED, "jerk: missing: curvature: public needs it, above 0"),
    (f"{A}.jerk", 0, "jerk: 0: must be above 0"),
    (f"{A}.jerk", 1e-200, "must be positive definite"),
    (f"{A}.error", REMOVED, "error: missing: curvature: public needs it, above 0"),
    (f"{A}.presence", 1.5, "presence: 1.5: must be at most 1"),
    (f"{A}.presence", 0, "presence: 0: must be above 0"),
    (f"{A}.height", 1.0, f"{N}.a.place: [-1, 1.5]: must be 3 numbers"),
    (f"{A}.x_1", [5, 0, 0, 0], "x_1 is [5.0, 0.0, 0.0, 0.0]: must be in the box"),
    (f"{N}.b", {}, "place: missing: curvature: public needs 2 numbers"),
    (f"{N}.b.place", [1, 2, 3], f"{N}.b.place: [1, 2, 3]: must be 2 numbers"),
    (f"{N}.b.loss", "bearing", f"{N}.b.loss: "),
    (f"{N}.b.gradient_bound", 1, "has nodes differ in epsilon alone: must not be given"),
    ("mesh.loss", "bearing", "curvature: public is for distances: must be range, without huber"),
    ("mesh.loss", {"range": {"huber": 1}}, "must be range, without huber"),
    ("mesh.loss", {"range-difference": {"reference": [0, 0]}}, "must be range, without huber"),
    ("mesh.slots.size", 2, "curvature: public takes one record a slot: must be 1"),
    (f"{P}.mechanism", "laplace", "curvature: public releases one sign: must be l2-sphere or none"),
    (f"{P}.gradient_bound", 1, "curvature: public clips no gradient: must not be given"),
    ("mesh.features", SCHEMA, "and no record may show one: must be {}"),
    ("nodes.a.source", CSV | {"schema": SCHEMA}, "no record may show one: must be {}"),
    ("nodes.a.source", CSV | {"schema": SCHEMA | {"features": {}, "intercept": True}}, "must be {}"),
    ("nodes.a.source", CSV | {"schema": TRUTH}, "names 1 columns: must be 2, one for each coordinate"),
    ("nodes.a.source", OWN, "must be csv, json-lines, parquet, topic or localisation"),
    ("nodes.a.source.position", [1, 1], "the sensor is at mesh.nodes' place: must not be given"),
]  # fmt: skip


def public(**mesh):
    tree = following(changed())
    return tree | {"mesh": tree["mesh"] | mesh}


def mistakes(folder, tree):
    with pytest.raises(MeshFileError) as caught:
        loaded(folder, tree)
    return caught.value.lines


@pytest.mark.parametrize(("path", "value", "expected"), MISTAKES)
def test_a_mistake_is_one_line_that_says_what_is_allowed(tmp_path, path, value, expected):
    lines = mistakes(tmp_path, with_value(public(), path, value))
    assert any(expected in line for line in lines), lines
    assert not any("\n" in line for line in lines)


def test_without_curvature_there_is_no_place_and_there_are_features(tmp_path):
    (line,) = mistakes(tmp_path, moving(nodes={name: {"place": [0, 1]} for name in "abcd"}))
    assert "mesh.nodes.a.place: [0, 1]: goes with algorithm.curvature: public" in line
    source = {"kind": "csv", "path": "a.csv", "schema": {"features": {}, "label": {"column": "distance"}}}
    (line,) = mistakes(tmp_path, with_value(changed(), "nodes.a.source", source))
    assert line.endswith("nodes.a.source.schema.features: {}: must not be empty")


def test_localisation_is_in_the_plane(tmp_path):
    tree = with_value(public(), f"{A}.height", 1.0)
    tree["mesh"]["nodes"] = {name: {"place": [*place, 0.5]} for name, place in PLACES.items()}
    assert any(
        "height: 1.0: localisation is in the plane: must not" in line for line in mistakes(tmp_path, tree)
    )


def test_places_and_epsilons_of_nodes_are_their_own(tmp_path):
    file = loaded(tmp_path, with_value(public(), f"{N}.b.epsilon", 4))
    node, other = file.resolved.node("a").learner, file.resolved.node("b").learner
    assert node.algorithm.place.tolist() == PLACES["a"]
    assert node.algorithm.response == pytest.approx(1 / np.tanh(0.5))
    assert other.algorithm.response == pytest.approx(1 / np.tanh(2))
    assert other.mechanism.theta == 1.0  # nothing is clipped shorter for more noise
    assert node.algorithm.dimension == file.mesh.release_dimension == packed_length(4, 2) == 19
    digests = {
        loaded(tmp_path, tree).digest() for tree in (public(), with_value(public(), f"{N}.b.place", [9, 9]))
    }
    assert len(digests) == 1  # a node's own settings
    assert loaded(tmp_path, with_value(public(), f"{A}.jerk", 0.1)).digest() not in digests


def test_a_mesh_without_curvature_has_the_digest_it_had(tmp_path):
    words = set(loaded(tmp_path, changed()).mesh.agreed_text.replace('"', " ").split())
    assert not {"curvature", "jerk", "error", "presence", "height", "place"} & words


def test_a_plan_says_what_is_public_and_what_is_noisy(tmp_path):
    file = loaded(tmp_path, public())
    text = "\n".join(fact for _, fact in facts(file, 20, 0.0))
    assert "public: jerk 0.05, error 0.02, presence 0.97" in text
    assert "l2-sphere on the sign of a residual; sensors' places are public" in text
    assert "clip" not in text
    assert "distances tell least: the mean of u u' has the eigenvalue" in text
    assert "none is claimed with a motion model" in text
    assert "l2-sphere on the sign of a residual" in headline(file.mesh)


def test_tune_has_nothing_to_choose(tmp_path, capsys):
    path = written(tmp_path, public())
    with pytest.raises(SystemExit):
        main(["tune", str(path), "--synthetic"])
    assert 'curvature: "public": has no clip, step or size to tune' in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "json-lines", "parquet"])
def test_records_of_a_file_have_a_distance_and_no_feature(tmp_path, kind):
    """All kinds give the same releases; a line without a number is an empty slot."""
    distances = [1.9, 1.8, None, 1.7, 1.6, 1.8]
    (tmp_path / "a.csv").write_text(
        "at,distance\n" + "".join(f"{k},{d or ''}\n" for k, d in enumerate(distances))
    )
    rows = [{"at": k, "distance": distance} for k, distance in enumerate(distances)]
    (tmp_path / "a.json-lines").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    if kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet  # noqa: PLC0415 # an extra

        parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "a.parquet")

    def releases(kind):
        source = {
            "kind": kind,
            "path": f"a.{kind}",
            "schema": {"features": {}, "label": {"column": "distance"}},
        }
        tree = public(rounds=6) | {"nodes": {name: {"source": source} for name in PLACES}}
        local = LocalRun(mesh_parts(loaded(tmp_path, tree)))
        local.to_round(6)
        return [record.release.tobytes() for node in local.recorder.nodes.values() for record in node.records]

    assert releases(kind) == releases("csv")


def test_a_run_and_its_model_have_a_state(tmp_path):
    tree = public(rounds=300, target={"path": "circle", "speed": 0.02}, privacy={"mechanism": "none"})
    file = loaded(tmp_path, tree)
    result = run(file, rounds=300)
    model = run_model(file, result)
    write_model(tmp_path / "model", model)
    assert len(read_model(tmp_path / "model.npz").newest) == 4
    local = LocalRun(mesh_parts(file))
    local.to_round(300)
    decisions = local.recorder.decisions()[200:, :, :2]
    assert np.sqrt((decisions**2).sum(-1)) == pytest.approx(0.9, abs=0.15)  # the circle's radius
