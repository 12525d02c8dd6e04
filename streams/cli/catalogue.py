"""The commands by name, each loaded when it is called, as loading may take a second."""

import os
import signal
import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

COMMANDS = {
    "demo": "Six sensors follow a moving target together, privately.",
    "run": "Run a mesh in this process, without a broker.",
    "simulate": "Search a mesh for bugs: seeded faults in virtual time.",
    "plan": "Show what a mesh would do, and what it promises to whom.",
    "check": "Check a mesh file, and name every mistake.",
    "init": "Write a mesh file to start from, or an example with its data.",
    "tune": "Propose clip, step, slot size, mechanism from public records.",
    "forecast": "Say whether a collaboration is worth it, and to whom.",
    "model": "Write what a mesh has learnt, as npz and JSON.",
    "predict": "Predict the labels of a file's records, as CSV or JSON lines.",
    "provision": "Create topics and users of a mesh, or check existing ones.",
    "key": "Make a key that signs, and show the public one.",
    "scheduler": "Plan which edges are on in which round, ahead of the nodes.",
    "end": "End the run of a mesh, for all its nodes and for good.",
    "node": "Run nodes: each on its own data topic, with its neighbours.",
    "leave": "Announce that a node leaves the run, with a last round.",
    "owner": "Run a collaboration's owner: it answers queries about its set.",
    "learner": "Run a collaboration's learner: it asks the owners, and learns.",
    "feed": "Feed a node's source to its data topic, each record once.",
    "up": "Run a whole mesh on this machine, on Kafka.",
    "pardon": "Let a node that has sent two values for a round be heard again.",
    "budget": "Show the privacy that nodes have spent, and what is left.",
    "watch": "Watch a mesh that runs on a broker.",
    "deadletters": "List what a node refused, and what could not be fed to it.",
    "audit": "Search for violations of a mesh's privacy guarantee.",
    "export": "Write what runs a mesh: for Kubernetes, compose or bare hosts.",
    "broker": "Start and stop a Kafka broker for development on this machine.",
}
"""Each command's one-line help: the first line of its function's, or group's, docstring."""

UNREAD = 128 + signal.SIGPIPE
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Loaded(MutableMapping[str, Any]):
    """The commands, each imported on lookup."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        module = import_module(f"streams.cli.{name}")
        app = getattr(module, "app", None)
        if app is None:
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(name)(getattr(module, name))
        command = get_command(app)
        command.name = name
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("commands are defined in COMMANDS")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are defined in COMMANDS")


class LazyGroup(TyperGroup):
    """The group of all commands; its help lists them without loading them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Loaded()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 # as typer calls it
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands and options that begin so, without loading any command."""
        loaded = self.commands
        self.commands = {name: TyperCommand(name, help=help_text) for name, help_text in COMMANDS.items()}
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = loaded

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Where nobody reads what it prints, it ends without a word, as SIGPIPE would."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            pass
        except SystemExit as ended:
            if not isinstance(ended.__context__, BrokenPipeError):  # rich ends the process itself, with 1
                raise
        else:
            return result
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
        return ctx.exit(UNREAD)
