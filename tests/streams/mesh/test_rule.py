"""A rule in a mesh file: what it fills in, who agrees with whom, what is refused in one line."""

import copy

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.discriminant import RidgeDiscriminant
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.errors import MeshFileError
from streams.mesh.file import load
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.rule import filled, resolved
from tests.support.meshes.classes import tree_of
from tests.support.meshes.files import REMOVED, TRACKING, loaded, with_value, written

LEFT_OUT = ("algorithm", "slots", "dimension")
FEATURES = {
    "features": {f"x{k + 1}": {"bounds": [0, 1]} for k in range(3)},
    "intercept": "outside",
    "norm": 1,
    "label": {"column": "y", "positive": ["1.0"]},
}
DELTA = {"epsilon": 1, "delta": 1e-6, "noise": "simulated"}
PURE = {"epsilon": 1, "noise": "simulated"}


def ruled(folder, privacy=DELTA, records=60, **mesh):
    """A short mesh file of two classes: what the rule chooses is left out."""
    tree = tree_of(folder, {}, records=records)
    for key in LEFT_OUT:
        tree["mesh"].pop(key, None)
    rule = {"version": 1, "records": records, "members": 4, "columns": 3}
    tree["mesh"] |= {"rule": rule, "features": FEATURES, "privacy": privacy, "rounds": 2} | mesh
    for part in tree["nodes"].values():
        del part["source"]["schema"]
    return tree


def explicit(folder, tree):
    """The tree with all that its rule chooses written out."""
    whole = copy.deepcopy(tree)
    for key, _, value in resolved(loaded(folder, tree).mesh):
        part, name = key.split(".")
        whole["mesh"].setdefault(part, {"by": "count"} if part == "slots" else {})[name] = value
    return whole


FORMS = {
    "moments": {"records": 600},
    "class-sums": {"records": 60},
    "class-sums, laplace": {"privacy": PURE},
    "class weights": {"records": 600, "class_weights": [1, 3]},
    "single records": {"privacy": PURE, "slots": {"by": "count", "size": 1}},
    "a stream": {"records": 600, "slots": {"by": "count", "size": 1}},
}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    loss=st.sampled_from(["hinge", "logistic", {"softmax": 3}, "squared", "range"]),
    records=st.none() | st.integers(1, 10**6),
    members=st.integers(1, 200),
    columns=st.integers(1, 700),
    epsilon=st.sampled_from([0.01, 1, 8]),
    delta=st.sampled_from([None, 1e-6]),
    others=st.tuples(st.booleans(), st.sampled_from([None, 1, 40])),
)
def test_what_a_rule_chooses_is_never_refused(
    tmp_path, loss, records, members, columns, epsilon, delta, others
):
    weighted, size = others
    tree = ruled(tmp_path, {"epsilon": epsilon, "noise": "simulated"} | ({"delta": delta} if delta else {}))[
        "mesh"
    ]
    has_classes = loss in ("hinge", "logistic") or loss == {"softmax": 3}
    del tree["features"]
    tree |= {"loss": loss, "rule": {"version": 1, "records": records or "none", "members": members}}
    tree["dimension"] = 2 if loss == "range" else 3 * columns if loss == {"softmax": 3} else columns
    if weighted and has_classes:
        tree["class_weights"] = [1, 3, 2] if loss == {"softmax": 3} else [1, 3]
    if size is not None:
        tree["slots"] = {"by": "count", "size": size}
    if not has_classes:
        tree["algorithm"] = {
            "name": "dpdo-nc",
            "constraint": {"l2-ball": 1},
            "step_size": {"rule": "inverse-sqrt", "a": 1},
        }
        tree["privacy"]["gradient_bound"] = 1
    MeshSettings.model_validate(tree)


@pytest.mark.parametrize("form", FORMS)
def test_the_short_file_is_the_explicit_one(tmp_path, form):
    tree = ruled(tmp_path, **FORMS[form])
    short, whole = loaded(tmp_path, tree), loaded(tmp_path, explicit(tmp_path, tree))
    assert short.mesh.agreed == whole.mesh.agreed
    assert short.digest() == whole.digest()
    assert short.mesh == whole.mesh


@pytest.mark.parametrize("form", FORMS)
def test_the_rule_s_block_is_in_the_digest(tmp_path, form):
    tree = explicit(tmp_path, ruled(tmp_path, **FORMS[form]))
    with_rule = loaded(tmp_path, tree)
    without = loaded(tmp_path, with_value(tree, "mesh.rule", REMOVED))
    assert with_rule.mesh.agreed == without.mesh.agreed | {"rule": with_rule.mesh.agreed["rule"]}
    assert with_rule.digest() != without.digest()
    more = with_value(tree, "mesh.rule.members", 5)
    assert loaded(tmp_path, more).digest() != with_rule.digest()


