"""Creates the topics of a mesh file, or checks existing ones. Repeating it is harmless.

All topics are compared before any is created. A topic that differs is never changed here; its owner must
change it. Shared topics are the exception: they get the settings without which a record may inflate without
bound in its readers.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    for_code,
)

from streams.bus.bus import BusError
from streams.bus.connection import admin_settings
from streams.bus.errors import lacking
from streams.bus.logs import reach_busy
from streams.bus.preflight import check_clusters
from streams.bus.topic_specs import TopicSpec
from streams.mesh.file import AnyFile, MeshFileError
from streams.mesh.settings.brokers import BrokerSettings

# A typed front of kafka-python's admin client: lists and creates topics. Errors are AdminError.

T = TypeVar("T")

UNKNOWN_TOPIC, EXISTS, REPLICATION = 3, 36, 38
"""Kafka's error codes; the last one is also that of a cluster whose brokers are all fenced."""
_AGAIN = 0.2
"""Seconds between two requests to a cluster whose brokers are all fenced."""
TOGETHER = 500
"""The most topics or rules in a request. Each makes up to 9 records; a controller refuses above 10,000."""
READY, READY_EACH = 10_000, 100
"""Milliseconds that new topics may take to be ready: in all, and more for each."""
ADMINISTRATOR = "an administrator of the broker may"
_UNALLOWED = (ClusterAuthorizationFailedError, TopicAuthorizationFailedError)


