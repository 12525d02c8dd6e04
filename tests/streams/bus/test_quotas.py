"""Quotas: at least ten times what a user's processes do, computed from the mesh."""

import pytest

from streams.bus.rights import (
    FASTEST,
    LEAST_BYTES,
    LEAST_PERCENTAGE,
    NETWORK,
    ROOM,
    mesh_users,
    rounds_per_second,
)
from streams.bus.topic_specs import sizes
from tests.support.meshes.files import changed, loaded

MILLION = 1_000_000


def resolved(tmp_path, **shared):
    tree = changed(loss="squared", **shared)
    tree["nodes"] = {}
    return loaded(tmp_path, tree).resolved


def timed(period):
    return {"by": "time", "period": period, "start": 0, "size": 1}


def quotas(mesh):
    return {user.name: user.quota for user in mesh_users(mesh)}


def test_the_rate_is_one_a_period_or_what_is_fastest_or_what_the_network_carries(tmp_path):
    assert rounds_per_second(resolved(tmp_path)) == FASTEST
    for period, rate in ((0.1, 10.0), (1.0, 1.0), (3600.0, 1.0)):
        assert rounds_per_second(slotted(tmp_path, period)) == pytest.approx(rate)
    mesh = resolved(tmp_path, dimension=MILLION)
    assert 2 * sizes(mesh).release * rounds_per_second(mesh) == pytest.approx(NETWORK, rel=0.01)


def slotted(tmp_path, period, **shared):
    tree = changed(loss="squared", **shared)
    tree["mesh"]["slots"], tree["nodes"] = timed(period), {}
    return loaded(tmp_path, tree).resolved


@pytest.mark.parametrize("dimension", [2, 10_000, MILLION])
@pytest.mark.parametrize("graph", ["ring", "star", "complete"])
def test_a_quota_is_at_least_ten_times_the_bytes_of_a_user_s_rounds(tmp_path, dimension, graph):
    mesh = resolved(tmp_path, dimension=dimension, topology={"graph": graph})
    rate, found, size = rounds_per_second(mesh), quotas(mesh), sizes(mesh)
    for node in "abcd":
        sources, targets = mesh.graph.neighbours(node)
        assert found[node].producer_byte_rate >= ROOM * rate * len(targets) * size.release
        assert found[node].consumer_byte_rate >= ROOM * rate * (len(sources) * size.release + size.plan)
    edges = mesh.graph.sources.size
    assert found["tracking-auditor"].consumer_byte_rate >= ROOM * rate * edges * size.release
    assert found["tracking-scheduler"].producer_byte_rate >= ROOM * rate * size.plan


def test_a_small_mesh_has_the_least_quotas_and_many_nodes_of_one_user_add_up(tmp_path):
    slow = quotas(slotted(tmp_path, 60.0))
    assert slow["a"] == (LEAST_BYTES, LEAST_BYTES, LEAST_PERCENTAGE)
    parties = {"x": {"nodes": ["a", "b"], "user": "x"}}
    alone, both = quotas(resolved(tmp_path)), quotas(resolved(tmp_path, parties=parties))
    assert both["x"].consumer_byte_rate == pytest.approx(
        alone["a"].consumer_byte_rate + alone["b"].consumer_byte_rate, abs=2
    )
    assert both["x"].request_percentage > alone["a"].request_percentage
