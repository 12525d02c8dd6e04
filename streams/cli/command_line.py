"""The command `mirrormesh`. Its help says the exit codes."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from streams.cli.catalogue import SETTINGS, LazyGroup

app = typer.Typer(
    name="mirrormesh",
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 # typer's callback takes it so
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 # a tenth of a second that no other call needs

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

    Several parties, each with a private stream, learn one model together, without a server. In every round
    each takes one mirror-descent step on its own records, and sends its neighbours differentially private
    parameters.

    \b
    To begin:
      mirrormesh demo                 see it work: six sensors follow a target privately
      mirrormesh init mesh.yaml       write a mesh file to start from
      mirrormesh check mesh.yaml      is it right?
      mirrormesh plan mesh.yaml       what would happen, and what is promised?
      mirrormesh budget mesh.yaml     what is spent, and what is left?
      mirrormesh run mesh.yaml        run it here, all nodes in one process
      mirrormesh up mesh.yaml         run it here on Kafka, one process per node
      mirrormesh model mesh.yaml      write what it has learnt; predict: use it
      mirrormesh watch mesh.yaml      see how it is doing, wherever it runs

    Exit codes: 0 done, 2 a mistake in the input, 3 most records malformed, 130 interrupted, 141 output
    unread, 1 anything else.
    """  # noqa: D301 # \b is click's mark: no new line breaks


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends in SystemExit. Mistakes are lines on standard error, not tracebacks."""
    try:
        app(None if arguments is None else list(arguments), prog_name="mirrormesh")
    except Exception as error:
        lines, code = _mistake(error)
        if not lines:
            raise
        for line in lines:
            typer.echo(line, err=True)
        sys.exit(code)


def _mistake(error: Exception) -> tuple[Sequence[str], int]:
    """Return the lines of a user's mistake, and the exit code; no lines for a fault of the program."""
    from streams.mesh.errors import MeshFileError, UsageError  # noqa: PLC0415 # help needs none of these
    from streams.state.folder import JournalError  # noqa: PLC0415

    match error:
        case MeshFileError():
            return error.lines, 2
        case UsageError() | JournalError():
            return [str(error)], 2
        case OSError():
            return [f"{error.filename}: {error.strerror}" if error.filename else str(error)], 1
    return (), 1
