"""The command `mirrormesh`. Exit codes: 0 done, 2 a mistake in what was given, 130 interrupted, else 1."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from streams.commands.audit import app as audit
from streams.commands.broker import app as broker
from streams.commands.budget import budget
from streams.commands.check import check
from streams.commands.demo import demo
from streams.commands.feed import feed
from streams.commands.init import init
from streams.commands.model import model
from streams.commands.node import node
from streams.commands.plan import plan
from streams.commands.predict import predict
from streams.commands.provision import provision
from streams.commands.run import run
from streams.commands.scheduler import scheduler
from streams.commands.tune import tune
from streams.commands.up import up
from streams.commands.usage import UsageError
from streams.commands.watch import watch
from streams.journal.journal import JournalError
from streams.mesh_file.settings.errors import MeshFileError

app = typer.Typer(
    name="mirrormesh",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 # typer's callback takes it so
    if asked:
        typer.echo(f"mirrormesh {version('mirrormesh')}")
        raise typer.Exit


@app.callback()
def _mirrormesh(
    *,
    _: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Private, decentralised online learning on streams.

    N parties, each with a private stream, learn one model together, without a server: every round each takes
    one mirror-descent step on its own records, and sends its neighbours differentially private parameters.

    \b
    To begin:
      mirrormesh demo                 see it work: six sensors track a target privately
      mirrormesh init mesh.yaml       write a mesh file to start from
      mirrormesh check mesh.yaml      is it right?
      mirrormesh plan mesh.yaml       what would happen, and what is promised?
      mirrormesh budget mesh.yaml     what is spent, and what is left?
      mirrormesh run mesh.yaml        run it here, all nodes in one process
      mirrormesh up mesh.yaml         run it here on Kafka, each node a process of its own
      mirrormesh model mesh.yaml      take away what it has learnt; predict: use it
      mirrormesh watch mesh.yaml      see how it goes, wherever it runs

    Exit codes: 0 done, 2 a mistake in what was given, 130 interrupted, 1 anything else.
    """  # noqa: D301 # \b is click's mark: no new line breaks


_COMMANDS = (
    *(demo, run, plan, check, init, tune, model, predict),
    *(provision, scheduler, node, feed, up, budget, watch),
)
for command in _COMMANDS:
    app.command()(command)
app.add_typer(audit, name="audit")
app.add_typer(broker, name="broker")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends in SystemExit. A mistake is a line on standard error, never a traceback."""
    try:
        app(None if arguments is None else list(arguments), prog_name="mirrormesh")
    except MeshFileError as error:
        _leave(error.lines, 2)
    except (UsageError, JournalError) as error:
        _leave([str(error)], 2)
    except OSError as error:
        _leave([f"{error.filename}: {error.strerror}" if error.filename else str(error)], 1)


def _leave(lines: Sequence[str], code: int) -> None:
    for line in lines:
        typer.echo(line, err=True)
    sys.exit(code)
