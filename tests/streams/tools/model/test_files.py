"""A model file comes back whole, or is refused in a line, whatever has happened to it."""

import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.mesh.errors import MeshFileError
from streams.mesh.model_file import Model, read_model
from streams.tools.model.writing import write_model

MODEL = {
    "format": 1,
    "mesh": "m",
    "run": "run-1",
    "round": 7,
    "nodes": 2,
    "rounds": 6,
    "averaged": "of a test",
    "algorithm": "dola",
    "loss": "hinge",
    "dimension": 3,
    "source": {"kind": "json-lines", "schema": {"features": {"x": "number"}, "label": {"column": "y"}}},
    "guarantee": {"adjacency": "event", "epsilon": 0.1, "delta": 0.0, "nodes": {"a": "All is well."}},
    "newest": [0.1, -1e-300, 3.0],
    "average": [1 / 3, 5e300, 0.0],
}
reals = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=40)
@given(st.lists(st.tuples(reals, reals), min_size=1, max_size=5))
def test_every_bit_comes_back_from_either_file(rows):
    newest, average = zip(*rows, strict=True)
    model = Model.model_validate(MODEL | {"newest": newest, "average": average, "dimension": len(rows)})
    with TemporaryDirectory() as folder:
        paths = write_model(Path(folder) / "m", model)
        assert [path.name for path in paths] == ["m.npz", "m.json"]
        for path in paths:
            back = read_model(path)
            assert back == model
            assert np.array(back.average).tobytes() == np.array(average).tobytes()
        assert len(list(Path(folder).iterdir())) == 2


def test_a_name_with_dots_is_kept(tmp_path):
    arrays, text = write_model(tmp_path / "v1.5", Model.model_validate(MODEL))
    assert (arrays.name, text.name) == ("v1.5.npz", "v1.5.json")


def changed(**changes):
    return json.dumps({key: value for key, value in (MODEL | changes).items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (changed(format=2), "format: 2: is of another version: must be 1"),
        (changed(format=...), "is no model"),
        ("[]", "is no model"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        (changed(dimension=4), "dimension: 4: newest has 3 numbers"),
        (changed(average=[1.0]), "dimension: 3: average has 1 numbers"),
        (changed(newest=[0.0, float("nan"), 0.0]), "newest[1]: NaN: must be finite"),
        (changed(newest=[0.0, float("inf"), 0.0]), "newest[1]: Infinity: must be finite"),
        (changed(newest="abc"), "newest: "),
        (changed(average=...), "average: missing"),
        (changed(loss=...), "loss: missing"),
        (changed(more=1), "more: 1: unknown key"),
        (changed(guarantee=1.0), "guarantee: 1.0: must be a mapping"),
    ],
    ids=[
        *("version", "no version", "list", "half", "deep", "dimension", "average", "nan", "infinite"),
        *("text", "no average", "no loss", "more", "guarantee"),
    ],
)
def test_what_is_no_model_is_refused_in_a_line(tmp_path, text, said):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(MeshFileError) as refused:
        read_model(path)
    (line,) = refused.value.lines
    assert line.startswith(f"{path}: {said}")
    assert len(line) < 400


def arrays_of(tmp_path):
    return write_model(tmp_path / "m", Model.model_validate(MODEL))[0]


def test_an_npz_file_of_another_kind_is_refused(tmp_path):
    path = arrays_of(tmp_path)
    np.savez(path, newest=np.zeros(3))
    with pytest.raises(MeshFileError, match="no npz file"):
        read_model(path)
    np.savez(path, about=np.array({"pickled": True}, dtype=object), newest=np.zeros(3), average=np.zeros(3))
    with pytest.raises(MeshFileError, match="no npz file"):
        read_model(path)
    tree = {key: value for key, value in MODEL.items() if key not in {"newest", "average"}}
    vectors = {"newest": np.zeros(3), "average": np.array([0.0, np.nan, 0.0])}
    np.savez(path, about=np.array(json.dumps(tree)), **vectors)
    with pytest.raises(MeshFileError, match=r"average\[1\]: NaN: must be finite"):
        read_model(path)
    np.savez(path, about=np.array(json.dumps(tree | {"format": 9})), **vectors)
    with pytest.raises(MeshFileError, match="format: 9: is of another version"):
        read_model(path)


@pytest.mark.parametrize("kind", ["npz", "json"])
def test_a_damaged_file_is_refused_or_as_it_was_and_nothing_else(tmp_path, kind):
    write_model(tmp_path / "m", Model.model_validate(MODEL))
    path = tmp_path / f"m.{kind}"
    whole, good = path.read_bytes(), read_model(path)
    chance = np.random.Generator(np.random.Philox(3))
    kept = 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[int(chance.integers(len(whole)))] ^= 1 << int(chance.integers(8))
        path.write_bytes(damaged)
        with suppress(MeshFileError):
            kept += read_model(path) == good
    assert kept < 390
    for end in range(0, len(whole) - 1, 37):
        path.write_bytes(whole[:end])
        with pytest.raises(MeshFileError):
            read_model(path)
