"""Motion models in a mesh file: what is taken, each mistake in a line, and what stays as it was."""

import numpy as np
import pytest
import yaml

from mirrormesh import predict, read_model, run, run_model, write_model
from streams.cli.check import check
from streams.mesh.file import MeshFileError, load
from streams.mesh.mesh import Mesh
from streams.terminal.plan_text import facts
from tests.support.meshes.files import REMOVED, changed, loaded, with_value

MODEL = {"model": "constant-velocity", "dimensions": 2, "period": 0.1}
MOVING = {
    "dynamics": MODEL,
    "gains": [0.5, 0.1],
    "constraint": {"reach": {"position": 3, "speed": 0.5}},
    "step_size": {"rule": "constant", "a": 1},
}
BOX = {"box": {"lower": [-1, -1], "upper": [1, 1]}}


def moving(**mesh):
    return changed(algorithm=MOVING, **({"dimension": 4} | mesh))


A = "mesh.algorithm"
F = f"{A}.dynamics"
TIME = {"by": "time", "period": 0.2, "start": 0}
MISTAKES = [
    (F, {"matrix": [[1, 0], [0]]}, f"{F}.matrix: [[1, 0], [0]]: 2 rows of 1 or 2 numbers: must be square"),
    (F, {"matrix": [[1, 0, 0, 0]]}, "1 rows of 4 numbers: must be square"),
    (F, {"matrix": []}, "has 0 rows: must have from 1 to 192"),
    (F, {"matrix": [["x"]]}, "must be a number"),
    (F, {}, "must have either model or matrix"),
    (F, MODEL | {"matrix": [[1]]}, "must have either model or matrix"),
    (F, {"matrix": [[1]], "period": 1}, "is for a model, not for a matrix"),
    (f"{F}.model", "constant-speed", "must be constant-velocity or constant-acceleration"),
    (f"{F}.period", REMOVED, "period: missing: constant-velocity needs it, above 0"),
    (f"{F}.period", 0, "period: 0: must be above 0"),
    (f"{F}.dimensions", 0, "dimensions: 0: must be at least 1"),
    (f"{F}.dimensions", 3, "mesh.dimension: 4: must be 6, the dimension of the motion model's state"),
    ("mesh.dimension", 2, "mesh.dimension: 2: must be 4, the dimension of the motion model's state"),
    (F, REMOVED, "must not be given without dynamics"),
    (f"{A}.observes", [0, 4], "observes: [0, 4]: must be coordinates from 0 to 3"),
    (f"{A}.observes", [-1], "observes[0]: -1: must be at least 0"),
    (f"{A}.observes", [1, 1], "observes: [1, 1]: names a coordinate twice: every one once"),
    (f"{A}.observes", [], "must not be empty"),
    (f"{A}.observes", [0, 1, 2], "localisation is in the plane: the loss must see 2 coordinates, not 3"),
    (f"{A}.gains", [0, 0.1], "gains: [0, 0.1]: must be [k1, k2], 2 numbers above 0"),
    (f"{A}.gains", [-0.5, 0.1], "must be [k1, k2], 2 numbers above 0"),
    (f"{A}.gains", [0.5], "must be [k1, k2], 2 numbers above 0"),
    (f"{A}.gains", [1e-300, 1e300], "gains: [1e-300, 1e+300]: q has the smallest eigenvalue 0.0"),
    (f"{A}.gains", [1e300, 1e-300], "gains: [1e+300, 1e-300]: "),
    (f"{A}.gains", [0.5, 0.1, 0.1], "must be [k1, k2], 2 numbers above 0"),
    (f"{A}.gains", REMOVED, "gains: missing: nothing else moves a velocity: must be [k1, k2], 2"),
    (f"{A}.mirror_map", {"mahalanobis": [1, 1, 1, 1]}, "gains are the mirror map: must not be given"),
    (f"{A}.mirror_map", "entropy", "with dynamics there is no entropy: must be euclidean or mahalanobis"),
    (f"{A}.constraint", {"l2-ball": 3}, "bounds of their own: must be {reach: ...} or {box: ...}"),
    (f"{A}.constraint", {"linf-ball": 3}, "velocities need bounds of their own"),
    (f"{A}.constraint", {"box": {"lower": -3, "upper": 3}}, "velocities need bounds of their own: must be 4"),
    (f"{A}.constraint", BOX, "corner of 2 numbers: must be 1 or 4"),
    (f"{A}.constraint.reach.speed", 0, "reach.speed: 0: must be above 0"),
    (f"{A}.constraint.reach.speed", REMOVED, "reach.speed: missing: must be given"),
    (f"{A}.constraint.reach.acceleration", 1, "must have position, speed for constant-velocity"),
    (f"{A}.regulariser", 0.1, "regulariser: 0.1: with dynamics it would stop what moves: must be 0"),
    ("mesh.privacy.on", "parameters", "with dynamics noise is on gradients: must be gradient"),
    ("mesh.slots", TIME, "period: 0.1: must be 0.2, the period of the slots"),
]  # fmt: skip


