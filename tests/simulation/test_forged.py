"""A stranger writes on a mesh whose broker has no users: nobody is isolated, and those concerned are told."""

from dataclasses import replace
from functools import partial

import pytest

from nodes.machine.events import Notice
from tests.simulation.test_absence import TIMES, Watched
from tests.support.meshes.files import changed, lie, loaded, releases


@pytest.fixture(params=["edges", "outbox"])
def file(tmp_path, request):
    return loaded(tmp_path, changed(nodes=list("abcd"), rounds=60, layout=request.param))


def without_users(file):
    """A mesh on a broker where anybody may write."""
    return Watched(file, change=partial(replace, isolates=False), **TIMES)


def forge(mesh):
    """Write a second value for the newest round on every edge; return the number of topics."""
    edges = {(source, name) for name, node in mesh.nodes.items() for source in node._mesh.expected}
    topics = {mesh.parts.topics.edge(*edge): edge for edge in sorted(edges)}
    for edge in topics.values():
        lie(mesh, *edge)
    return len(topics)


def test_one_forged_second_value_on_each_edge_changes_nothing_and_is_told(file):
    expected = without_users(file).finish()
    watched = without_users(file)
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
