"""An upgrade: every process of a mesh is restarted, one after the other, and no round is lost."""

import pytest

from tests.kafka.test_equality import SIMULATED, equal
from tests.kafka.test_lives import last_round
from tests.support.processes.mesh import LiveMesh, mesh_file, released_in_memory, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS, PORTION = 120, 10
"""Rounds of a run, and those for which there are records between two restarts."""
SERVICE = {"silence": 60, "round_timeout": None}
"""Long enough for a restart on any machine: nothing here depends on how fast it is."""


def test_a_rolling_restart_loses_no_round(tmp_path, broker):
    path = mesh_file(
        tmp_path, "deploy/meshes/tracking.yaml", broker.address, rounds=ROUNDS, privacy=SIMULATED, **SERVICE
    )
    with LiveMesh(path) as mesh:
        turns = begun(mesh)
        restarted(mesh, turns)
        values = mesh.values()
        equal(values, released_in_memory(path))
    each_round_of_each_node(mesh, values)
    assert turns[-1] < ROUNDS, f"restarted after the run was over: {turns}"


def begun(mesh):
    """Start scheduler and nodes; return the rounds that were seen, once it goes on."""
    mesh.feed_all(but=[rationed(mesh)])
    mesh.scheduler("scheduler-1")
    first, *_ = mesh.nodes()
    turns = [1]
    went_on(mesh, first, turns)
    return turns


def restarted(mesh, turns):
    """Restart every node in its turn, and then the scheduler; wait for the run's end."""
    for name in mesh.file.mesh.nodes:
        stopped(mesh, name)
        mesh.node(name)
        went_on(mesh, name, turns)
    stopped(mesh, "scheduler-1")
    mesh.allow(rationed(mesh), mesh.file.mesh.rounds)
    mesh.scheduler("scheduler-2")
    mesh.finish()


def rationed(mesh):
    """The node whose records hold up the run."""
    return list(mesh.file.mesh.nodes)[-1]


def each_round_of_each_node(mesh, values):
    """Assert that every node has released every round, and in the closing one."""
    names, rounds = list(mesh.file.mesh.nodes), mesh.file.mesh.rounds
    counts = {node: sum(source == node for source, _ in values) for node in names}
    assert counts == dict.fromkeys(names, rounds + 1)


def stopped(mesh, label):
    """Ask a process to end, and wait until it has."""
    mesh.processes[label].terminate()
    assert mesh.processes[label].ends() == 0, mesh.processes[label].log[-2000:]


def went_on(mesh, name, turns):
    """Wait until the node has gone on for a few rounds since the last look; there are some more."""
    mesh.allow(rationed(mesh), turns[-1] + PORTION)
    wait_until(lambda: last_round(mesh, name) >= turns[-1] + 3)
    turns.append(last_round(mesh, name))
