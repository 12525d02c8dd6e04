"""Outboxes in place of edges: the same decisions and releases, with one send a round."""

import pytest

from nodes.machine.events import Decided
from streams.bus.memory import Faults
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from tests.support.meshes.files import changed, counted_ids, loaded, releases

TOPOLOGIES = {
    "ring": {"graph": "ring"},
    "switching": {"graph": "complete", "switching": 0.4},
    "directed": {
        "graph": {"directed-edges": [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"], ["a", "c"], ["c", "a"]]}
    },
}


def run(tmp_path, layout, faults=None, **mesh):
    """The decisions by node and round, and the mesh after its run."""
    file = loaded(tmp_path, changed(layout=layout, **mesh))
    decided = {}

    def report(node, one):
        if isinstance(one, Decided):
            decided.setdefault((node, one.round), one.decision.tobytes())

    made = MemoryMesh(mesh_parts(file), report, faults=faults, new_id=counted_ids())
    made.run()
    assert made.done
    return decided, made


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_decisions_and_releases_are_those_of_edges_bit_for_bit(tmp_path, topology):
    given = {"topology": TOPOLOGIES[topology], "rounds": 40}
    by_edge, edges = run(tmp_path, "edges", **given)
    by_node, boxes = run(tmp_path, "outbox", **given)
    assert by_edge == by_node
    assert len(by_edge) == 4 * 40
    values, _ = releases(edges)
    assert releases(boxes)[0] == values


def test_a_round_has_one_send_a_node(tmp_path):
    _, mesh = run(tmp_path, "outbox", rounds=10)
    names = [topic for topic in mesh.broker.logs if ".outbox." in topic]
    assert names == [f"tracking.run-1.outbox.{node}" for node in "abcd"]
    assert [len(mesh.broker.logs[topic].records) for topic in names] == [10] * 4


@pytest.mark.parametrize("seed", range(8))
def test_kills_and_duplicates_change_no_value(tmp_path, seed):
    crashes = frozenset(("abcd"[(seed + k) % 4], 9 + 13 * k + seed) for k in range(4))
    faults = Faults(seed, duplicate=0.2, crash_before=crashes, restart_after=0.5)
    kept = {"rounds": 30, "silence": None}
    plain, _ = run(tmp_path, "outbox", **kept)
    struck, mesh = run(tmp_path, "outbox", faults, **kept)
    assert struck == plain
    assert {len(found) for found in releases(mesh)[0].values()} == {1}
    assert not any(node.refused or node.warnings for node in mesh.nodes.values())


def test_a_mesh_file_says_it_and_the_digest_holds_it(tmp_path):
    edges, boxes = (loaded(tmp_path, changed(layout=one)).mesh for one in ("edges", "outbox"))
    assert edges.digest() != boxes.digest()
    assert edges.digest() == loaded(tmp_path, changed()).mesh.digest()
    assert "layout" not in edges.agreed
    assert boxes.agreed["layout"] == "outbox"