def test_another_version_of_the_tables_cannot_agree_in_silence(tmp_path, monkeypatch):
    tree = ruled(tmp_path, records=600)
    digest = loaded(tmp_path, tree).digest()
    monkeypatch.setattr("nodes.rule.LARGEST_NU", 0.0)
    assert loaded(tmp_path, tree).mesh.algorithm.name == "class-sums"
    assert loaded(tmp_path, tree).digest() != digest


@pytest.mark.parametrize("records", [100, 110])  # nu is 0.106 and 0.097: other members are across 0.1
def test_members_that_join_or_leave_and_rounds_change_nothing(tmp_path, records):
    tree = ruled(tmp_path, records=records)
    digest = loaded(tmp_path, tree).digest()
    for names in ("ab", "abcd", "abcdefgh"):
        other = with_value(tree, "mesh.nodes", list(names))
        other["nodes"] = {}
        other["mesh"]["rounds"] = len(names)
        assert loaded(tmp_path, other).digest() == digest


def test_two_parties_with_other_own_parts_resolve_alike(tmp_path):
    tree = ruled(tmp_path, records=600)
    first, second = copy.deepcopy(tree), copy.deepcopy(tree)
    first["nodes"] = {"a": tree["nodes"]["a"], "b": "elsewhere.yaml"}
    second["nodes"] = {"b": {"source": {"kind": "json-lines"}, "liveness": 60}}
    alike = [loaded(tmp_path, one) for one in (tree, first, second)]
    assert len({file.digest() for file in alike}) == 1
    assert len({repr(file.mesh) for file in alike}) == 1


@pytest.mark.parametrize("form", FORMS)
def test_the_rule_reads_no_node_no_round_and_no_own_file(tmp_path, form):
    shared = ruled(tmp_path, **FORMS[form])["mesh"]
    read = ("rule", "loss", "features", "class_weights", "privacy", "slots")
    alone = filled({key: shared[key] for key in read if key in shared})
    assert {"algorithm", "slots", "privacy"} <= set(alone)
    assert {key: value for key, value in filled(shared).items() if key in alone} == alone


def test_what_is_given_stays(tmp_path):
    tree = ruled(tmp_path, records=600, slots={"by": "count", "size": 100})
    mesh = loaded(tmp_path, tree).mesh
    assert mesh.slots.size == 100
    assert [one.key for one in resolved(mesh) if one.value != one.choice.value] == ["slots.size"]
    tree = with_value(tree, "mesh.algorithm", {"name": "class-sums"})
    assert loaded(tmp_path, tree).mesh.algorithm.name == "class-sums"
    tree = ruled(tmp_path, records=600, algorithm={"signed": True})
    assert loaded(tmp_path, tree).mesh.algorithm.name == "moments"
    assert loaded(tmp_path, tree).mesh.algorithm.signed


def test_a_mesh_by_rule_learns(tmp_path):
    tree = ruled(tmp_path, records=1_200)
    file = loaded(tmp_path, with_value(tree, "mesh.rule.records", 600))
    assert isinstance(file.resolved.algorithm.decide_by, RidgeDiscriminant)
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    local.mesh.close()
    decision = local.recorder.decisions()[-1, 0]
    assert decision[0] > 0 > decision[1]  # the class 1 has more of x1, and less of x2


def test_class_weights_leave_class_sums_as_they_are(tmp_path):
    decisions = []
    for weights in (None, [1, 9]):
        tree = ruled(tmp_path, records=60, class_weights=weights)
        tree["mesh"]["slots"] = {"by": "count", "size": 20}
        local = LocalRun(mesh_parts(loaded(tmp_path, tree)))
        local.mesh.run()
        local.mesh.close()
        decisions.append(local.recorder.decisions()[-1].tobytes())
    assert decisions[0] == decisions[1]


def test_an_override_that_is_null_is_none(tmp_path):
    names = {"a": {"epsilon": None, "loss": None}, "b": {}, "c": {}, "d": {}}
    assert loaded(tmp_path, with_value(ruled(tmp_path), "mesh.nodes", names))


def test_few_records_are_a_caution(tmp_path):
    tree = ruled(tmp_path, records=60)
    assert loaded(tmp_path, tree).resolved.cautions == []
    (line,) = loaded(tmp_path, with_value(tree, "mesh.rule.members", 61)).resolved.cautions
    assert line == "mesh.rule.records: 60: fewer than the 61 members: it is the number of each node's records"


def tracking(**changes):
    tree = copy.deepcopy(TRACKING)
    tree["mesh"]["rule"] = {"version": 1, "records": 5_000, "members": 4}
    del tree["mesh"]["privacy"]["mechanism"]
    for path, value in changes.items():
        tree = with_value(tree, f"mesh.{path}", value)
    return tree


