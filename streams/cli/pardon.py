"""`mirrormesh pardon`: lets a node that has sent two values for a round be heard again."""

import secrets
from typing import Annotated

import typer

from streams.cli.arguments import MeshArgument
from streams.cli.process_command import StateOption, existing
from streams.mesh.errors import chosen
from streams.mesh.file import load
from streams.state.folder import StateFolder
from streams.state.journal import open_journal


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
