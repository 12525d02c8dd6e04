import math

import numpy as np
import pytest

from nodes.geometry.constraints import Box, L1Ball, L2Ball, LinfBall, Simplex
from nodes.losses.losses import Hinge, RangeLoss, Squared
from nodes.privacy.owner import disclosed_to_owner
from nodes.privacy.private import Private
from nodes.regret import LocalRegret, network_regret
from nodes.values import Decision, Observations

CORNERS = {
    L1Ball(2, 3.0): [(3, 0), (-3, 0), (0, 3), (0, -3)],
    LinfBall(2, 1.0): [(1, 1), (1, -1), (-1, 1), (-1, -1)],
    Simplex(2): [(1, 0), (0, 1)],
}


def add(regret, gradient, decision):
    regret.add(Private(np.array(gradient)), Decision(np.array(decision)))


def value(regret):
    return disclosed_to_owner(regret.value())


def test_local_regret_by_hand():
    regret = LocalRegret(L1Ball(2, 3.0))
    assert value(regret) == 0.0
    add(regret, [1.0, -2.0], [0.5, 0.5])  # -0.5, and the best answer to (1, -2) is (0, 3): -6
    assert value(regret) == 5.5
    add(regret, [0.0, 2.0], [1.0, 1.0])  # + 2, and to the sum (1, 0) it is (-3, 0): -3
    assert value(regret) == 4.5


def follow(regret, gradient, decision, truth):
    point = None if truth is None else np.array(truth)
    regret.add(Private(np.array(gradient)), Decision(np.array(decision)), Private(point))


def test_dynamic_regret_by_hand_is_against_the_path_that_records_tell():
    regret = LocalRegret(L1Ball(2, 3.0))
    follow(regret, [1.0, -2.0], [0.5, 0.5], [0.0, 1.0])  # 0.5 + 1
    assert disclosed_to_owner(regret.dynamic()) == 1.5
    follow(regret, [5.0, 5.0], [1.0, 1.0], None)  # nobody knows the path here
    follow(regret, [math.nan, 1.0], [1.0, 1.0], [0.0, 0.0])
    follow(regret, [1.0, 1.0], [1.0, 1.0], [1e308, -math.inf])
    assert disclosed_to_owner(regret.dynamic()) == 1.5
    follow(regret, [2.0, 0.0], [1.0, 1.0], [2.0, 0.0])  # - 2
    assert disclosed_to_owner(regret.dynamic()) == -0.5
    assert value(regret) > -0.5  # the static one goes on beside it


def test_with_a_part_that_the_loss_sees_regret_is_of_that_part():
    whole, part = LocalRegret(L1Ball(2, 3.0)), LocalRegret(L1Ball(2, 3.0), lambda x: x[:2])
    follow(whole, [1.0, -2.0], [0.5, 0.5], [0.0, 1.0])
    follow(part, [1.0, -2.0], [0.5, 0.5, 9.0, 9.0], [0.0, 1.0])
    assert value(part) == value(whole)
    assert disclosed_to_owner(part.dynamic()) == disclosed_to_owner(whole.dynamic())


@pytest.mark.parametrize("constraint", CORNERS, ids=lambda c: c.name)
def test_local_regret_is_against_the_best_corner(constraint):
    rng = np.random.default_rng(0)
    regret, gradients, decisions = LocalRegret(constraint), [], []
    for _ in range(50):
        gradients.append(rng.normal(size=2).tolist())
        decisions.append(constraint.project(rng.normal(size=2)).tolist())
        add(regret, gradients[-1], decisions[-1])
        paid = sum(g[0] * x[0] + g[1] * x[1] for g, x in zip(gradients, decisions, strict=True))
        best = min(sum(g[0] * m[0] + g[1] * m[1] for g in gradients) for m in CORNERS[constraint])
        assert value(regret) == pytest.approx(paid - best, abs=1e-12)


@pytest.mark.parametrize("bad", [[math.nan, 1.0], [math.inf, 1.0], [-math.inf, 0.0], [1e308, 1.7e308]])
def test_a_gradient_that_is_not_finite_counts_as_zero(bad):
    regret = LocalRegret(Box(np.array([0.0, 0.0]), np.array([1.0, 2.0])))
    add(regret, [1.0, -2.0], [0.0, 0.5])
    before = value(regret)
    add(regret, bad, [0.0, 0.0])
    assert value(regret) == before == 3.0


def test_the_regret_stays_private():
    regret = LocalRegret(L2Ball(2, 1.0))
    add(regret, [3.0, 4.0], [0.0, 0.0])
    assert isinstance(regret.value(), Private)
    assert repr(regret.value()) == "Private(...)"


def mesh(rounds, nodes, batch, d, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.sign(rng.normal(size=(rounds, nodes, batch)))
    present = rng.random(labels.shape) < 0.9
    decisions = rng.normal(size=(rounds, nodes, d)) * 0.3
    return decisions, Observations(rng.normal(size=(*labels.shape, d)), labels, present)


def plain_network_regret(loss, constraint, decisions, observations):
    rounds, nodes, d = decisions.shape
    batch = observations.labels.shape[-1]
    found = np.empty((rounds, nodes))
    for i in range(nodes):
        paid, total = 0.0, np.zeros(d)
        for t in range(rounds):
            gradient = np.zeros(d)
            for j in range(nodes):
                slot = Observations(
                    observations.features[t, j], observations.labels[t, j], observations.present[t, j]
                )
                gradient += loss.gradients(decisions[t, i], slot).sum(0) / batch
            paid += float((gradient * decisions[t, i]).sum())
            total += gradient
            found[t, i] = paid + constraint.support(-total)
    return found


@pytest.mark.parametrize("loss", [RangeLoss(), Hinge(), Squared()], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("shape", [(30, 6, 2, 2), (1, 1, 1, 1), (150, 4, 2, 256)])
def test_network_regret_against_plain_loops(loss, shape):
    """The last shape is more than one chunk."""
    decisions, observations = mesh(*shape)
    constraint = L1Ball(shape[-1], 3.0)
    found = network_regret(loss, constraint, decisions, observations)
    expected = plain_network_regret(loss, constraint, decisions, observations)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-10)


def test_network_regret_of_one_node_is_its_local_regret():
    decisions, observations = mesh(40, 1, 3, 2)
    constraint, loss = LinfBall(2, 1.0), Squared()
    local = LocalRegret(constraint)
    network = network_regret(loss, constraint, decisions, observations)
    for t in range(40):
        slot = Observations(
            observations.features[t, 0], observations.labels[t, 0], observations.present[t, 0]
        )
        add(local, loss.gradients(decisions[t, 0], slot).sum(0) / 3, decisions[t, 0])
        assert value(local) == pytest.approx(network[t, 0], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("gradient", [[1e308, 1e308], [-1e200, 0.0], [np.nan, 1.0], [np.inf, 0.0]])
def test_a_gradient_beyond_all_measure_counts_as_0_without_a_word(gradient):
    regret = LocalRegret(L2Ball(2, 3.0))
    add(regret, [1.0, 0.0], [1.0, 0.0])
    before = value(regret)
    add(regret, gradient, [1.0, 0.0])
    assert value(regret) == before == 4.0
