"""An upgrade: every process of a mesh is restarted, one after the other, and no round is lost."""

import pytest

from tests.kafka.test_equality import SIMULATED, equal
from tests.kafka.test_lives import last_round
from tests.support.processes import LiveMesh, mesh_file, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS, RATE = 240, 20
SERVICE = {"silence": 60, "round_timeout": None}
"""Long enough for a restart on any machine: nothing here depends on how fast it is."""


def test_a_rolling_restart_loses_no_round(tmp_path, broker):
    path = mesh_file(
        tmp_path, "deploy/meshes/tracking.yaml", broker.address, rounds=ROUNDS, privacy=SIMULATED, **SERVICE
    )
    with LiveMesh(path) as mesh:
        names = list(mesh.file.mesh.nodes)
        for name in names:
            mesh.start(f"feed-{name}", "feed", path, name, "--rate", RATE)
        mesh.scheduler("scheduler-1")
        mesh.nodes()
        turns = [1]
        for k, name in enumerate(names):
            neighbour = names[k - 1]
            went_on(mesh, neighbour, turns)
            stopped(mesh, name)
            mesh.node(name)
            went_on(mesh, name, turns)
        stopped(mesh, "scheduler-1")
        mesh.scheduler("scheduler-2")
        mesh.finish()
        values = mesh.values()
        equal(values, released_in_memory(path))
    assert {node: sum(source == node for source, _ in values) for node in names} == dict.fromkeys(
        names, ROUNDS
    )
    during = [round_ for round_ in turns if round_ < ROUNDS]
    assert len(during) > len(names), f"restarted after the run was over: {turns}"


def stopped(mesh, label):
    """Ask a process to end, and wait until it has."""
    mesh.processes[label].terminate()
    assert mesh.processes[label].ends() == 0, mesh.processes[label].log[-2000:]


def went_on(mesh, name, turns):
    """Wait until the node has gone on for a few rounds since the last look, or to the last one."""
    goal = min(turns[-1] + 3, ROUNDS)
    wait_until(lambda: last_round(mesh, name) >= goal)
    turns.append(last_round(mesh, name))
