"""Puts the changes of a broker's users into lines."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from streams.bus.rights import Grant, Quota, User
from streams.bus.users import Changes
from streams.terminal.wording import counted, listed

_VERBS = ("make", "change", "allow", "limit", "take")
_WOULD = tuple(f"would {verb}" for verb in _VERBS)
_DONE = ("made", "changed", "allowed", "limited", "took")


def done(changes: Changes, folder: Path | None, *, dry_run: bool, prune: bool) -> Iterator[str]:
    """Yield what was changed, or would be, and what is too much and stays."""
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
    if logins.elsewhere and folder is not None:
        names = listed([user.name for user in logins.elsewhere])
        yield f"  the broker knows {names}; the passwords are not in {folder}, and stay"
    yield from (f"  Warning: {line}" for line in changes.warnings)


def wrong(changes: Changes) -> Iterator[str]:
    """Yield what is missing, and what is too much."""
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
    """Yield a rule's principal, operations and resource; the operations on one resource together."""
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
