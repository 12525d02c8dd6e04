"""Whether a new journal begins on records that nobody here knows the price of: then its operator must say."""

from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from nodes.privacy.reuse import Word
from streams.commands.usage import UsageError
from streams.journal.spends import spends_file
from streams.kafka.connection import PATIENCE, consumer_settings
from streams.kafka.errors import bus_error
from streams.kafka.logs import Logs
from streams.mesh_file.settings.node import BrokerSettings
from streams.topics import DataTopics


def knows_spends(state: Path, node: str) -> bool:
    """Whether the folder knows of any run of the node, this one or another."""
    return spends_file(state, node).exists() or any(state.glob(f"{node}*.journal"))


def read_before(broker: BrokerSettings, node: str) -> bool:
    """Whether some process of the node has read records of its data topic: it has left committed offsets.

    Raises BusError.
    """
    topics = DataTopics(node)
    with closing(Logs(broker)) as logs:
        count = logs.partitions([topics.records])[topics.records]
    settings = consumer_settings(broker) | {"group.id": topics.group, "log_level": 0}
    with closing(Consumer(settings)) as consumer:
        try:
            found = consumer.committed(
                [TopicPartition(topics.records, partition) for partition in range(count)], PATIENCE
            )
        except KafkaException as error:
            raise bus_error(error.args[0], topics.records) from None
    return any(place.offset > 0 for place in found)


def check_word(
    node: str, *, known: bool, named: bool, read: bool, word: Word | None, spent: int | None
) -> None:
    """Raise UsageError where the node's records were read by a run whose spend nobody here knows.

    `known`: the state folder knows its runs. `named`: plans of this run have named the node (its journal is
    lost: it joins again, and reads nothing older). `read`: its data topic was read before.
    """
    if known or named or not read or (word is not None and spent is not None):
        return
    raise UsageError(
        f"{DataTopics(node).records} was read before, by a run that --state knows nothing of: say "
        f"--spent N, the rounds that were charged, and --from end (none of its records is read again) or "
        f"--data-reused"
    )
