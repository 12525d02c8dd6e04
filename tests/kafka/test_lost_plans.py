"""A power cut: a broker has lost the last plans that it had acknowledged. It goes on until it is ended."""

import os
import signal

import pytest

from streams.tools.broker.broker import start
from tests.support.brokers.forgetting import LOST, stepped
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IDLE = {"slots": {"by": "count", "size": 1, "timeout": 0.1}, "round_timeout": 5, "silence": 5, "horizon": 8}
"""Nobody is fed: every slot closes empty."""


def test_a_mesh_is_back_after_its_broker_has_lost_the_end_of_the_plans(tmp_path, new_broker):
    broker = new_broker()
    with LiveMesh(small_mesh_file(tmp_path, broker.address, rounds="none", **IDLE)) as mesh:
        topic = mesh.file.resolved.topics.topology
        (log,) = broker.folder.rglob(f"{topic}-0/*.log")
        mesh.scheduler()
        mesh.nodes()
        wait_until(lambda: log.stat().st_size > 2 * LOST)
        os.kill(broker.pid, signal.SIGKILL)
        for process in mesh.processes.values():
            process.kill()
        before = stepped(mesh)
        with log.open("r+b") as file:
            file.truncate(log.stat().st_size - LOST)
        start(broker.folder, broker.port)
        released = mesh.values()
        charged = max(before)
        mesh.scheduler("again")
        for name in mesh.file.mesh.nodes:
            mesh.node(name, label=f"{name} again")
        wait_until(lambda: min(stepped(mesh)) > charged + IDLE["horizon"])
        assert mesh.start("end", "end", mesh.path, "--yes").ends() == 0
        again = ["again", *[f"{name} again" for name in mesh.file.mesh.nodes]]
        mesh.finish(*again)
        assert all("the run is over" in mesh.processes[label].log for label in again)
        now = mesh.values()
        mesh.check()
    assert all(now[place] >= values for place, values in released.items())
    assert {place: values for place, values in now.items() if len(values) != 1} == {}
