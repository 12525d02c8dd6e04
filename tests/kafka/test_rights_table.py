"""Every user of a mesh tries every operation on every topic: its rights work, and nothing else does.

`rights` writes the table of docs/howto/secure-broker.md again, for a ring in which a and c are no neighbours.
Further topics have names that begin like those of the run: of run-10, and of a mesh whose name is longer.
"""

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from streams.bus.connection import consumer_settings
from streams.bus.provision import provision
from tests.support.brokers.acting import Actor
from tests.support.brokers.topics import PATIENCE, until
from tests.support.brokers.users import Scored, Users, add_user, secure_mesh_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RING = {"a": "bd", "b": "ac", "c": "bd", "d": "ac"}
DATA = ("data", "data-deadletter", "predictions", "decisions", "spends")
ON_TOPICS = ("write", "configs", "shorten", "widen", "delete", "empty")
ON_GROUPS = ("group", "offsets", "commit", "end_group")
ON_CLUSTER = (
    "create",
    "broker",
    "rules",
    "users",
    "password",
    "limit",
    "allow",
    "forbid",
    "elect",
    "transact",
)


class Ring:
    """The users of a ring, and all its topics by the names of the table."""

    def __init__(self, users, layout, scored):
        self.users, self.layout, self.scored = users, layout, scored
        mesh = users.file.mesh
        self.run, self.nodes = f"{mesh.name}.{mesh.run}", dict(zip("abcd", mesh.nodes, strict=True))
        self.user_names = {
            **self.nodes,
            **{f"feeder {letter}": f"{name}-feeder" for letter, name in self.nodes.items()},
            "scorer": f"{self.nodes['a']}.score",
            "scheduler": f"{mesh.name}-scheduler",
            "auditor": f"{mesh.name}-auditor",
            "stranger": "stranger",
        }
        shared = [
            "topology",
            "scheduler",
            *[f"progress.{n}" for n in RING],
            *[f"deadletter.{n}" for n in RING],
        ]
        self.releases = {n: self.sent_by(n) for n in RING}
        self.of_run = [*shared, *dict.fromkeys(topic for sent in self.releases.values() for topic in sent)]
        self.of_data = [f"{kind}.{n}" for kind in DATA for n in RING]
        self.others = [f"{self.run}0.topology", f"{mesh.name}x.{mesh.run}.topology"]
        self.topics = [
            *map(self.full, self.of_run),
            *map(self.full, self.of_data),
            *self.others,
            *scored.topics,
        ]

    def sent_by(self, node):
        """The topics of a node's releases."""
        return [f"outbox.{node}"] if self.layout == "outbox" else [f"edge.{node}.{to}" for to in RING[node]]

    def heard_by(self, node):
        """The topics of the releases that a node hears."""
        if self.layout == "outbox":
            return [f"outbox.{source}" for source in RING[node]]
        return [f"edge.{source}.{node}" for source in RING[node]]

    def full(self, short):
        """The name on the broker."""
        if short in self.scored.topics:
            return short
        kind, *letters = short.split(".")
        names = [self.nodes[letter] for letter in letters]
        if kind == "group":
            return ".".join([self.run, *names])
        if kind in DATA:
            kinds = ["spends", "data"] if kind == "spends" else [kind]
            return ".".join([*kinds, self.users.file.mesh.name, *names])
        return ".".join([self.run, kind, *names])

    def rights(self, user):
        """What a user may read, write, and see the settings of."""
        match user.split():
            case ["scheduler"]:
                written = ["topology", "scheduler"]
                return [*written, *[f"progress.{n}" for n in RING]], written, []
            case ["auditor"]:
                return self.of_run, [], []
            case ["scorer"]:
                read = [self.scored.input, "decisions.a", "spends.a"]
                return read, [self.scored.output, self.scored.letters], []
            case ["feeder", n]:
                both = [f"data.{n}", f"data-deadletter.{n}"]
                return both, both, [f"data.{n}"]
            case [n] if n in RING:
                beats = [f"progress.{peer}" for peer in (n, *RING[n])]
                read = ["topology", *beats, *self.releases[n], *self.heard_by(n), f"data.{n}", f"spends.{n}"]
                outputs = [f"{kind}.{n}" for kind in DATA if kind != "data"]
                return read, [f"progress.{n}", f"deadletter.{n}", *self.releases[n], *outputs], []
        return [], [], []


