"""Each command serves the kinds of mesh file that say so, and tells the others in one line what it needs."""

import inspect
import subprocess
import sys

import pytest
from typer.main import get_command

from streams.cli.command_line import COMMANDS, app
from streams.collaboration.file import COLLABORATION, load_collaboration
from streams.mesh.file import KINDS, NODES, MeshFileError, load
from streams.mesh.kind import LazyFunction
from tests.support.collaborations.files import collaboration_file
from tests.support.processes.in_process import MESH

VALUES = {"image": "mirrormesh@sha256:" + 64 * "0"}
"""Values of options that are looked at before the mesh file; others take any."""
MORE = {"end": ("--yes",), "export": ("--party", "x")}
"""Options that a command needs although the command line does not know it."""


def mesh_commands():
    """Yield (words, parameters) of every command that takes a mesh file, groups' commands included."""
    group = get_command(app)
    for name in COMMANDS:
        command = group.commands[name]
        inner = getattr(command, "commands", {})
        named = [(f"{name} {each}", inner[each]) for each in inner] or [(name, command)]
        for words, each in named:
            places = [parameter for parameter in each.params if parameter.name == "mesh"]
            if places and places[0].param_type_name == "argument":
                yield words, each.params
            elif places:  # an option of two values
                yield f"{words} --mesh", each.params


PARAMETERS = dict(mesh_commands())
ALL = [lazy.kind for lazy in KINDS]


def line_of(words):
    """Return a command line of the command for mesh.yaml: every argument and required option has a value."""
    line = [*words.removesuffix(" --mesh").split(), *MORE.get(words.split()[0], ())]
    if words.endswith(" --mesh"):
        line += ["--mesh", "mesh.yaml", "x"]
    for parameter in PARAMETERS[words]:
        value = "mesh.yaml" if parameter.name == "mesh" else VALUES.get(parameter.name, "x")
        if parameter.param_type_name == "argument":
            is_wanted = parameter.required or parameter.name == "mesh" or words in {"score", "predict --mesh"}
            line += [value] if is_wanted else []
        elif parameter.required:
            line += [parameter.opts[0], value]
    return line


@pytest.fixture(params=ALL, ids=lambda kind: kind.words)
def kind(request, tmp_path, monkeypatch):
    """The kind of a file mesh.yaml in this folder, in which the name of the run is a mistake."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mesh.yaml"
    if request.param is COLLABORATION:
        collaboration_file(tmp_path, "127.0.0.1:1", run="A B")
    else:
        path.write_text(MESH.replace("run: ", "run: A B # "))
    assert "A B" in path.read_text()
    return request.param


@pytest.mark.parametrize("words", PARAMETERS)
def test_a_command_serves_a_kind_or_says_which_it_needs(call, kind, words):
    outcome = call(*line_of(words))
    if words in kind.commands:
        assert outcome.err.startswith('mesh.yaml: mesh.run: "A B": must be made of a-z')
    else:
        needed = COLLABORATION if kind is NODES else NODES
        assert outcome.err == f"`{words}` needs {needed.words}; mesh.yaml describes {kind.words}.\n"
        assert words in needed.commands
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)


def test_kinds_name_commands_that_exist():
    assert {words for kind in ALL for words in kind.commands} == set(PARAMETERS)


def places_of(kind):
    """Return the places that a kind names, by what is done there."""
    named = {slot: getattr(kind, slot) for slot in kind.__slots__} | dict(kind.commands)
    named |= {f"journal {application:#x}": place for application, place in kind.journals.items()}
    return {what: place for what, place in named.items() if isinstance(place, LazyFunction)}


def shape(place):
    """Return how many positional arguments a place takes, and its keywords."""
    parameters = inspect.signature(place.function).parameters.values()
    keywords = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    return len(parameters) - len(keywords), keywords


def test_what_kinds_name_is_there_and_is_called_alike():
    nodes, collaboration = map(places_of, ALL)
    assert {"topics", "users", "account", "outcome", "histories", "run"} <= nodes.keys()
    for what, place in (nodes | collaboration).items():
        assert callable(place.function), what
    for what in nodes.keys() & collaboration.keys():
        assert shape(nodes[what]) == shape(collaboration[what]), what


def test_a_program_that_loads_another_kind_is_told_which_it_is(tmp_path):
    path = collaboration_file(tmp_path, "127.0.0.1:1")
    with pytest.raises(
        MeshFileError, match=r"mesh\.yaml describes a collaboration: must be a mesh of nodes$"
    ):
        load(path)
    path.write_text(MESH)
    with pytest.raises(
        MeshFileError, match=r"mesh\.yaml describes a mesh of nodes: must be a collaboration$"
    ):
        load_collaboration(path)


def test_a_mesh_of_nodes_loads_nothing_of_a_collaboration(tmp_path):
    (tmp_path / "mesh.yaml").write_text(MESH)
    program = """
import sys
from pathlib import Path

import streams.ledger, streams.live.node_process, streams.live.scheduler_process, streams.local.run
from streams.mesh.file import load_any

load_any(Path("mesh.yaml"))
print([name for name in sys.modules if "collaboration" in name])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
