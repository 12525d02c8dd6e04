"""The shell completes commands, options and their values; a command is loaded when it is completed itself."""

import os
import subprocess
import sys
from importlib.resources import files

import pytest

from streams.cli.command_line import COMMANDS, FILES

LOADED = """
import sys
from streams.cli import main
try:
    main()
finally:
    print(*(name for name in sys.modules if name.startswith("streams.cli.")), file=sys.stderr)
"""


def complete(line, shell="bash"):
    """Return what the shell would offer for the last word of a line, and the modules that were loaded."""
    words = line.split(" ")
    asked = {"_MIRRORMESH_COMPLETE": f"complete_{shell}"}
    asked |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)} if shell == "bash" else {}
    asked |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=os.environ | asked, capture_output=True, text=True, check=False
    )
    modules = done.stderr.splitlines()[-1].split()
    return [line for line in done.stdout.splitlines() if line], {
        name.rpartition(".")[2] for name in modules
    } & {FILES.get(command, command) for command in COMMANDS}


def test_all_commands_are_offered_and_none_is_loaded():
    offered, loaded = complete("mirrormesh ")
    assert offered == list(COMMANDS)
    assert loaded == set()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_with_what_they_do_where_the_shell_shows_that(shell):
    offered, loaded = complete("mirrormesh pro", shell)
    assert "provision" in "".join(offered)
    assert "Create topics and users of a mesh" in "".join(offered)
    assert loaded == set()


@pytest.mark.parametrize(
    ("line", "offered", "files"),
    [
        ("mirrormesh fe", ["feed"], set()),
        ("mirrormesh --ver", ["--version"], set()),
        # a feeder is a process on a broker, and has such a process's options
        ("mirrormesh feed --r", ["--rate", "--records"], {"feed", "processes"}),
        ("mirrormesh broker st", ["start", "stop", "status"], {"broker"}),
        ("mirrormesh predict --vector ne", ["newest"], {"model"}),
        ("mirrormesh nothing --x", [], set()),
    ],
)
def test_only_the_file_of_the_command_at_hand_is_loaded(line, offered, files):
    found, loaded = complete(line)
    assert found == offered
    assert loaded == files


@pytest.mark.parametrize(
    ("line", "offered", "file"),
    [
        ("leave {mesh} nor", ["north"], "operate"),
        ("node {mesh} --state x ", ["north", "south", "west"], "processes"),
        ("node {mesh} south ", ["north", "west"], "processes"),
        ("score {mesh} w", ["west"], "score"),
        ("audit mechanism {mesh} s", ["south"], "audit"),
        ("leave nowhere.yaml n", [], "operate"),
        ("leave {broken} n", [], "operate"),
    ],
)
def test_names_of_nodes_are_those_of_the_mesh_file(tmp_path, line, offered, file):
    mesh, broken = tmp_path / "mesh.yaml", tmp_path / "broken.yaml"
    mesh.write_text(files("streams.mesh").joinpath("starter.yaml").read_text())
    broken.write_text("mesh: [")
    found, loaded = complete("mirrormesh " + line.format(mesh=mesh, broken=broken))
    assert found == offered
    assert file in loaded


def test_bash_gets_its_script_and_no_other_file_is_touched(tmp_path):
    usual = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    command = [sys.executable, "-c", "from streams.cli import main; main()", "--install-completion", "bash"]
    done = subprocess.run(command, env=os.environ | usual, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {".bashrc", ".bash_completions/mirrormesh.sh"}
    script = (tmp_path / ".bash_completions" / "mirrormesh.sh").read_text()
    assert "_MIRRORMESH_COMPLETE=complete_bash" in script
    assert "mirrormesh.sh" in (tmp_path / ".bashrc").read_text()
