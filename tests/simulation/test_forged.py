"""A stranger writes on a mesh whose broker has no users: nobody is isolated, and those concerned are told."""

from dataclasses import replace

import pytest

from nodes.machine.events import Notice
from streams.codec import decode_release, encode_release
from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from tests.simulation.test_absence import TIMES, Watched
from tests.support.meshes import changed, counted_ids, loaded, releases


@pytest.fixture(params=["edges", "outbox"])
def file(tmp_path, request):
    return loaded(tmp_path, changed(nodes=list("abcd"), rounds=60, layout=request.param))


class Open(Watched):
    """A mesh on a broker without users."""

    def __init__(self, file):
        self.noticed, self.stepped = [], {name: [] for name in file.mesh.nodes}
        parts = replace(mesh_parts(file, **TIMES), isolates=False)
        self.mesh = MemoryMesh(parts, self.report, new_id=counted_ids())


def forge(mesh):
    """Write a second value for the newest round on every edge; return the number of topics."""
    topics = {}
    for name, node in mesh.nodes.items():
        for source in node._edges:
            topics[mesh.parts.topics.edge(source, name)] = source
    for topic, source in topics.items():
        first = decode_release(mesh.bus.read(topic, 0)[-1], mesh.parts.expected(source))
        second = first._replace(release=first.release + 0.125)
        mesh.bus.send(topic, encode_release(second, mesh.parts.digest))
    return len(topics)


def test_one_forged_second_value_on_each_edge_changes_nothing_and_is_told(file):
    expected = Open(file).finish()
    watched = Open(file)
    watched.until_round(20)
    forged = forge(watched.mesh)
    watched.until(lambda: watched.mesh.done)
    values, _ = releases(watched.mesh)
    assert values.keys() == expected.keys()
    assert all(expected[key] <= found for key, found in values.items())
    assert sum(len(found) for found in values.values()) > len(values)
    assert watched.count(Notice.EVIDENCE) == (forged if file.mesh.layout == "edges" else 2 * forged)
    for name in file.mesh.nodes:
        assert any(who == name for who, notice, _, _ in watched.noticed if notice is Notice.ACCUSED)
