"""`mirrormesh provision`: creates the topics of a mesh, or checks existing ones."""

from typing import Annotated

import typer

from streams.bus.bus import BusError
from streams.bus.provision import Differs, Provisioned
from streams.bus.provision import provision as make_topics
from streams.bus.topic_specs import TopicSpec
from streams.cli.arguments import MeshArgument
from streams.mesh.file import load

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Create nothing; show what would be created.")]


def provision(mesh: MeshArgument, *, dry_run: DryRunOption = False) -> None:
    """Create the topics of a mesh, or check existing ones.

    Running it twice is harmless. It creates the shared topics on the mesh broker, and, for each node whose
    own part is here, the node's topics on its data broker. If an existing topic differs, nothing is changed
    or created, and it is an error.

    \b
    Examples:
      mirrormesh provision mesh.yaml --dry-run
      mirrormesh provision mesh.yaml
    """  # noqa: D301 # \b is click's mark: no new line breaks
    try:
        done = make_topics(load(mesh), dry_run=dry_run)
    except Differs as error:
        _leave(error.lines)
    except BusError as error:
        _leave([str(error)])
    else:
        for side in done:
            _say(side, dry_run=dry_run)


def _leave(lines: tuple[str, ...] | list[str]) -> None:
    for line in lines:
        typer.echo(line, err=True)
    raise typer.Exit(1)


def _say(side: Provisioned, *, dry_run: bool) -> None:
    verb = "would make" if dry_run else "made"
    typer.echo(f"{side.label} {side.servers}: {verb} {len(side.created)}, found right {len(side.existing)}")
    kinds: dict[str, list[TopicSpec]] = {}
    for spec in side.created:
        kinds.setdefault(spec.kind, []).append(spec)
    for specs in kinds.values():
        longest = _size(specs[0].max_message_bytes)
        kept = "the last of each key" if specs[0].compacted else _size(specs[0].retention_bytes)
        typer.echo(f"  {_names(specs)}: keeps {kept}, messages up to {longest}")


def _names(specs: list[TopicSpec]) -> str:
    first = specs[0].name
    return first if len(specs) == 1 else f"{first} and {len(specs) - 1} more {specs[0].kind}"


def _size(bytes_: int) -> str:
    return f"{bytes_ / 2**30:.3g} GiB" if bytes_ >= 2**30 else f"{bytes_ / 2**20:.3g} MiB"
