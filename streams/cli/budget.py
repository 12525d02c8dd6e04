"""`mirrormesh budget`: the privacy that is spent, what is left, and how long it lasts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nodes.checks import rounded_up
from streams.bus.bus import BusError
from streams.cli.command_line import MeshArgument, cautioned, member_names
from streams.ledger import Reuse
from streams.mesh.errors import chosen, no_file
from streams.mesh.file import MeshFile, load_any
from streams.mesh.kind import dispatch
from streams.status.account import PrivacyAccount, accounts
from streams.terminal.report import say_facts
from streams.terminal.text import account_facts


def budget(
    mesh: MeshArgument,
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="NODE",
            help="This node alone. [default: all]",
            show_default=False,
            autocompletion=member_names,
        ),
    ] = None,
    *,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="DIR", help="Where the journal is kept.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one object.")] = False,
) -> None:
    """Show the privacy that nodes have spent, and what is left.

    Also shows for how many rounds the rest lasts. For nodes with a journal in --state the numbers are exact,
    even while the node is running. For other nodes they are upper bounds from the mesh broker, which count
    every plan so far. Writes nothing.

    \b
    Examples:
      mirrormesh budget mesh.yaml
      mirrormesh budget mesh.yaml east --state /var/lib/mirrormesh --json
    """  # noqa: D301 # \b is click's mark: no new line breaks
    dispatch("budget", cautioned(load_any(mesh)), node, no_file(state), as_json=as_json)


def budget_of_nodes(file: MeshFile, node: str | None, state: Path | None, *, as_json: bool) -> None:
    """Show what a mesh's nodes have spent."""
    names = chosen(file.mesh.nodes, node)
    try:
        by_node = accounts(file, names, state)
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(_json(file, by_node), indent=2))
        return
    console = Console(highlight=False)
    for account, reuse in by_node.values():
        say_facts(console, account_facts(account, reuse))


def _json(file: MeshFile, known: Mapping[str, tuple[PrivacyAccount, Reuse]]) -> dict[str, object]:
    """Return the object for programs. `all_runs` is the total of all known runs; null if it is unknown."""
    nodes = [account._asdict() | {"all_runs": _all_runs(reuse)} for account, reuse in known.values()]
    return {"mesh": file.mesh.name, "run": file.mesh.run, "nodes": nodes}


def _all_runs(known: Reuse) -> dict[str, float | None]:
    total = known.total
    epsilons = {"epsilon": total.epsilon, "stream_epsilon": total.stream_epsilon}
    rounded = {name: None if value is None else rounded_up(value) for name, value in epsilons.items()}
    deltas = {"delta": total.delta, "stream_delta": total.stream_delta}
    return rounded | {name: None if rounded[_EPSILON[name]] is None else deltas[name] for name in deltas}


_EPSILON = {"delta": "epsilon", "stream_delta": "stream_epsilon"}
