"""The only source of rights on brokers: each process's topics, and each user's rules and quota.

`Access` lists the topics and groups that a process needs on a broker. `Rule` is a right in Kafka's words. A
user has the rules of all its processes, and a quota, which limits its load on a broker.
"""

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from streams.bus.topic_specs import MIB, OVERHEAD, PLANS, Sizes, release_topics, sizes
from streams.codec import heartbeat
from streams.codec.topics import (
    ID_PATTERN,
    RUN_KINDS,
    DataTopics,
    MeshTopics,
    ScoreTopics,
    all_of,
    edges_of,
)
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.node import ScoreSettings
from streams.mesh.settings.parties import (
    auditor_user,
    feeder_user,
    is_subject,
    scheduler_user,
    score_user,
)
from streams.mesh.settings.privacy import TimeSlotsSettings
from topology.scheduler import heartbeat_period

# How much a user may ask of the mesh broker: ten times what its processes do in a steady run, or more.
#
# Quotas keep one party from stopping the others; they must not slow a node that catches up. The steady rate
# is that of the busiest rounds: with slots by time one a period, at least one a second; with slots by count
# `FASTEST` a second, or as many as fit through a network of `NETWORK` bytes a second. Each round counts its
# longest messages, `PLANS` copies of its plan and a heartbeat of each node; the clock's heartbeats come on
# top.

ROOM = 10
"""How many times the steady rate a quota is."""
FASTEST = 100.0
"""Rounds per second with slots by count: more than any mesh has reached (docs/performance.md)."""
NETWORK = 125e6
"""Bytes per second of a gigabit network, which the busiest node's rounds must fit through."""
REQUEST_SECONDS = 2e-4
"""A broker thread's time for a request; each message sent, and each received, is one. A development
broker took 9.5 ms a round for about 50 of them."""
IDLE_REQUESTS = 20.0
"""Requests per second of a process that waits."""
LEAST_BYTES, LEAST_PERCENTAGE = MIB, 50
"""The smallest quotas: a process that starts reads logs, and asks for every topic."""


class Quota(NamedTuple):
    """A user's limits on each broker: bytes per second, and percent of the time of one broker thread."""

    producer_byte_rate: int
    consumer_byte_rate: int
    request_percentage: int


class Load(NamedTuple):
    """What a process sends and receives in a round, or in a second: bytes and numbers of messages."""

    sent: float = 0
    received: float = 0
    requests: float = 0

    def plus(self, other: "Load", times: float = 1) -> "Load":
        """Return the sum of this load and `times` times another."""
        return Load(*(part + times * other_part for part, other_part in zip(self, other, strict=True)))


def node_load(mesh: Mesh, node: str) -> Load:
    """Return a node's load per round."""
    sources, targets = mesh.graph.neighbours(node)
    size = sizes(mesh)
    sends = len({mesh.topics.edge(node, target) for target in targets})
    sent_bytes = sends * with_overhead(size.release) + with_overhead(heartbeat.LONGEST)
    received = (
        len(sources) * with_overhead(size.release)
        + PLANS * with_overhead(size.plan)
        + with_overhead(heartbeat.LONGEST)
    )
    return Load(sent_bytes, received, len(sources) + sends + PLANS + 2)


def scheduler_load(mesh: Mesh) -> Load:
    """Return a scheduler's load per round."""
    size, nodes = sizes(mesh), len(mesh.graph.nodes)
    sent_bytes = with_overhead(size.plan) + with_overhead(heartbeat.LONGEST)
    return Load(sent_bytes, _public(size, nodes), PLANS + nodes + 2)


def auditor_load(mesh: Mesh) -> Load:
    """Return the load per round of a process that reads all topics of the mesh."""
    size, nodes, topics = sizes(mesh), len(mesh.graph.nodes), len(release_topics(mesh))
    return Load(0, _public(size, nodes) + topics * with_overhead(size.release), PLANS + nodes + topics)


def rounds_per_second(mesh: Mesh) -> float:
    """Return the steady rate that quotas go by."""
    slots = mesh.settings.slots
    if isinstance(slots, TimeSlotsSettings):
        return max(1.0, 1 / slots.period)
    loads = (node_load(mesh, node) for node in mesh.graph.nodes)
    busiest = max(max(load.sent, load.received) for load in loads)
    return min(FASTEST, max(1.0, NETWORK / busiest))


