"""Checks topics, rights and positions with a process's own credentials, before it starts.

Kafka reports no error for a topic that is missing or unreadable; the consumer receives nothing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from streams.bus.bus import BusError, Denied, UnknownTopic, Unreachable
from streams.bus.connection import PATIENCE, client_settings
from streams.bus.errors import bus_error, given_by, lacking
from streams.bus.logs import Logs
from streams.bus.rights import Access
from streams.bus.topic_specs import TopicSpec
from streams.mesh.errors import MeshFileError
from streams.mesh.file import AnyFile
from streams.mesh.settings.brokers import BrokerSettings, BrokersSettings


class PreflightFailed(BusError):
    """A process cannot start. `lines`: one per failure. `missing`: whether only topics are missing."""

    def __init__(self, lines: Iterable[str], *, missing: bool = False) -> None:
        self.lines, self.missing = tuple(lines), missing
        super().__init__("\n".join(self.lines))


class Outside(NamedTuple):
    """A position outside its log, which reaches from `first` to `end`."""

    topic: str
    partition: int
    position: int
    first: int
    end: int


def check_clusters(
    file: AnyFile,
    brokers: Mapping[str, BrokersSettings],
    clusters: Mapping[BrokerSettings, str],
) -> None:
    """Raise MeshFileError if clusters do not fit the mesh file: two addresses may belong to one cluster."""
    lines: list[str] = []
    shared = file.mesh_broker
    for name, node_brokers in brokers.items():
        path = (file.part, name, "brokers")
        if clusters[node_brokers.mesh] != clusters[shared]:
            words = f"another cluster than {shared.servers}: must be the same for all"
            lines += file.refuse((*path, "mesh"), words).lines
        if clusters[node_brokers.mesh] == clusters[node_brokers.data] and not node_brokers.trust_broker:
            words = "data and mesh are one cluster, by two addresses: must be true, or two clusters"
            lines += file.refuse((*path, "trust_broker"), words).lines
        private_brokers = {
            "records": (file.records_broker(name), ("broker",)),
            "labels": (file.labels_broker(name), ("labels", "broker")),
        }
        for thing, (broker, keys) in private_brokers.items():
            on_mesh = clusters.get(broker) == clusters[node_brokers.mesh]
            if on_mesh and broker != node_brokers.data and not node_brokers.trust_broker:
                words = f"the {thing} are on the mesh broker's cluster: needs trust_broker: true"
                words += ", or another broker"
                lines += file.refuse((file.part, name, "source", *keys), words).lines
                break  # labels are where records are, unless they name a broker
    if lines:
        raise MeshFileError(lines)


class NamedPartitions(NamedTuple):
    """Partitions that a topic must have, and the key of the mesh file that names them."""

    key: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        """Return the key and its value."""
        return f"{self.key}: {list(self.numbers)}"


def preflight(
    broker: BrokerSettings,
    access: Access,
    positions: Mapping[str, Mapping[int, int]],
    several: Collection[str] = (),
    user: str | None = None,
    specs: Iterable[TopicSpec] = (),
    *,
    existing: bool = False,
    partitions: Mapping[str, NamedPartitions] | None = None,
    giver: str | None = None,
) -> tuple[Outside, ...]:
    """Check a process's topics and rights on a broker; return the positions outside their logs.

    `positions`: the offsets to read from, by topic and partition. `several`: the topics that may have more
    than one partition. `user`: the user that a line on missing rights names. `specs`: the topics whose
    records must not grow without bound; they are checked where the broker shows settings. `existing`: whether
    others created the topics and give the rights on them. `partitions`: the partitions that a topic must
    have. `giver`: what else gives the rights, in words. Raises PreflightFailed with all failures,
    Unreachable.
    """
    client = AdminClient(client_settings(broker) | {"log_level": 0})
    described = client.describe_topics(
        TopicCollection(list(access.topics)), include_authorized_operations=True, request_timeout=PATIENCE
    )
    wrong: list[str] = []
    denied: list[str] = []
    unknown = 0
    counts: dict[str, int] = {}
    described_topics: set[str] = set()
    for topic, future in described.items():
        try:
            description = answer(future, topic)
        except Unreachable:
            raise
        except Denied:  # whether the topic exists or not: without the right, Kafka does not say
            denied += _lacking(topic, set(), access)
            continue
        except BusError as error:
            wrong.append(f"{topic}: there is no such topic" if existing else str(error))
            unknown += isinstance(error, UnknownTopic)
            continue
        counts[topic] = len(description.partitions)
        allowed = _allowed(description)
        denied += _lacking(topic, allowed, access)
        if "DESCRIBE_CONFIGS" in allowed:
            described_topics.add(topic)
        wrong += _miscounted(topic, counts[topic], (partitions or {}).get(topic), several)
    wrong += _unbounded(client, [spec for spec in specs if spec.bounds and spec.name in described_topics])
    denied += _group_failures(client, access.groups)
    if denied:
        if giver is None:
            giver = "whoever has the topic gives Describe and Read on it" if existing else given_by(user)
        denied[-1] = f"{denied[-1]} ({giver})"
    if wrong or denied:
        lines = [f"{broker.servers}: {line}" for line in (*wrong, *denied)]
        raise PreflightFailed(lines, missing=unknown == len(lines))
    return _outside(broker, positions, counts)


def _miscounted(
    topic: str, count: int, wanted: NamedPartitions | None, several: Collection[str]
) -> list[str]:
    """Return a line if a topic has too many partitions, or lacks one of the required ones."""
    if count != 1 and topic not in several:
        return [f"{topic}: has {count} partitions: must have one"]
    problem = None if wanted is None else no_partition(wanted.numbers, count)
    return [] if problem is None else [f"{topic}: {wanted}: {problem}"]


def no_partition(numbers: Collection[int], count: int) -> str | None:
    """Return why a topic of `count` partitions lacks one of these; None if it has all of them."""
    missing = max(numbers, default=0)
    return None if missing < count else f"has no partition {missing}: must be among 0 to {count - 1}"


def _lacking(topic: str, allowed: set[str], access: Access) -> list[str]:
    """Return a line that names the missing rights on a topic; none if all are there."""
    needed = {"READ": access.reads, "WRITE": access.writes, "DESCRIBE_CONFIGS": access.configs}
    missing = [right for right, topics in needed.items() if topic in topics and right not in allowed]
    words = " or ".join(right.lower().replace("_", " ") for right in missing)
    return [lacking(topic, words)] if missing else []


def _group_failures(client: AdminClient, groups: Sequence[str]) -> list[str]:
    if not groups:
        return []
    answers = client.describe_consumer_groups(
        list(groups), include_authorized_operations=True, request_timeout=PATIENCE
    )
    wrong = []
    for group in groups:
        try:
            allowed = _allowed(answer(answers[group], f"group {group}"))
        except Denied:
            allowed = set()
        wrong += [] if "READ" in allowed else [lacking(f"group {group}", "commit offsets")]
    return wrong


def _unbounded(client: AdminClient, specs: Sequence[TopicSpec]) -> list[str]:
    """Return a line for each setting of these topics that lets a record inflate beyond its limit."""
    specs_by_name = {spec.name: spec for spec in specs}
    if not specs_by_name:
        return []
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in specs_by_name]
    wrong = []
    for resource, future in client.describe_configs(resources, request_timeout=PATIENCE).items():
        configs = {key: entry.value for key, entry in answer(future, resource.name).items()}
        lines = specs_by_name[resource.name].unbounded(configs)
        wrong += [f"{resource.name}: {line}: run mirrormesh provision" for line in lines]
    return wrong


def answer(future: "Future[Any]", subject: str) -> Any:
    """Return the broker's answer on a topic or group. Raises BusError."""
    try:
        return future.result()
    except KafkaException as error:
        raise bus_error(error.args[0], subject) from None


def _allowed(description: Any) -> set[str]:
    return {operation.name for operation in description.authorized_operations or ()}


def _outside(
    broker: BrokerSettings, positions: Mapping[str, Mapping[int, int]], counts: Mapping[str, int]
) -> tuple[Outside, ...]:
    logs = Logs(broker, committed=True)  # positions of readers of committed records
    try:
        outside = []
        for topic, offsets in positions.items():
            for partition, position in offsets.items():
                first, end = logs.span(topic, partition) if partition < counts[topic] else (0, 0)
                if not first <= position <= end:
                    outside.append(Outside(topic, partition, position, first, end))
        return tuple(outside)
    finally:
        logs.close()
