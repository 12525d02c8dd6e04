from importlib.metadata import version

import pytest

COMMANDS = ("demo", "run", "plan", "check", "init")


def test_version(call):
    assert call("--version") == (0, f"mirrormesh {version('mirrormesh')}\n", "")


def test_help_names_every_command(call):
    outcome = call("--help")
    assert (outcome.code, outcome.err) == (0, "")
    for command in COMMANDS:
        assert f"\n  {command} " in outcome.out
    assert "Exit codes" in outcome.out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(call, command):
    outcome = call(command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Example" in outcome.out
    assert f"\n    mirrormesh {command}" in outcome.out  # on a line of its own


@pytest.mark.parametrize("arguments", [("bogus",), ("plan",), ("check", "a", "b"), ("demo", "--rounds", "0")])
def test_a_mistake_on_the_command_line_is_exit_code_2(call, arguments):
    outcome = call(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize("command", ["plan", "run", "check"])
def test_yaml_that_is_none(call, tmp_path, command):
    (tmp_path / "bad.yaml").write_text("mesh: [")
    outcome = call(command, "bad.yaml")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("bad.yaml: line 1, column ")
    assert outcome.err.count("\n") == 1
