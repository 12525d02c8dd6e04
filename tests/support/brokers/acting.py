"""A user of a broker who tries things: each returns Kafka's name of the refusal, or None if allowed."""

from contextlib import suppress
from functools import cached_property

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from streams.bus.connection import client_settings, consumer_settings, producer_settings
from streams.bus.provision import AdminError
from streams.bus.rights import Quota
from streams.bus.users import REFUSED, UserAdmin

_LONG = 30.0
_ANYONE = (AclOperation.ANY, AclPermissionType.ANY)
_ACCESS = (AclOperation.ALL, AclPermissionType.ALLOW)


class Actor:
    """A user with clients of its own; close it when done."""

    def __init__(self, settings):
        self._settings, self._name = settings, settings.username
        self._quiet = client_settings(settings) | {"log_level": 0}

    @cached_property
    def _producer(self):
        plain = {"enable.idempotence": False, "log_level": 0}  # else a refusal is said of no topic
        return Producer(producer_settings(self._settings, 1000) | plain)

    @cached_property
    def _admin(self):
        return AdminClient(self._quiet)

    def close(self):
        """Disconnect."""
        self._producer.close()

    def write(self, topic):
        errors = []
        try:
            self._producer.produce(  # with a key, as compacted topics take none without
                topic, b"forged", b"key", on_delivery=lambda error, _: errors.append(error)
            )
        except KafkaException as error:  # the client remembers
            return error.args[0].name()
        assert self._producer.flush(_LONG) == 0
        return None if errors[0] is None else errors[0].name()

    def read(self, topic):
        consumer = Consumer(consumer_settings(self._settings) | {"log_level": 0})
        try:
            seen = consumer.list_topics(topic, _LONG).topics[topic].error
            if seen is not None:
                return seen.name()
            consumer.assign([TopicPartition(topic, 0, 0)])
            while True:
                message = consumer.poll(_LONG)
                assert message is not None, "waited in vain"
                error = message.error()
                if error is None or error.name() == "_PARTITION_EOF":
                    return None
                if error.name() != "GROUP_AUTHORIZATION_FAILED":  # it has no group, and needs none
                    return error.name()
        finally:
            consumer.close()

    def create(self, topic):
        return _tried(lambda: self._admin.create_topics([NewTopic(topic, 1, 1)]))

    def delete(self, topic):
        return _tried(lambda: self._admin.delete_topics([topic]))

    def empty(self, topic):
        return _tried(lambda: self._admin.delete_records([TopicPartition(topic, 0, 0)]))

    def widen(self, topic):
        return _tried(lambda: self._admin.create_partitions([NewPartitions(topic, 2)]))

    def shorten(self, topic):
        entry = ConfigEntry("retention.bytes", "1", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        return _tried(lambda: self._admin.incremental_alter_configs([resource]))

    def configs(self, topic):
        return _tried(
            lambda: self._admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
        )

    def broker(self, _):
        entry = ConfigEntry("log.cleaner.threads", "2", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        return _tried(lambda: self._admin.incremental_alter_configs([resource]))

    def elect(self, topic):
        partitions = [TopicPartition(topic, 0)]
        return _tried(lambda: self._admin.elect_leaders(ElectionType.PREFERRED, partitions))

    def rules(self, _):
        return self._asked(UserAdmin.grants)  # confluent-kafka returns no rules here, and no refusal

    def allow(self, topic):
        place = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
        return _tried(
            lambda: self._admin.create_acls([AclBinding(*place, f"User:{self._name}", "*", *_ACCESS)])
        )

    def forbid(self, topic):
        place = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL)
        return _tried(lambda: self._admin.delete_acls([AclBindingFilter(*place, None, None, *_ANYONE)]))

    def users(self, _):
        return self._asked(lambda admin: admin.with_password([], "scram-sha-512"))  # confluent-kafka aborts

    def password(self, user):
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        made = UserScramCredentialUpsertion(user, info, b"forged")
        return _tried(lambda: self._admin.alter_user_scram_credentials([made]))

    def limit(self, user):
        return self._asked(lambda admin: admin.set_quotas({user: Quota(1, 1, 1)}))

    def _asked(self, question):
        try:
            with UserAdmin(self._settings) as admin:
                question(admin)
        except AdminError as error:
            return "CLUSTER_AUTHORIZATION_FAILED" if REFUSED in str(error) else str(error)
        return None

    def group(self, name):
        return _tried(lambda: self._admin.describe_consumer_groups([name]))

    def offsets(self, name):
        return _tried(lambda: self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]))

    def commit(self, name):
        moved = ConsumerGroupTopicPartitions(name, [TopicPartition(name, 0, 0)])
        return _tried(lambda: self._admin.alter_consumer_group_offsets([moved]))

    def end_group(self, name):
        return _tried(lambda: self._admin.delete_consumer_groups([name]))

    def transact(self, name):
        settings = producer_settings(self._settings, 1000) | {"transactional.id": name, "log_level": 0}
        producer = Producer(settings | {"message.timeout.ms": 10_000})
        try:
            return _tried(lambda: producer.init_transactions(_LONG))
        finally:
            with suppress(KafkaException):  # it is broken
                producer.close()


def _tried(action):
    """Return the name of what refused it, or None."""
    try:
        answer = action()
        for future in answer.values() if isinstance(answer, dict) else [answer]:
            result = future.result(_LONG) if hasattr(future, "result") else future
            for error in (result or {}).values() if isinstance(result, dict) else ():
                if isinstance(error, KafkaException):
                    raise error
    except KafkaException as error:
        return error.args[0].name()
    return None
