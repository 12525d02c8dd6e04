"""Where `up` keeps a mesh: in one folder for all of its runs."""

from streams.tools.up.programs import PARENT, default_folder
from tests.support.meshes.files import changed, loaded


def test_all_runs_of_a_mesh_are_kept_in_one_folder(tmp_path):
    (tmp_path / PARENT / "tracking.run-1").mkdir(parents=True)
    parents = (tmp_path / PARENT, PARENT)
    for parent in parents:
        for run in ("run-1", "run-2"):
            assert default_folder(loaded(tmp_path, changed(run=run)), parent) == parent / "tracking"