def quota(mesh: Mesh, rate: float, loads: Iterable[Load]) -> Quota:
    """Return the quota of a user with processes of these loads per round, at `rate` rounds per second."""
    beats = Load(
        with_overhead(heartbeat.LONGEST), len(mesh.graph.nodes) * with_overhead(heartbeat.LONGEST), 2
    )
    second = Load()
    for load in loads:
        second = second.plus(load, rate).plus(beats, 1 / heartbeat_period(mesh.settings.silence))
        second = second.plus(Load(requests=IDLE_REQUESTS))
    return limited(second)


def limited(second: Load) -> Quota:
    """Return the quota of a user who sends and receives so much in a second of a steady run."""
    return Quota(
        max(LEAST_BYTES, math.ceil(ROOM * second.sent)),
        max(LEAST_BYTES, math.ceil(ROOM * second.received)),
        max(LEAST_PERCENTAGE, math.ceil(100 * ROOM * second.requests * REQUEST_SECONDS)),
    )


def _public(size: Sizes, nodes: int) -> float:
    """Return the bytes of a round's plans and heartbeats, a scheduler's included."""
    return PLANS * with_overhead(size.plan) + (nodes + 1) * with_overhead(heartbeat.LONGEST)


def with_overhead(value: int) -> int:
    """Return the most bytes of a message on the network, overhead included."""
    return value + OVERHEAD


__all__ = ["Access", "Quota", "Rule", "User", "data_users", "merged", "mesh_users"]
_ORDER = ("Read", "Write", "Describe", "DescribeConfigs")
Resource = Literal["topic", "group", "transactional id"]
_Place = tuple[Resource, str, Literal["literal", "prefix"]]


@dataclass(frozen=True, slots=True)
class Access:
    """The rights that a process needs on a broker.

    `groups`: the consumer groups whose offsets it commits; `configs`: the topics whose settings it reads.
    `owned`: prefixes of topic names that belong to the process alone, so that one rule covers them all.
    `transactions`: the prefixes of its transactional ids.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    groups: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


def access_of_all(work: Iterable[Access]) -> Access:
    """Return the union of these rights."""
    rights = Access((), ())
    for access in work:
        added = (getattr(rights, name) + getattr(access, name) for name in Access.__slots__)
        rights = Access(*map(tuple, map(dict.fromkeys, added)))
    return rights


class Rule(NamedTuple):
    """A right in Kafka's words: operations on one resource, or on all whose names have a prefix.

    Read and Write include Describe; Write on a topic is all that an idempotent producer needs.
    """

    kind: Resource
    name: str
    pattern: Literal["literal", "prefix"]
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class User:
    """A user of a broker. `roles`: its processes, in words. `quota` None: unlimited."""

    name: str
    roles: tuple[str, ...]
    rules: tuple[Rule, ...]
    quota: Quota | None


def node_on_mesh(topics: MeshTopics, node: str, sources: Iterable[str], targets: Iterable[str]) -> Access:
    """Return a node's rights on the mesh broker; it also reads its own messages, and its readers' beats."""
    targets = tuple(targets)
    out_edges = dict.fromkeys(topics.edge(node, target) for target in targets)
    beats = [topics.progress(target) for target in targets]
    edges = [topics.edge(source, node) for source in sources]
    progress, dead_letters = topics.progress(node), topics.dead_letters(node)
    reads, writes = (
        (topics.topology, progress, *edges, *out_edges, *beats),
        (progress, dead_letters, *out_edges),
    )
    prefix = edges_of(topics, node)
    return Access(reads, writes, owned=() if prefix is None else (prefix,))


def node_on_data(topics: DataTopics, run: str | None = None) -> Access:
    """Return a node's rights on its party's own broker, with those of a run on its consumer group.

    The rights on a topic that others created are not included: it may be elsewhere, and its owners give them.
    """
    writes = (topics.dead_letters, topics.predictions, topics.decisions, topics.spends)
    if topics.source is not None:
        return Access((topics.spends,), writes)
    return Access((topics.records, topics.spends), writes, () if run is None else (topics.group(run),))


def on_existing_topic(topics: DataTopics) -> Access:
    """Return a node's rights on the topic of its records that others made, on whichever broker."""
    return Access((topics.records,), ())


