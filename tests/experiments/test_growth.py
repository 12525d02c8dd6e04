"""What is measured as the engine's memory: linear in the nodes, the same however many rounds there are."""

import pytest

from experiments.growth import peak
from nodes.learner import Engine


def test_memory_is_linear_in_the_nodes_and_flat_in_the_rounds():
    small, large, long = (peak(*size) for size in ((64, 20, 100), (256, 20, 100), (64, 20, 600)))
    assert large / small == pytest.approx(4, rel=0.2)
    assert long / small == pytest.approx(1, rel=0.05)


def test_what_a_run_keeps_of_every_round_is_seen(monkeypatch):
    steps = Engine.steps
    monkeypatch.setattr(Engine, "steps", lambda self, slots: iter(list(steps(self, slots))))
    short, long = peak(6, 2, 1_100), peak(6, 2, 2_200)
    assert long / short > 1.5
