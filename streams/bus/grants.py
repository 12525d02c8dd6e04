"""Compares the rights that a broker's users have with those that a mesh file gives them. Pure.

A broker serves others too. What is of this mesh: on the mesh broker each rule on a topic of any of its runs,
whoever has it, as the mesh file alone gives them; on a party's own broker the rules of its nodes and feeders
on their own topics, as other programs of the party use these too. A rule that is wider (`*`, or a shorter
beginning of names) is never taken away here: it may be meant for others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streams.bus.access import Quota, Rule, User
from streams.codec.topics import DataTopics
from streams.mesh.settings.parties import is_subject

EVERYONE = ("User:*", "User:ANONYMOUS")
_HARMLESS = {"Describe", "DescribeConfigs", "IdempotentWrite"}


class Grant(NamedTuple):
    """One operation that a principal may do from `host`: a rule as a broker keeps it, in words."""

    principal: str
    kind: str
    name: str
    pattern: str
    operation: str
    host: str = "*"


def principal(user: str, *, tls: bool) -> str:
    """Return the broker's name of a user; `tls`: users have certificates, and `a` is the subject `CN=a`."""
    return f"User:CN={user}" if tls and not is_subject(user) else f"User:{user}"


def grants(principal: str, rules: Iterable[Rule]) -> tuple[Grant, ...]:
    """Return the rules as a broker keeps them."""
    return tuple(Grant(principal, *rule[:3], operation) for rule in rules for operation in rule.operations)


@dataclass(frozen=True, slots=True)
class Scope:
    """What belongs to a mesh on a broker: `prefix` begins the names of all its topics, `names` are others."""

    prefix: str | None = None
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, mesh: str | None, nodes: Iterable[str]) -> "Scope":
        """Return that of a mesh broker (`mesh`: its name) that also carries the data of these nodes."""
        topics = [DataTopics(node) for node in nodes]
        owned_names = {
            name
            for node_topics in topics
            for name in (node_topics.records, node_topics.dead_letters, node_topics.spends, node_topics.group)
        }
        owned_names |= {
            name for node_topics in topics for name in (node_topics.predictions, node_topics.decisions)
        }
        return cls(None if mesh is None else f"{mesh}.", frozenset(owned_names))

    def holds(self, grant: Grant, users: Iterable[str]) -> bool:
        """Return whether the rule is this mesh's to give and to take; `users`: its principals."""
        if grant.kind == "topic" and self.prefix is not None and grant.name.startswith(self.prefix):
            # a name of two parts is a topic of data, also where the mesh is called `data` or `spends`
            return grant.pattern == "prefix" or grant.name.count(".") > 1 or self._owns(grant, users)
        return self._owns(grant, users)

    def _owns(self, grant: Grant, users: Iterable[str]) -> bool:
        return grant.kind in {"topic", "group"} and grant.name in self.names and grant.principal in users

    def reached(self, grant: Grant) -> bool:
        """Return whether a rule for more than this mesh lets its principal at something of the mesh."""
        if grant.operation in _HARMLESS:
            return False
        if grant.kind == "cluster":
            return True
        names = [*self.names, *([] if self.prefix is None else [self.prefix])]
        wide = grant.name == "*" or (
            grant.pattern == "prefix" and any(name.startswith(grant.name) for name in names)
        )
        return grant.kind in {"topic", "group"} and wide


@dataclass(frozen=True, slots=True)
class Wanted:
    """The users of a mesh on one broker, and what belongs to the mesh there."""

    users: tuple[User, ...]
    scope: Scope
    tls: bool

    def grants(self) -> dict[Grant, None]:
        """Return their rules, in order."""
        grants_by_user = (grants(principal(user.name, tls=self.tls), user.rules) for user in self.users)
        return dict.fromkeys(grant for user_grants in grants_by_user for grant in user_grants)

    def quotas(self) -> dict[str, Quota]:
        """Return their quotas by the broker's name of the user, without its type."""
        named = ((principal(user.name, tls=self.tls).removeprefix("User:"), user) for user in self.users)
        return {name: user.quota for name, user in named if user.quota is not None}

    def logins(self) -> tuple[User, ...]:
        """Return the users that have a password."""
        return () if self.tls else tuple(user for user in self.users if not is_subject(user.name))


def _takes(rule: Grant, grant: Grant) -> bool:
    """Return whether a rule that denies takes something of what another allows."""
    if rule.kind != grant.kind or rule.principal not in {grant.principal, *EVERYONE[:1]}:
        return False
    if rule.operation not in {grant.operation, "All", "Describe"}:  # to read and to write include describe
        return False
    if rule.pattern == "prefix":
        return grant.name.startswith(rule.name) or (
            grant.pattern == "prefix" and rule.name.startswith(grant.name)
        )
    inside = grant.pattern == "prefix" and rule.name.startswith(grant.name)
    return inside or rule.name in {"*", grant.name}


@dataclass(frozen=True, slots=True)
class Gap:
    """The differences between the rights on a broker and those wanted.

    `denied`: DENY rules that keep a user from something that it is to do, whatever else allows it. `wider`:
    rules for more than this mesh that let its users, or everyone, at something of it; `others`: the same of
    other users.
    """

    missing: tuple[Grant, ...] = ()
    denied: tuple[Grant, ...] = ()
    excess: tuple[Grant, ...] = ()
    wider: tuple[Grant, ...] = ()
    others: tuple[Grant, ...] = ()
    quotas: Mapping[str, Quota] = field(default_factory=dict)


def gap(
    wanted: Wanted,
    there: Iterable[Grant],
    quotas: Mapping[str, Mapping[str, float]],
    denials: Iterable[Grant] = (),
) -> Gap:
    """Compare what is wanted with the rules that are there (`denials`: those that deny), and the quotas."""
    rules, existing, reaching = wanted.grants(), dict[Grant, None](), list[Grant]()
    users = {grant.principal for grant in rules}
    for grant in there:
        if wanted.scope.holds(grant, users):
            existing[grant] = None
        elif wanted.scope.reached(grant):
            reaching.append(grant)
    principals = {*users, *EVERYONE}
    limits = wanted.quotas()
    return Gap(
        tuple(grant for grant in rules if grant not in existing),
        tuple(rule for rule in denials if any(_takes(rule, grant) for grant in rules)),
        tuple(grant for grant in existing if grant not in rules),
        tuple(grant for grant in reaching if grant.principal in principals),
        tuple(grant for grant in reaching if grant.principal not in principals),
        {name: limit for name, limit in limits.items() if quotas.get(name) != limit._asdict()},
    )