def on_labels(topic: str) -> Access:
    """Return a node's rights on a topic of labels that come later: it also watches how long they are kept."""
    return Access((topic,), (), configs=(topic,))


def feeder(topics: DataTopics) -> Access:
    """Return a feed's rights on the party's own broker; it continues after the stored records."""
    records, read_and_written = (topics.records,), (topics.records, topics.dead_letters)
    return Access(read_and_written, read_and_written, configs=records)


def scorer(topics: ScoreTopics, node: DataTopics, *, transactions: bool = True) -> Access:
    """Return the rights of a process that scores messages with a node's decisions.

    The process also reads the spends of earlier runs, as the epsilon of a score includes them.
    """
    reads, writes = (topics.input, node.decisions, node.spends), (topics.output, topics.dead_letters)
    ids = (f"{topics.group}.",) if transactions else ()
    return Access(reads, writes, (topics.group,), transactions=ids)


def scheduler(topics: MeshTopics, nodes: Iterable[str]) -> Access:
    """Return a scheduler's rights on the mesh broker."""
    beats = [topics.progress(node) for node in nodes]
    return Access((topics.topology, topics.scheduler, *beats), (topics.topology, topics.scheduler))


def rules(work: Iterable[Access]) -> tuple[Rule, ...]:
    """Return the rules that give these rights, each resource once."""
    operations: dict[_Place, set[str]] = {}
    for access in work:
        topic_operations = [(topic, "Read") for topic in access.reads]
        topic_operations += [(topic, "Write") for topic in access.writes]
        topic_operations += [(topic, "DescribeConfigs") for topic in access.configs]
        for topic, operation in topic_operations:
            prefix = next((owned for owned in access.owned if topic.startswith(owned)), None)
            place: _Place = ("topic", topic, "literal") if prefix is None else ("topic", prefix, "prefix")
            operations.setdefault(place, set()).add(operation)
        for group in access.groups:
            operations.setdefault(("group", group, "literal"), set()).add("Read")
        for beginning in access.transactions:
            operations.setdefault(("transactional id", beginning, "prefix"), set()).update(
                ("Write", "Describe")
            )
    return tuple(
        Rule(*place, tuple(word for word in _ORDER if word in words)) for place, words in operations.items()
    )


def mesh_users(mesh: Mesh) -> tuple[User, ...]:
    """Return the users of the mesh broker: each party's, the scheduler's, and the auditor's."""
    topics, rate = mesh.topics, rounds_per_second(mesh)
    users = []
    for user, nodes in _nodes_of(mesh, mesh.settings.nodes).items():
        work = [node_on_mesh(topics, node, *mesh.graph.neighbours(node)) for node in nodes]
        limits = quota(mesh, rate, [node_load(mesh, node) for node in nodes])
        users.append(User(user, tuple(f"node {node}" for node in nodes), rules(work), limits))
    name, planning = mesh.settings.name, scheduler(topics, mesh.settings.nodes)
    limits = quota(mesh, rate, [scheduler_load(mesh)])
    users.append(User(scheduler_user(name), ("scheduler",), rules([planning]), limits))
    read_all = Rule("topic", all_of(topics), "prefix", ("Read",))
    limits = quota(mesh, rate, [auditor_load(mesh)])
    return (*users, User(auditor_user(name), ("auditor",), (read_all,), limits))


