"""A process of several nodes that dies between charge and release, at every boundary of an effect."""

import signal
import sqlite3
import sys
from collections import Counter
from contextlib import closing

import pytest

from tests.support.meshes.on_broker import moments_mesh_file, small_mesh_file
from tests.support.processes.command import Process
from tests.support.processes.mesh import LiveMesh, wait_until
from tests.support.processes.mortal import BOUNDARIES

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS = 60
NUMBERS = (1, 7)
"""The effect of its kind at which a process dies: the first after its start, and a later one of any node."""


class Mortal(Process):
    """A process that dies at an effect."""

    program = (sys.executable, "-m", "tests.support.processes.mortal")


def charges(path):
    """What a node's journal has charged: read here as the product does not."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT max(charged) FROM records").fetchone()[0] or 0


@pytest.mark.parametrize("made", [small_mesh_file, moments_mesh_file], ids=["gradients", "moments"])
def test_no_death_of_a_host_brings_a_second_value_or_a_release_that_was_not_charged(
    tmp_path, broker, monkeypatch, made
):
    path = made(tmp_path, broker.address, rounds=ROUNDS, privacy={"noise": "exact"})
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    state = tmp_path / "state"
    arguments = ("node", path, "--all", "--state", state)
    with LiveMesh(path) as mesh:
        mesh.feed_all()
        mesh.scheduler()
        for boundary in BOUNDARIES:
            for number in NUMBERS:
                host = Mortal(tmp_path, "mortal", boundary, number, *arguments)
                wait_until(lambda host=host: not host.running)
                assert host.code == -signal.SIGKILL, (boundary, number, host.log[-2000:])
        assert any(charges(state / f"{name}.journal") < ROUNDS for name in mesh.file.mesh.nodes)
        mesh.start("host", *arguments)
        mesh.finish("scheduler", "host")
        values = mesh.values()
        assert {key: found for key, found in values.items() if len(found) != 1} == {}
        noisy = Counter(source for (source, _), found in values.items() for _, exact, _ in found if not exact)
        assert min(noisy.values()) >= ROUNDS - 1
        for name in mesh.file.mesh.nodes:
            assert noisy[name] <= charges(state / f"{name}.journal")
