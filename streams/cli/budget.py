"""`mirrormesh budget`: the privacy spent, the rest, and how long it lasts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nodes.accounting.spends import Reuse, reuse_of
from nodes.decimals import rounded_up
from streams.bus.bus import BusError
from streams.cli import collaboration
from streams.cli.arguments import MeshArgument
from streams.mesh.errors import chosen
from streams.mesh.file import CollaborationFile, MeshFile, load_any
from streams.public.account import Account, account
from streams.public.standings import standings
from streams.state.known_spends import Known
from streams.state.spends_topic import all_lives
from streams.terminal.report import say_facts
from streams.terminal.spending import facts
from streams.terminal.wording import shared


def budget(
    mesh: MeshArgument,
    node: Annotated[
        str | None, typer.Argument(metavar="NODE", help="This node alone. [default: all]", show_default=False)
    ] = None,
    *,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Where the journal is kept.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one object.")] = False,
) -> None:
    """Show the privacy that nodes have spent, and what is left.

    Also shows for how many rounds that lasts. For nodes with a journal in --state the numbers are exact, even
    beside a running node. For others they come from the mesh broker: upper bounds, which
    count every plan so far. Writes nothing.

    \b
    Examples:
      mirrormesh budget mesh.yaml
      mirrormesh budget mesh.yaml east --state /var/lib/mirrormesh --json
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load_any(mesh)
    if isinstance(file, CollaborationFile):
        collaboration.budget(file, node, state, as_json=as_json)
        return
    names = chosen(file.mesh.nodes, node)
    try:
        accounts = [account(file, name, found) for name, found in standings(file, names, state).items()]
        spends = all_lives(file, names, state)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(_json(file, accounts, spends), indent=2))
        return
    console = Console(highlight=False)
    for one in accounts:
        say_facts(console, facts(one, file.mesh.run, *spends[one.node]))
    say_facts(console, (("shared", sentence) for sentence in shared(file)))


def _json(file: MeshFile, accounts: list[Account], spends: Mapping[str, Known]) -> dict[str, object]:
    """Return the object for programs; `all_runs`: the total of all known runs, null if not known."""
    run = file.mesh.run
    nodes = [
        one._asdict() | {"all_runs": _all_runs(reuse_of(spends[one.node].lives, run))} for one in accounts
    ]
    return {"mesh": file.mesh.name, "run": file.mesh.run, "nodes": nodes}


def _all_runs(known: Reuse | None) -> dict[str, float | None]:
    if known is None:
        return dict.fromkeys(("epsilon", "stream_epsilon", "delta", "stream_delta"))
    found = known.total
    epsilons = {"epsilon": found.epsilon, "stream_epsilon": found.stream_epsilon}
    rounded = {name: None if value is None else rounded_up(value) for name, value in epsilons.items()}
    deltas = {"delta": found.delta, "stream_delta": found.stream_delta}
    return rounded | {name: None if rounded[_EPSILON[name]] is None else deltas[name] for name in deltas}


_EPSILON = {"delta": "epsilon", "stream_delta": "stream_epsilon"}
