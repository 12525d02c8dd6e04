"""`mirrormesh leave`: takes a node out of a run in order."""

from contextlib import closing
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog
from streams.cli.arguments import MeshArgument
from streams.cli.process_command import StateOption, existing
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile, load
from streams.state.folder import StateFolder
from streams.state.journal_file import JournalLocked, locked
from streams.state.leaving import read_wish, withdraw_wish, write_wish
from streams.status.account import journal_charge_count
from streams.terminal.report import say

# Announces that a node leaves: finds a last round that no plan on its way can pass, and keeps it.


class Leaving(NamedTuple):
    """`last`: the last round with the node; `planned`: the newest one planned. `works`: its process does.

    `stepped`: the last round that it has stepped.
    """

    last: int
    planned: int
    stepped: int
    works: bool


def announce(file: MeshFile, node: str, state: Path) -> Leaving:
    """Announce that a node leaves H rounds after the newest plan; asked again, it stays at the first word.

    Its process reads that within a second, and tells the schedulers. Raises UsageError if the node has no
    journal of this run in the folder, or the run is over; JournalError, BusError, MeshFileError.
    """
    charge_count = journal_charge_count(state, file, node)
    if charge_count is None:
        text = f"{state}: holds no journal of {node} in run {file.mesh.run}: must be its state folder"
        raise UsageError(f"--state {text}")
    planned = _planned(file, node)
    leave_from = read_wish(state, node, file.mesh.run)
    if leave_from is None:
        leave_from = planned + file.mesh.horizon + 1
        write_wish(state, node, file.mesh.run, leave_from)
    return Leaving(leave_from - 1, planned, charge_count.stepped, _works(state, node))


def _planned(file: MeshFile, node: str) -> int:
    """Return the newest planned round (0: none), as the node's own user may read it."""
    with closing(reached(file.brokers(node).mesh)) as logs:
        plans = MeshLog.of(file, logs).valid_plans()
    newest = max(plans, default=0)
    if plans and plans[newest].ended:
        raise UsageError(f"{file.path}: run {file.mesh.run} is over: nobody needs to announce it")
    return newest


def _works(state: Path, node: str) -> bool:
    """Return whether a process has the node's journal open."""
    try:
        with locked(StateFolder(state).journal(node)):
            return False
    except JournalLocked:
        return True


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
