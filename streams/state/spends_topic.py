"""Stores every run's spend on a reader's data in the topic `spends.<data topic>`, on the data's broker.

A record is a state folder's line of a life (`streams/state/spends.py`), of a node or an owner. Its key is
mesh, run, the folder's id and the life, so no two folders share a key. The topic is compacted: the last line
of each key stays for ever. A process writes its life's line when it begins, before its hello, and when it
ends. At its beginning it also writes other lines that its folder has and the broker lacks, and its folder
stores lines that only the broker has. A process never writes round by round.

So a reader of the topic knows every life that began, of any mesh, wherever its state folder is, and where the
life began to read. It does not know the charges of a life that did not end in order. The line of such a life
stays open: a record's epsilon counts in full, and the stream's cost is known only from the life's journal, if
that exists. A life writes before it reads. So of two lives that begin at the same moment at least one knows
of the other. A topic that is deleted or recreated loses its lines; folders then write theirs again.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from typing import NamedTuple

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from nodes.accounting.spends import Spend, merged_lives
from streams.bus.bus import BusError, Denied, Stored, UnknownTopic, Unreachable
from streams.bus.connection import PATIENCE, client_settings
from streams.bus.errors import bus_error
from streams.bus.kafka import KafkaBus
from streams.bus.logs import Logs
from streams.bus.topic_specs import LEAST_LIMIT, OVERHEAD
from streams.codec.topics import DataTopics
from streams.mesh.file import AnyFile, MeshFileError
from streams.mesh.settings.brokers import BrokerSettings
from streams.state.spends import Damaged, from_line, to_line

_LARGEST = LEAST_LIMIT - OVERHEAD


class Topic(NamedTuple):
    """A data topic as its broker knows it."""

    name: str
    id: str
    cluster: str


class SpendsBus(KafkaBus):
    """The topics of these readers, all on one data broker; close it when done.

    `records`: the broker with their data topics, if it is another broker. Raises UnknownTopic, Denied,
    Unreachable.
    """

    def __init__(
        self, broker: BrokerSettings, readers: Iterable[DataTopics], records: BrokerSettings | None = None
    ) -> None:
        readers = tuple(readers)
        super().__init__(broker, {topics.spends: _LARGEST for topics in readers})
        try:
            self.data = described(records or broker, [topics.records for topics in readers])
        except BusError:
            self.close()
            raise


def described(broker: BrokerSettings, topics: Sequence[str]) -> dict[str, Topic]:
    """Return these data topics, by name. A topic that is recreated has another id. Raises BusError."""
    client = AdminClient(client_settings(broker) | {"log_level": 0})
    futures = client.describe_topics(TopicCollection(list(topics)), request_timeout=PATIENCE)
    descriptions, topic = {}, topics[0]
    try:
        cluster = str(client.list_topics(topic, PATIENCE).cluster_id)
        for topic, answer in futures.items():
            descriptions[topic] = Topic(topic, str(answer.result().topic_id), cluster)
    except KafkaException as error:
        raise bus_error(error.args[0], topic) from None
    return descriptions


class SpendsTopic:
    """A process's access to the spends on a data topic. `data` is that topic."""

    def __init__(self, bus: SpendsBus, reader: DataTopics) -> None:
        self._name, self._bus = reader.spends, bus
        self.data = bus.data[reader.records]

    def read(self) -> tuple[Spend, ...]:
        """Return all lives, to the topic's end.

        Raises Unreachable, Denied, and BusError for a damaged line, whose spend is then unknown.
        """
        first, _ = self._bus.span(self._name)
        return _lives(self._name, self._bus.stored({self._name: first})[self._name])

    def write(self, spends: Iterable[Spend]) -> None:
        """Write lines; when this returns all in-sync replicas have them.

        Raises Unreachable if they do not confirm in time (repeating the call is harmless), BusError.
        """
        for spend in spends:
            self.send(spend)
        if not self._bus.flush(PATIENCE):
            raise Unreachable(f"{self._name}: what is spent is not acknowledged")

    def send(self, spend: Spend) -> None:
        """Send a line without waiting. Raises BusError."""
        self._bus.send(self._name, to_line(spend).encode(), key=spend.key.encode())


def unwritten(here: Iterable[Spend], there: Iterable[Spend]) -> tuple[Spend, ...]:
    """Return the lives of which the folder knows more than the broker, so that it must write them."""
    written_lives = merged_lives(there)
    merged_spends = merged_lives(written_lives.values(), here)
    return tuple(spend for life, spend in merged_spends.items() if written_lives.get(life) != spend)


def written(file: AnyFile, names: Iterable[str]) -> dict[str, tuple[Spend, ...] | None]:
    """Return all lives on the data brokers of these readers.

    None for a reader whose data are no topic, or whose broker is not named in the file, does not answer (it
    is asked once) or does not show the topic. Raises BusError if a topic is damaged.
    """
    lives: dict[str, tuple[Spend, ...] | None] = dict.fromkeys(names)
    readers_by_broker: dict[BrokerSettings, list[str]] = {}
    for name in lives if file.names_brokers else ():
        if name in file.on_topics:
            with suppress(MeshFileError):
                readers_by_broker.setdefault(file.brokers(name).data, []).append(name)
    for broker, readers in readers_by_broker.items():
        with suppress(Unreachable), closing(Logs(broker)) as logs:
            for reader in readers:
                with suppress(UnknownTopic, Denied):
                    lives[reader] = _written(logs, file.data_topics(reader).spends)
    return lives


def _written(logs: Logs, name: str) -> tuple[Spend, ...]:
    logs.partitions([name])  # this fails faster than a span if no broker answers
    return _lives(name, logs.stored({name: logs.span(name)[0]})[name])


def _lives(name: str, stored: Iterable[Stored]) -> tuple[Spend, ...]:
    last = {record.key: record for record in stored}
    return tuple(merged_lives(_line(name, record) for record in last.values()).values())


def _line(name: str, record: Stored) -> Spend:
    place = f"{name}: the record at offset {record.offset} is damaged"
    try:
        spend = from_line(record.value.decode("ascii", errors="replace"))
    except Damaged as error:
        raise BusError(f"{place}, {error}: what earlier runs have spent is not known") from error
    if record.key != spend.key.encode():
        raise BusError(f"{place}, its key is not its life's: what earlier runs have spent is not known")
    return spend
