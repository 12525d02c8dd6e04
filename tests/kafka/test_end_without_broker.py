"""A process that is asked to end while its brokers are away ends in time, and goes on later where it was."""

import os
import signal

import pytest

from streams.tools.broker.broker import start, status
from tests.kafka.test_equality import SIMULATED, WAITING, equal
from tests.kafka.test_lives import last_round
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS, HALF = 80, 40
TIMEOUT, IN_TIME = 120.0, 100.0
"""Seconds of `round_timeout`, and in which a process must end: it does not wait for that long."""


def test_without_a_broker_every_process_ends_in_time(tmp_path, new_broker):
    broker = new_broker()
    path = mesh_file(
        tmp_path,
        "deploy/meshes/tracking.yaml",
        broker.address,
        rounds=ROUNDS,
        privacy=SIMULATED,
        **WAITING | {"round_timeout": TIMEOUT},
    )
    with LiveMesh(path) as mesh:
        *_, last = mesh.file.mesh.nodes
        mesh.feed_all(but=[last])
        mesh.allow(last, HALF)
        mesh.scheduler()
        names = list(mesh.nodes())
        wait_until(lambda: last_round(mesh, names[0]) > HALF // 2)
        os.kill(broker.pid, signal.SIGKILL)
        wait_until(lambda: not status(broker.folder).running)
        wait_until(lambda: all("down" in mesh.processes[name].log for name in names))  # they have noticed
        for label in ("scheduler", *names):
            mesh.processes[label].terminate()
        for label in ("scheduler", *names):
            assert mesh.processes[label].ends(IN_TIME) == 0, mesh.processes[label].log[-2000:]
        start(broker.folder)
        mesh.allow(last, ROUNDS)
        mesh.scheduler()
        mesh.nodes()
        mesh.finish("scheduler", *names)
        equal(mesh.values(), released_in_memory(path))
