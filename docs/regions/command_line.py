"""What `mirrormesh COMMAND --help` prints, for every command."""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any

import typer

from streams.cli.command_line import app, main

WIDTH = "100"


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command that does something, by its words; groups come before their commands."""
    yield from _below((), typer.main.get_command(app))


def region() -> str:
    """Return a section for each command."""
    parts = [f"## mirrormesh\n\n```text\n{_help(())}```"]
    parts += [f"## {' '.join(words)}\n\n```text\n{_help(words)}```" for words, _ in commands()]
    return "\n\n".join(parts)


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if words:
        yield words, command
    if hasattr(command, "list_commands"):
        context = command.make_context("mirrormesh", [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from _below((*words, name), command.get_command(context, name))


def _help(words: tuple[str, ...]) -> str:
    said, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDTH
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main([*words, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return "".join(f"{line.rstrip()}\n" for line in said.getvalue().splitlines())
