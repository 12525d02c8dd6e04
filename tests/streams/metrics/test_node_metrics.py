"""A node's metrics beside what a recorder of the same mesh has seen."""

import pytest

from nodes.geometry.constraints import L1Ball
from nodes.regret import LocalRegret
from streams.local.mesh import MemoryMesh
from streams.local.recorder import Recorder
from streams.local.run import mesh_parts
from streams.local.tracking import distances
from streams.records.localisation import target_path
from tests.support.meshes.files import changed, loaded
from tests.support.nodes.metrics import metrics, private, shared


def test_a_whole_mesh_shows_what_it_did(tmp_path):
    tree = changed()
    for own in tree["nodes"].values():
        own["source"]["truth"] = True
    parts = mesh_parts(loaded(tmp_path, tree))
    figures = {name: metrics(node.learner, sources="abcd", truth=True) for name, node in parts.nodes.items()}
    recorder = Recorder({name: LocalRegret(L1Ball(2, 3.0)) for name in parts.nodes})

    def report(name, said):
        recorder(name, said)
        figures[name].report(said)
        figures[name].catch_up()

    mesh = MemoryMesh(parts, report)
    mesh.run()
    mesh.close()
    target = target_path(0, 12)[-1]
    for name, node in recorder.nodes.items():
        assert shared(figures[name], "rounds_total") == shared(figures[name], "round") == 12
        assert shared(figures[name], "consensus_gap") == pytest.approx(node.gaps[-1])
        assert shared(figures[name], "epsilon_spent", "stream") == node.records[-1].epsilon_spent == 12
        assert private(figures[name], "records_total") == 12
        assert private(figures[name], "regret") == node.regrets[-1]
        assert private(figures[name], "regret_average") == node.regrets[-1] / 12
        assert [private(figures[name], "target", k) for k in "01"] == target.tolist()
        error = distances(node.decisions[-1][None], target).item()
        assert private(figures[name], "tracking_error") == pytest.approx(error)
