"""The loss in the mesh file: what is agreed on, and whether labels and dimension fit it."""

import itertools
from copy import deepcopy

import pytest
import yaml

from streams.mesh.file import MeshFileError, load
from streams.mesh.settings.mesh import MeshSettings

TREE = {
    "mesh": {
        "name": "small",
        "run": "run-1",
        "nodes": ["a", "b"],
        "dimension": 6,
        "algorithm": {
            "name": "dpdo-nc",
            "constraint": {"l2-ball": 3},
            "step_size": {"rule": "inverse-sqrt", "a": 0.5},
        },
        "loss": {"softmax": 3},
        "slots": {"by": "count", "size": 4},
        "privacy": {"mechanism": "laplace", "epsilon": 1, "gradient_bound": 0.5},
        "topology": {"graph": "ring"},
    },
    "nodes": {
        "a": {
            "source": {
                "kind": "csv",
                "path": "a.csv",
                "schema": {
                    "features": {"x": "number"},
                    "intercept": True,
                    "label": {"column": "kind", "classes": ["oak", "ash", "elm"]},
                },
            },
        },
    },
}


def mistakes(folder, change):
    tree = deepcopy(TREE)
    change(tree["mesh"], tree["nodes"]["a"]["source"]["schema"])
    (folder / "mesh.yaml").write_text(yaml.safe_dump(tree))
    try:
        load(folder / "mesh.yaml", {})
    except MeshFileError as error:
        return [line.removeprefix(f"{folder}/mesh.yaml: ") for line in error.lines]
    return []


def test_softmax_is_right_where_the_numbers_fit(tmp_path):
    assert mistakes(tmp_path, lambda mesh, schema: mesh.update(class_weights=[1, 2.5, 10])) == []


PATH = "nodes.a.source.schema"
MISTAKES = {
    "classes": (
        lambda mesh, schema: schema["label"].update(classes=["oak", "ash"]),
        f"{PATH}.label.classes: 2 classes: must be 3, for loss softmax (3 classes)",
    ),
    "no classes": (
        lambda mesh, schema: schema.update(label={"column": "kind"}),
        f"{PATH}.label: must have classes, 3 of them, for loss softmax (3 classes)",
    ),
    "dimension": (
        lambda mesh, schema: mesh.update(dimension=4),
        f"mesh.dimension: 4: must be 6: 3 classes of 2 features ({PATH})",
    ),
    "weights": (
        lambda mesh, schema: mesh.update(class_weights=[1, 2]),
        "mesh.class_weights: [1, 2]: must be 3 numbers, one a class",
    ),
    "weights of two": (
        lambda mesh, schema: (
            mesh.update(loss="hinge", dimension=2, class_weights=[1]),
            schema.update(label={"column": "kind", "positive": "oak"}),
        ),
        "mesh.class_weights: [1]: must be [negative, positive]",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_does_not_fit_is_told(tmp_path, name):
    change, line = MISTAKES[name]
    assert mistakes(tmp_path, change) == [line]


def settings(**changes):
    return MeshSettings.model_validate(TREE["mesh"] | changes)


def test_the_words_stand_in_the_digest_as_ever():
    for word in ("range", "hinge", "logistic", "squared"):
        agreed = settings(loss=word).agreed
        assert agreed["loss"] == word
        assert "class_weights" not in agreed
    assert settings().agreed["loss"] == {"softmax": 3}


def test_every_other_loss_has_another_digest():
    losses = [
        {"loss": "hinge"},
        {"loss": "hinge", "class_weights": [1, 2]},
        {"loss": "hinge", "class_weights": [2, 1]},
        {"loss": {"softmax": 2}},
        {"loss": {"softmax": 3}},
        {"loss": {"own": "one:Loss"}},
        {"loss": {"own": "two:Loss"}},
    ]
    for one, other in itertools.combinations(losses, 2):
        assert settings(**one).digest() != settings(**other).digest()
        assert settings(**one).digest() == settings(**one).digest()
