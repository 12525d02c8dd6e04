"""A mesh file that begins where a model has ended: by its numbers, which all parties must have alike."""

import numpy as np
import pytest

from streams.local.run import LocalRun, mesh_parts
from streams.mesh.errors import MeshFileError
from streams.mesh.model_file import Model
from streams.tools.model.writing import write_model
from tests.streams.tools.model.test_files import MODEL
from tests.support.meshes.files import changed, loaded

NEWEST, AVERAGE = [0.5, -0.25], [1 / 3, 0.125]


def model_in(folder, **changes):
    folder.mkdir(exist_ok=True)
    given = MODEL | {"dimension": 2, "newest": NEWEST, "average": AVERAGE} | changes
    write_model(folder / "prior", Model.model_validate(given))


def mesh(folder, x_1, **other):
    return loaded(folder, changed(algorithm={"x_1": x_1}, **other))


@pytest.mark.parametrize(
    ("x_1", "numbers"),
    [
        ({"model": "models/prior.json"}, AVERAGE),
        ({"model": "models/prior.npz", "vector": "newest"}, NEWEST),
        ({"model": "models/prior.json", "vector": "average"}, AVERAGE),
    ],
    ids=["json", "npz newest", "average"],
)
def test_a_model_is_where_every_node_starts(tmp_path, x_1, numbers):
    model_in(tmp_path / "models")
    file = mesh(tmp_path, x_1, rounds=3)
    assert file.resolved.algorithm.start.tolist() == numbers
    assert file.digest() == mesh(tmp_path, numbers, rounds=3).digest()
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    np.testing.assert_allclose(local.recorder.nodes["a"].decisions[0], numbers, rtol=1e-15)


def test_parties_with_other_files_have_other_digests(tmp_path):
    model_in(tmp_path / "models")
    one = mesh(tmp_path, {"model": "models/prior.json"}).digest()
    model_in(tmp_path / "models", average=[1 / 3, np.nextafter(0.125, 1.0)])
    assert mesh(tmp_path, {"model": "models/prior.json"}).digest() != one


@pytest.mark.parametrize(
    ("x_1", "changes", "said"),
    [
        ({"model": "gone.json"}, {}, 'x_1.model: "gone.json": must be a model file: .*No such file'),
        ({"model": "models/\0"}, {}, "x_1.model: .*must be a model file: .*no path of a file"),
        ({"model": "mesh.yaml"}, {}, "x_1.model: .*is not JSON"),
        ({"model": "models/prior.json", "vector": "last"}, {}, "x_1.vector: .*must be average or newest"),
        ({"vector": "newest"}, {}, "x_1.model: missing"),
        (
            {"model": "models/prior.json"},
            {"dimension": 3, "newest": [0.0] * 3, "average": [0.0] * 3},
            r"x_1 has shape \(3,\): must be \(2,\)",
        ),
        ({"model": "models/prior.json"}, {"average": [9.0, 9.0]}, "must be in the"),
    ],
    ids=["gone", "no path", "no model", "vector", "no model named", "dimension", "outside"],
)
def test_mistakes_are_told_in_a_line(tmp_path, x_1, changes, said):
    model_in(tmp_path / "models", **changes)
    with pytest.raises(MeshFileError, match=said) as refused:
        mesh(tmp_path, x_1)
    (line,) = refused.value.lines
    assert line.startswith(f"{tmp_path}/mesh.yaml: mesh.algorithm")
