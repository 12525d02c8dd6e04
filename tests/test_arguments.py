"""Every function of `mirrormesh`, called with wrong arguments: each is one line that names the argument."""

from pathlib import Path

import numpy as np
import pytest

import mirrormesh
from mirrormesh import UsageError
from nodes.losses.losses import Logistic

FILE = mirrormesh.load(str(mirrormesh.example_mesh("tracking.yaml")))
OUTCOME = mirrormesh.run(FILE, rounds=np.int64(2), seed=1)
LENDING = mirrormesh.example_mesh("lending.yaml")
NODE = next(iter(FILE.mesh.nodes))
NO_PATHS = (None, 3, b"a", "", ["a.yaml"], True)
NO_FILES = ("mesh.yaml", Path("mesh.yaml"), None, 3)

WRONG = {
    "load": [
        *(("path", (value,), {}) for value in NO_PATHS),
        ("environment", ("a.yaml", "PATH"), {}),
        ("code", ("a.yaml",), {"code": "module:Loss"}),
        ("code", ("a.yaml",), {"code": [3]}),
    ],
    "load_collaboration": [("path", (value,), {}) for value in NO_PATHS],
    "example_mesh": [("name", (value,), {}) for value in (*NO_PATHS, "nobody.yaml")],
    "run": [
        *(("file", (value,), {}) for value in NO_FILES),
        *(("rounds", (FILE,), {"rounds": value}) for value in ("10", 0, 1.5, True, [])),
        *(("seed", (FILE,), {"seed": value}) for value in ("a", -1, 0.5)),
        *(("state", (FILE,), {"state": value}) for value in NO_PATHS[1:]),
        *(("other_data", (FILE,), {"other_data": value}) for value in (True, "yes", 1, None)),
        *(("records", (FILE,), {"records": value}) for value in ("a.csv", [1], {3: {}})),
    ],
    "run_model": [
        *(("file", (value, OUTCOME), {}) for value in NO_FILES),
        *(("result", (FILE, value), {}) for value in (None, "model", {})),
    ],
    "write_model": [
        *(("prefix", (value, mirrormesh.run_model(FILE, OUTCOME)), {}) for value in NO_PATHS),
        *(("model", ("model", value), {}) for value in (None, "m.json", OUTCOME)),
    ],
    "read_model": [("path", (value,), {}) for value in NO_PATHS],
    "predict": [
        *(("model", (value, "a.csv"), {}) for value in NO_PATHS),
        *(("records", ("m.json", value), {}) for value in NO_PATHS),
        *(("vector", ("m.json", "a.csv", value), {}) for value in ("last", None, 3)),
        *(("mesh", ("MODEL", "a.csv"), {"mesh": value}) for value in (FILE, (FILE,), (FILE, 3), ("a", NODE))),
        *(("id_column", ("m.json", "a.csv"), {"id_column": value}) for value in (3, ["id"])),
        *(("threshold", ("m.json", "a.csv"), {"threshold": value}) for value in ("0.5", True)),
    ],
    "unread_records": [
        *(("file", (value,), {}) for value in (*NO_FILES, mirrormesh.load_collaboration(LENDING))),
        *(("names", (FILE, value), {}) for value in (NODE, 3, [NODE, "nobody"], [None])),
    ],
    "promise": [
        *(("file", (value, NODE), {}) for value in NO_FILES),
        *(("name", (FILE, value), {}) for value in (None, 3, [NODE], "", "nobody")),
    ],
    "budget": [
        *(("file", (value, NODE), {}) for value in NO_FILES),
        *(("node", (FILE, value), {}) for value in (None, 3, "", "nobody")),
        ("node", (mirrormesh.load_collaboration(LENDING), "nobody"), {}),
        *(("state", (FILE, NODE, value), {}) for value in NO_PATHS[1:]),
    ],
    "forecast": [
        *(("mesh", (value,), {"synthetic": True}) for value in (None, 3, FILE)),
        *(("pilot", (LENDING,), {"pilot": value}) for value in NO_PATHS[1:]),
        *(("constants", (LENDING,), {"constants": value}) for value in NO_PATHS[1:]),
        *(("synthetic", (LENDING,), {"synthetic": value}) for value in ("yes", 1, None)),
        *(("seed", (LENDING,), {"synthetic": True, "seed": value}) for value in ("a", -1, None)),
        ("what_if", (str(LENDING),), {"synthetic": True, "what_if": "a.epsilon=2"}),
    ],
    "check_loss": [
        *(("loss", (value, 2), {}) for value in (None, "hinge", 3)),
        *(("dimension", (Logistic(), value), {}) for value in ("2", 0, 1.5, None)),
        *(("width", (Logistic(), 2, value), {}) for value in ("2", 0)),
        *(("labels", (Logistic(), 2), {"labels": value}) for value in (3, "ab", [], ["a"])),
        *(("gradient_bound", (Logistic(), 2), {"gradient_bound": value}) for value in ("1", 0, float("nan"))),
        *(("norm", (Logistic(), 2), {"norm": value}) for value in ("l3", 2)),
        *(("seed", (Logistic(), 2), {"seed": value}) for value in ("a", -1)),
        ("label", (Logistic(), 2), {"label": [1]}),
    ],
    "examples": [],
}
CLASSES = {name for name in mirrormesh.__all__ if isinstance(getattr(mirrormesh, name), type)}
CALLS = [(name, *call) for name, calls in WRONG.items() for call in calls]


def test_every_function_is_here():
    assert set(WRONG) == set(mirrormesh.__all__) - CLASSES


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]}-{call[1]}")
def test_a_wrong_argument_is_one_line_that_names_it(call, tmp_path):
    name, argument, arguments, options = call
    if arguments[0] == "MODEL":
        mirrormesh.write_model(str(tmp_path / "model"), mirrormesh.run_model(FILE, OUTCOME))
        arguments = (str(tmp_path / "model.json"), *arguments[1:])
    with pytest.raises(UsageError) as error:
        getattr(mirrormesh, name)(*arguments, **options)
    text = str(error.value)
    assert text.startswith((f"{argument} is ", f"{argument}: "))
    assert "\n" not in text
    assert len(text) < 300


def test_paths_are_text_or_paths_everywhere(tmp_path):
    model = mirrormesh.run_model(FILE, OUTCOME)
    assert model == mirrormesh.run_model(FILE, OUTCOME.summary)
    paths = mirrormesh.write_model(str(tmp_path / "model"), model)
    assert mirrormesh.read_model(str(paths[0])) == mirrormesh.read_model(paths[1]) == model
    mirrormesh.run(FILE, rounds=2, state=str(tmp_path / "state"))
    assert mirrormesh.budget(FILE, NODE, str(tmp_path / "state")).charged == 2
    mirrormesh.load_collaboration(str(LENDING))
