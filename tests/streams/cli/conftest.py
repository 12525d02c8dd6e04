import pytest

from tests.support.processes.in_process import MESH, Commands


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """The command line, in an empty folder, far from any terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Commands(capsys)


@pytest.fixture
def mesh(tmp_path):
    """A small mesh file in that folder."""
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    return path