@pytest.fixture(params=["edges", "outbox"])
def ring(request, tmp_path, secure_broker, monkeypatch):
    scored = Scored()
    own = {"a": scored.own}
    path = secure_mesh_file(tmp_path, secure_broker, nodes=list(RING), layout=request.param, own=own)
    users = Users(path, secure_broker, monkeypatch)
    provision(users.file)
    users.provision()
    found = Ring(users, request.param, scored)
    admin = users.client("admin").admin
    scored.create(admin)
    made = admin.create_topics([NewTopic(name, 1, 1) for name in found.others])
    for future in made.values():
        future.result(PATIENCE)
    (users.folder / "stranger").write_text("known, and may nothing")
    add_user(admin, "stranger", users.password("stranger"))
    with users.admin() as rules:
        until(lambda: not users.provision().different and rules.with_password(["stranger"], "scram-sha-512"))
    return found


def answers(ring, user):
    """What a user is told, by deed and thing; None: it may."""
    settings = ring.users.settings(ring.user_names[user])
    actor = Actor(settings)
    groups, new, topology = [ring.full(f"group.{n}") for n in RING], f"{ring.run}.new", ring.full("topology")
    scoring = ring.scored.group(ring.users.file)
    groups.append(scoring)
    cluster = {"password": "stranger", "limit": "stranger", "create": new, "transact": ring.run}
    try:
        told = {("read", topic): why for topic, why in read(settings, ring.topics).items()}
        told |= {(deed, topic): getattr(actor, deed)(topic) for deed in ON_TOPICS for topic in ring.topics}
        told |= {(deed, group): getattr(actor, deed)(group) for deed in ON_GROUPS for group in groups}
        told["transact", scoring] = actor.transact(f"{scoring}.of-a-process")
        return told | {(deed, "-"): getattr(actor, deed)(cluster.get(deed, topology)) for deed in ON_CLUSTER}
    finally:
        actor.close()


def read(settings, topics):
    """Why a user may not read each of these topics; None: it may."""
    consumer = Consumer(consumer_settings(settings) | {"log_level": 0})
    told = {}
    try:
        for topic in topics:
            seen = consumer.list_topics(topic, PATIENCE).topics[topic].error
            if seen is not None:
                told[topic] = seen.name()
        consumer.assign([TopicPartition(topic, 0, 0) for topic in topics if topic not in told])
        while len(told) < len(topics):
            message = consumer.poll(PATIENCE)
            assert message is not None, "waited in vain"
            error = message.error()
            if error is None or error.name() == "_PARTITION_EOF":
                told.setdefault(message.topic(), None)
            elif error.name() != "GROUP_AUTHORIZATION_FAILED":  # it has no group, and needs none
                told[message.topic()] = error.name()
    finally:
        consumer.close()
    return told


def test_each_user_has_its_rights_and_no_other(ring):
    for user in ring.user_names:
        reads, writes, configs = (map(ring.full, topics) for topics in ring.rights(user))
        may = {("read", topic) for topic in reads} | {("write", topic) for topic in writes}
        may |= {("configs", topic) for topic in configs}
        if user in RING:
            may |= {(deed, ring.full(f"group.{user}")) for deed in ("group", "offsets", "commit")}
        if user == "scorer":
            scoring = ring.scored.group(ring.users.file)
            may |= {(deed, scoring) for deed in ("group", "offsets", "commit", "transact")}
        told = answers(ring, user)
        assert len(told) > 200
        assert {deed for deed, why in told.items() if why is None} == may, user
        other = {(deed, thing): why for (deed, thing), why in told.items() if (deed, thing) not in may}
        assert {key: why for key, why in other.items() if not is_refusal(told, key, why)} == {}, user


def is_refusal(told, key, why):
    """Whether the broker has refused it, or has not even said where the topic is."""
    deed, thing = key
    hidden = deed == "empty" and why == "_NOENT" and told["read", thing] is not None
    return hidden or why.endswith("_AUTHORIZATION_FAILED")
