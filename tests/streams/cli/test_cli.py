import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.main import get_command

from streams.cli.command_line import COMMANDS as COMMANDS_LISTED
from streams.cli.command_line import app


def commands(group, above=()):
    """The path of every command, groups too."""
    for name, command in group.commands.items():
        yield (*above, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*above, name))


COMMANDS = tuple(commands(get_command(app)))


def test_the_list_of_commands_says_what_each_says_of_itself():
    for name, command in get_command(app).commands.items():
        first, stop, _ = command.help.partition("\n")[0].partition(".")
        assert COMMANDS_LISTED[name] == first + stop


def test_help_loads_no_command():
    code = (
        "import sys; from streams.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "loaded = {'numpy', 'pydantic', 'kafka', 'rich', 'confluent_kafka'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_node_and_a_scheduler_begin_without_faust_and_the_clients_of_other_commands():
    code = (
        "import sys, streams.live.node_process, streams.live.scheduler_process\n"
        "loaded = {'faust', 'kafka', 'rich', 'typer'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_version(call):
    assert call("--version") == (0, f"mirrormesh {version('mirrormesh')}\n", "")


def test_help_names_every_command(call):
    outcome = call("--help")
    assert (outcome.code, outcome.err) == (0, "")
    for first, *rest in COMMANDS:
        assert rest or f"\n  {first} " in outcome.out
    assert "Exit codes" in outcome.out


@pytest.mark.parametrize("group", [(), ("audit",), ("broker",)])
def test_what_each_command_does_is_said_in_a_line_that_is_not_cut(call, monkeypatch, group):
    monkeypatch.setenv("COLUMNS", "80")
    listed = call(*group, "--help").out.split("Commands:\n")[1].splitlines()
    assert all(line.startswith("  ") and line[2] != " " and line.endswith(".") for line in listed)
    assert not any(line.endswith("...") for line in listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example(call, command):
    outcome = call(*command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Example" in outcome.out
    assert f"\n    mirrormesh {' '.join(command)}" in outcome.out  # on a line of its own
    assert "[[" not in outcome.out
    assert "range>" not in outcome.out


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
