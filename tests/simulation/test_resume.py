"""A run that ended goes on in another process of the whole mesh."""

from streams.local.mesh import MemoryMesh
from streams.local.run import mesh_parts
from tests.support.meshes.files import changed, ignore, loaded


def last_records(file, rounds, state=None):
    mesh = MemoryMesh(mesh_parts(file, rounds=rounds), ignore, state=state)
    mesh.run()
    assert mesh.done
    records = {name: node.journal.records()[-1] for name, node in mesh.nodes.items()}
    mesh.close()
    return {
        name: (
            *(record.round, record.charged, record.data_position, record.release.tobytes()),
            *(record.average.rounds, record.average.mean.tobytes()),
        )
        for name, record in records.items()
    }


def test_a_run_in_two_parts_learns_from_each_record_once_as_in_one(tmp_path):
    file = loaded(tmp_path, changed(rounds=30))
    state = tmp_path / "state"
    state.mkdir()
    last_records(file, 10, state)
    assert last_records(file, 30, state) == last_records(file, 30)
