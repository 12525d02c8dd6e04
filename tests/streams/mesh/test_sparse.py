"""Sparse sources and Sparse DOLA in a mesh file: what they mean, and every mistake in one line."""

import numpy as np
import pytest

from nodes.algorithms import SparseDola
from nodes.sparse import SparseRows
from nodes.values import Observations
from streams.mesh.file import MeshFileError, load
from streams.mesh.mesh import Mesh
from streams.mesh.plugins import Code
from streams.mesh.settings.mesh import MeshSettings
from tests.support.meshes.files import REMOVED, code_in, with_value, written
from tests.support.meshes.sparse import CSR, MESH, sparse_mesh

LIBSVM = {"kind": "libsvm", "path": "rows.txt", "label": {"positive": 1}}
BASE = {"mesh": MESH, "nodes": {"a": {"source": LIBSVM}, "b": {"source": CSR}}}
TIMES = {"by": "time", "period": 1, "start": 0}
MISTAKES = [
    (
        "mesh.algorithm.lasso",
        REMOVED,
        "mesh.algorithm.lasso: missing: sparse-dola needs rho, a number of at l",
    ),
    ("mesh.algorithm.lasso", -1, "mesh.algorithm.lasso: -1: must be at least 0"),
    ("mesh.algorithm.lasso", "x", 'mesh.algorithm.lasso: "x": must be a number'),
    ("mesh.algorithm.name", "dola", "mesh.algorithm.lasso: 0.1: is for sparse-dola, not for dola"),
    (
        "mesh.algorithm.mirror_map",
        "entropy",
        'mirror_map: "entropy": sparse-dola averages in the dual: must be',
    ),
    (
        "mesh.algorithm.constraint",
        {"l1-ball": 1},
        'constraint: {"l1-ball": 1}: sparse-dola keeps its dual st',
    ),
    ("mesh.algorithm.constraint", "simplex", "must be {l2-ball: ...}"),
    (
        "mesh.algorithm.x_1",
        [0, 0, 0, 0, 0],
        "mesh.algorithm.x_1: [0, 0, 0, 0, 0]: sparse-dola starts at 0: m",
    ),
    (
        "mesh.algorithm.regulariser",
        0.5,
        "mesh.algorithm.regulariser: 0.5: sparse-dola has lasso in its place",
    ),
    ("mesh.algorithm.gradient_at", "consensus", "sparse-dola has its gradients at the decision: must be dec"),
    ("mesh.loss", "range", 'nodes.a.source.kind: "libsvm": makes sparse records, and loss range takes none'),
    (
        "mesh.loss",
        {"softmax": 2},
        "makes sparse records, and loss softmax (2 classes) takes none: must be csv",
    ),
    (
        "mesh.loss",
        {"own": "nodes.losses.losses:Hinge"},
        'b.source.kind: "csr": makes sparse records, and loss own (',
    ),
    ("mesh.loss", {"huber": 1}, "nodes.a.source.label: must be a number, for loss huber (1)"),
    ("mesh.loss", "squared", "nodes.a.source.label: must be a number, for loss squared (the same in b"),
    (
        "mesh.slots",
        TIMES,
        'nodes.b.source.kind: "csr": has no times: must be csv, json-lines or localisation',
    ),
    (
        "nodes.a.source.label",
        REMOVED,
        "nodes.a.source.label: must say which labels are positive, for loss hin",
    ),
    ("nodes.a.source.label", {"negative": 0}, "nodes.a.source.label.negative: 0: goes with positive"),
    ("nodes.a.source.label", {"positive": 1, "negative": [0, 1]}, "1 is both positive and negative"),
    ("nodes.a.source.label", {"positive": "spam"}, 'source.label.positive: "spam": must be a'),
    ("nodes.a.source.label", {"positive": []}, "nodes.a.source.label.positive: []: must not be empty"),
    ("nodes.a.source.index_base", 2, "nodes.a.source.index_base: 2: must be 0 or 1"),
    ("nodes.a.source.norm", 0, "nodes.a.source.norm: 0: must be above 0"),
    ("nodes.a.source.schema", {}, "nodes.a.source.schema: {}: unknown key: must be one of path, label, norm"),
    (
        "nodes.a.source",
        LIBSVM | {"path": "-", "shuffle": True},
        "source.shuffle: true: standard input cannot",
    ),
    ("nodes.a.source.path", "${NOWHERE}/x", 'path: "${NOWHERE}/x": the environment has no variable NOWHERE'),
    (
        "nodes.b.source.path",
        "-",
        'nodes.b.source.path: "-": must be the path of an .npz file, not standard in',
    ),
    ("nodes.b.source.rows", [3, 3], "nodes.b.source.rows: [3, 3]: must be [first, end], 0 <= first < end"),
    ("nodes.b.source.rows", [0], "nodes.b.source.rows[1]: missing: must be given"),
    ("nodes.b.source", CSR | {"rows": [0, 3], "split": 1}, "nodes.b.source.split: 1: goes without rows"),
    ("nodes.b.source.index_base", 0, "nodes.b.source.index_base: 0: unknown key"),
    (
        "held_out",
        {"kind": "localisation"},
        'held_out.kind: "localisation": must be csv or json-lines or parq',
    ),
    (
        "held_out",
        {"path": "x"},
        "held_out.kind: missing: must be csv or json-lines or parquet or libsvm or csr",
    ),
    (
        "held_out",
        LIBSVM | {"label": {}},
        "held_out.label: must say which labels are positive, for loss hinge",
    ),
]