def data_users(
    mesh: Mesh,
    nodes: Iterable[str],
    sources: Mapping[str, str | None] = MappingProxyType({}),
    scores: Mapping[str, ScoreSettings] = MappingProxyType({}),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> tuple[User, ...]:
    """Return the users of a party's own broker that carries the records of these nodes.

    `sources`: by node, the topics of records that others created; these nodes have no feeder. `scores`: by
    node, the topics that are scored with its decisions. `labels`: by node, the topic of labels that come
    later, if it is on this broker. No user has a quota, as the broker is the party's own.
    """
    users, name = list[User](), mesh.settings.name
    for user, user_nodes in _nodes_of(mesh, nodes).items():
        topics = {node: DataTopics(name, node, sources.get(node)) for node in user_nodes}
        work = [node_on_data(topics[node], mesh.settings.run) for node in user_nodes]
        work += [on_labels(labels[node]) for node in user_nodes if node in labels]
        users.append(User(user, tuple(f"node {node}" for node in user_nodes), rules(work), None))
        users += [
            User(feeder_user(node), (f"feeder of {node}",), rules([feeder(topics[node])]), None)
            for node in user_nodes
            if topics[node].source is None
        ]
        for node in user_nodes:
            if (settings := scores.get(node)) is not None:
                scored = ScoreTopics(name, node, settings.input, settings.output)
                work = [scorer(scored, topics[node], transactions=settings.transactions)]
                users.append(User(score_user(node), (f"scorer of {node}",), rules(work), None))
    return tuple(users)


def merged(users: Iterable[User]) -> tuple[User, ...]:
    """Merge users of one name, as on a broker that is both mesh and data broker.

    A merged user has a quota only if each of its parts has one.
    """
    parts: dict[str, list[User]] = {}
    for user in users:
        parts.setdefault(user.name, []).append(user)
    return tuple(
        same_name[0] if len(same_name) == 1 else _merged_user(same_name) for same_name in parts.values()
    )


def _merged_user(parts: Sequence[User]) -> User:
    roles = dict.fromkeys(role for part in parts for role in part.roles)
    limits = [part.quota for part in parts if part.quota is not None]
    all_limited = len(limits) == len(parts)
    quota = Quota(*map(sum, zip(*limits, strict=True))) if all_limited else None
    return User(parts[0].name, tuple(roles), tuple(rule for part in parts for rule in part.rules), quota)


def _nodes_of(mesh: Mesh, nodes: Iterable[str]) -> dict[str, Sequence[str]]:
    """Return each user's nodes among these."""
    users, nodes_of_user = mesh.settings.users, dict[str, list[str]]()
    for node in nodes:
        nodes_of_user.setdefault(users[node], []).append(node)
    return dict(nodes_of_user)


# Compares the rights that a broker's users have with those that a mesh file gives them. Pure.
#
# A broker may serve other programs too. On the mesh broker each rule on a topic of any run of this mesh
# belongs to the mesh, whichever user has it, as the mesh file alone gives such rules. On a party's own broker
# only the rules of the mesh's nodes and feeders on their own topics belong to it, as other programs of the
# party use these topics too. A wider rule (`*`, or a shorter prefix) is never removed here, as it may be
# meant for others.

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
    """What belongs to a mesh on a broker.

    `prefix`: the prefix of the topics of all its runs. `names`: its nodes' own topics. `groups`: a pattern of
    their consumer groups. `principals`: the users whose rules all belong to the mesh. These are the users
    that score, as messages and scores are on topics of any name. `labels`: topics of labels that others
    created. Of the rules on them those to read belong to the mesh. `records`: topics of records that others
    created. No rule on them belongs to the mesh.
    """

    prefix: str | None = None
    names: frozenset[str] = frozenset()
    groups: re.Pattern[str] | None = None
    principals: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    records: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        mesh: str,
        nodes: Iterable[str],
        sources: Mapping[str, str | None] = MappingProxyType({}),
        labels: Mapping[str, str] = MappingProxyType({}),
        *,
        shared: bool,
        tls: bool = False,
    ) -> "Scope":
        """Return the scope on these nodes' data broker; `shared`: it is the mesh broker too.

        `sources`: by node, the topic of its records if others created it. `labels`: by node, the topic of its
        later labels. `tls`: users have certificates.
        """
        nodes = tuple(nodes)
        owned_names = {name for node in nodes for name in DataTopics(mesh, node, sources.get(node)).all}
        groups = re.compile(rf"{re.escape(mesh)}\.{ID_PATTERN}\.({'|'.join(nodes)})")
        scorers = frozenset(principal(score_user(node), tls=tls) for node in nodes)
        prefix = f"{mesh}." if shared else None
        label_topics, records = frozenset(labels.values()), frozenset(filter(None, sources.values()))
        return cls(prefix, frozenset(owned_names), groups if nodes else None, scorers, label_topics, records)

    def holds(self, grant: Grant, users: Iterable[str]) -> bool:
        """Return whether the rule belongs to this mesh; `users`: the mesh's principals."""
        if grant.kind == "topic" and self.prefix is not None and grant.name.startswith(self.prefix):
            # somebody else's topic may begin with the mesh's name too
            return grant.pattern == "prefix" or [*grant.name.split("."), "", ""][2] in RUN_KINDS
        if grant.principal in self.principals and grant.kind != "cluster" and grant.name != "*":
            return True
        return grant.principal in users and self._owns(grant)

    def _owns(self, grant: Grant) -> bool:
        if grant.kind == "group":
            return self.groups is not None and self.groups.fullmatch(grant.name) is not None
        if grant.kind == "topic" and grant.pattern == "literal" and grant.name in self.labels:
            return grant.operation in {"Read", "DescribeConfigs"}
        return grant.kind == "topic" and grant.name in self.names

    def reached(self, grant: Grant) -> bool:
        """Return whether a rule for more than this mesh gives its principal access to a part of the mesh."""
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
class DesiredUsers:
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
        named_users = (
            (principal(user.name, tls=self.tls).removeprefix("User:"), user) for user in self.users
        )
        return {name: user.quota for name, user in named_users if user.quota is not None}

    def logins(self) -> tuple[User, ...]:
        """Return the users that have a password."""
        return () if self.tls else tuple(user for user in self.users if not is_subject(user.name))


