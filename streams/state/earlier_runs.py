"""Refuses a new journal on data that an unknown run has read, unless the operator states what it spent."""

from collections.abc import Iterable
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, TopicPartition

from nodes.accounting.spends import DataReuse, Spend
from streams.bus.connection import PATIENCE, consumer_settings
from streams.bus.errors import bus_error
from streams.bus.logs import Logs
from streams.codec.topics import DataTopics
from streams.mesh.errors import UsageError
from streams.mesh.settings.brokers import BrokerSettings


def knows_run(lives: Iterable[Spend], mesh: str, run: str) -> bool:
    """Return whether one of the lives belongs to that run, or may: a life without a mesh may."""
    return any(life.run == run and life.mesh in {"", mesh} for life in lives)


def read_before(broker: BrokerSettings, node: str) -> bool:
    """Return whether a process of the node has read its data topic, by committed offsets. Raises BusError.

    Brokers forget offsets, but keep `spends.<node>` (`streams/state/spends_topic.py`).
    """
    topics = DataTopics(node)
    with closing(Logs(broker)) as logs:
        count = logs.partitions([topics.records])[topics.records]
    settings = consumer_settings(broker) | {"group.id": topics.group, "log_level": 0}
    with closing(Consumer(settings)) as consumer:
        asked = [TopicPartition(topics.records, number) for number in range(count)]
        try:
            return any(place.offset >= 0 for place in consumer.committed(asked, PATIENCE))
        except KafkaException as error:
            raise bus_error(error.args[0], topics.records) from None


def check_reuse(node: str, *, named: bool, read: bool, reuse: DataReuse | None, spent: int | None) -> None:
    """Raise UsageError if a run whose spend is unknown has read the node's records.

    `named`: plans of this run have named the node in an unknown life; they count the charges of this run, not
    of others. `read`: its data topic was read at a price that is not recorded.
    """
    if not (read or named) or (reuse is not None and spent is not None):
        return
    raise UsageError(
        f"{DataTopics(node).records} was read before, by a run that neither --state nor "
        f"{DataTopics(node).spends} knows of: say --spent N, the rounds that other runs have charged (plans "
        f"count those of this one), and --from end (none of their records is read again) or --data-reused"
    )


def check_same(
    node: str, run: str, lives: Iterable[Spend], reuse: DataReuse | None, spent: int | None
) -> None:
    """Raise UsageError if the operator's options differ from those at the beginning of the run.

    `lives`: the run's recorded lives. The same options are allowed, as services repeat their command line.
    """
    known = [(spend.before, spend.reuse) for spend in lives]
    before = max((count for count, _ in known), default=0)
    words = [said for _, said in known if said is not None]
    begun = "reused" if "reused" in words else words[0] if words else None
    if spent is not None and spent != before:
        raise UsageError(
            f"--spent is {spent}: must be {before}, as when {run} was begun for {node}, or not be given"
        )
    if reuse is not None and reuse != begun:
        option, then = (_OPTION[reuse], f"with {_OPTION[begun]}" if begun else "without it")
        raise UsageError(f"{option}: must not be given now: {run} was begun for {node} {then}")


_OPTION = {"end": "--from end", "reused": "--data-reused"}