def mistakes(folder, tree):
    file = folder / "mesh.yaml"
    file.write_text(yaml.safe_dump(tree))
    with pytest.raises(MeshFileError) as caught:
        load(file, {})
    return caught.value.lines


@pytest.mark.parametrize(("path", "value", "expected"), MISTAKES)
def test_a_mistake_is_one_line_that_says_what_is_allowed(tmp_path, path, value, expected):
    lines = mistakes(tmp_path, with_value(moving(), path, value))
    assert any(expected in line for line in lines), lines
    assert not any("\n" in line for line in lines)


def test_sparse_dola_is_refused_by_name(tmp_path):
    tree = changed(
        algorithm={"name": "sparse-dola", "lasso": 0.1, "constraint": {"l2-ball": 1}, "dynamics": MODEL}
    )
    (line,) = mistakes(tmp_path, tree | {"mesh": tree["mesh"] | {"loss": "hinge"}, "nodes": {}})
    assert "sparse-dola averages in the dual, which has no motion: must not be given" in line


def test_the_slots_period_fits(tmp_path):
    tree = moving(slots={"by": "time", "period": 0.1, "start": 0, "size": 1})
    assert Mesh(loaded(tmp_path, tree).mesh).algorithm.dynamics.by_time


@pytest.mark.parametrize("radius", [1.0, 1.2])
def test_a_model_that_grows_is_warned_of(tmp_path, capsys, radius):
    algorithm = {
        "dynamics": {"matrix": [[radius, 0.1], [0, 1]]},
        "constraint": {"box": {"lower": -1, "upper": 1}},
    }
    loaded(tmp_path, changed(algorithm=algorithm))
    check(tmp_path / "mesh.yaml")
    warned = "spectral radius 1.2: above 1, so states grow until the set holds them"
    assert (warned in capsys.readouterr().out) == (radius > 1)


def test_a_file_without_dynamics_has_the_digest_it_had(tmp_path):
    settings = loaded(tmp_path, changed()).mesh
    assert not {"dynamics", "observes", "gains", "reach"} & set(
        settings.agreed_text.replace('"', " ").split()
    )


def test_release_noise_and_bound_have_their_own_dimensions(tmp_path):
    still, mesh = Mesh(loaded(tmp_path, changed()).mesh), Mesh(loaded(tmp_path, moving()).mesh)
    node, other = mesh.node("a"), still.node("a")
    assert node.expected.dimension == 4  # messages are whole states
    assert node.mechanism.dimension == other.mechanism.dimension == 2
    assert node.mechanism.noise_scale(1) == other.mechanism.noise_scale(1)
    assert node.noise_length(1) == other.noise_length(1)
    assert node.guarantee == other.guarantee
    assert node.ledger.spent(5, 5) == other.ledger.spent(5, 5)
    assert node.price == other.price
    assert node.expected.bound == pytest.approx(np.hypot(3 * 2**0.5, 0.5 * 2**0.5))


def test_plan_claims_no_bound_and_names_what_is_seen(tmp_path):
    file = loaded(tmp_path, moving())
    told = list(facts(file, None, 0.0))
    words = dict(told)
    assert words["bound"].startswith("none is claimed with a motion model")
    assert "printed" not in words
    assert words["motion"] == "constant-velocity in 2, period 0.1; public, and the same at every node"
    part = "the loss sees coordinates 0, 1 of 4: gradients, clip and noise have 2"
    assert ("", part) in told
    assert "dimension 4 (the loss sees 2)" in words["mesh"]


def test_a_model_of_a_state_predicts_with_what_the_loss_sees(tmp_path):
    (tmp_path / "a.csv").write_text("u,v,y\n1,2,3\n0.5,-1,0\n1,1,1\n")
    schema = {"features": {"u": "number", "v": "number"}, "label": {"column": "y"}}
    source = {"kind": "csv", "path": "a.csv", "schema": schema}
    algorithm = {
        "dynamics": {"matrix": [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]},
        "observes": [2, 0],
        "constraint": {"box": {"lower": -1, "upper": 1}},
        "x_1": [0.5, 0.25, -0.5],
    }
    tree = changed(algorithm=algorithm, dimension=3, loss="squared", nodes=["a"], rounds=3)
    file = loaded(tmp_path, tree | {"nodes": {"a": {"source": source}}})
    outcome = run(file)
    _, model = write_model(tmp_path / "model", run_model(file, outcome.summary))
    read = read_model(model)
    assert (read.dimension, read.observes) == (3, (2, 0))
    _, k, _ = average = outcome.summary.average
    assert read.average == average
    assert k == 0.25  # F moves what nobody sees as well: the second coordinate stays, and pushes the first
    said = predict(model, str(tmp_path / "a.csv"), vector="average").records
    assert [one for _, one in said] == pytest.approx([average[2] * u + average[0] * v for u, v in ROWS])


ROWS = [(1, 2), (0.5, -1), (1, 1)]
