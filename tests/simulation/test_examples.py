"""Every example mesh runs in one process, shortened, with the noise it ships with."""

import numpy as np
import pytest

from streams.local.run import LocalRun, mesh_parts
from streams.local.summary import summarise
from streams.mesh_file.file import load
from tests.support.examples import NAMES, ROUNDS, example


@pytest.mark.parametrize("name", NAMES)
def test_an_example_learns_round_by_round(name, tmp_path, monkeypatch):
    file = load(example(name, tmp_path, monkeypatch))
    local = LocalRun(mesh_parts(file, rounds=ROUNDS))
    local.mesh.run()
    local.mesh.close()
    decisions = local.recorder.decisions()
    assert decisions.shape == (ROUNDS, len(file.mesh.nodes), file.mesh.dimension)
    assert np.isfinite(decisions).all()
    for node in local.recorder.nodes.values():
        steps = [a.tobytes() != b.tobytes() for a, b in zip(node.decisions, node.decisions[1:], strict=False)]
        assert all(steps)  # every round taught something
        assert node.records[-1].charged == ROUNDS
        assert all(seen.present.all() for seen in node.observations)
    summary = summarise(file, local.recorder, None)
    assert (summary.rounds, [node.malformed for node in summary.nodes]) == (ROUNDS, [0] * len(summary.nodes))
