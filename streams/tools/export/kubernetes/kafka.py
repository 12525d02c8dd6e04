"""The mesh broker's topics and users as Strimzi's resources, for the mesh's operator."""

import re
from collections.abc import Iterable

from streams.bus.provision import specs_of
from streams.bus.rights import Rule, User
from streams.bus.topic_specs import TopicSpec
from streams.bus.users import shared_users
from streams.mesh.errors import MeshFileError, Problem
from streams.mesh.file import AnyFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.parties import is_subject
from streams.tools.export.kubernetes.cluster import APP, Cluster, Object, made

REPLICAS, IN_SYNC = 3, 2
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LONGEST, _LONGEST_CERTIFIED = 253, 64
"""Of a resource's name, and of a certificate's common name."""


def topics(file: AnyFile, cluster: Cluster) -> list[Object]:
    """Return a KafkaTopic for each topic of the mesh broker."""
    return [_topic(spec, cluster) for spec in specs_of(file, None)]


def users(file: AnyFile, cluster: Cluster) -> list[Object]:
    """Return a KafkaUser for each user of the mesh broker; none if the broker has no users.

    Raises MeshFileError for what Strimzi has no word for.
    """
    broker = file.mesh_broker
    if not has_users(broker):
        return []
    wrong = _refused(file, broker)
    if wrong:
        raise MeshFileError(wrong)
    kind = "scram-sha-512" if broker.users else "tls-external" if cluster.own_certificates else "tls"
    return [_user(user, kind, cluster) for user in shared_users(file)]


def has_users(broker: BrokerSettings) -> bool:
    """Return whether the broker knows who is there: by a password, or by a certificate."""
    return broker.users or broker.certificate is not None


def _topic(spec: TopicSpec, cluster: Cluster) -> Object:
    config: Object = {
        key: int(value) if value.lstrip("-").isdigit() else value for key, value in spec.configs.items()
    }
    config["min.insync.replicas"] = IN_SYNC
    body = {"partitions": 1, "replicas": REPLICAS, "config": config}
    name = spec.name
    if _SUBDOMAIN.fullmatch(name) is None:  # a part begins or ends with -
        name = ".".join(f"x{part}x" for part in name.split("."))
        body = {"topicName": spec.name, **body}
    return _made("KafkaTopic", name, body, cluster)


def _user(user: User, kind: str, cluster: Cluster) -> Object:
    spec: Object = {
        "authentication": {"type": kind},
        "authorization": {"type": "simple", "acls": [_acl(rule) for rule in user.rules]},
    }
    if user.quota is not None:
        sent_rate, received, percentage = user.quota
        spec["quotas"] = {
            "producerByteRate": sent_rate,
            "consumerByteRate": received,
            "requestPercentage": percentage,
        }
    return _made("KafkaUser", _name(user.name), spec, cluster)


def _acl(rule: Rule) -> Object:
    resource = {"type": rule.kind, "name": rule.name, "patternType": rule.pattern}
    return {"resource": resource, "operations": list(rule.operations)}


def _made(kind: str, name: str, spec: Object, cluster: Cluster) -> Object:
    labels = {**APP, "strimzi.io/cluster": cluster.kafka_cluster}
    return made(f"kafka.strimzi.io/v1:{kind}", name, {"spec": spec}, labels, cluster.kafka)


def _name(user: str) -> str:
    """Return the KafkaUser's name: Kafka knows the one with a certificate as CN=<name>."""
    return user.removeprefix("CN=") if is_subject(user) else user


def _refused(file: AnyFile, broker: BrokerSettings) -> Iterable[str]:
    """Return what Strimzi cannot do, one line each."""
    lines = []
    if broker.users and broker.mechanism != "scram-sha-512":
        allowed = f"{broker.mechanism}: must be scram-sha-512, or certificates: Strimzi makes no other users"
        lines.append(Problem(str(file.path), ("brokers", "mesh", "mechanism"), allowed).line)
    longest = _LONGEST if broker.users else _LONGEST_CERTIFIED
    for user in shared_users(file):
        name = _name(user.name)
        if broker.users and is_subject(user.name):
            allowed = "must be a name, as the users of brokers.mesh have passwords"
        elif _SUBDOMAIN.fullmatch(name) is None or len(name) > longest:
            words = f"must be made of a-z, 0-9, . and - inside, of at most {longest} characters"
            allowed = f"makes no KafkaUser: {words}"
            allowed += "" if broker.users else ", after CN= alone"
        else:
            continue
        lines.append(f"{file.path}: mesh: user {user.name} ({', '.join(user.roles)}): {allowed}")
    return lines
