"""Commands of an operator on a run: a node leaves, is pardoned, or the run ends."""

import secrets
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from streams.bus.bus import BusError
from streams.bus.logs import reached
from streams.bus.mesh_log import MeshLog
from streams.cli.command_line import MeshArgument
from streams.cli.processes import LevelOption, LogFormat, LogLevel, LogOption, StateOption, existing, live
from streams.live.scheduler_process import LOGGER, end_run
from streams.mesh.errors import UsageError, chosen
from streams.mesh.file import MeshFile, load
from streams.runtime.process import Stop
from streams.state.folder import StateFolder, read_wish, withdraw_wish, write_wish
from streams.state.journal import open_journal
from streams.state.journal_file import JournalLocked, locked
from streams.status.account import journal_charge_count
from streams.terminal.report import say

# `mirrormesh leave`: takes a node out of a run in order.

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


# `mirrormesh pardon`: lets a node that has sent two values for a round be heard again.


def pardon(
    mesh: MeshArgument,
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="The node that is to be heard again.", show_default=False)
    ],
    *,
    state: StateOption,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="NAME", help="The node that hears it again. [default: all in the folder]"
        ),
    ] = None,
) -> None:
    """Let a node that has sent two values for a round be heard again.

    Who hears the node keeps its evidence in its own journal, so this is for the owner of a neighbour, while
    that neighbour is stopped, and each neighbour's owner decides alone. Later evidence counts again. The node
    is also heard again once it joins as a new instance. Exit code 1: nobody here counts it as silent.

    \b
    Examples:
      mirrormesh pardon mesh.yaml west --state /var/lib/mirrormesh
      mirrormesh pardon mesh.yaml west --state /var/lib/mirrormesh --by east
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load(mesh)
    chosen(file.mesh.nodes, node)
    readers = file.resolved.graph.neighbours(node)[1] if by is None else chosen(file.mesh.nodes, by)
    folder, pardoned = StateFolder(existing(state)), 0
    for reader in readers:
        if not folder.journal(reader).exists():
            continue
        context = file.resolved.node(reader).context
        with open_journal(state, reader, context, secrets.token_hex(16)) as journal:
            for instance in journal.pardon(node):
                pardoned += 1
                typer.echo(f"{reader} hears {node} again: evidence against instance {instance} is forgiven")
    if not pardoned:
        typer.echo(f"{state}: no journal of {', '.join(readers)} here counts {node} as silent", err=True)
        raise typer.Exit(1)


# `mirrormesh end`: ends the run of a mesh on its broker.

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def end(
    mesh: MeshArgument,
    *,
    yes: YesOption = False,
    log: LogOption = LogFormat.TEXT,
    level: LevelOption = LogLevel.INFO,
) -> None:
    """End the run of a mesh, for all its nodes and for good.

    It publishes the plan that ends the run, after those that the schedulers have made, and waits until that
    is the valid one. Nodes finish the rounds before it; then they and the schedulers say that the run is
    over, and exit with 0. It needs the rights of a scheduler. Nothing of the run is deleted. Running it twice
    is harmless.

    Silence never ends a run: one without rounds goes on until this, or until all its nodes have left.

    \b
    Example:
      mirrormesh end mesh.yaml --yes
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load(mesh)
    if not yes:
        _confirm(file)

    def work(stop: Stop) -> None:
        last = end_run(file, stop)
        typer.echo(f"run {file.mesh.run} of mesh {file.mesh.name} ends before round {last.round}")

    live(LOGGER, work, log, level)


def _confirm(file: MeshFile) -> None:
    if not sys.stdin.isatty():
        raise UsageError("--yes: must be given where nobody can be asked")
    question = f"End run {file.mesh.run} of mesh {file.mesh.name}, for good?"
    typer.confirm(question, abort=True)
