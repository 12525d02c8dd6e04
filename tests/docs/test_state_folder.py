"""The page about the state folder names every file that is found in one."""

import pytest

from docs.regions.state_folder import is_listed
from tests.support.commands import MESH, Commands


def test_every_file_that_runs_leave_is_on_the_page(tmp_path, capsys):
    command, state = Commands(capsys), tmp_path / "state"
    for run in ("run-1", "run-2"):
        (tmp_path / "mesh.yaml").write_text(MESH.replace("run-1", run))
        assert command("run", tmp_path / "mesh.yaml", "--rounds", 5, "--state", state).code == 0
    names = {path.name for path in state.iterdir()}
    assert {"a.journal", "a.run-1.journal", "a.spends"} <= names
    assert {name for name in names if not is_listed(name)} == set()


@pytest.mark.parametrize("name", ["a.txt", "a.b.c.journal", "journal", "A.journal"])
def test_another_file_is_not(name):
    assert not is_listed(name)
