"""Regret by Definition 1 (Zhou, Li 2025) against plain loops, and against the runs' own."""

import numpy as np
import pytest

from experiments.harness.expected_regret import Regrets

CORNERS = 3.0 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
"""Where the linear sum is largest."""


@pytest.fixture
def regrets():
    """Five runs of 40 rounds of three nodes: sums of gradients g_t and of <g_t, x_t>."""
    rng = np.random.default_rng(1)
    gradients, decisions = rng.normal(size=(2, 5, 40, 3, 2))
    return Regrets(np.cumsum((gradients * decisions).sum(-1), 1), np.cumsum(gradients, 1))


def test_the_maximum_is_over_the_mean_of_the_runs(regrets):
    for t in (0, 7, 39):
        for node in range(3):
            paid, total = regrets.paid[:, t, node], regrets.gradients[:, t, node]
            expected = max(np.mean([p - g @ x for p, g in zip(paid, total, strict=True)]) for x in CORNERS)
            assert regrets.by_definition[t, node] == pytest.approx(expected / (t + 1))


def test_a_run_of_its_own_has_its_own_maximum(regrets):
    for run in range(5):
        paid, total = regrets.paid[run, 39, 1], regrets.gradients[run, 39, 1]
        assert regrets.own[run, 39, 1] == pytest.approx(max(paid - total @ x for x in CORNERS) / 40)


def test_the_definition_is_never_above_the_mean_of_the_runs_own(regrets):
    assert (regrets.by_definition <= regrets.own.mean(0) + 1e-12).all()
    assert (regrets.by_definition < regrets.own.mean(0) - 0.01).any()
    one = Regrets(regrets.paid[:1], regrets.gradients[:1])
    np.testing.assert_allclose(one.by_definition, one.own[0])


def test_the_largest_is_that_of_the_worst_node_round_by_round(regrets):
    assert regrets.largest.by_definition[:, 0].tolist() == regrets.by_definition.max(1).tolist()
    definition, mean, low, high = regrets.at(40)
    worst = regrets.by_definition[39].argmax()
    assert definition == regrets.by_definition[39, worst]
    assert mean == pytest.approx(regrets.own[:, 39, worst].mean())
    assert low < mean < high


def test_a_hundred_rounds_at_most_are_written_with_the_last(regrets):
    assert regrets.points == range(1, 41)
    longer = Regrets(np.zeros((1, 5_000, 1)), np.zeros((1, 5_000, 1, 2)))
    assert (len(longer.points), longer.points[-1]) == (100, 5_000)
