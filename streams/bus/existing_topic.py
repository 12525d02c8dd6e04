"""What the settings of a topic that others made do to records that a node has not read yet.

A log must not lose what is unread by another record's doing. Of a compacted topic a later record deletes an
earlier one with its key; when, the broker's cleaner decides by bytes. `min.compaction.lag.ms` forbids it for
so long, so a node may read such a topic where that covers the longest time for which a record waits, which
its owner states (`lag`). `retention.bytes` cuts a log by bytes, so the sizes of some records decide which
others a node finds that is far behind. `retention.ms` cuts by age.

Both ages are a segment's: the time from the largest timestamp in it until now. With `message.timestamp.type`
LogAppendTime the broker's clock writes timestamps, and no record has a say. With CreateTime, Kafka's default,
producers write them. What they date back may go sooner than these settings say, and one record that is dated
ahead spares its segment and what is behind it. So the promise holds by producers' times: that is a caution.

A topic's settings may change, and are looked at where the broker shows them (DescribeConfigs).
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
from streams.mesh.settings.base import spelt
from streams.mesh.settings.brokers import BrokerSettings


class Judgement(NamedTuple):
    """Why a node cannot read a topic with such settings, and what its owner should know; a line each."""

    refusals: tuple[str, ...]
    cautions: tuple[str, ...]


CREATE_TIME = "CreateTime"
"""The `message.timestamp.type` of a topic whose records have the times that producers write."""
UNSEEN_AGE = "its settings cannot be seen (DescribeConfigs): see yourself that it keeps what labels need"
UNSEEN = "its settings cannot be seen (DescribeConfigs): see yourself that nothing unread is compacted away"


def judged(configs: Mapping[str, str], lag: float | None) -> Judgement:
    """Judge a topic by its settings; `lag`: the longest time in seconds that a record waits; None: unsaid."""
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
    """Return the line that refuses a compacted topic; none if nothing that waits is compacted."""
    harm = "as a later record with its key would remove one that is not read yet"
    if lag is None:
        return [f"cleanup.policy is {policy}: must be delete, or needs source.lag, {harm}"]
    least = round(1000 * lag)
    if int(spared) >= least:
        return []
    return [f"min.compaction.lag.ms is {spared}: must be at least {least} ({spelt(lag)}, source.lag), {harm}"]


class ExistingTopics:
    """The settings of a process's existing topics, by their lags; each caution is logged once.

    `kept`: the seconds for which topics must keep records, those of labels that come later and their records.
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
        """Return the lines that refuse these topics by their settings, as they are now. Raises BusError."""
        lines, lags = list[str](), {topic: self._lags[topic] for topic in topics}
        for topic, judgement in judgements(self._broker, lags).items():
            lines += [f"{topic}: {line}" for line in judgement.refusals]
            for caution in judgement.cautions:
                self._caution(f"{topic}: {caution}")
        return lines

    def short(self) -> list[str]:
        """Return the lines that refuse topics which keep records for less than labels need.

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
        """Return a line on a topic that does not fit any more; None if none is known to be so."""
        try:
            return next(iter(self.refusals(self._lags) + self.short()), None)
        except BusError:  # it is away, and is asked again
            return None

    def _caution(self, line: str) -> None:
        if line not in self._logged:
            self._logged.add(line)
            self._log.warning("%s", line)


def too_short(topic: str, configs: Mapping[str, str], needed: float) -> str | None:
    """Return a line if a topic keeps its records for less than the seconds that labels need."""
    retention, policy = configs.get("retention.ms", "-1"), configs.get("cleanup.policy", "delete")
    if "delete" not in policy or retention == "-1" or int(retention) >= 1_000 * needed:
        return None
    return f"{topic} keeps {spelt(int(retention) // 1_000)} (retention.ms); labels need {spelt(needed)}"


def judgements(broker: BrokerSettings, lags: Mapping[str, float | None]) -> dict[str, Judgement]:
    """Judge existing topics by their settings now, by their lags. Raises BusError.

    Where they cannot be seen that is a caution, and so it is of a topic that is not there.
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
    """A topic's partitions, and the first messages of those that are read, in their order."""

    partitions: int
    messages: tuple["Message[bytes, bytes]", ...]


_SAMPLING = 10.0
"""Seconds that a broker has to give the first messages of a topic."""
_TOGETHER, _LOOK = 500, 0.2
"""Messages of one call of the client, and seconds that it waits for them."""


def sample(broker: BrokerSettings, topic: str, partitions: Sequence[int] | None, most: int) -> Sample:
    """Read a topic's first messages that are committed, at most so many, evenly from the partitions.

    `partitions`: those to read; None: all. Raises BusError, also for a partition that is not there.
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
                elif error is not None:  # its end, or what no client can read
                    messages_left[number] = 0
    finally:
        consumer.close()
    return Sample(count, tuple(messages))


class NoPartition(BusError):
    """The topic does not have a partition that its reader names."""
