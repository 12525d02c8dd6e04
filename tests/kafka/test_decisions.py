"""Each round's decision is on the party's own broker, for its application; or not, if it is not wanted."""

import time

import numpy as np
import pytest

from streams.local.run import LocalRun, mesh_parts
from tests.support.meshes.on_broker import decisions, small_mesh_file
from tests.support.processes.mesh import LiveMesh

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 40


def test_every_decision_is_there_once_in_order_as_in_memory(tmp_path, broker):
    began, path = time.time(), small_mesh_file(tmp_path, broker.address, rounds=ROUNDS)
    with LiveMesh(path) as mesh:
        quiet, *speaking = mesh.file.mesh.nodes
        mesh.feed_all()
        mesh.scheduler()
        mesh.node(quiet, "--no-decisions")
        for name in speaking:
            mesh.node(name)
        mesh.finish()
        assert decisions(broker.address, mesh.file.data_topics(quiet)) == []
        local = LocalRun(mesh_parts(mesh.file))
    local.mesh.run()
    local.finish()
    for name in speaking:
        made = local.recorder.nodes[name].decisions
        expected = [{"run": "run-1", "round": t, "x": x.tolist()} for t, x in enumerate(made, 1)]
        closed = local.recorder.nodes[name].closed.tolist()
        for t in range(mesh.file.mesh.horizon, ROUNDS + 1, mesh.file.mesh.horizon):
            expected[t - 1]["average"] = pytest.approx(np.mean(made[:t], 0).tolist(), rel=1e-12)
        expected[-1]["average"] = pytest.approx(np.mean(made, 0).tolist(), rel=1e-12)
        assert len(expected) == ROUNDS
        expected.append({"run": "run-1", "round": ROUNDS + 1, "x": closed})
        found = decisions(broker.address, mesh.file.data_topics(name))
        times = [one.pop("decided") for one in found]
        assert found == expected
        assert times == sorted(times)
        assert began < times[0] <= times[-1] < time.time()


def test_by_time_every_node_decides_each_tick_whether_its_record_came_or_not(tmp_path, broker):
    """The decision of a slot is made when the slot before is over, and is that of one process."""
    start, period, grace = round(time.time()) + 2.0, 0.1, 0.02
    own = {"kind": "localisation", "dropouts": 0.3}
    slots = {"by": "time", "size": 1, "period": period, "start": start, "grace": grace}
    moving = {"target": {"path": "circle", "speed": 0.01}, "horizon": 600, "rounds": ROUNDS}
    path = small_mesh_file(tmp_path, broker.address, sources=dict.fromkeys("abc", own), slots=slots, **moving)
    with LiveMesh(path) as mesh:
        mesh.feed_all()
        mesh.scheduler()
        for name in mesh.file.mesh.nodes:
            mesh.node(name)
        mesh.finish()
        local = LocalRun(mesh_parts(mesh.file))
    local.mesh.run()
    local.finish()
    for name, history in local.recorder.nodes.items():
        assert any(not seen.present.any() for seen in history.observations)
        found = decisions(broker.address, mesh.file.data_topics(name))
        assert [one["round"] for one in found] == list(range(1, ROUNDS + 2))
        assert [one["x"] for one in found] == [x.tolist() for x in (*history.decisions, history.closed)]
        for t, one in enumerate(found[:-1], 1):
            assert one["slot"] == pytest.approx(start + (t - 1) * period, abs=1e-6)
            assert t == 1 or one["decided"] >= one["slot"] + grace - 1e-6
