"""Whole meshes on the memory bus: whatever the order of things, and whoever dies when, the same bytes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.bus.memory import Faults
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from tests.support.meshes.files import changed, counted_ids, ignore, loaded, releases

NAMES = "abcd"
EDGES = [f"tracking.run-1.edge.{source}.{target}" for source, target in ("ab", "ba", "bc", "cd", "da", "ad")]
MESHES = {
    "ring": changed(),
    "switching": changed(topology={"graph": "complete", "switching": 0.5}),
    "switching cycles": changed(
        topology={
            "graph": {"directed-edges": [*zip("abcd", "bcda", strict=True), *zip("abc", "bca", strict=True)]},
            "switching": 0.5,
        }
    ),
    "zero-diagonal": changed(
        topology={
            "cycle": [{"matrix": [[1 / 3 * (i != j) for j in range(4)] for i in range(4)]}, "ring"],
            "graph": None,
        }
    ),
    "parameters": changed(privacy={"on": "parameters", "norm": "l2"}),
    "relay": changed(privacy={"budget": 5}, nodes={"a": {}, "b": {}, "c": {"epsilon": 0.25}, "d": {}}),
}


@pytest.fixture(scope="module", params=sorted(MESHES))
def file(request, tmp_path_factory):
    return loaded(tmp_path_factory.mktemp("mesh"), MESHES[request.param])


@pytest.fixture(scope="module")
def undisturbed(file):
    values, _ = run(file)
    assert len(values) == 4 * 12 or len(values) > 30  # a node without an edge in a round publishes nothing
    return values


def run(file, faults=None):
    mesh = MemoryMesh(mesh_parts(file), ignore, faults=faults, new_id=counted_ids())
    mesh.run()
    assert mesh.done, "the run did not end"
    values, copies = releases(mesh)
    for node in mesh.nodes.values():
        records = node.journal.records()
        assert records[-1].round == 13
        assert len({record.round for record in records}) == len(records)
    mesh.close()
    return values, copies


crashes = st.frozensets(st.tuples(st.sampled_from(NAMES), st.integers(1, 90)), max_size=12)
delays = st.dictionaries(st.sampled_from(EDGES), st.sampled_from([0.5, 2.0]), max_size=4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), duplicate=st.sampled_from([0.0, 0.3]), delay=delays, crash=crashes)
def test_the_same_bytes_whatever_the_interleaving_duplicates_delays_and_crashes(
    file, undisturbed, seed, duplicate, delay, crash
):
    values, _ = run(file, Faults(seed, duplicate, latency=delay, crash_before=crash))
    assert values == undisturbed


def test_at_most_one_value_a_round_leaves_a_node_that_dies_again_and_again(file, undisturbed):
    values, copies = run(file, Faults(crash_before=frozenset(("b", n) for n in range(1, 200, 3))))
    assert values == undisturbed
    assert max(copies.values()) > 1  # it did send again


@pytest.mark.parametrize("file", ["ring"], indirect=True)
def test_the_same_bytes_when_a_node_dies_before_any_one_effect(file, undisturbed):
    effects = 12 * 6  # a node's effects in twelve rounds, and a few more
    for n in range(1, effects + 8):
        values, _ = run(file, Faults(crash_before=frozenset({("b", n)})))
        assert values == undisturbed, f"after a crash before effect {n}"


def test_the_seed_and_nothing_else_makes_the_noise(tmp_path, file, undisturbed):
    again, _ = run(file)
    assert again == undisturbed
    other = MemoryMesh(mesh_parts(file, seed=1), ignore)
    other.run()
    values, _ = releases(other)
    assert {key: value for key, value in values.items() if key[1] > 1} != {
        key: value for key, value in undisturbed.items() if key[1] > 1
    }