def _takes(rule: Grant, grant: Grant) -> bool:
    """Return whether a DENY rule withdraws a part of what another rule allows."""
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
class GrantGap:
    """The differences between the rights on a broker and those wanted.

    `denied`: DENY rules that withdraw a right that a user needs, as DENY overrides every other rule. `wider`:
    wider rules than this mesh needs that give its users, or everyone, access to a part of it. `others`: such
    rules of other users. `unnamed`: rules of its users as for a topic of labels, on a topic that the mesh
    file does not name: it may have named it before, or another mesh names it.
    """

    missing: tuple[Grant, ...] = ()
    denied: tuple[Grant, ...] = ()
    excess: tuple[Grant, ...] = ()
    wider: tuple[Grant, ...] = ()
    others: tuple[Grant, ...] = ()
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    unnamed: tuple[Grant, ...] = ()


def gap(
    wanted: DesiredUsers,
    there: Iterable[Grant],
    quotas: Mapping[str, Mapping[str, float]],
    denials: Iterable[Grant] = (),
) -> GrantGap:
    """Compare what is wanted with the rules that are there (`denials`: those that deny), and the quotas."""
    rules, existing, reaching = wanted.grants(), dict[Grant, None](), list[Grant]()
    users, foreign = {grant.principal for grant in rules}, dict[Grant, None]()
    for grant in there:
        if wanted.scope.holds(grant, users):
            existing[grant] = None
        elif wanted.scope.reached(grant):
            reaching.append(grant)
        elif grant.principal in users and grant.name not in wanted.scope.records:
            foreign[grant] = None
    principals = {*users, *EVERYONE}
    limits = wanted.quotas()
    return GrantGap(
        tuple(grant for grant in rules if grant not in existing),
        tuple(rule for rule in denials if any(_takes(rule, grant) for grant in rules)),
        tuple(grant for grant in existing if grant not in rules),
        tuple(grant for grant in reaching if grant.principal in principals),
        tuple(grant for grant in reaching if grant.principal not in principals),
        {name: limit for name, limit in limits.items() if quotas.get(name) != limit._asdict()},
        tuple(grant for grant in foreign if _is_of_labels(grant, foreign)),
    )


def _is_of_labels(grant: Grant, there: Container[Grant]) -> bool:
    """Return whether a rule is one of those on a topic of labels, and all of these are there."""
    needed = grants(grant.principal, rules([on_labels(grant.name)]))
    return grant in needed and all(right in there for right in needed)


def shared_users_of(file: MeshFile) -> tuple[User, ...]:
    """Return the users of the file's mesh broker."""
    return mesh_users(file.resolved)


def data_users_of(file: MeshFile, nodes: Iterable[str]) -> tuple[User, ...]:
    """Return the users of a party's own broker that carries the records of these nodes."""
    nodes = tuple(nodes)
    scores = {node: settings for node in nodes if (settings := file.own(node).score) is not None}
    return data_users(file.resolved, nodes, file.sources(nodes), scores, file.label_topics(nodes))
