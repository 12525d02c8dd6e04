"""`mirrormesh forecast`: what a collaboration is worth, from public or made-up records alone."""

import json
import math
import re

import pytest

import mirrormesh
from streams.cli.forecast import facts, verdicts
from streams.mesh.errors import MeshFileError, UsageError
from streams.mesh.file import load_any
from streams.tools.tuning.forecasting import WIDTH, constants_of, forecast_with
from tests.support.processes.in_process import MESH

LENDING = """\
mesh:
  kind: collaboration
  name: lending
  run: first
  learner: analyst
  owners:
    bank-a: {records: 1200, epsilon: 10}
    bank-b: {records: 800, epsilon: 10, mechanism: gaussian, delta: 1.0e-6}
    bank-c: {records: 50, epsilon: 1}
  dimension: 3
  loss: squared
  constraint: {l2-ball: 10}
  algorithm: {name: averaged, step: 6}
  queries: 40
  gradient_bound: 4
owners:
  bank-a:
    source:
      kind: csv
      path: private.csv
      schema: {features: {x: number, y: number}, label: {column: z}, intercept: true}
"""
STRONG = (
    ("constraint: {l2-ball: 10}", "regulariser: 0.5"),
    ("{name: averaged, step: 6}", "{name: strongly-convex, rho: 1600}"),
)


def mesh(folder, *changes):
    text = LENDING
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "lending.yaml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = mesh(tmp_path_factory.mktemp("fitted"))
    file = load_any(path)
    return file, constants_of(file, synthetic=True)


