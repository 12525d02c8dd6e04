"""The only source of rights: what each process reads and writes, and what each user may, and no more.

`Access` is what a process needs of a broker, topic by topic. `Rule` is a right in Kafka's words. A user has
the rules of all its processes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from streams.bus.quotas import Quota, auditor_load, node_load, quota, rounds_per_second, scheduler_load
from streams.codec.topics import DataTopics, MeshTopics, all_of, edges_of
from streams.mesh.mesh import Mesh
from streams.mesh.settings.parties import auditor_user, feeder_user, scheduler_user

__all__ = ["Access", "Quota", "Rule", "User", "data_users", "merged", "mesh_users"]
_ORDER = ("Read", "Write", "DescribeConfigs")
_Place = tuple[Literal["topic", "group"], str, Literal["literal", "prefix"]]


@dataclass(frozen=True, slots=True)
class Access:
    """The rights that a process needs on a broker.

    `groups`: the consumer groups whose offsets it commits; `configs`: the topics whose settings it reads.
    `owned`: beginnings of names that belong to the process alone, so that one rule stands for all of them.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    groups: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    owned: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


def together(work: Iterable[Access]) -> Access:
    """Return the rights of a process that does all this."""
    union = Access((), ())
    for access in work:
        added = (getattr(union, name) + getattr(access, name) for name in Access.__slots__)
        union = Access(*map(tuple, map(dict.fromkeys, added)))
    return union


class Rule(NamedTuple):
    """A right: operations on the resource of a name, or on all whose names begin so. Kafka's words.

    Read and Write include Describe; Write on a topic is all that an idempotent producer needs.
    """

    kind: Literal["topic", "group"]
    name: str
    pattern: Literal["literal", "prefix"]
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class User:
    """A user of a broker: `roles` says in words which processes it is. `quota` None: unlimited."""

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
    progress, written = topics.progress(node), topics.dead_letters(node)
    reads, writes = (topics.topology, progress, *edges, *out_edges, *beats), (progress, written, *out_edges)
    prefix = edges_of(topics, node)
    return Access(reads, writes, owned=() if prefix is None else (prefix,))


def node_on_data(node: str, group: str | None = None) -> Access:
    """Return a node's rights on its party's own broker."""
    topics = DataTopics(node)
    written = (topics.dead_letters, topics.predictions, topics.decisions, topics.spends)
    return Access((topics.records, topics.spends), written, () if group is None else (group,))


def feeder(node: str) -> Access:
    """Return a feed's rights on the party's own broker; it continues after the stored records."""
    topics = DataTopics(node)
    records, read_and_written = (topics.records,), (topics.records, topics.dead_letters)
    return Access(read_and_written, read_and_written, configs=records)


def scheduler(topics: MeshTopics, nodes: Iterable[str]) -> Access:
    """Return a scheduler's rights on the mesh broker."""
    beats = [topics.progress(node) for node in nodes]
    return Access((topics.topology, topics.scheduler, *beats), (topics.topology, topics.scheduler))


def rules(work: Iterable[Access]) -> tuple[Rule, ...]:
    """Return the rules that allow all this, each resource once."""
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


def data_users(mesh: Mesh, nodes: Iterable[str]) -> tuple[User, ...]:
    """Return the users of a party's own broker that carries the records of these nodes.

    None has a quota: the broker is the party's own.
    """
    users = []
    for user, user_nodes in _nodes_of(mesh, nodes).items():
        work = [node_on_data(node, DataTopics(node).group) for node in user_nodes]
        users.append(User(user, tuple(f"node {node}" for node in user_nodes), rules(work), None))
        users += [
            User(feeder_user(node), (f"feeder of {node}",), rules([feeder(node)]), None)
            for node in user_nodes
        ]
    return tuple(users)


def merged(users: Iterable[User]) -> tuple[User, ...]:
    """Return the users with those of one name made one, as on a broker that is mesh and data broker.

    Such a user has a quota only if it has one in every part.
    """
    parts: dict[str, list[User]] = {}
    for user in users:
        parts.setdefault(user.name, []).append(user)
    return tuple(
        same_name[0] if len(same_name) == 1 else _together(same_name) for same_name in parts.values()
    )


def _together(parts: Sequence[User]) -> User:
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
