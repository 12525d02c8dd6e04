"""`mirrormesh leave`: takes a node out of a run in order."""

from typing import Annotated

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.cli.arguments import MeshArgument
from streams.cli.process_command import StateOption, existing
from streams.mesh.file import load
from streams.state.leaving import withdraw_wish
from streams.terminal.report import say
from streams.tools.leaving import Leaving
from streams.tools.leaving import leave as announce


def leave(
    mesh: MeshArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The node.", show_default=False)],
    *,
    state: StateOption,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="The node stays, or may come back.")] = False,
) -> None:
    """Announce that a node leaves the run, with a last round.

    It lies H rounds (horizon) after the newest plan. The node's process reads it within a second, tells the
    schedulers, takes part until then, and ends with exit code 0. Call it where the node's state folder is:
    there the word is kept, so a restart does not forget it. What the node has spent stays on record.

    \b
    Examples:
      mirrormesh leave mesh.yaml east --state /var/lib/mirrormesh
      mirrormesh leave mesh.yaml east --state /var/lib/mirrormesh --withdraw
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file, console = load(mesh), Console(highlight=False)
    file.own(name)
    if withdraw:
        withdraw_wish(existing(state), name)
        say(console, f"{name} stays in run {file.mesh.run}: start its process if it has ended.")
        return
    try:
        announced = announce(file, name, state)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    for sentence in _sentences(name, file.mesh.run, announced):
        say(console, sentence)


def _sentences(name: str, run: str, found: Leaving) -> list[str]:
    sentences = [f"{name} leaves run {run} after round {found.last:,}; planned are {found.planned:,}."]
    if found.works:
        sentences.append("Its process takes part until then, and ends with exit code 0.")
    else:
        sentences.append(
            f"No process of it works with this folder: it has stepped round {found.stepped:,}, schedulers "
            "plan without it once it is silent, and a process that is started leaves as announced."
        )
    return [*sentences, "What it has spent stays on record, in the folder and on its data broker."]
