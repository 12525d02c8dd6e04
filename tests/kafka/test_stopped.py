"""Processes that stand for a while (SIGSTOP) and go on: a scheduler, one of two that plan, the broker."""

import os
import signal
import time
from contextlib import contextmanager

import pytest

from tests.kafka.test_equality import SIMULATED, equal
from tests.support.brokers.forgetting import Released, ended, stepped
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS, HORIZON, RATE = 120, 8, 20
IDLE = {
    "slots": {"by": "count", "size": 1, "timeout": 0.1},
    "round_timeout": 1,
    "silence": 3,
    "horizon": HORIZON,
}
"""Slots close empty, as nobody is fed; who is silent is planned without."""


@contextmanager
def standing(pid):
    """Let the process stand meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def gone_on(mesh):
    """Wait until every node is beyond all rounds that are planned now."""
    goal = max(stepped(mesh)) + HORIZON
    wait_until(lambda: min(stepped(mesh)) > goal)
    mesh.check()


def all_stand(mesh):
    """Wait until no node has stepped for a second."""
    before = None
    while (now := stepped(mesh)) != before:
        before = now
        time.sleep(1)


def test_the_scheduler_and_the_broker_stand_and_nothing_of_the_run_is_another(tmp_path, new_broker):
    broker = new_broker()
    path = small_mesh_file(tmp_path, broker.address, rounds=ROUNDS, horizon=HORIZON, privacy=SIMULATED)
    with LiveMesh(path) as mesh:
        scheduler = mesh.scheduler()
        nodes = list(mesh.nodes())
        for name in nodes:
            mesh.start(f"feed-{name}", "feed", path, name, "--rate", RATE)
        wait_until(lambda: min(stepped(mesh)) > HORIZON)
        for pid in (scheduler._process.pid, broker.pid):
            with standing(pid):
                all_stand(mesh)
        mesh.finish()
        equal(mesh.values(), released_in_memory(path))


def test_a_scheduler_that_stood_goes_on_beside_the_one_that_planned_meanwhile(tmp_path, broker):
    with LiveMesh(small_mesh_file(tmp_path, broker.address, rounds="none", **IDLE)) as mesh:
        released, first = Released(mesh), mesh.scheduler()
        died = next(iter(mesh.nodes()))
        wait_until(lambda: min(stepped(mesh)) > HORIZON)
        with standing(first._process.pid):
            all_stand(mesh)  # nobody else plans
            mesh.scheduler("second")
            gone_on(mesh)
            mesh.processes[died].kill()
            mesh.node(died)
            gone_on(mesh)
        released.look()
        gone_on(mesh)
        ended(mesh, released, ["scheduler", "second", *mesh.file.mesh.nodes])
