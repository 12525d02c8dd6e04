"""From settings to the pure objects they describe."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from pydantic import ValidationError

from nodes.geometry.constraints import Box, L1Ball, L2Ball, LinfBall, Simplex
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis
from nodes.losses.losses import (
    Absolute,
    Clipped,
    Hinge,
    Huber,
    Linear,
    Logistic,
    RangeLoss,
    Softmax,
    Squared,
    Weighted,
)
from nodes.machine.slots import CountSlots, TimeSlots
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.unprotected import Unprotected
from streams.mesh import algorithm as build
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from topology.schedules import CycleSchedule, FixedSchedule, SwitchingSchedule

NODES = ["c", "a", "b"]
ALGORITHM = {
    "name": "dpdo-nc",
    "constraint": {"l1-ball": 3},
    "step_size": {"rule": "inverse-sqrt", "a": 0.5},
}
PRIVACY = {"mechanism": "laplace", "epsilon": 0.1, "gradient_bound": 0.5}


def mesh(*, algorithm=(), privacy=(), **changes):
    tree = {
        "name": "small",
        "run": "run-1",
        "nodes": NODES,
        "dimension": 2,
        "algorithm": ALGORITHM | dict(algorithm),
        "loss": "range",
        "slots": {"by": "count", "size": 1},
        "privacy": PRIVACY | dict(privacy),
        "topology": {"graph": "ring"},
    }
    return MeshSettings.model_validate(tree | changes)


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"l1-ball": 3}, L1Ball(2, 3.0)),
        ({"l2-ball": 3}, L2Ball(2, 3.0)),
        ({"linf-ball": 3}, LinfBall(2, 3.0)),
        ("simplex", Simplex(2)),
    ],
)
def test_constraints(constraint, expected):
    assert build.constraint(mesh(algorithm={"constraint": constraint})) == expected


def test_a_box_has_a_number_for_all_coordinates_or_one_for_each():
    box = build.constraint(mesh(algorithm={"constraint": {"box": {"lower": -1, "upper": [1, 2]}}}))
    assert isinstance(box, Box)
    assert (box.lower.tolist(), box.upper.tolist()) == ([-1, -1], [1, 2])


def test_mirror_maps():
    assert build.mirror_map(mesh()) == Euclidean()
    simplex = {"constraint": "simplex", "mirror_map": "entropy"}
    assert build.mirror_map(mesh(algorithm=simplex)) == Entropy()
    for written, kept in (([1, 2], [1, 2]), ([[2, 0.5], [0.5, 1]], [[2, 0.5], [0.5, 1]])):
        made = build.mirror_map(mesh(algorithm={"mirror_map": {"mahalanobis": written}}))
        assert isinstance(made, Mahalanobis)
        assert made.q.tolist() == kept


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"rule": "constant", "a": 2}, [2, 2]),
        ({"rule": "inverse-sqrt", "a": 2}, [2, 1]),
        ({"rule": "inverse", "a": 2}, [2, 0.5]),
        ({"rule": "shifted-inverse", "a": 2, "b": 4}, [0.4, 0.25]),
    ],
)
def test_step_sizes(rule, expected):
    step_size = build.step_size(mesh(algorithm={"step_size": rule}))
    assert [step_size(1), step_size(4)] == expected


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("dpdo-nc", None, "decision"),
        ("dola", None, "consensus"),
        ("dola", "decision", "decision"),
        ("dpdo-nc", "consensus", "consensus"),
    ],
)
def test_the_algorithms_differ_in_where_the_gradient_is_taken(name, given, expected):
    settings = mesh(algorithm={"name": name, "gradient_at": given, "regulariser": 0.25, "x_1": [1, -1]})
    algorithm = Mesh(settings).algorithm
    assert algorithm.gradient_at == expected
    assert algorithm.regulariser == 0.25
    assert algorithm.start.tolist() == [1, -1]


def test_losses():
    made = [type(Mesh(mesh(loss=name)).loss) for name in ("range", "hinge", "logistic", "squared")]
    assert made == [RangeLoss, Hinge, Logistic, Squared]
    made = [Mesh(mesh(loss=name)).loss for name in ("absolute", "linear", {"huber": 0.5})]
    assert made == [Absolute(), Linear(), Huber(0.5)]


def test_a_loss_stands_in_the_digest_as_it_is_written():
    assert [mesh(loss=loss).agreed["loss"] for loss in ("range", {"huber": 2})] == ["range", {"huber": 2.0}]
    assert mesh(loss={"huber": 2}).digest() != mesh(loss={"huber": 3}).digest()


def test_softmax_and_the_weights_of_labels():
    assert Mesh(mesh(loss={"softmax": 3})).loss == Softmax(3)
    for loss, labels in (("hinge", [-1, 1]), ({"softmax": 2}, [0, 1])):
        made = Mesh(mesh(loss=loss, class_weights=[0.5, 20])).loss
        assert isinstance(made, Weighted)
        assert (made.labels.tolist(), made.weights.tolist()) == (labels, [0.5, 20])


@pytest.mark.parametrize(("mechanism", "norm"), [("laplace", "l1"), ("l2-sphere", "l2")])
def test_weights_within_the_clip_are_within_each_nodes_own(mechanism, norm):
    weights = {"within": "clip", "weights": [1, 300]}
    privacy = {"mechanism": mechanism, "gradient_bound": 2}
    settings = mesh(
        loss="hinge", class_weights=weights, privacy=privacy, nodes={"a": {}, "b": {"gradient_bound": 0.5}}
    )
    for name, bound in (("a", 2), ("b", 0.5)):
        made = Mesh(settings).node(name).loss
        assert (made.loss, made.weights.tolist()) == (Clipped(Hinge(), bound, norm), [1 / 300, 1])
        # what the guarantee rests on is as without weights
        plain = mesh(loss="hinge", privacy=privacy, nodes={"a": {}, "b": {"gradient_bound": 0.5}})
        assert Mesh(plain).node(name).mechanism.theta == bound
        assert Mesh(settings).node(name).mechanism.theta == bound
    assert Mesh(settings).cautions == []
    assert settings.digest() != mesh(loss="hinge", class_weights=[1, 300], privacy=privacy).digest()


def test_weights_that_the_clip_cuts_away_are_told():
    (line,) = Mesh(mesh(loss="hinge", class_weights=[1, 300], privacy={"gradient_bound": 2})).cautions
    assert line.startswith(
        "mesh.class_weights: gradient_bound 2 cuts a record's gradient, weight included, so 300"
    )
    assert Mesh(mesh(loss="hinge", class_weights=[1, 20], privacy={"gradient_bound": 2})).cautions == []
    none = {"mechanism": "none", "gradient_bound": 2}
    assert Mesh(mesh(loss="hinge", class_weights=[1, 300], privacy=none)).cautions == []


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"within": "clip", "weights": [1, 2, 3]}, "negative, positive"),
        ({"within": "box", "weights": [1, 2]}, "within"),
        ({"within": "clip", "weights": [1, 0]}, "weights"),
        ({"within": "clip"}, "weights"),
    ],
)
def test_weights_within_something_else_are_refused(weights, words):
    with pytest.raises(ValidationError, match=words):
        mesh(loss="hinge", class_weights=weights)


def made_mechanism(settings, node="a"):
    return Mesh(settings).node(node).mechanism


def test_mechanisms():
    gradient = made_mechanism(mesh(slots={"by": "count", "size": 4}))
    assert isinstance(gradient, LaplaceGradient)
    assert (gradient.theta, gradient.epsilon, gradient.batch_size) == (0.5, Fraction(1, 10), 4)
    assert not gradient.simulated
    parameters = made_mechanism(mesh(privacy={"on": "parameters", "norm": "l2", "noise": "simulated"}))
    assert isinstance(parameters, LaplaceParameters)
    assert parameters.simulated
    assert parameters.step_size(4) == 0.25
    assert isinstance(made_mechanism(mesh(privacy={"mechanism": "none"})), Unprotected)


def test_overrides_reach_mechanism_ledger_and_guarantee():
    settings = mesh(nodes={"a": {}, "b": {"epsilon": 2}, "c": {"mechanism": "none"}}, privacy={"epsilon": 1})
    assert [made_mechanism(settings, name).epsilon for name in "abc"] == [1, 2, None]
    assert [Mesh(settings).node(name).ledger.epsilon for name in "abc"] == [1, 2, None]
    assert [Mesh(settings).node(name).guarantee.protects for name in "abc"] == [True, True, False]


def test_a_guarantee_says_what_the_settings_say():
    settings = mesh(slots={"by": "time", "period": 1, "start": 0, "size": 3})
    promise = Mesh(settings, frozenset("a")).node("a").guarantee
    assert (promise.epsilon, promise.delta, promise.slots, promise.batch_size) == (
        Fraction(1, 10),
        0,
        "time",
        3,
    )
    assert promise.trusted_broker
    assert not Mesh(mesh(privacy={"noise": "simulated"})).node("a").guarantee.protects


def test_a_learner_has_it_all():
    settings = mesh(privacy={"budget": 1, "after_budget": "leave"})
    learner = replace(Mesh(settings).node("a").learner, charged_before=2)
    assert learner.ledger.last_learning_round == 10
    assert (learner.after_budget, learner.charged_before, learner.batch_size) == ("leave", 2, 1)
    assert learner.release_bound == pytest.approx(3, rel=1e-8)


def test_slots():
    assert isinstance(Mesh(mesh()).slots(), CountSlots)
    slots = Mesh(mesh(slots={"by": "time", "period": 2, "start": 10, "size": 3, "grace": 0.5})).slots()
    assert isinstance(slots, TimeSlots)
    assert slots.round_of(14.5) == 3


def edges(topology):
    graph = Mesh(mesh(topology=topology)).schedule.graph
    return {
        graph.nodes[a] + graph.nodes[b]
        for a, b in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    }


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ("ring", {"ab", "ac", "ba", "bc", "ca", "cb"}),
        ("complete", {"ab", "ac", "ba", "bc", "ca", "cb"}),
        ("star", {"ca", "cb", "ac", "bc"}),
        ({"grid": [1, 3]}, {"ca", "ac", "ab", "ba"}),
        ({"edges": [["b", "a"]]}, {"ab", "ba"}),
        ({"directed-edges": [["a", "b"], ["b", "a"]]}, {"ab", "ba"}),
        ({"erdos-renyi": {"p": 1}}, {"ab", "ac", "ba", "bc", "ca", "cb"}),
    ],
)
def test_graphs_follow_the_order_of_the_nodes(graph, expected):
    assert edges({"graph": graph}) == expected


def test_a_matrix_has_a_row_a_node_in_their_order():
    matrix = [[0.5, 0.5, 0], [0.5, 0.25, 0.25], [0, 0.25, 0.75]]  # c, a, b
    schedule = Mesh(mesh(topology={"graph": {"matrix": matrix}})).schedule
    assert isinstance(schedule, FixedSchedule)
    dense = schedule.weights(1, ("a", "b", "c")).dense()
    np.testing.assert_allclose(dense, [[0.25, 0.25, 0.5], [0.25, 0.75, 0], [0.5, 0, 0.5]])


def test_schedules():
    cycle = Mesh(mesh(topology={"cycle": ["ring", "star"]})).schedule
    assert isinstance(cycle, CycleSchedule)
    assert len(cycle.parts) == 2
    switching = Mesh(mesh(topology={"graph": "ring", "switching": 0.5}, seed=7)).schedule
    assert isinstance(switching, SwitchingSchedule)
    assert (switching.probability, switching.seed) == (0.5, 7)
    ring_edges = [["a", "b"], ["b", "c"], ["c", "a"]]
    directed = Mesh(mesh(topology={"graph": {"directed-edges": ring_edges}, "switching": 0.5})).schedule
    assert isinstance(directed, SwitchingSchedule)
    assert [cycle.tolist() for cycle in directed.cycles] == [[0, 1, 2]]
