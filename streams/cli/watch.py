"""`mirrormesh watch`: shows a mesh on a broker."""

from typing import Annotated

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.cli import watching as shell
from streams.cli.arguments import MeshArgument
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import serve
from streams.runtime.process import Asked, Stop


def watch(
    mesh: MeshArgument,
    *,
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines, also on a terminal.")] = False,
) -> None:
    """Watch a mesh that runs on a broker.

    Shows a row for each node: whom it hears, what it has spent, whether it is missing, what it has refused.
    Reads plans and heartbeats on the mesh broker, and counts dead letters; writes nothing. On a terminal it
    draws one screen: h or ? for help, q or Ctrl-C to quit. Elsewhere it prints a line every 10 s. So it does
    for a collaboration, until it is over.

    \b
    Examples:
      mirrormesh watch mesh.yaml
      mirrormesh watch mesh.yaml --once
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file, console = load_any(mesh), Console(highlight=False)
    with Stop() as stop:
        try:
            serve("watch", file, console, stop.asked, once=once, plain=plain)
        except BusError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
    if stop.asked.is_set():
        raise typer.Exit(stop.exit_code)


def watch_nodes(file: MeshFile, console: Console, stopped: Asked, *, once: bool, plain: bool) -> None:
    """Show a mesh of nodes."""
    if once:
        shell.once(file, console)
    else:
        shell.watch(file, console, stopped, plain=plain)
