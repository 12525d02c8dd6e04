"""The users of a broker with passwords, with the rights that streams/bus/access.py says they need."""

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from streams.bus.connection import consumer_settings
from streams.bus.preflight import PreflightFailed, preflight
from streams.mesh.settings.brokers import BrokerSettings
from tests.support.brokers import Client
from tests.support.kafka import PATIENCE, until


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


def rules(user, access):
    """All that this access takes, in Kafka's words."""
    asked = [(name, AclOperation.READ) for name in access.reads]
    asked += [(name, AclOperation.WRITE) for name in access.writes]
    asked += [(name, AclOperation.DESCRIBE_CONFIGS) for name in access.configs]
    found = [rule(user, ResourceType.TOPIC, name, operation) for name, operation in asked]
    if access.group is not None:
        found.append(rule(user, ResourceType.GROUP, access.group, AclOperation.READ))
    return found


class Users:
    """The users of a broker. A process that is started is the one that `be` was told last."""

    def __init__(self, broker, environment):
        self.broker, self._environment = broker, environment
        self._passwords = {"admin": broker.password_file.read_text().strip()}
        self.be("admin")
        self._admin = self.client("admin").admin
        self._access = {}

    def be(self, user):
        """Be that user from now on."""
        self._environment.setenv("MESH_USER", user)
        self._environment.setenv("MESH_PASSWORD", self._passwords[user])

    def settings(self, user):
        """How that user reaches the broker."""
        return BrokerSettings(servers=self.broker.address, username=user, password=self._passwords[user])

    def client(self, user):
        """A client of that user."""
        return Client(self.broker, user, self._passwords[user])

    def make(self, user, *access):
        """Make a user who may do all that but the last thing; return what allows that too."""
        self._passwords[user], self._access[user] = f"password of {user}", access
        add_user(self._admin, user, self._passwords[user])
        *most, last = [rule for one in access for rule in rules(user, one)]
        self.allow(*most)
        until(lambda: len(self.wrong(user)) == 1)
        return last

    def allow(self, *allowed):
        """Add these rules."""
        allow(self._admin, *allowed)

    def wrong(self, user):
        """What a user's processes would find amiss; it takes the broker a moment to hear of rules."""
        lines = []
        for access in self._access[user]:
            try:
                preflight(self.settings(user), access, {})
            except PreflightFailed as failed:
                lines += failed.lines
        return lines


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
