"""Several kinds of sensors in one mesh: who learns with which loss, what is agreed, and what is refused."""

import numpy as np
import pytest

from nodes.losses.losses import Bearing, RangeDifference, RangeLoss, RobustRange
from nodes.regret import network_regret
from nodes.values import Observations
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFileError
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.theory import Mixes, NoBound, Theory
from streams.records.localisation import target_path
from streams.terminal.demo import tracked
from streams.terminal.plan_text import unmet_assumptions
from streams.terminal.text import headline
from streams.tools.model.writing import run
from streams.tools.tuning.pilot import made_up_like
from tests.support.meshes.files import changed, loaded

DIFFERENCE = {"range-difference": {"reference": [0, 0], "huber": 0.5}}
MIXED = {"a": {}, "b": {"loss": "bearing"}, "c": {"loss": {"range": {"huber": 0.1}}, "epsilon": 2}}


def shared(nodes, **mesh):
    return MeshSettings.model_validate(changed(nodes=nodes, **mesh)["mesh"])


def test_each_node_learns_with_its_own_loss():
    mesh = Mesh(shared(MIXED | {"d": {"loss": DIFFERENCE}}))
    made = [mesh.node(name).learner.loss for name in "abcd"]
    assert [type(loss) for loss in made] == [RangeLoss, Bearing, RobustRange, RangeDifference]
    assert (made[2].k, made[3].k, made[3].reference.tolist()) == (0.1, 0.5, [0.0, 0.0])
    assert [mesh.node(name).mechanism.epsilon for name in "abc"] == [1, 1, 2]


def test_a_node_with_a_loss_of_its_own_joins_and_leaves_as_any_other():
    others = [list("abc"), MIXED | {"b": {}}, MIXED | {"d": {"loss": "bearing"}}, {"a": {}}]
    assert {shared(nodes).digest() for nodes in others} == {shared(MIXED).digest()}


def test_losses_stand_in_the_digest_as_they_are_written():
    for loss in (
        "range",
        "bearing",
        {"range": {"huber": 0.5}},
        {"range-difference": {"reference": [0.0, 1.0]}},
    ):
        assert shared(list("abc"), loss=loss).agreed["loss"] == loss
    assert shared(list("abc"), loss={"range": {}}).digest() == shared(list("abc")).digest()


def mistakes(folder, nodes=("a", "b", "c"), kind="localisation", **mesh):
    tree = changed(nodes=nodes if isinstance(nodes, dict) else list(nodes), **mesh)
    tree["nodes"] = {name: {"source": {"kind": kind}} for name in "abc"}
    with pytest.raises(MeshFileError) as caught:
        loaded(folder, tree)
    return [line.removeprefix(f"{folder}/mesh.yaml: ") for line in caught.value.lines]


POINTS = "a path of no points: must be a list of one [x, y] or more"
REFUSED = [
    (
        {"nodes": MIXED | {"b": {"loss": "hinge"}}},
        'mesh.nodes.b.loss: "hinge": localisation measures distances',
    ),
    ({"nodes": MIXED | {"b": {"loss": "angle"}}}, 'mesh.nodes.b.loss: "angle": must be one of range, hinge'),
    (
        {"loss": "bearing", "dimension": 3},
        "bearings are in the plane: the loss must see 2 coordinates, not 3",
    ),
    ({"loss": {"range-difference": {"reference": [1]}}}, "the reference has 1 numbers: must have 2"),
    ({"loss": {"range-difference": {}}}, "mesh.loss.range-difference.reference: missing: must be given"),
    ({"loss": "range-difference"}, '"range-difference": must be one of range,'),
    ({"loss": {"bearing": {"huber": 0}}}, "mesh.loss.bearing.huber: 0: must be above 0"),
    (
        {"loss": {"range": {"hubert": 1}}},
        "hubert: 1: unknown key: must be one of huber (did you mean huber?)",
    ),
    ({"loss": {"range": 3}}, 'mesh.loss: {"range": 3}: must be one of range, hinge'),
    ({"target": {"path": {"waypoints": []}, "speed": 1}}, f"mesh.target.path.waypoints: []: {POINTS}"),
    ({"target": {"path": {"waypoints": [[1]]}, "speed": 1}}, "waypoints[0][1]: missing: must be given"),
    ({"target": {"path": "circle", "speed": -1}}, "mesh.target.speed: -1: must be above 0"),
    (
        {"target": {"path": "random-manoeuvre", "speed": 1e300}},
        "mesh.target.speed: 1e+300: must be at most 10: random-manoeuvre stays near 0",
    ),
    ({"target": {"path": "circle"}}, "mesh.target.speed: missing: path circle needs the way of a round"),
    ({"target": {"speed": 0.1}}, "mesh.target.speed: 0.1: path paper has its own steps: must not be given"),
    (
        {"target": {"path": "eight", "speed": 1}},
        'mesh.target.path: "eight": must be one of paper, still, circ',
    ),
]


