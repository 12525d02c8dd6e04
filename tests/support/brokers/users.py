"""The users of a broker with passwords: by hand, and as `mirrormesh provision --users` makes a mesh's."""

from uuid import uuid4

import yaml
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streams.bus.connection import consumer_settings
from streams.bus.preflight import PreflightFailed, preflight
from streams.bus.users import UserAdmin, UserPlan
from streams.mesh.file import load_any
from streams.mesh.settings.brokers import BrokerSettings
from tests.support.brokers.development import Client
from tests.support.brokers.topics import PATIENCE, until
from tests.support.meshes.on_broker import small_mesh_file


def rule(user, kind, name, operation):
    """Allow a user one thing."""
    place = (kind, name, ResourcePatternType.LITERAL)
    return AclBinding(*place, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def allow(admin, *allowed):
    """Add these rules."""
    for future in admin.create_acls(list(allowed)).values():
        future.result(PATIENCE)


def add_user(admin, user, password):
    """Make a user, who may do nothing yet."""
    made = UserScramCredentialUpsertion(
        user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
    )
    admin.alter_user_scram_credentials([made])[user].result(PATIENCE)


def secure_mesh_file(folder, broker, **mesh):
    """Write the mesh file of a small mesh, all on one broker with users; return its path."""
    path = small_mesh_file(folder, broker.address, **mesh)
    tree = yaml.safe_load(path.read_text())
    login = {"username": "${MESH_USER}", "password": "${MESH_PASSWORD}"}
    tree["brokers"] |= {side: tree["brokers"][side] | login for side in ("mesh", "data")}
    path.write_text(yaml.safe_dump(tree))
    return path


LABELLED = {
    "kind": "json-lines",
    "schema": {"features": {"x": "number", "y": "number"}, "label": {"column": "distance"}},
}
"""A source of records as sensors have them, but for their labels."""


class Scored:
    """Topics of messages, scores and labels that no other test knows, and what own parts say of them.

    `sources`: those of three nodes, of which the first has labels that come later.
    """

    def __init__(self):
        mark = uuid4().hex[:8]
        self.input, self.output = f"payments.new.{mark}", f"payments.scored.{mark}"
        self.letters = f"{self.output}.deadletter"
        self.labels = f"distances.{mark}"
        self.topics = (self.input, self.output, self.letters, self.labels)
        later = {"topic": self.labels, "join": "id", "after": "1h", "value": {"column": "distance"}}
        labelled = LABELLED | {"labels": later | {"otherwise": 0}}
        self.sources = {"a": labelled} | {name: {"kind": "localisation"} for name in "bc"}
        self.own = {"score": {"input": self.input, "output": self.output}}

    def group(self, file):
        """The group that scores them with the decisions of a mesh's first node."""
        return f"score.{file.mesh.name}.{next(iter(file.mesh.nodes))}.{self.input}"

    def create(self, admin):
        """Make the topics."""
        for future in admin.create_topics([NewTopic(name, 1, 1) for name in self.topics]).values():
            future.result(PATIENCE)


class Users:
    """The users of a mesh, which `provision` makes. A process that starts is the one that `be` was told."""

    def __init__(self, path, broker, environment):
        self.path, self.broker, self._environment = path, broker, environment
        self.folder = path.parent / "passwords"
        self.be("admin")

    @property
    def file(self):
        """The mesh file, read as who one is."""
        return load_any(self.path)

    def password(self, user):
        """That of a user, where it was written."""
        file = self.broker.password_file if user == "admin" else self.folder / user
        return file.read_text().strip()

    def be(self, user, password=None):
        """Be that user from now on."""
        self._environment.setenv("MESH_USER", user)
        self._environment.setenv("MESH_PASSWORD", password or self.password(user))

    def provision(self, **how):
        """Make the users as the admin does; return what was changed."""
        self.be("admin")
        with UserPlan(self.file, self.folder) as plan:
            plan.write(**how)
            return plan.changes[0]

    def admin(self):
        """The admin's client for users. A context manager."""
        return UserAdmin(self.settings("admin"))

    def settings(self, user):
        """How that user reaches the broker."""
        return BrokerSettings(servers=self.broker.address, username=user, password=self.password(user))

    def client(self, user):
        """A client of that user."""
        return Client(self.broker, user, self.password(user))

    def wrong(self, user, *access):
        """What a user's processes would find amiss; it takes the broker a moment to hear of rules."""
        lines = []
        for one in access:
            try:
                preflight(self.settings(user), one, {})
            except PreflightFailed as failed:
                lines += failed.lines
        return lines

    def without(self, *grants):
        """Take these rights away, for a moment."""
        with self.admin() as admin:
            admin.revoke(grants)
            until(lambda: not set(grants) & set(admin.grants()))


def reads(user, topic):
    """Whether a user gets a record of the topic, or is refused."""
    consumer = Consumer(consumer_settings(user) | {"log_level": 0})
    try:
        seen = consumer.list_topics(topic, PATIENCE).topics[topic].error
        if seen is not None:
            assert seen.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            return False
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(PATIENCE)
            assert message is not None, "waited in vain"
            error = message.error()
            if error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return error is None
            assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED  # it has none, and needs none
    finally:
        consumer.close()
