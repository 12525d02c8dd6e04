import numpy as np
import pytest

from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import load
from streams.records.localisation import target_path
from streams.terminal.demo import Tracked, distances, tracked, verdict
from tests.support.processes.in_process import MESH


def run_with(name, error):
    return Tracked(name, np.zeros((2, 1, 2)), np.full((2, 1), error), np.ones(2))


def test_distances_are_to_the_target_of_the_same_round():
    decisions = np.array([[[3.0, 4.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 2.0]]])
    assert distances(decisions, np.array([[0.0, 0.0], [1.0, 1.0]])).tolist() == [[5.0, 0.0], [0.0, 1.0]]


def test_a_run_is_measured_against_the_target_of_its_seed(tmp_path):
    (tmp_path / "mesh.yaml").write_text(MESH.replace("mechanism: laplace", "mechanism: none"))
    file = load(tmp_path / "mesh.yaml")
    local = LocalRun(mesh_parts(file, seed=3, rounds=200))
    local.mesh.run()
    target = target_path(3, 200)
    found = tracked("open", file, local, target)
    assert found.errors[0] == pytest.approx(np.hypot(*target[0]))  # x_1 = 0
    assert found.last.tolist() == found.errors[100:].tolist()
    assert found.final_error < 0.2 < found.errors[0].mean()
    assert found.regret.shape == (200,)
    assert found.final_regret < found.regret[0]


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ((0.2, 0.1, 0.6), ("Privacy costs accuracy: an error of 0.200, not 0.100.", "3.0 times as far off")),
        ((0.1, 0.2, 0.05), ("Privacy costs no accuracy here", "Neighbours bring nothing here")),
    ],
)
def test_the_verdict_says_what_the_numbers_say(errors, words):
    private, open_, alone = map(run_with, ("private", "open", "alone"), errors)
    for word in words:
        assert any(word in line for line in verdict(private, open_, alone))