@pytest.mark.parametrize(
    ("changes", "expected"), REFUSED, ids=lambda one: one if isinstance(one, str) else ""
)
def test_what_does_not_fit_is_one_line(tmp_path, changes, expected):
    lines = mistakes(tmp_path, **changes)
    assert any(expected in line for line in lines), lines
    assert all("\n" not in line for line in lines)


def test_class_weights_go_with_one_loss(tmp_path):
    lines = mistakes(tmp_path, MIXED, loss="hinge", class_weights=[1, 2])
    assert any(
        "class_weights: [1, 2]: goes with one loss for all, and node b has its own" in x for x in lines
    )


SENSORS = [
    ({"noise": -0.1}, "source.noise: -0.1: must be at least 0"),
    ({"dropouts": 1}, "source.dropouts: 1: must be below 1"),
    ({"outliers": {"share": 2, "excess": 1}}, "source.outliers.share: 2: must be at most 1"),
    ({"outliers": {"share": 0.1}}, "source.outliers.excess: missing: must be given"),
    ({"reach": 0}, "source.reach: 0: must be above 0"),
    ({"first": 5, "last": 4}, "source.last: 4: must be at least 5, the first round"),
]


@pytest.mark.parametrize(("own", "expected"), SENSORS, ids=lambda one: one if isinstance(one, str) else "")
def test_a_sensor_s_own_mistakes_are_one_line(tmp_path, own, expected):
    tree = changed(nodes=list("abc"))
    tree["nodes"] = {name: {"source": {"kind": "localisation"} | own} for name in "a"}
    with pytest.raises(MeshFileError, match=expected.replace(".", r"\.")):
        loaded(tmp_path, tree)


TRACKED = {
    "rounds": 400,
    "target": {"path": "circle", "speed": 0.004},
    "privacy": {"mechanism": "none", "gradient_bound": 10.0, "epsilon": 1},
    "algorithm": {"step_size": {"rule": "constant", "a": 0.7}},
}


def mixed(folder, **mesh):
    tree = changed(nodes=MIXED | {"d": {"loss": DIFFERENCE}}, **TRACKED | mesh)
    tree["nodes"] = {name: {"source": {"kind": "localisation", "truth": True}} for name in "abcd"}
    return loaded(folder, tree)


def test_kinds_of_sensors_find_a_target_together(tmp_path):
    file = mixed(tmp_path)
    local = LocalRun(mesh_parts(file))
    local.mesh.run()
    local.mesh.close()
    target = target_path(0, 400, file.mesh.target)
    found = tracked("mixed", file, local, target)
    assert found.final_error < 0.05
    assert run(file).summary.network_regret == pytest.approx(found.final_regret)


def test_the_network_s_regret_is_over_each_node_s_own_loss():
    rng = np.random.default_rng(0)
    decisions, constraint = rng.normal(size=(30, 3, 2)), Mesh(shared(list("abc"))).algorithm.constraint
    seen = Observations(rng.normal(size=(30, 3, 2, 2)), rng.random((30, 3, 2)), rng.random((30, 3, 2)) < 0.9)
    same = RangeLoss()
    losses = [same, Bearing(), same]
    paid, total = np.zeros((30, 3)), np.zeros((30, 3, 2))
    for j, loss in enumerate(losses):
        one = Observations(*(part[:, j][:, None] for part in seen))
        gradients = loss.gradients(decisions, one).sum(-2) / 2
        paid += np.add.accumulate((gradients * decisions).sum(-1))
        total += np.add.accumulate(gradients)
    expected = paid + constraint.support(-total)
    np.testing.assert_allclose(network_regret(losses, constraint, decisions, seen), expected, atol=1e-10)
    alike = network_regret(losses[0], constraint, decisions, seen)
    assert (network_regret([losses[0]] * 3, constraint, decisions, seen) == alike).all()


def theory(nodes, **mesh):
    return Theory(Mesh(shared(nodes, **mesh)), 100, Mixes(1, 0.5, 0.3, lazy=True))


def test_no_bound_is_claimed_where_nothing_is_known_of_a_sensor_s_gradient():
    robust = theory(list("abc"), loss={"range": {"huber": 0.1}})
    assert robust.bound() == theory(list("abc")).bound()
    for nodes, name in (
        (MIXED, "bearing"),
        ({"a": {}, "b": {"loss": DIFFERENCE}}, "range-difference, huber (0.5)"),
    ):
        found = theory(nodes)
        with pytest.raises(
            NoBound, match=r"how fast the gradient of the .* loss changes is not known"
        ) as caught:
            found.bound()
        assert f"the {name} loss" in str(caught.value)
        with pytest.raises(NoBound, match="beta: the"):
            found.zhou_li()
        assert any("not smooth at a sensor" in line for line in unmet_assumptions(found))


def test_the_headline_names_every_loss():
    assert ", range loss, " in headline(shared(list("abc")))
    assert ", losses range and bearing and range, huber (0.1), " in headline(shared(MIXED))


def test_trials_are_for_one_loss(tmp_path):
    with pytest.raises(UsageError, match="node b has its own loss: trials are for one loss of all nodes"):
        made_up_like(mixed(tmp_path), 0, "--synthetic")