def test_without_constants_it_says_how_to_get_them(tmp_path, call):
    done = call("forecast", mesh(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert "--pilot FILE" in done.err
    assert "--synthetic" in done.err
    assert "--constants FILE" in done.err


@pytest.mark.parametrize("option", ["--constants", "--pilot"])
def test_constants_come_from_one_place(tmp_path, call, option):
    said = f"{option} and --synthetic" if option == "--pilot" else f"--synthetic and {option}"
    done = call("forecast", mesh(tmp_path), "--synthetic", option, "x")
    assert done == (2, "", f"{said}: only one of them may be given\n")


def test_a_folder_is_no_pilot(tmp_path, call):
    said = f"{tmp_path}: is a folder: must be a file of public records\n"
    assert call("forecast", mesh(tmp_path), "--pilot", tmp_path) == (2, "", said)


def test_it_says_what_each_owner_brings(tmp_path, call):
    done = call("forecast", mesh(tmp_path), "--synthetic", "--plot", tmp_path / "cost.png")
    assert done.code == 0, done.err
    assert "8 of 10 runs from" in done.out
    assert re.search(r"bound: +Theorem 3: .*nothing else is proven", done.out)
    assert "the features of bank-a's schema; no promise" in done.out
    assert re.search(r"bank-a brings .*; it gains", done.out)
    assert "bank-c COSTS" in done.out  # few records, little epsilon: nearly all of the noise
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
    assert done.out.endswith(f"Wrote {tmp_path / 'cost.png'}.\n")


def test_it_says_where_the_steps_are_most_of_the_cost_and_not_the_noise(fitted):
    file, constants = fitted
    noise = forecast_with(file, constants).forecast.noise
    for slope, told in ((0.9, True), (1.1, False)):  # the noise adds that share of the floor
        fit = constants.fit._replace(floor=0.2, slope=slope * 0.2 / noise**constants.fit.power)
        found = forecast_with(file, constants._replace(fit=fit))
        said = dict(facts(found)).get("mostly", "")
        assert said.startswith("20 % of it is what 40 steps leave without any noise") is told
    high, low = (constants.fit._replace(floor=floor, slope=1e-9, sampling=1.0) for floor in (0.2, 1e-4))
    sentences = list(verdicts(forecast_with(file, constants._replace(fit=high))))
    assert all(one.endswith("at any epsilon: the steps alone leave more than that.") for one in sentences)
    assert not any("epsilon" in one for one in verdicts(forecast_with(file, constants._replace(fit=low))))


def test_a_record_cannot_be_in_more_sets_than_there_are(tmp_path, fitted):
    _, constants = fitted
    found = forecast_with(load_any(mesh(tmp_path, ("queries: 40", "queries: 40\n  sharing: 3"))), constants)
    assert found.shared is None
    assert dict(facts(found))["sharing"] == "a record is in at most 3 sets"


def test_more_epsilon_helps_and_a_record_in_two_sets_costs(fitted):
    file, constants = fitted
    found = forecast_with(file, constants)
    more = forecast_with(file, constants, ["bank-c.epsilon=4"])
    assert more.forecast.new < found.forecast.new < found.shared + constants.fit.sampling / 2_050
    assert more.forecast.owners["bank-c"].share < found.forecast.owners["bank-c"].share
    twice = forecast_with(file, constants, ["bank-c.epsilon=2"])
    assert found.doubled["bank-c"] == twice.forecast.new
    assert not found.beyond
    assert forecast_with(file, constants, ["bank-c.epsilon=100"]).beyond
    assert constants.noises[1] == pytest.approx(WIDTH * found.forecast.noise)


def test_constants_are_kept_as_json_and_give_the_same_forecast(tmp_path, call, fitted):
    file, constants = fitted
    path = mesh(tmp_path)
    kept = tmp_path / "constants.json"
    kept.write_text(json.dumps({"constants": constants.as_json()}))
    again = tmp_path / "again.json"
    more = ("--what-if", "bank-a.epsilon=1/2", "--output", again)
    done = call("forecast", path, "--constants", kept, "--json", *more)
    assert done.code == 0, done.err
    tree = json.loads(done.out)
    assert json.loads(again.read_text()) == tree
    assert done.err == f"Wrote {again}.\n"
    assert tree["forecast"]["expected"]["expected"] == forecast_with(file, constants).forecast.expected
    assert tree["what_if"]["expected"]["noise"] > tree["forecast"]["expected"]["noise"]
    assert tree["constants"] == json.loads(kept.read_text())["constants"]
    for old, new, named in (
        ("queries: 40", "queries: 41", "queries"),
        ("gradient_bound: 4", "gradient_bound: 2", "gradient_bound"),
    ):
        done = call("forecast", mesh(tmp_path, (old, new)), "--constants", kept)
        assert done.code == 2
        assert f"constants for {named}" in done.err


NESTED = '{"constants": ' + "[" * 100_000


@pytest.mark.parametrize(
    "change",
    [
        {"noises": []},
        {"noises": {}},
        {"records": None},
        {"records": "x"},
        {"records": math.inf},
        {"like": math.inf},
        {"shape": None},
        {"shape": []},
        {"shape": "x"},
        {"least": 0},
        {"fit": {}},
        "{}",
        "[]",
        NESTED,
    ],
    ids=lambda change: str(change)[:30],
)
def test_what_holds_no_constants_is_one_line(tmp_path, call, fitted, change):
    kept = tmp_path / "constants.json"
    tree = {"constants": fitted[1].as_json() | (change if isinstance(change, dict) else {})}
    text = change if isinstance(change, str) else json.dumps(tree).replace("Infinity", "1e400")
    kept.write_text(text)
    must = "holds no constants: must be what `mirrormesh forecast --output` has written"
    assert call("forecast", mesh(tmp_path), "--constants", kept) == (2, "", f"{kept}: {must}\n")


def test_a_plot_is_png_whatever_its_name(tmp_path, call, fitted):
    kept = tmp_path / "constants.json"
    kept.write_text(json.dumps({"constants": fitted[1].as_json()}))
    done = call("forecast", mesh(tmp_path), "--constants", kept, "--plot", tmp_path / "cost.foo")
    assert done.code == 0, done.err
    assert (tmp_path / "cost.foo").read_bytes().startswith(b"\x89PNG")


def test_theorem_2_is_called_a_bound_and_a_fit_a_fit(tmp_path, call):
    done = call("forecast", mesh(tmp_path, *STRONG), "--synthetic")
    assert done.code == 0, done.err
    assert re.search(r"bound: +at most .* \(Theorem 2, if the convexity is the pilot's\)", done.out)
    assert re.search(r"fit: +\S+ \+ \S+ noise\^2, off by", done.out)


def test_steps_that_diverge_are_one_line(tmp_path, call):
    done = call(
        "forecast",
        mesh(tmp_path, STRONG[0], (STRONG[1][0], "{name: strongly-convex, rho: 1.0e+9}")),
        "--synthetic",
    )
    assert done.code == 2
    assert "mesh.algorithm.rho: runs on the pilot diverge: must be smaller" in done.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("bank-x.epsilon=1", "bank-a"),
        ("bank-a.colour=1", "must be OWNER.epsilon=NUMBER"),
        ("bank-a.epsilon=much", "'much' is no number"),
        ("bank-a.epsilon=0", "--what-if: bank-a.epsilon: "),
        ("bank-a.records=0", "--what-if: bank-a.records: 0: must be at least 2"),
        ("bank-b.delta=2", "--what-if: bank-b.delta: 2.0: must be below 1"),
        ("bank-a.delta=0.1", "--what-if: bank-a.delta: 0.1: is for mechanism gaussian, not for laplace"),
    ],
)
def test_a_wrong_supposition_is_one_line(fitted, change, said):
    file, constants = fitted
    with pytest.raises(UsageError, match=re.escape(said)) as error:
        forecast_with(file, constants, [change])
    assert "\n" not in str(error.value)
    assert change.split("=")[0].split(".")[0] in str(error.value)


