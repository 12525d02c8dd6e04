"""Keeps what every run has spent on a node's data beside the data: `spends.<node>` on the data broker.

A record is a state folder's line of a life (`streams/state/spends.py`). Its key is mesh, run, the folder's
id and the life, so no two folders share a key. The topic is compacted: the last line of each key stays for
ever. A process writes its life's line when it begins, before its hello, and when it ends. With the first it
also writes other lines that its folder has and the broker lacks. It never writes round by round.

So a reader of the topic knows of every life that began, of any mesh, wherever its state folder is, and where
it began to read. It does not know the charges of a life that did not end in order. That line stays open: a
record's epsilon counts in full, and the stream's cost is known only from the life's journal, if that exists.
A life writes before it reads, so of two that begin at the same moment at least one knows of the other. A
topic that is deleted or recreated forgets; folders then write their lines again.
"""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from streams.bus.bus import BusError, Denied, Stored, UnknownTopic, Unreachable
from streams.bus.connection import PATIENCE
from streams.bus.kafka import KafkaBus
from streams.bus.logs import Logs
from streams.bus.topic_specs import LEAST_LIMIT, OVERHEAD
from streams.codec.topics import DataTopics
from streams.mesh.file import MeshFile, MeshFileError
from streams.mesh.settings.brokers import BrokerSettings
from streams.state.folder import StateFolder
from streams.state.known_spends import Known, Written, known_by, together
from streams.state.spend_file import from_line, to_line
from streams.state.spends import all_spends

_LARGEST = LEAST_LIMIT - OVERHEAD


def spends_bus(broker: BrokerSettings, nodes: Iterable[str]) -> KafkaBus:
    """Open the topics of these nodes; close it when done. Raises UnknownTopic, Denied, Unreachable."""
    return KafkaBus(broker, {DataTopics(node).spends: _LARGEST for node in nodes})


class SpendsTopic:
    """A process's access to `spends.<node>`, on a bus of `spends_bus`."""

    def __init__(self, bus: KafkaBus, node: str) -> None:
        self._name, self._bus = DataTopics(node).spends, bus

    def read(self) -> tuple[Written, ...]:
        """Return the last line of each key, to the topic's end.

        Raises Unreachable, Denied, and BusError for a broken line, whose spend is then unknown.
        """
        first, _ = self._bus.span(self._name)
        return _lines(self._name, self._bus.stored({self._name: first})[self._name])

    def write(self, line: Written) -> None:
        """Write a line; when this returns all in-sync replicas have it.

        Raises Unreachable if they do not in time (repeating it is harmless), BusError.
        """
        self.send(line)
        if not self._bus.flush(PATIENCE):
            raise Unreachable(f"{self._name}: what is spent is not acknowledged")

    def send(self, line: Written) -> None:
        """Send a line, and do not wait. Raises BusError."""
        spend = line.spend
        key = spend._replace(folder=line.folder).key
        self._bus.send(self._name, to_line(spend).encode(), key=key.encode())


def all_lives(file: MeshFile, names: Iterable[str], state: Path | None) -> dict[str, Known]:
    """Return all known lives over the data of these nodes, from a folder and their data brokers.

    A broker that the file does not name, that does not answer, or that does not show its topic, is skipped.
    Raises JournalError, and BusError if a topic is broken.
    """
    found, away = {}, set[BrokerSettings]()
    for name in names:
        there = _told(file, name, away)
        here = () if state is None else all_spends(state, name)
        lives = together("" if state is None else StateFolder(state).known_id(), here, there or ())
        found[name] = Known(lives, known_by(name, here=state is not None, there=there is not None))
    return found


def _told(file: MeshFile, node: str, away: set[BrokerSettings]) -> tuple[Written, ...] | None:
    """Return the lines on the node's data broker, if any. A broker that does not answer is asked once."""
    try:
        broker = file.brokers(node).data
    except MeshFileError:
        return None
    try:
        return None if broker in away else written(broker, node)
    except Unreachable:
        away.add(broker)
    except (UnknownTopic, Denied):
        pass
    return None


def written(broker: BrokerSettings, node: str) -> tuple[Written, ...]:
    """Return the last line of each key. Raises BusError, as `SpendsTopic.read`."""
    name = DataTopics(node).spends
    with closing(Logs(broker)) as logs:
        logs.partitions([name])  # faster than a span if nobody answers
        return _lines(name, logs.stored({name: logs.span(name)[0]})[name])


def _lines(name: str, stored: Iterable[Stored]) -> tuple[Written, ...]:
    last = {record.key: record for record in stored}
    return tuple(_line(name, record) for record in last.values())


def _line(name: str, record: Stored) -> Written:
    try:
        _, _, folder, _ = record.key.decode().split("/")
        return Written(folder, from_line(record.value.decode()))
    except (ValueError, TypeError, KeyError) as error:
        where = f"{name}: the record at offset {record.offset} is broken"
        raise BusError(f"{where}: what earlier runs have spent is not known") from error
