"""What anybody on the mesh broker can tell of a node's account."""

import numpy as np
import pytest

from streams.bus.kafka import KafkaBus
from streams.bus.provision import provision
from streams.codec import encode_heartbeat, encode_plans
from streams.codec.topics import MeshTopics
from streams.mesh.file import load
from streams.status.account import ChargeCount, account, public_charge_counts
from tests.support.meshes.on_broker import small_mesh_file
from topology.plans import Heartbeat, Member, Plan

pytestmark = pytest.mark.kafka


@pytest.fixture
def file(broker, tmp_path):
    """A mesh that is provisioned, and has not begun."""
    privacy = {"budget": 5, "noise": "exact"}
    made = load(small_mesh_file(tmp_path, broker.address, privacy=privacy), {})
    provision(made)
    return made


def test_plans_tell_what_a_node_has_spent_at_most(file):
    mesh, digest = file.mesh, file.digest()
    a, b, _ = nodes = list(mesh.nodes)
    topics = MeshTopics(mesh.name, mesh.run)
    assert public_charge_counts(file, [a, b]) == dict.fromkeys([a, b], ChargeCount(0, 0, exactly=False))
    members = tuple(Member(node, "aa" * 16, full=True) for node in nodes)
    nothing = np.array([], dtype=np.int64)
    bus = KafkaBus(
        file.mesh_broker, dict.fromkeys([topics.topology, topics.progress(a), topics.progress(b)], 1 << 16)
    )
    try:
        last = None
        for round in range(1, 9):
            counts = ((a, round - 1), (b, max(0, round - 3)))
            edges = (nothing, nothing, nothing.astype(float))
            plan = Plan(mesh.run, round, round - 1, members, *edges, named=counts)
            (record,) = encode_plans(last, (plan,), digest)
            bus.send(topics.topology, record)
            last = plan
        bus.send(topics.topology, b"no plan")
        for stepped in (2, 4):
            bus.send(
                topics.progress(a),
                encode_heartbeat(Heartbeat(mesh.run, a, "aa" * 16, "ee" * 16, stepped), digest),
            )
        bus.send(topics.progress(b), b"no heartbeat")
        assert bus.flush(10)
    finally:
        bus.close()
    found = public_charge_counts(file, nodes)
    assert found[a] == ChargeCount(4, 8, exactly=False, planned=8)  # it may have charged all of them by now
    assert found[b] == ChargeCount(8, 6, exactly=False, planned=8)  # no heartbeat tells what it has stepped
    assert account(file, b, found[b]).charged == 5  # the budget lets no more
    assert account(file, a, found[a]).spent == 5.0
    assert not account(file, a, found[a]).relaying
