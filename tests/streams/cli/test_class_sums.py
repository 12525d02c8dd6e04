"""Class sums and moments in a mesh file: what goes with them, what is refused in one line, what is agreed."""

import json

import numpy as np
import pytest
import yaml

from nodes.discriminant import NearestMean, RidgeDiscriminant
from nodes.privacy.features import ClassSums, Moments
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.errors import MeshFileError
from streams.mesh.file import load
from tests.support.meshes.classes import CORRELATED, MOMENTS, NODES, SUMS, rows_of, tree_of
from tests.support.meshes.files import loaded, with_value

FORMS = {"moments": MOMENTS, "class-sums": SUMS}


def privacy(mechanism: str, **changes):
    return {"mechanism": mechanism, "epsilon": 1, "noise": "simulated"} | changes


REFUSED = [
    (
        "moments",
        "mesh.privacy",
        privacy("laplace"),
        "mesh.privacy.mechanism: moments is a sum: must be gaussian,",
    ),
    (
        "class-sums",
        "mesh.privacy",
        privacy("l2-sphere"),
        "mechanism: class-sums is a sum: must be laplace, gauss",
    ),
    (
        "class-sums",
        "mesh.privacy.gradient_bound",
        1.0,
        "gradient_bound: class-sums clips no gradient: must not",
    ),
    (
        "class-sums",
        "mesh.privacy.epsilon",
        {"total": 9, "rounds": 3, "schedule": "growing"},
        "epsilon.schedule: must be uniform",
    ),
    (
        "moments",
        "mesh.algorithm.step_size",
        {"rule": "constant", "a": 1},
        "step_size: moments has no such setting",
    ),
    (
        "moments",
        "mesh.algorithm.constraint",
        {"l2-ball": 1},
        "constraint: moments has no such setting: must not",
    ),
    (
        "moments",
        "mesh.algorithm.regulariser",
        0.1,
        "regulariser: moments has no such setting: must not be given",
    ),
    ("moments", "mesh.algorithm.entries", 3, "entries: is for class-sums, not for moments"),
    ("class-sums", "mesh.algorithm.kappa", 3, "kappa: is for moments, not for class-sums"),
    ("moments", "mesh.algorithm.kappa", 0, "mesh.algorithm.kappa: must be at least 0.01"),
    ("moments", "mesh.loss", "squared", "mesh.loss: moments tells classes apart: must be hinge or logistic"),
    ("moments", "mesh.loss", {"softmax": 3}, "moments tells classes apart: must be hinge or logistic"),
    (
        "class-sums",
        "mesh.loss",
        {"softmax": 2},
        "mesh.loss: must be hinge or logistic, or softmax of three classes or more",
    ),
    ("class-sums", "mesh.loss", {"own": "a:B"}, "mesh.loss: class-sums tells classes apart"),
    ("moments", "mesh.class_weights", [1, 2], "class_weights: moments has each class by itself: must not be"),
    ("moments", "mesh.dimension", 201, "mesh.dimension: moments takes up to 200 features, not 201"),
    (
        "class-sums",
        "mesh.dimension",
        10_001,
        "mesh.dimension: class-sums takes up to 10,000 features, not 10,001",
    ),
    (
        "moments",
        "mesh.nodes",
        {"a": {}, "b": {"epsilon": 2}},
        "nodes.b: moments is one mean of all nodes: all mus",
    ),
    ("moments", "mesh.algorithm.dynamics", {"matrix": [[1]]}, "dynamics: moments has no such setting"),
    (
        "moments",
        "nodes.a.source",
        {"kind": "libsvm", "path": "a.txt", "label": {"positive": 1}},
        "source.kind: moments takes no sparse rec",
    ),
    ("class-sums", "mesh.algorithm.name", "dola", "mesh.algorithm.constraint: missing: must be given"),
]


