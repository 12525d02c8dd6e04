"""A mesh file is resolved once: what its nodes share is built once for all of them."""

import pytest

from streams.mesh import mesh
from tests.support.meshes.files import changed, loaded


@pytest.mark.parametrize(("noise", "built"), [("exact", 1), ("simulated", 3)])
def test_a_node_on_a_ring_builds_each_mechanism_once(tmp_path, monkeypatch, noise, built):
    mechanisms = []

    def counted(settings, privacy, sampler, build=mesh.mechanism):
        mechanisms.append(build(settings, privacy, sampler))
        return mechanisms[-1]

    monkeypatch.setattr(mesh, "mechanism", counted)
    file = loaded(tmp_path, changed(privacy={"noise": noise, "budget": 5}))
    own = file.resolved.node("a")
    assert own.price.epsilon == (own.guarantee.epsilon if own.guarantee.protects else None)
    assert own.learner.ledger is file.resolved.node("b").ledger
    assert own.context.expected.keys() == {"b", "d"}
    assert own.context.own.bound == own.learner.release_bound
    assert len(mechanisms) == built


def test_nodes_with_settings_of_their_own_have_ledgers_of_their_own(tmp_path):
    nodes = {"a": {"epsilon": 2}, "b": {}, "c": {"epsilon": 2}, "d": {}}
    found = loaded(tmp_path, changed(nodes=nodes)).resolved
    ledgers = {name: found.node(name).ledger for name in nodes}
    assert [ledgers[name].epsilon for name in "abcd"] == [2, 1, 2, 1]
    assert (ledgers["a"] is ledgers["c"], ledgers["b"] is ledgers["d"]) == (True, True)
