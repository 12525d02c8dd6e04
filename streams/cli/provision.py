"""`mirrormesh provision`: creates the topics and the users of a mesh, or checks existing ones."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from streams.bus.bus import BusError
from streams.bus.provision import Differs, Provisioned, Side, sides
from streams.bus.provision import provision as make_topics
from streams.bus.topic_specs import TopicSpec
from streams.bus.users import UserPlan
from streams.cli.arguments import MeshArgument
from streams.mesh.errors import UsageError
from streams.mesh.file import AnyFile, load_any
from streams.terminal.user_changes import done, wrong

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what would be changed.")]
UsersOption = Annotated[bool, typer.Option("--users", help="Also make users, passwords, rights and quotas.")]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", help="The folder of the users' passwords, a file a user: one that is there is used."
    ),
]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="Take away rights on this mesh that the mesh file does not give.")
]
CheckOption = Annotated[
    bool,
    typer.Option(
        "--check", help="Change nothing; name what is missing or too much, and end with 1 if anything is."
    ),
]
OnlyOption = Annotated[
    Side | None,
    typer.Option("--only", help="Only the mesh broker, or only the data brokers of the nodes that are here."),
]


def provision(
    mesh: MeshArgument,
    *,
    dry_run: DryRunOption = False,
    users: UsersOption = False,
    output: OutputOption = None,
    prune: PruneOption = False,
    check: CheckOption = False,
    only: OnlyOption = None,
) -> None:
    """Create topics and users of a mesh, or check existing ones.

    Running it twice is harmless: only differences are written. It creates the shared topics on the mesh
    broker, and, for each node whose own part is here, the node's topics on its data broker. If an existing
    topic differs, nothing is changed or created, and it is an error.

    With --users it also makes the users that the mesh file gives these brokers (mesh.parties), each with a
    password in a file of its own, the rights of its processes and no others, and a quota. It needs an
    administrator's credentials in the mesh file. A user whose file holds another password than the broker
    gets that of the file; one whom the broker knows, and whose password is not here, keeps it. Where security
    is tls, users have certificates, and no passwords are made. --prune takes away what the mesh file no
    longer gives, such as the rights of earlier runs and parties, and nothing of other meshes.

    --check covers the users of brokers that have some.

    \b
    Examples:
      mirrormesh provision mesh.yaml --dry-run
      mirrormesh provision mesh.yaml
      mirrormesh provision mesh.yaml --only mesh --users --output passwords
      mirrormesh provision mesh.yaml --check
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = load_any(mesh)
    try:
        if check:
            _refuse_with_check(dry_run=dry_run, prune=prune)
            _check(file, output, only, users=users)
        else:
            _refuse_without_users(output, users=users, prune=prune)
            _provision(file, output, only, dry_run=dry_run, users=users, prune=prune)
    except Differs as error:
        _leave(error.lines)
    except BusError as error:
        _leave([str(error)])


def _refuse_with_check(*, dry_run: bool, prune: bool) -> None:
    for option, is_given in (("--dry-run", dry_run), ("--prune", prune)):
        if is_given:
            raise UsageError(f"{option}: goes without --check, which changes nothing")


def _refuse_without_users(output: Path | None, *, users: bool, prune: bool) -> None:
    for option, is_given in (("--output", output is not None), ("--prune", prune)):
        if is_given and not users:
            raise UsageError(f"{option}: goes with --users")


def _provision(
    file: AnyFile, output: Path | None, only: Side | None, *, dry_run: bool, users: bool, prune: bool
) -> None:
    with ExitStack() as stack:
        plan = stack.enter_context(UserPlan(file, output, only)) if users else None
        if plan is not None and not dry_run:
            plan.check_folder()
        for side in make_topics(file, dry_run=dry_run, only=only):
            _say(side, dry_run=dry_run)
        if plan is None:
            return
        if not dry_run:
            plan.write(prune=prune)
        for changes in plan.changes:
            for line in done(changes, output, dry_run=dry_run, prune=prune):
                typer.echo(line)


def _check(file: AnyFile, output: Path | None, only: Side | None, *, users: bool) -> None:
    lines: list[str] = []
    try:
        for side in make_topics(file, dry_run=True, only=only):
            lines += [f"{side.label} {side.servers}: missing: topic {spec.name}" for spec in side.created]
            lines += side.bounded
    except Differs as error:
        lines += error.lines
    if users or all(broker.security != "plaintext" for _, broker in sides(file, only)):
        with UserPlan(file, output, only) as plan:
            lines += [line for changes in plan.changes for line in wrong(changes)]
    if lines:
        _leave(lines)
    typer.echo("right: nothing is missing or too much")


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
        retention = "the last of each key" if specs[0].compacted else _size(specs[0].retention_bytes)
        typer.echo(f"  {_names(specs)}: keeps {retention}, messages up to {longest}")
    for line in side.bounded:
        typer.echo(f"  {'would change' if dry_run else 'changed'}: {line}")


def _names(specs: list[TopicSpec]) -> str:
    first = specs[0].name
    return first if len(specs) == 1 else f"{first} and {len(specs) - 1} more {specs[0].kind}"


def _size(bytes_: int) -> str:
    if bytes_ < 2**20:
        return f"{bytes_ / 2**10:.3g} KiB"
    return f"{bytes_ / 2**30:.3g} GiB" if bytes_ >= 2**30 else f"{bytes_ / 2**20:.3g} MiB"