@pytest.mark.parametrize(("path", "value", "expected"), MISTAKES)
def test_a_mistake_is_one_line_that_says_what_is_allowed(tmp_path, path, value, expected):
    written(tmp_path, with_value(BASE, path, value))
    with pytest.raises(MeshFileError) as caught:
        load(tmp_path / "mesh.yaml", {})
    assert any(expected in line for line in caught.value.lines), caught.value.lines
    assert all(line.startswith(f"{tmp_path}/mesh.yaml: ") and "\n" not in line for line in caught.value.lines)


def test_the_algorithm_that_is_meant(tmp_path):
    made = sparse_mesh(tmp_path, LIBSVM, held_out=CSR).resolved.algorithm
    assert isinstance(made, SparseDola)
    assert (made.dimension, made.reach, made.lasso, made.step_size(4)) == (5, 2.0, 0.1, 0.25)


def test_rho_is_agreed_on_and_other_algorithms_have_the_digest_that_they_had():
    mesh = MeshSettings.model_validate(MESH)
    other = mesh.model_copy(update={"algorithm": mesh.algorithm.model_copy(update={"lasso": 0.2})})
    assert mesh.digest() != other.digest()
    algorithm = {key: value for key, value in MESH["algorithm"].items() if key != "lasso"} | {"name": "dola"}
    assert "lasso" not in MeshSettings.model_validate(MESH | {"algorithm": algorithm}).agreed["algorithm"]


LOSSES = ["range", "hinge", "logistic", "squared", "absolute", "linear"]
LOSSES += [{"huber": 1}, {"softmax": 3}, {"own": "nodes.losses.losses:Hinge"}]


@pytest.mark.parametrize("written", LOSSES, ids=str)
def test_a_loss_that_takes_sparse_records_makes_sparse_gradients_of_them(written):
    mesh = MeshSettings.model_validate(MESH | {"dimension": 6, "loss": written})
    code = Code.of("", code_in(written))
    made = Mesh(mesh, code=code).loss
    features = SparseRows([0, 1], [1], [0.5], 2 if "softmax" in written else 6)
    gradients = made.gradients(np.ones(6), Observations(features, np.ones(1), np.ones(1, np.bool_)))
    assert isinstance(gradients, SparseRows) == mesh.loss.takes_sparse


def test_paths_may_come_from_the_environment(tmp_path):
    written(tmp_path, with_value(BASE, "nodes.a.source.path", "${HERE}/rows-${KIND}.txt"))
    there = load(tmp_path / "mesh.yaml", {"HERE": "/data", "KIND": "a"}).nodes["a"].source.path
    assert there == "/data/rows-a.txt"
    beside = load(tmp_path / "mesh.yaml", {"HERE": "data", "KIND": "a"}).nodes["a"].source.path
    assert beside == str(tmp_path / "data" / "rows-a.txt")


MECHANISMS = ["laplace", "gaussian", "gaussian-bisr", "l2-sphere", "laplace-parameters"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_goes_with_it(tmp_path, mechanism):
    privacy = {"mechanism": mechanism, "noise": "simulated", "epsilon": 1, "gradient_bound": 1}
    if mechanism.startswith("gaussian"):
        privacy["delta"] = 1e-6
    if mechanism == "laplace-parameters":
        privacy |= {"mechanism": "laplace", "on": "parameters", "norm": "l2"}
    slots = {"by": "count", "size": 1}
    mesh = sparse_mesh(tmp_path, LIBSVM, privacy=privacy, slots=slots).mesh
    learner = Mesh(mesh).node("a").learner
    assert learner.release_bound >= 2.0
    assert np.count_nonzero(learner.algorithm.start) == 0