def lines_of(folder, tree):
    (folder / "mesh.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(MeshFileError) as caught:
        load(folder / "mesh.yaml", {})
    return caught.value.lines


@pytest.mark.parametrize(("form", "path", "value", "expected"), REFUSED)
def test_what_does_not_go_with_them_is_one_line(tmp_path, form, path, value, expected) -> None:
    tree = with_value(tree_of(tmp_path, FORMS[form]), path, value)
    if path == "mesh.nodes":
        tree["nodes"] = {name: tree["nodes"][name] for name in "ab"}
    place, text = expected.split(": ", 1)
    lines = lines_of(tmp_path, tree)
    assert any(f"{place}: " in line and text in line for line in lines), lines


def test_others_still_need_a_set_a_step_and_a_clip(tmp_path) -> None:
    tree = tree_of(tmp_path, {"algorithm": {"name": "dola"}, "privacy": privacy("laplace")})
    (line,) = lines_of(tmp_path, tree)
    assert "mesh.algorithm.constraint: missing: must be given" in line
    tree["mesh"]["algorithm"] |= {"constraint": {"l2-ball": 1}, "step_size": {"rule": "constant", "a": 1}}
    (line,) = lines_of(tmp_path, tree)
    assert "mesh.privacy.gradient_bound: missing: must be given" in line


def test_many_numbers_take_few_bands(tmp_path) -> None:
    form = CORRELATED | {"privacy": CORRELATED["privacy"] | {"bands": 17}}
    loaded(tmp_path, tree_of(tmp_path, form, dimension=3))
    tree = tree_of(tmp_path, form, dimension=100)  # 5,252 numbers
    assert any("mesh.privacy.bands: 17: must be at most 16" in line for line in lines_of(tmp_path, tree))


def test_settings_make_the_features_and_the_map(tmp_path) -> None:
    moments = loaded(tmp_path, tree_of(tmp_path, MOMENTS)).resolved
    assert moments.node("a").mechanism.features == Moments(3, 3.0)
    assert moments.algorithm.decide_by == RidgeDiscriminant(3, 3.0)
    sums = {"algorithm": {"name": "class-sums", "entries": 2, "signed": True}}
    classes = loaded(tmp_path, tree_of(tmp_path, SUMS | sums)).resolved
    assert classes.node("a").mechanism.features == ClassSums(3, 2, "l1", 2, signed=True)
    assert classes.algorithm.decide_by == NearestMean(3, 2)


def test_an_intercept_outside_the_norm_holds_the_cut(tmp_path) -> None:
    tree = tree_of(tmp_path, MOMENTS | {"privacy": {"mechanism": "none", "norm": "l2"}})
    schema = tree["nodes"]["a"]["source"]["schema"] | {"intercept": "outside"}
    for own in tree["nodes"].values():
        del own["source"]["schema"]
    del tree["mesh"]["dimension"]
    tree["mesh"]["features"] = schema
    mesh = loaded(tmp_path, tree)
    assert (mesh.mesh.dimension, mesh.mesh.columns, mesh.mesh.release_dimension) == (4, 3, 14)
    local = LocalRun(mesh_parts(mesh))
    local.mesh.run()
    local.mesh.close()
    decision = local.recorder.decisions()[-1, 0]
    records = np.array([row for name in NODES for row in rows_of(name, 60)])
    margins = records[:, :3] @ decision[:3] + decision[3] / 3
    assert abs((margins > 0).mean() - records[:, 3].mean()) < 0.1  # as many as there are
    assert ((margins > 0) == records[:, 3]).mean() > 0.85
    tree["mesh"]["features"] = schema | {"intercept": True}
    (line,) = lines_of(tmp_path, tree)
    assert "features.intercept: moments has rows of their own norm: must be outside, or not be" in line


def test_an_intercept_is_of_all_or_of_none(tmp_path) -> None:
    tree = tree_of(tmp_path, MOMENTS, dimension=4)
    for own in tree["nodes"].values():
        own["source"]["schema"] = own["source"]["schema"] | {"intercept": "outside"}
    lines = lines_of(tmp_path, tree)
    assert "schema.intercept" in lines[0]
    assert "moments has it in common alone: must be in mesh.features, or not be given" in lines[0]


def test_all_that_makes_a_release_is_agreed(tmp_path) -> None:
    digests = set()
    for changes in ({}, {"kappa": 2}, {"signed": True}, {"name": "class-sums"}):
        form = MOMENTS | {"algorithm": MOMENTS["algorithm"] | changes}
        digests.add(loaded(tmp_path, tree_of(tmp_path, form)).digest())
    assert len(digests) == 4


@pytest.mark.parametrize("form", FORMS)
def test_a_price_names_the_sums_and_no_clip(tmp_path, form) -> None:
    settings = dict(loaded(tmp_path, tree_of(tmp_path, FORMS[form])).resolved.price("a").settings)
    assert settings["algorithm"] == form
    assert "gradient_bound" not in settings


@pytest.mark.parametrize("form", FORMS)
def test_regret_is_not_shown(call, tmp_path, form) -> None:
    (tmp_path / "mesh.yaml").write_text(yaml.safe_dump(tree_of(tmp_path, FORMS[form])))
    done = call("run", "mesh.yaml", "--output", "out")
    assert done.code == 0, done.out
    assert "egret" not in done.out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [node["regret_per_round"] for node in summary["nodes"]] == [None] * 4
    assert summary["network_regret"] is None
    header = (tmp_path / "out" / "rounds.csv").read_text().splitlines()[0]
    assert header == "round,node,decision_1,decision_2,decision_3,gap,epsilon_spent"
    planned = call("plan", "mesh.yaml")
    assert f"{form} minimises no loss, so there is no regret" in planned.out
    assert "gradient" not in planned.out
    refused = call("tune", "mesh.yaml", "--synthetic")
    assert f'mesh.algorithm.name: "{form}": has no clip, step or size to tune' in refused.err
