"""Checks whether a topic that others created keeps the records that a node has not read yet.

No record may cause the deletion of another record that is unread. On a compacted topic a later record deletes
an earlier one of the same key, at a time that the broker's cleaner decides by bytes. `min.compaction.lag.ms`
forbids that for a minimum time. So a node may read such a topic if this minimum covers the longest time for
which a record waits, which its owner states (`lag`). `retention.bytes` cuts a log by bytes, so the sizes of
some records decide which others are left for a node that is far behind. `retention.ms` cuts by age.

Both ages are those of a segment: the time from its largest timestamp until now. With `message.timestamp.type`
LogAppendTime the broker's clock sets the timestamps, so no record influences them. With CreateTime, Kafka's
default, producers set them. Records with too early a timestamp may be deleted sooner than these settings say.
One record with too late a timestamp keeps its segment and all later ones. So the promise depends on the
producers' timestamps, and a caution says so.

A topic's settings may change. They are checked where the broker shows them (DescribeConfigs).
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from streams.bus.bus import BusError, Denied, UnknownTopic
from streams.bus.connection import PATIENCE, client_settings, consumer_settings
from streams.bus.logs import Logs
from streams.bus.preflight import answer, no_partition
from streams.log_events import LogEvent
from streams.mesh.settings.base import spelt
from streams.mesh.settings.brokers import BrokerSettings


class Judgement(NamedTuple):
    """Lines on why a node cannot read a topic with such settings, and cautions for its owner."""

    refusals: tuple[str, ...]
    cautions: tuple[str, ...]


CREATE_TIME = "CreateTime"
"""The `message.timestamp.type` of a topic whose records have the times that producers write."""
UNSEEN_AGE = "its settings cannot be seen (DescribeConfigs): see yourself that it keeps what labels need"
UNSEEN = "its settings cannot be seen (DescribeConfigs): see yourself that nothing unread is compacted away"


def judged(configs: Mapping[str, str], lag: float | None) -> Judgement:
    """Judge a topic by its settings. `lag`: the longest wait of a record in seconds; None: not given."""
    refusals, cautions = list[str](), list[str]()
    policy, retention = configs.get("cleanup.policy", "delete"), configs.get("retention.ms", "-1")
    by_age = list[str]()
    if "compact" in policy:
        refusals += _compaction(policy, configs.get("min.compaction.lag.ms", "0"), lag)
        by_age += [] if refusals else ["min.compaction.lag.ms"]
    if "delete" in policy and retention != "-1":
        by_age.append("retention.ms")
    if by_age and configs.get("message.timestamp.type", CREATE_TIME) == CREATE_TIME:
        goes = f"{' and '.join(by_age)} {'goes' if len(by_age) == 1 else 'go'}"
        text = "by the times that producers write, so a record dated back may vanish before it is read"
        cautions.append(f"message.timestamp.type is {CREATE_TIME}: {goes} {text}")
    if (limit := configs.get("retention.bytes", "-1")) != "-1":
        text = "the sizes of other records decide which a node that is behind still finds"
        cautions.append(f"retention.bytes is {limit}: {text}")
    if lag is not None and "delete" in policy and retention != "-1" and int(retention) < 1000 * lag:
        cautions.append(
            f"retention.ms is {retention}: records that wait for {spelt(lag)}, source.lag, are lost"
        )
    return Judgement(tuple(refusals), tuple(cautions))


def _compaction(policy: str, spared: str, lag: float | None) -> list[str]:
    """Return the line that refuses a compacted topic; none if no waiting record can be compacted."""
    harm = "as a later record with its key would remove one that is not read yet"
    if lag is None:
        return [f"cleanup.policy is {policy}: must be delete, or needs source.lag, {harm}"]
    least = round(1000 * lag)
    if int(spared) >= least:
        return []
    return [f"min.compaction.lag.ms is {spared}: must be at least {least} ({spelt(lag)}, source.lag), {harm}"]


class ExistingTopics:
    """Checks the settings of a process's existing topics, given their lags; logs each caution once.

    `kept`: the seconds for which topics must keep their records, for labels that come later and the records
    that these belong to.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        lags: Mapping[str, float | None],
        log: logging.Logger,
        kept: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._broker, self._lags, self._log, self._kept = broker, lags, log, kept
        self._logged: set[str] = set()

    def refusals(self, topics: Iterable[str]) -> list[str]:
        """Return the lines that refuse these topics for their current settings. Raises BusError."""
        lines, lags = list[str](), {topic: self._lags[topic] for topic in topics}
        for topic, judgement in judgements(self._broker, lags).items():
            lines += [f"{topic}: {line}" for line in judgement.refusals]
            for caution in judgement.cautions:
                self._caution(f"{topic}: {caution}")
        return lines

    def short(self) -> list[str]:
        """Return the lines that refuse topics which keep records for a shorter time than labels need.

        Raises BusError.
        """
        lines = list[str]()
        for topic, configs in topic_configs(self._broker, self._kept).items():
            if configs is None:
                self._caution(f"{topic}: {UNSEEN_AGE}")
                continue
            line = too_short(topic, configs, self._kept[topic])
            lines += [] if line is None else [line]
        return lines

    def unfit(self) -> str | None:
        """Return a line on a topic whose settings no longer fit; None if no such topic is known."""
        try:
            return next(iter(self.refusals(self._lags) + self.short()), None)
        except BusError:  # the broker is away; a later call asks again
            return None

    def _caution(self, line: str) -> None:
        if line not in self._logged:
            self._logged.add(line)
            self._log.warning("%s", line, extra=LogEvent.DATA_TOPIC.of())


