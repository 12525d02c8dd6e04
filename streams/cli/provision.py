"""`mirrormesh provision`: creates the topics and the users of a mesh, or checks existing ones."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from streams.bus.bus import BusError
from streams.bus.provision import Differs, Provisioned, Side, sides
from streams.bus.provision import provision as make_topics
from streams.bus.rights import Grant, Quota, User
from streams.bus.topic_specs import TopicSpec
from streams.bus.users import Changes, UserPlan
from streams.cli.command_line import MeshArgument, cautioned
from streams.mesh.errors import UsageError
from streams.mesh.file import AnyFile, load_any
from streams.terminal.text import counted, listed

# Describes the changes of a broker's users in lines.

_VERBS = ("make", "change", "allow", "limit", "take")
_WOULD = tuple(f"would {verb}" for verb in _VERBS)
_DONE = ("made", "changed", "allowed", "limited", "took")


def change_lines(changes: Changes, folder: Path | None, *, dry_run: bool, prune: bool) -> Iterator[str]:
    """Yield each right or user that was changed, or would be, and each superfluous one that stays."""
    logins, gap = changes.logins, changes.gap
    make, change, allow, limit, take = _WOULD if dry_run else _DONE
    verdict = "" if changes.different else ": all right"
    yield f"{changes.label} {changes.servers}: {counted(len(changes.users), 'user')}{verdict}"
    for user in logins.new:
        place = "the folder of --output" if folder is None else str(folder / user.name)
        yield f"  {make} {_named(user)}, with the password in {place}"
    for user in logins.changed:
        yield f"  {change} the password of {user.name} to the one in its file"
    yield from (f"  {allow} {rule}" for rule in _rules(gap.missing))
    yield from (f"  {limit} {name} to {_quota(quota)}" for name, quota in gap.quotas.items())
    for rule in _rules(gap.excess):
        yield f"  {take} away {rule}" if prune else f"  too much: {rule} (--prune takes it away)"
    yield from (f"  denied by a DENY rule, which stays: {rule}" for rule in _rules(gap.denied))
    yield from (f"  too much, and wider than this mesh, so it stays: {rule}" for rule in _rules(gap.wider))
    yield from (f"  another user's right reaches this mesh, and stays: {rule}" for rule in _rules(gap.others))
    for rule in _rules(gap.unnamed):
        yield f"  on a topic that the mesh file does not name, as on labels; it stays: {rule}"
    if logins.elsewhere and folder is not None:
        names = listed([user.name for user in logins.elsewhere])
        yield f"  the broker knows {names}; the passwords are not in {folder}, and stay"
    yield from (f"  Warning: {line}" for line in changes.warnings)


def wrong(changes: Changes) -> Iterator[str]:
    """Yield each right or user that is missing, and each that is superfluous."""
    broker, logins, gap = f"{changes.label} {changes.servers}", changes.logins, changes.gap
    yield from (f"{broker}: missing: {_named(user)}" for user in logins.new)
    yield from (
        f"{broker}: the password of {user.name} is not the one in its file" for user in logins.changed
    )
    yield from (f"{broker}: missing: {rule}" for rule in _rules(gap.missing))
    yield from (
        f"{broker}: missing: the quota of {name}: {_quota(quota)}" for name, quota in gap.quotas.items()
    )
    yield from (f"{broker}: denied by a DENY rule: {rule}" for rule in _rules(gap.denied))
    yield from (f"{broker}: too much: {rule}" for rule in _rules(gap.excess))
    yield from (f"{broker}: too much, and wider than this mesh: {rule}" for rule in _rules(gap.wider))


def _rules(grants: Iterable[Grant]) -> Iterator[str]:
    """Yield (principal, operations, resource) of the rules. Operations on one resource are joined."""
    operations_by_grant: dict[Grant, list[str]] = {}
    for grant in grants:
        operations_by_grant.setdefault(grant._replace(operation=""), []).append(grant.operation)
    for grant, operations in operations_by_grant.items():
        names = f"{grant.kind} {grant.name}" if grant.pattern == "literal" else f"{grant.kind}s {grant.name}*"
        host = "" if grant.host == "*" else f" from {grant.host}"
        yield f"{grant.principal}: {', '.join(operations)} on {names}{host}"


def _named(user: User) -> str:
    return f"the user {user.name} ({listed(user.roles)})"


def _quota(quota: Quota) -> str:
    producer, consumer = quota.producer_byte_rate / 2**20, quota.consumer_byte_rate / 2**20
    return (
        f"{producer:.3g} MiB/s sent, {consumer:.3g} received, {quota.request_percentage} % of a broker thread"
    )


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

    Running the command twice is harmless: it writes only differences. It creates the shared topics on the
    mesh broker, and, for each node whose own part is here, the node's topics on its data broker. If an
    existing topic differs, that is an error, and nothing is changed or created.

    With --users it also creates the users that the mesh file gives these brokers (mesh.parties). Each has a
    password in a file of its own, the rights of its processes and no others, and a quota. This needs an
    administrator's credentials in the mesh file. If the password in a user's file differs from the broker's,
    the broker gets that of the file. A user that the broker knows, and whose password is not here, keeps its
    password. Where security is tls, users have certificates, and no passwords are made. --prune removes
    what the mesh file no longer grants, such as the rights of earlier runs and parties, and nothing of other
    meshes.

    --check covers the users of brokers that have some.

    \b
    Examples:
      mirrormesh provision mesh.yaml --dry-run
      mirrormesh provision mesh.yaml
      mirrormesh provision mesh.yaml --only mesh --users --output passwords
      mirrormesh provision mesh.yaml --check
    """  # noqa: D301 # \b is click's mark: no new line breaks
    file = cautioned(load_any(mesh))
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
            for line in change_lines(changes, output, dry_run=dry_run, prune=prune):
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
