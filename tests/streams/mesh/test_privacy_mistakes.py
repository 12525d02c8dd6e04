"""Privacy settings that no mechanism can keep: each is one line, whichever mechanism, whosever setting."""

import math

import pytest

from nodes.privacy.private import Private
from streams.mesh.file import MeshFileError
from streams.mesh.mesh import Mesh
from tests.support.meshes.files import changed, loaded

MECHANISMS = {
    "laplace": {},
    "laplace on parameters": {"on": "parameters", "norm": "l2"},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-6},
    "l2-sphere": {"mechanism": "l2-sphere"},
    "gaussian-bisr": {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4},
}
EPSILON = [
    (0, "0: must be a number above 0"),
    (-1, "-1: must be a number above 0"),
    (math.inf, "Infinity: must be finite and above 0"),
    (math.nan, "NaN: must be finite and above 0"),
    (1e-9, "1e-09: must be above 1e-08 and at most 100000"),
    (1e6, "1000000: must be above 1e-08 and at most 100000"),
    ("1", '"1": must be a number above 0'),
    (True, "true: must be a number above 0"),
    ([1], "[1]: must be a number above 0"),
    ({"total": 0, "rounds": 5}, "0: must be a number above 0"),
    ({"total": 1, "rounds": 0}, "0: must be at least 1"),
    ({"total": 1}, "missing: must be given"),
]
DELTA = [
    (0, "0: must be at least 1e-300"),
    (1e-301, "1e-301: must be at least 1e-300"),
    (1, "1: must be below 1"),
    (-0.5, "-0.5: must be at least 1e-300"),
    (1.5, "1.5: must be below 1"),
    (math.nan, "NaN: must be finite"),
    ("small", '"small": must be a number'),
]
BANDS = [
    (0, "0: must be at least 1"),
    (1025, "1025: must be at most 1024"),
    (2.5, "2.5: must be a whole number"),
    ("16", '"16": must be a whole number'),
    (True, "true: must be a whole number"),
    (math.nan, "NaN: must be a whole number"),
]
BOUND = [
    (0, "0: must be above 0"),
    (-1, "-1: must be above 0"),
    (math.nan, "NaN: must be finite"),
    (math.inf, "Infinity: must be finite"),
    ("1", '"1": must be a number'),
]
BUDGET = [
    (0, "0: must be a number above 0"),
    (math.nan, "NaN: must be finite and above 0"),
    ("5", '"5": must be a number above 0'),
    ([1], "[1]: must be a number above 0"),
    ({"epsilon": 1}, "missing: must be given"),
    ({"epsilon": 0, "delta": 1e-6}, "0: must be a number above 0"),
    ({"epsilon": 1, "delta": 0}, "0: must be at least 1e-12"),
    ({"epsilon": 1, "delta": 1}, "1: must be below 1"),
    ({"epsilon": 1, "delta": 1e-6, "rounds": 1}, "1: unknown key: must be one of epsilon, delta"),
]
CASES = [
    (key, value, text)
    for key, cases in (
        ("epsilon", EPSILON),
        ("delta", DELTA),
        ("bands", BANDS),
        ("gradient_bound", BOUND),
        ("budget", BUDGET),
    )
    for value, text in cases
]
DEEPER = {
    "{'total': 0, 'rounds': 5}": ".total",
    "{'total': 1, 'rounds': 0}": ".rounds",
    "{'total': 1}": ".rounds",
    "{'epsilon': 1}": ".delta",
    "{'epsilon': 0, 'delta': 1e-06}": ".epsilon",
    "{'epsilon': 1, 'delta': 0}": ".delta",
    "{'epsilon': 1, 'delta': 1}": ".delta",
    "{'epsilon': 1, 'delta': 1e-06, 'rounds': 1}": ".rounds",
}


def mistakes(folder, privacy, own=None, **mesh):
    """What `check` and every other command print of such a mesh file; nothing where it is right."""
    nodes = {"a": {}, "b": own or {}, "c": {}}
    tree = changed(privacy=privacy, nodes=nodes, **mesh)
    tree["nodes"] = {}
    try:
        loaded(folder, tree)
    except MeshFileError as error:
        return [line.removeprefix(f"{folder / 'mesh.yaml'}: ") for line in error.lines]
    return []


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("key", "value", "text"), CASES, ids=[f"{key}-{value}" for key, value, _ in CASES])
def test_a_mistake_names_its_key_its_value_and_what_is_allowed(tmp_path, mechanism, key, value, text):
    place = key + DEEPER.get(str(value), "")
    assert mistakes(tmp_path, MECHANISMS[mechanism] | {key: value}) == [f"mesh.privacy.{place}: {text}"]
    if key != "budget":  # which nodes have in common
        found = mistakes(tmp_path, MECHANISMS[mechanism], {key: value})
        assert found == [f"mesh.nodes.b.{place}: {text}"]


@pytest.mark.parametrize("mechanism", ["laplace", "laplace on parameters", "l2-sphere"])
def test_a_total_of_which_a_round_gets_too_little_is_told(tmp_path, mechanism):
    privacy = MECHANISMS[mechanism] | {"epsilon": {"total": 1, "rounds": 10**9}}
    (line,) = mistakes(tmp_path, privacy)
    assert line.startswith(
        'mesh.privacy.epsilon: {"total": 1, "rounds": 1000000000, "schedule": "uniform"}: '
    )
    assert line.endswith(": epsilon is 1e-09: must be above 1e-08 and at most 100000")