@pytest.mark.parametrize(
    ("privacy", "mechanism"),
    [
        ({"epsilon": 1, "gradient_bound": 0.5}, "l2-sphere"),
        ({"epsilon": 5, "gradient_bound": 0.5}, "laplace"),
        ({"epsilon": {"total": 25_000, "rounds": 5_000}, "gradient_bound": 0.5}, "laplace"),
        ({"epsilon": 1, "gradient_bound": 0.5, "delta": 1e-6}, "gaussian-bisr"),
        ({"epsilon": 1, "gradient_bound": 0.5, "mechanism": "laplace"}, "laplace"),
    ],
)
def test_a_tracking_mesh_leaves_its_mechanism_to_the_rule(tmp_path, privacy, mechanism):
    mesh = loaded(tmp_path, tracking(privacy=privacy)).mesh
    assert mesh.privacy.mechanism == mechanism
    assert mesh.privacy.bands == (64 if mechanism == "gaussian-bisr" else None)


REFUSED = [
    ("mesh.rule.records", REMOVED, "mesh.rule.records: missing: must be given"),
    ("mesh.rule.records", 0, "mesh.rule.records: 0: must be at least 1"),
    ("mesh.rule.records", "many", 'mesh.rule.records: "many": must be a whole number'),
    ("mesh.rule.members", REMOVED, "mesh.rule.members: missing: must be given"),
    ("mesh.rule.version", REMOVED, "mesh.rule.version: missing: must be given"),
    (
        "mesh.rule.version",
        3,
        "mesh.rule.version: 3: must be 1 or 2: this version of mirrormesh has no other tables",
    ),
    ("mesh.rule.version", True, "mesh.rule.version: true: must be 1"),
    ("mesh.rule.columns", 4, "mesh.rule.columns: 4: must be at most 3, the number of features"),
    (
        "mesh.rule.rows",
        4,
        "mesh.rule.rows: 4: unknown key: must be one of version, records, members, columns",
    ),
    ("mesh.rule", 1, "mesh.rule: 1: must be a mapping with keys among version, records, members, columns"),
    ("mesh.slots", {"by": "count", "size": 61}, "mesh.slots.size: 61: must be at most 60, rule.records"),
    ("mesh.slots", {"by": "count", "size": 0}, "mesh.slots.size: 0: must be at least 1"),
    (
        "mesh.slots",
        {"by": "time", "period": 1, "start": 0},
        "mesh.slots.size: missing: a rule chooses no size for slots by time",
    ),
    *(
        ("mesh.loss", loss, "mesh.algorithm: missing: a rule chooses it for hinge, logistic, and softmax of")
        for loss in ("squared", "absolute", "linear", "range", {"huber": 1}, {"softmax": 2}, {"own": "a:B"})
    ),
    ("mesh.loss", "hinges", 'mesh.loss: "hinges": must be one of'),
    ("mesh.privacy", {"epsilon": -1}, "mesh.privacy.epsilon: -1: must be a number above 0"),
    ("mesh.privacy", {"delta": 1e-6}, "mesh.privacy.epsilon: missing: mechanism gaussian needs a number"),
    ("mesh.privacy", DELTA | {"gradient_bound": 1.0}, "gradient_bound: 1.0: class-sums clips no gradient"),
    (
        "mesh.privacy",
        DELTA | {"mechanism": "laplace"},
        "mesh.privacy.delta: 1e-06: is for mechanism gaussian",
    ),
    (
        "mesh.algorithm",
        {"step_size": {"rule": "constant", "a": 1}},
        'mesh.algorithm.step_size: {"a": 1, "rule": "constant"}: class-sums has no such setting',
    ),
    ("mesh.algorithm", [], "mesh.algorithm: []: must be a mapping"),
    (
        "mesh.nodes",
        {"a": {}, "b": {"epsilon": 2}},
        'mesh.nodes.b: {"epsilon": 2}: class-sums is one mean of all nodes',
    ),
    ("mesh.features", REMOVED, "mesh.dimension: missing: must be given, or features"),
]


@pytest.mark.parametrize(("path", "value", "line"), REFUSED)
def test_a_mistake_is_one_line(tmp_path, path, value, line):
    tree = with_value(ruled(tmp_path), path, value)
    tree["nodes"] = {}
    with pytest.raises(MeshFileError) as error:
        load(written(tmp_path, tree), {})
    (only,) = error.value.lines
    assert line in only


def test_what_is_left_out_must_be_given_without_a_rule(tmp_path):
    tree = with_value(ruled(tmp_path), "mesh.rule", REMOVED)
    tree["nodes"] = {}
    with pytest.raises(MeshFileError) as error:
        load(written(tmp_path, tree), {})
    assert {line.split(": ")[1] for line in error.value.lines} == {
        "mesh.algorithm",
        "mesh.slots",
        "mesh.privacy.mechanism",
    }


def test_a_rule_that_is_not_given_is_not_in_the_digest(tmp_path):
    assert "rule" not in loaded(tmp_path, TRACKING).mesh.agreed
    assert "rule" not in yaml.safe_load(
        yaml.safe_dump(loaded(tmp_path, TRACKING).mesh.model_dump(mode="json"))
    )
