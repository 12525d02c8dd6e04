"""What a collaboration's file cannot do on the command line: one line, no traceback."""

import pytest

from tests.support.collaborations.files import collaboration_file


@pytest.fixture
def lending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return collaboration_file(tmp_path, "127.0.0.1:1")


@pytest.mark.parametrize(
    "option", [("--rate", "5"), ("--no-feed",), ("--replay",), ("--observe",)], ids=lambda option: option[0]
)
def test_up_says_which_options_are_for_nodes(call, lending, option):
    words = "goes with a mesh of nodes, not a collaboration"
    assert call("up", "mesh.yaml", *option) == (2, "", f"{option[0]}: {words}\n")


def test_an_owner_that_nobody_knows_or_without_a_source_is_one_line(call, lending):
    outcome = call("owner", "mesh.yaml", "bank-d", "--state", "state")
    assert outcome.code == 2
    assert outcome.err.startswith('mesh.yaml: mesh.owners: "bank-d": is no owner of the mesh: ')
    assert outcome.err.count("\n") == 1
    text = lending.read_text()
    lending.write_text(text.replace("path: bank-a.csv", "path: nowhere.csv"))
    outcome = call("owner", "mesh.yaml", "bank-a", "--state", "state")
    assert outcome.code == 2
    assert "nowhere.csv" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [("provision", "mesh.yaml"), ("watch", "mesh.yaml", "--once"), ("audit", "releases", "mesh.yaml")],
    ids=lambda command: command[0],
)
def test_a_broker_that_is_not_there_is_one_line(call, lending, monkeypatch, command):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.2)
    assert call(*command) == (1, "", "127.0.0.1:1: the broker does not answer\n")


@pytest.mark.parametrize("option", [("--owner",), ("--round", "3")], ids=lambda option: option[0])
def test_watch_says_which_options_are_for_nodes(call, lending, option):
    outcome = call("watch", "mesh.yaml", *option)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert outcome.err.startswith(f"{option[0]} is for a mesh of nodes: ")