class AdminError(BusError):
    """The broker refuses a request."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """An existing topic."""

    partitions: int
    configs: dict[str, str]


class Admin:
    """One broker's topics. A context manager. Raises Unreachable, and Denied for a wrong password.

    Attributes
    ----------
    servers : str
        The broker's addresses.
    cluster : str
        The id of its cluster: equal for two addresses of one.
    """

    def __init__(self, broker: BrokerSettings) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)  # errors come as exceptions
        self.servers = broker.servers
        self.cluster = reach_busy(broker)  # kafka-python fails with less detail, and leaves sockets open
        self._client = self._asked(lambda: KafkaAdminClient(**admin_settings(broker)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()  # an open client reconnects for ever

    def topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Return the existing topics among these."""
        topic_names = list(names)
        counts = {}
        for description in self._asked(lambda: self._client.describe_topics(topic_names)):
            if description["error_code"] == 0:
                counts[description["name"]] = len(description["partitions"])
            elif description["error_code"] != UNKNOWN_TOPIC:
                raise self._refused(f"topic {description['name']}", description, "see it (Describe)")
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in counts]
        configs = {}
        if resources:
            question = partial(self._client.describe_configs, resources, config_filter="all")
            configs = self._asked(question, "read the settings of all its topics (DescribeConfigs)")["topic"]
        return {
            name: TopicDescription(count, {key: str(entry["value"]) for key, entry in configs[name].items()})
            for name, count in counts.items()
        }

    def create(self, specs: Iterable[TopicSpec]) -> list[TopicSpec]:
        """Create the topics with one partition each; return those created. The others exist by now.

        A broker that has just started counts as fenced for a moment, so the request is repeated, for up to
        `READY`.
        """
        created = [spec for batch in batches(list(specs)) for spec in self._created(batch)]
        if created:
            names, patience = [spec.name for spec in created], READY + READY_EACH * len(created)
            self._asked(lambda: self._client.wait_for_topics(names, timeout_ms=patience))
        return created

    def _created(self, specs: Sequence[TopicSpec]) -> list[TopicSpec]:
        specs_by_name = {spec.name: spec for spec in specs}
        requests = {
            name: {"num_partitions": 1, "configs": spec.configs} for name, spec in specs_by_name.items()
        }
        until = time.monotonic() + READY / 1000
        while True:
            answer = self._asked(lambda: self._client.create_topics(requests, raise_errors=False))
            if not all(map(_is_fenced, answer["topics"])) or time.monotonic() > until:
                break
            time.sleep(_AGAIN)
        created: list[TopicSpec] = []
        for result in answer["topics"]:
            if result["error_code"] == 0:
                created.append(specs_by_name[result["name"]])
            elif result["error_code"] != EXISTS:
                raise self._refused(f"topic {result['name']}", result, "make it (Create)")
        return created

    def fit(self, settings: Mapping[TopicSpec, Mapping[str, str]]) -> None:
        """Give existing topics these settings."""
        for batch in batches(list(settings.items())):
            resources = [
                ConfigResource(ConfigResourceType.TOPIC, spec.name, dict(configs)) for spec, configs in batch
            ]
            question = partial(self._client.alter_configs, resources)
            answer = self._asked(question, "change the settings of its topics (AlterConfigs)")["topic"]
            for name, result in answer.items():
                if result != "OK":
                    raise AdminError(f"{self.servers}: topic {name}: {result}")

    def _refused(self, subject: str, answer: dict[str, Any], right: str) -> AdminError:
        kind = for_code(answer["error_code"])
        if issubclass(kind, _UNALLOWED):
            return AdminError(f"{self.servers}: {lacking(subject, right)}: {ADMINISTRATOR}")
        return AdminError(f"{self.servers}: {subject}: {answer.get('error_message') or kind.__name__}")

    def _asked(self, question: Callable[[], T], right: str | None = None) -> T:
        """Return the answer; `right`: the right that is missing if the broker refuses."""
        try:
            return question()
        except KafkaError as error:
            if right is not None and isinstance(error, _UNALLOWED):
                words = f"these credentials may not {right}: {ADMINISTRATOR}"
                raise AdminError(f"{self.servers}: {words}") from None
            raise AdminError(f"{self.servers}: {error}") from None


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the items in parts that one request to a controller may hold."""
    return (items[k : k + TOGETHER] for k in range(0, len(items), TOGETHER))


def _is_fenced(answer: dict[str, Any]) -> bool:
    return answer["error_code"] == REPLICATION and "fenced" in (answer.get("error_message") or "")


def differences(spec: TopicSpec, topic: TopicDescription, *, partitioned: bool) -> list[str]:
    """Return how an existing topic differs from its spec; more room than specified is no difference.

    For the party's own stream only three differences count, as they change the data: compaction, the type of
    timestamps, and the number of partitions (unless it may be `partitioned`).
    """
    lines = []
    if topic.partitions != 1 and not (spec.owned and partitioned):
        lines.append(f"has {topic.partitions} partitions: must have one")
    for key, value in spec.configs.items():
        right, words = _RULES[key]
        if spec.shared and key == "max.message.bytes":  # a larger limit endangers the readers
            right, words = str.__eq__, "{}"
        if (not spec.owned or key in _DECISIVE) and not right(topic.configs[key], value):
            lines.append(f"{key} is {topic.configs[key]}: must be {words.format(value)}")
    return lines


_DECISIVE = {"cleanup.policy", "message.timestamp.type"}


def _at_least(value: str, wanted: str) -> bool:
    """Compare limits; -1 is unlimited."""
    return value == "-1" or (wanted != "-1" and int(value) >= int(wanted))


_RULES: dict[str, tuple[Callable[[str, str], bool], str]] = {
    "cleanup.policy": (str.__eq__, "{}"),
    "retention.ms": (_at_least, "{} (none)"),
    "retention.bytes": (_at_least, "at least {}, or -1"),
    "segment.bytes": (lambda found, wanted: int(found) <= int(wanted), "at most {}"),
    "max.message.bytes": (_at_least, "at least {}"),
    "compression.type": (str.__eq__, "{}"),
    "message.timestamp.type": (str.__eq__, "{}"),
}


# The topics of a mesh file.

Side = Literal["mesh", "data"]
"""The mesh broker, which its operator provisions, or the data brokers, which their parties provision."""


class Differs(Exception):
    """Existing topics differ from those of the mesh file: `lines`, one per difference."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The result on one broker: the topics created (with `dry_run`: to create), and those that already fit.

    `bounded`: a line for each setting of an existing topic that was changed (with `dry_run`: to change).
    """

    label: str
    servers: str
    created: tuple[TopicSpec, ...]
    existing: tuple[TopicSpec, ...]
    bounded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Topics:
    """The topics of one party, or the shared ones, on one broker."""

    label: str
    admin: Admin
    specs: tuple[TopicSpec, ...]
    there: Mapping[str, TopicDescription]

    @property
    def missing(self) -> tuple[TopicSpec, ...]:
        return tuple(spec for spec in self.specs if spec.name not in self.there)

    @property
    def unfit(self) -> dict[TopicSpec, tuple[list[str], dict[str, str]]]:
        """The lines and the settings of what `provision` changes, by the existing topic that has it."""
        unfit = {}
        for spec in self.specs:
            if spec.name in self.there:
                configs = self.there[spec.name].configs
                lines, narrow = spec.unbounded(configs), spec.narrow(configs)
                lines += [f"{key} is {configs[key]}: must be {limit}" for key, limit in narrow.items()]
                if lines:
                    unfit[spec] = lines, spec.bounds | narrow
        return unfit

    def differences(self, *, partitioned: bool) -> list[str]:
        unfit = self.unfit
        named_lines = []
        for spec in self.specs:
            topic = self.there.get(spec.name)
            if topic is not None:
                _, settings = unfit.get(spec, ([], {}))
                mended = replace(topic, configs=topic.configs | settings)
                named_lines += [
                    (spec.name, text) for text in differences(spec, mended, partitioned=partitioned)
                ]
        return [self.line(name, text) for name, text in named_lines]

    def line(self, name: str, text: str) -> str:
        return f"{self.label} {self.admin.servers}: topic {name}: {text}"


def provision(file: AnyFile, *, dry_run: bool = False, only: Side | None = None) -> tuple[Provisioned, ...]:
    """Create missing topics on the mesh broker, and on the data brokers of parties whose own part is here.

    `only`: the side to provision; None: both. Raises MeshFileError if a node's brokers are missing, Differs,
    BusError if a broker refuses.
    """
    labelled_brokers = sides(file, only)
    brokers = {} if only is not None else {name: file.brokers(name) for name in file.on_topics}
    with ExitStack() as stack:
        admins: dict[BrokerSettings, Admin] = {}
        for broker in [
            *(broker for _, broker in labelled_brokers),
            *(node_brokers.mesh for node_brokers in brokers.values()),
        ]:
            if broker not in admins:
                admins[broker] = stack.enter_context(Admin(broker))
        if only is None:
            check_clusters(file, brokers, {broker: admin.cluster for broker, admin in admins.items()})
        topic_sides = list(_topics(file, labelled_brokers, admins))
        wrong = [line for side in topic_sides for line in side.differences(partitioned=file.is_partitioned)]
        if wrong:
            raise Differs(wrong)
        return tuple(_done(side, dry_run=dry_run) for side in topic_sides)


def sides(file: AnyFile, only: Side | None = None) -> list[tuple[str | None, BrokerSettings]]:
    """Return the mesh broker (name None), and the data broker of each party that has one here.

    Raises MeshFileError if a broker is missing.
    """
    labelled_brokers: list[tuple[str | None, BrokerSettings]] = []
    lines: list[str] = []
    if only != "data":
        labelled_brokers.append((None, file.mesh_broker))
    for name in file.on_topics if only != "mesh" else ():
        try:
            labelled_brokers.append((name, file.brokers(name).data))
        except MeshFileError as error:
            lines += error.lines
    if lines:
        raise MeshFileError(lines)
    return labelled_brokers


def label(node: str | None) -> str:
    """Return a broker's name for people."""
    return "mesh broker" if node is None else f"data broker of {node}"


def specs_of(file: AnyFile, name: str | None) -> tuple[TopicSpec, ...]:
    """Return the topics of the mesh broker (None), or of a party's own."""
    specs: tuple[TopicSpec, ...] = file.kind.topics(file, name)
    return specs


def _topics(
    file: AnyFile,
    wanted: Iterable[tuple[str | None, BrokerSettings]],
    admins: Mapping[BrokerSettings, Admin],
) -> Iterable[_Topics]:
    for node, broker in wanted:
        specs = specs_of(file, node)
        admin = admins[broker]
        yield _Topics(label(node), admin, specs, admin.topics(spec.name for spec in specs))


def _done(side: _Topics, *, dry_run: bool) -> Provisioned:
    missing = side.missing
    created = missing if dry_run or not missing else tuple(side.admin.create(missing))
    existing = tuple(spec for spec in side.specs if spec not in created)
    unfit = side.unfit
    if unfit and not dry_run:
        side.admin.fit({spec: settings for spec, (_, settings) in unfit.items()})
    bounded = tuple(side.line(spec.name, text) for spec, (lines, _) in unfit.items() for text in lines)
    return Provisioned(side.label, side.admin.servers, created, existing, bounded)