@pytest.mark.parametrize("mechanism", ["gaussian", "gaussian-bisr"])
@pytest.mark.parametrize("schedule", ["uniform", "growing"])
@pytest.mark.parametrize("rounds", [1, 1000])
def test_a_total_that_gaussian_noise_would_not_keep_is_refused_and_a_budget_named(
    tmp_path, mechanism, schedule, rounds
):
    told = (
        "gaussian noise does not sum up to a total: must be a number, that of one release; what limits the "
        "whole stream is budget: {epsilon: ..., delta: ...}"
    )
    epsilon = {"total": 10, "rounds": rounds, "schedule": schedule}
    (line,) = mistakes(tmp_path, MECHANISMS[mechanism] | {"epsilon": epsilon})
    assert line.startswith("mesh.privacy.epsilon: {")
    assert line.endswith(told)
    (line,) = mistakes(tmp_path, MECHANISMS[mechanism], {"epsilon": epsilon})
    assert line.startswith("mesh.nodes.b.epsilon: {")
    assert line.endswith(told)
    own = {"mechanism": mechanism, "delta": 1e-6}
    (line,) = mistakes(tmp_path, {"epsilon": epsilon | {"schedule": "uniform"}}, own)
    assert line.endswith(told)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("bound", [1e-320, 1e308])
def test_a_bound_that_no_grid_has_is_told(tmp_path, mechanism, bound):
    (line,) = mistakes(tmp_path, MECHANISMS[mechanism] | {"gradient_bound": bound})
    assert line.startswith(f"mesh.privacy.gradient_bound: {bound!r}: ")
    assert line.endswith("must be from 1e-100 to 1e+100")


def test_a_bound_that_later_steps_make_too_small_is_told_at_once(tmp_path):
    algorithm = {"step_size": {"rule": "inverse", "a": 1}}
    privacy = MECHANISMS["laplace on parameters"]
    assert mistakes(tmp_path, privacy | {"gradient_bound": 1e-80}, algorithm=algorithm) == []
    (line,) = mistakes(tmp_path, privacy | {"gradient_bound": 1e-99}, algorithm=algorithm)
    assert line.startswith("mesh.privacy.gradient_bound: 1e-99: the clip's bound is ")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_budget_that_pays_for_no_round_is_told(tmp_path, mechanism):
    (line,) = mistakes(tmp_path, MECHANISMS[mechanism] | {"budget": {"epsilon": 0.001, "delta": 1e-6}})
    shown = 'mesh.privacy.budget: {"epsilon": 0.001, "delta": 1e-06}: budget is 0.001: must be at least '
    assert line.startswith(shown)
    assert line.endswith(", one round's cost")


def test_classic_calibration_above_1_is_told_where_epsilon_stands(tmp_path):
    classic = MECHANISMS["gaussian"] | {"calibration": "classic"}
    allowed = "must be at most 1 with calibration classic; analytic takes any"
    shared = mistakes(tmp_path, classic | {"epsilon": 1.5})
    assert shared == [f"mesh.privacy.epsilon: 1.5: {allowed}"]
    assert mistakes(tmp_path, classic, {"epsilon": 2}) == [f"mesh.nodes.b.epsilon: 2: {allowed}"]


def test_a_shared_setting_that_one_nodes_mechanism_cannot_keep_is_told_with_its_name(tmp_path):
    own = {"mechanism": "gaussian-bisr", "delta": 1e-6}
    (line,) = mistakes(tmp_path, {"epsilon": 1e-4}, own)
    assert line.startswith("mesh.privacy.epsilon: 0.0001: with delta 1e-06 so much noise leaves 64 bits: ")
    assert line.endswith("must be larger (for node b)")


@pytest.mark.parametrize(
    ("mechanism", "changes", "line"),
    [
        ("laplace", {"size": 2**33}, "mesh.slots.size: 8589934592: must be at most 4294967288"),
        ("gaussian", {"size": 2**33}, "mesh.slots.size: 8589934592: must be at most 4294967288"),
        ("gaussian-bisr", {"size": 2**20}, "mesh.slots.size: 1048576: must be at most 262143"),
        (
            "l2-sphere",
            {"size": 10, "dimension": 10**7},
            "mesh.slots.size: 10: must be at most 6 where the dimension is 10000000",
        ),
        (
            "gaussian-bisr",
            {"bands": 16, "dimension": 10**7},
            "mesh.privacy.bands: 16: must be at most 6 where the dimension is 10000000",
        ),
        ("laplace", {"dimension": 2**24 + 1}, "mesh.dimension: 16777217: must be at most 16777216"),
        ("laplace", {"dimension": 0}, "mesh.dimension: 0: must be at least 1"),
    ],
)
def test_sizes_that_no_step_can_hold_are_told(tmp_path, mechanism, changes, line):
    changes = {"dimension": 2, "size": 1} | changes
    privacy = MECHANISMS[mechanism] | ({"bands": changes["bands"]} if "bands" in changes else {})
    sizes = {"dimension": changes["dimension"], "slots": {"size": changes["size"]}, "loss": "squared"}
    assert mistakes(tmp_path, privacy, **sizes) == [line]


@pytest.mark.parametrize("dimension", [1, pytest.param(10**7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_smallest_and_a_large_dimension_work(tmp_path, mechanism, dimension):
    tree = changed(privacy=MECHANISMS[mechanism], dimension=dimension, loss="squared")
    tree["nodes"] = {}
    mesh = loaded(tmp_path, tree).mesh
    made = Mesh(mesh).node("a").mechanism
    algorithm = Mesh(mesh).algorithm
    consensus = algorithm.start
    rows = Private(consensus[None])
    release = made.privatise(1, rows, lambda gradient: algorithm.update(1, consensus, gradient)).release
    assert release.shape == (dimension,)