def too_short(topic: str, configs: Mapping[str, str], needed: float) -> str | None:
    """Return a line if a topic keeps its records for fewer seconds than labels need."""
    retention, policy = configs.get("retention.ms", "-1"), configs.get("cleanup.policy", "delete")
    if "delete" not in policy or retention == "-1" or int(retention) >= 1_000 * needed:
        return None
    return f"{topic} keeps {spelt(int(retention) // 1_000)} (retention.ms); labels need {spelt(needed)}"


def judgements(broker: BrokerSettings, lags: Mapping[str, float | None]) -> dict[str, Judgement]:
    """Judge existing topics by their current settings and their lags. Raises BusError.

    Settings that cannot be seen are a caution, and so is a missing topic.
    """
    return {
        topic: Judgement((), (UNSEEN,)) if configs is None else judged(configs, lags[topic])
        for topic, configs in topic_configs(broker, lags).items()
    }


def topic_configs(broker: BrokerSettings, topics: Iterable[str]) -> dict[str, dict[str, str] | None]:
    """Return the settings of topics as they are now; None where they cannot be seen. Raises BusError."""
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    if not resources:
        return {}
    client = AdminClient(client_settings(broker) | {"log_level": 0})
    by_topic = dict[str, dict[str, str] | None]()
    for resource, future in client.describe_configs(resources, request_timeout=PATIENCE).items():
        try:
            entries = answer(future, resource.name)
        except (Denied, UnknownTopic):
            by_topic[resource.name] = None
            continue
        by_topic[resource.name] = {key: str(entry.value) for key, entry in entries.items()}
    return by_topic


# The first records of a topic, for its owner's `check`.


class Sample(NamedTuple):
    """A topic's partitions, and the first messages of the partitions that are read, in order."""

    partitions: int
    messages: tuple["Message[bytes, bytes]", ...]


_SAMPLING = 10.0
"""Seconds in which a broker must have sent the first messages of a topic."""
_TOGETHER, _LOOK = 500, 0.2
"""The most messages that one call of the client returns, and the seconds that it waits for them."""


def sample(broker: BrokerSettings, topic: str, partitions: Sequence[int] | None, most: int) -> Sample:
    """Read a topic's first committed messages, at most so many, evenly from the partitions.

    `partitions`: the partitions to read; None: all. Raises BusError, also for a missing partition.
    """
    logs = Logs(broker, committed=True)
    try:
        count = logs.partitions([topic])[topic]
        numbers = range(count) if partitions is None else partitions
        if (missing := no_partition(numbers, count)) is not None:
            raise NoPartition(missing)
        spans = {number: logs.span(topic, number) for number in numbers}
    finally:
        logs.close()
    occupied = [number for number, (first, end) in spans.items() if first < end]
    messages_left = {number: max(1, most // len(occupied)) for number in occupied}
    messages: list[Message[bytes, bytes]] = []
    consumer = Consumer(consumer_settings(broker, committed=True) | {"log_level": 0})
    until = time.monotonic() + _SAMPLING
    try:
        consumer.assign([TopicPartition(topic, number, spans[number][0]) for number in messages_left])
        while any(messages_left.values()) and time.monotonic() < until:
            for message in consumer.consume(_TOGETHER, _LOOK):
                number, error = message.partition() or 0, message.error()
                if error is None and messages_left[number]:
                    messages.append(message)
                    messages_left[number] -= 1
                elif error is not None:  # the partition's end, or a message that no client can read
                    messages_left[number] = 0
    finally:
        consumer.close()
    return Sample(count, tuple(messages))


class NoPartition(BusError):
    """The topic does not have a partition that its reader names."""
