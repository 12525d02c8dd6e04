"""A node's process that was away for a minute of rounds catches up under its quota."""

import time

import pytest
import yaml

from streams.bus.rights import rounds_per_second
from streams.bus.topic_specs import sizes
from streams.bus.users import UserPlan
from streams.mesh.settings.parties import scheduler_user
from tests.kafka.test_lives import last_round
from tests.kafka.test_quota import limits
from tests.support.brokers.topics import until
from tests.support.brokers.users import Users
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.mesh import LiveMesh

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

AWAY = 60.0
"""Seconds that the node was away, as far as its quota and its backlog go: nobody waits for them here."""
PERIOD = 0.5
"""Seconds of a round. The slots of many rounds are over before the start, so the mesh makes these at once."""
WIDE = {
    "kind": "json-lines",
    "schema": {"features": {"x": {"hashed": 10_000}}, "label": {"column": "y"}, "timestamp": "at"},
}


@pytest.fixture
def users(tmp_path, broker, secure_broker, monkeypatch):
    """The users of a ring whose releases are long. Nobody waits long for who is away, or gives it up."""
    path = small_mesh_file(
        tmp_path,
        secure_broker.address,
        broker.address,
        sources=dict.fromkeys("abc", WIDE),
        dimension=10_000,
        loss="squared",
        slots={"by": "time", "period": PERIOD, "start": round(time.time() - 4 * AWAY), "size": 1},
        rounds=10_000,
        horizon=1_000,
        round_timeout=0.1,
        silence=300,
    )
    tree = yaml.safe_load(path.read_text())
    tree["brokers"]["mesh"] |= {"username": "${MESH_USER}", "password": "${MESH_PASSWORD}"}
    path.write_text(yaml.safe_dump(tree))
    found = Users(path, secure_broker, monkeypatch)
    with UserPlan(found.file, found.folder, "mesh") as plan:
        plan.write()
    return found


def test_a_node_s_process_catches_up_under_its_quota(users):
    with LiveMesh(users.path) as mesh:
        resolved, (a, b, c) = mesh.file.resolved, mesh.file.mesh.nodes
        missed = round(AWAY * rounds_per_second(resolved))
        until(lambda: limits(users, c) is not None)
        backlog = missed * sizes(resolved).release * 2
        assert backlog > AWAY / 10 * 2**20  # more than the smallest quota lets through in a tenth of the time

        users.be(scheduler_user(resolved.settings.name))
        mesh.scheduler()
        for node in (a, b, c):
            users.be(node)
            mesh.node(node, "--no-decisions")
        until(lambda: last_round(mesh, c) > 1)
        mesh.processes[c].kill()
        left = last_round(mesh, c)
        until(lambda: last_round(mesh, a) >= left + missed)
        assert last_round(mesh, c) == left

        mesh.node(c, "--no-decisions", label="again")
        until(lambda: last_round(mesh, c) >= left + missed)
        mesh.check()
        again = mesh.processes["again"].log
        assert f"goes on after round {left}" in again or f"goes on after round {left - 1}" in again
        assert "new instance" not in again
