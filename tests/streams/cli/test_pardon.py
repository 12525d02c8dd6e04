"""`mirrormesh pardon`: a neighbour hears again whom it had evidence against."""

import pytest

from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from streams.mesh.file import load
from streams.state.journal import open_journal
from tests.support.meshes.files import changed, counted_ids, ignore, lie, written


@pytest.fixture
def path(tmp_path):
    return written(tmp_path, changed(rounds=40))


def lied_to(path, state):
    """Run a mesh in which b lies to a, up to round 20, with journals in `state`."""
    state.mkdir()
    mesh = MemoryMesh(mesh_parts(load(path)), ignore, state=state, new_id=counted_ids())
    rounds = lambda: [record.round for record in mesh.nodes["a"].journal.records()]  # noqa: E731
    while not rounds() or rounds()[-1] < 10:
        assert mesh.advance()
    first = lie(mesh, "b", "a")
    while rounds()[-1] < 20:
        assert mesh.advance()
    assert mesh.nodes["a"].journal.records()[-1].distrusted
    mesh.close()
    return first.instance


def test_who_counted_it_as_silent_hears_it_again(call, path, tmp_path):
    state = tmp_path / "state"
    instance = lied_to(path, state)
    outcome = call("pardon", path, "b", "--state", state)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == f"a hears b again: evidence against instance {instance} is forgiven\n"
    again = call("pardon", path, "b", "--state", state, "--by", "a")
    assert (again.code, again.out) == (1, "")
    assert again.err == f"{state}: no journal of a here counts b as silent\n"


def test_a_node_that_runs_keeps_its_journal(call, path, tmp_path):
    state = tmp_path / "state"
    lied_to(path, state)
    file = load(path)
    with open_journal(state, "a", file.resolved.node("a").context, "f" * 32):
        outcome = call("pardon", path, "b", "--state", state)
    assert (outcome.code, outcome.out) == (2, "")
    assert "another process has the journal " in outcome.err


def test_a_folder_that_is_none_is_refused(call, path, tmp_path):
    for state in (tmp_path / "nowhere", path):
        outcome = call("pardon", path, "b", "--state", state)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err == f"--state {state}: is no folder: must be the folder of the journal\n"


def test_an_unknown_node_is_refused(call, path, tmp_path):
    outcome = call("pardon", path, "e", "--state", tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("e: not a node of the mesh")
