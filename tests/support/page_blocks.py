"""Runs the code blocks of a page in order, as a reader would who types them into one empty folder.

Python runs, YAML is loaded (a first line `# bank.yaml` names the file that a reader saves it as), and of a
shell block every command of ours is parsed by our own command line, and run where it ends by itself.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
import yaml
from pydantic import TypeAdapter
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from streams.commands.command_line import app
from streams.mesh_file.file import load
from streams.mesh_file.settings.mesh import MeshSettings
from streams.mesh_file.settings.node import CommonBrokers, NodeSettings
from streams.mesh_file.settings.schema import SchemaSettings
from tests.support.pages import ROOT

ENVIRONMENT = {"MESH_PASSWORD": "secret", "DATA_PASSWORD": "secret", "DATA": "data"}
ENDS = ("demo", "init", "check", "plan", "run", "tune", "predict", "audit mechanism", "--version")
"""Commands that end by themselves and need nothing outside."""
_GENERATED = re.compile(r"<!-- generated: ([\w ]+) -->.*?<!-- end: \1 -->", re.DOTALL)
_SHELL = ("|", "&&", "||", ";", "&", ">")
Typed = Callable[[list[str]], object]


class Shell:
    """Takes the lines of shell blocks. `left_out`: lines that are not run here; `run` runs the others."""

    def __init__(self, left_out: Callable[[str], bool], run: Typed) -> None:
        self._left_out = left_out
        self._run = run

    def __call__(self, block: str) -> None:
        """Parse every command of the block; run those that are not left out."""
        for line in lines(block):
            for words in commands(line):
                check_command(words)
            if not self._left_out(line):
                (words,) = commands(line)
                self._run(words)


def run_blocks(page: Path, folder: Path, shell: Shell, edit: Callable[[str], str] = str) -> None:
    """Run the blocks of a page in `folder`, the working directory; `edit` changes what files hold."""
    copy = folder / f".{page.name}"
    copy.write_text(_GENERATED.sub("", page.read_text()))
    parsers = [
        PythonCodeBlockParser(),
        CodeBlockParser("yaml", lambda example: read_yaml(str(example.parsed), folder, edit)),
        CodeBlockParser("sh", lambda example: shell(str(example.parsed))),
    ]
    for example in Sybil(parsers=parsers, pattern="*").parse(copy).examples():
        _evaluate(example)


def _evaluate(example: Example) -> None:
    try:
        example.evaluate()
    except SystemExit as ended:
        raise AssertionError(f"line {example.line}: ended with {ended.code}") from ended


def read_yaml(text: str, folder: Path, edit: Callable[[str], str] = str) -> None:
    """Load a mesh file, or check a part of one; a block that names its file is saved under that name."""
    named = re.match(r"# ([\w.-]+\.yaml)\n", text)
    tree = yaml.safe_load(text)
    if named:
        path = folder / named[1]
        path.write_text(edit(text))
        if "mesh" in tree:
            load(path, ENVIRONMENT)
        return
    context = {"folder": folder, "environment": ENVIRONMENT}
    for key, value in tree.items():
        TypeAdapter(_kind(key)).validate_python(value, context=context)


def _kind(key: str) -> Any:
    """Return what reads the value of a key that stands alone."""
    whole: dict[str, Any] = {"mesh": MeshSettings, "brokers": CommonBrokers, "nodes": dict[str, NodeSettings]}
    if key in whole:
        return whole[key]
    for kind in (MeshSettings, NodeSettings, SchemaSettings):
        if key in kind.model_fields:
            return kind.__pydantic_fields__[key].rebuild_annotation()
    raise AssertionError(f"{key} is no key of a mesh file")


def lines(block: str) -> Iterator[str]:
    """Yield the commands of a shell block, comments and blank lines left out, continued lines joined."""
    for line in block.replace("\\\n", " ").splitlines():
        found = re.sub(r"(^|\s)#.*", "", line).strip()
        if found:
            yield " ".join(found.split())


def commands(line: str) -> Iterator[list[str]]:
    """Yield each command of a line in words, variables before it left out."""
    words: list[str] = []
    for word in [*shlex.split(line), ";"]:
        if word not in _SHELL:
            words.append(word)
            continue
        while words and re.fullmatch(r"\w+=.*", words[0]):
            del words[0]
        if words:
            yield words
        words = []


def check_command(words: list[str]) -> None:
    """Raise unless our command line takes these words, make has the target, or Python has the module."""
    match words:
        case ["mirrormesh", *rest]:
            parse(rest)
        case ["make", target, *_]:
            assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
        case ["python", "-m", module, *_] if module.split(".")[0] in {
            "docs",
            "grafana",
            "tests",
            "experiments",
        }:
            assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


def parse(words: list[str]) -> None:
    """Raise unless these are a command of ours with its options and as many arguments as it takes."""
    command, rest = found_command(words)
    command.make_context("mirrormesh", rest)


def found_command(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words begin with, and the words after it."""
    command, rest = typer.main.get_command(app), list(words)
    while hasattr(command, "get_command") and rest and not rest[0].startswith("-"):
        context = command.make_context("mirrormesh", [], resilient_parsing=True)
        below = command.get_command(context, rest[0])
        assert below is not None, f"mirrormesh has no command {rest[0]}"
        command, rest = below, rest[1:]
    return command, rest


def ends_by_itself(line: str) -> bool:
    """Whether a line is one command of ours that ends by itself and needs nothing outside."""
    return re.match(rf"mirrormesh ({'|'.join(ENDS)})( |$)", line) is not None and "|" not in line


def typed(words: list[str], timeout: float = 600) -> str:
    """Run a command of ours in a process of its own; return what it said. It must end well."""
    code = f"from streams.cli import main; main({words[1:]!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=timeout
    )
    assert done.returncode == 0, f"{shlex.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout
