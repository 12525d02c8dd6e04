"""The prototype of a public direction: one bit of a record, and nodes that find a target at rest."""

import math

import numpy as np
import pytest

from experiments.curvature_rules import RULES, Filter, answers, mixing, plane
from experiments.harness.moving_targets import distances
from topology.keyed import generator


def follower(rule: str, graph: str, runs: int = 4) -> Filter:
    setting = plane()
    return Filter(setting, rule, mixing(graph, len(setting.places)), np.full(runs, 1e-4), 1)


@pytest.mark.parametrize("rule", RULES)
def test_a_state_and_its_covariance_depend_on_a_record_through_its_sign_alone(rule):
    states = []
    for size in (0.01, 100.0):
        nodes = follower(rule, "ring")
        random = np.random.default_rng(3)
        for _ in range(20):
            lengths = np.sqrt(((nodes.x[..., :2] - nodes.of.places) ** 2).sum(-1))
            nodes.observe(lengths + np.where(random.random(lengths.shape) < 0.5, size, -size), 1.0)
        states.append(nodes.x.tobytes() + nodes.p.tobytes())
    assert states[0] == states[1]


@pytest.mark.parametrize(("residual", "epsilon"), [(0.3, 1.0), (-5.0, 1.0), (1e308, 4.0), (math.nan, 4.0)])
def test_a_sign_is_kept_as_often_as_epsilon_lets_it_and_no_record_is_a_fair_coin(residual, epsilon):
    count = 100_000
    y = answers(np.full(count, residual), epsilon, generator("test of answers", 1))
    kept = 1 / (1 + math.exp(-epsilon))
    chance = 0.5 if math.isnan(residual) else kept if residual >= 0 else 1 - kept
    assert (y > 0).mean() == pytest.approx(chance, abs=4 * 0.5 / math.sqrt(count))
    assert np.unique(np.abs(y)) == pytest.approx([1 / math.tanh(epsilon / 2)])


@pytest.mark.parametrize("graph", ["complete", "ring"])
def test_all_nodes_come_near_a_target_at_rest(graph):
    targets = np.tile([0.3, -0.2], (400, 4, 1))
    nodes = follower("intersection, spread", graph)
    for seen in distances(targets, 5):
        nodes.observe(seen, 4.0)
    assert np.abs(nodes.x[..., :2] - targets[0, 0]).max() < 0.1
    if graph == "complete":
        assert np.abs(nodes.x - nodes.x[:, :1]).max() < 1e-9