def test_a_pilot_is_public_and_has_a_cost(tmp_path, call):
    path = mesh(tmp_path)
    rows = [f"{k % 7},{k % 3},{k % 7 - k % 3}" for k in range(60)]
    (tmp_path / "private.csv").write_text("\n".join(["x,y,z", *rows]) + "\n")
    done = call("forecast", path, "--pilot", tmp_path / "private.csv")
    assert "is owner bank-a's own source" in done.err
    (tmp_path / "exact.csv").write_text("\n".join(["x,y,z", *["11,11,0"] * 30]) + "\n")
    assert "can be fitted without any cost" in call("forecast", path, "--pilot", tmp_path / "exact.csv").err
    noisy = [f"{k % 7},{k % 3},{k % 7 - k % 3 + k % 2}" for k in range(60)]
    (tmp_path / "public.csv").write_text("\n".join(["x,y,z", *noisy]) + "\n")
    done = call("forecast", path, "--pilot", tmp_path / "public.csv")
    assert done.code == 0, done.err
    assert "60 records of the public records of public.csv" in done.out


def test_for_a_mesh_it_estimates_what_the_last_node_brings(tmp_path, call):
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    done = call("forecast", path, "--rounds", "20")
    assert done.code == 0, done.err
    assert re.search(r"estimate: .* with 3 nodes", done.out)
    assert "with one node less: what the last one brings is the difference" in done.out
    assert "--json: is for a collaboration" in call("forecast", path, "--json").err


def test_the_library_has_it(tmp_path):
    found = mirrormesh.forecast(mesh(tmp_path), synthetic=True)
    assert set(found.forecast.owners) == {"bank-a", "bank-b", "bank-c"}
    with pytest.raises(UsageError, match="a forecast needs constants"):
        mirrormesh.forecast(mesh(tmp_path))
    (tmp_path / "mesh.yaml").write_text(MESH)
    with pytest.raises(MeshFileError, match="describes a mesh of nodes: must be a collaboration"):
        mirrormesh.forecast(tmp_path / "mesh.yaml", synthetic=True)
