"""Where a node's process goes on from: its journal, held against what the brokers' logs say."""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from nodes.journal import JournalRecord, is_outdated
from nodes.messages import ReleaseMessage
from streams.codec import Refused, decode_release
from streams.kafka.access import node_on_data
from streams.kafka.bus import KafkaBus
from streams.kafka.logs import Stored
from streams.kafka.preflight import preflight
from streams.memory.node import Surroundings
from streams.mesh_file.settings.node import BrokerSettings
from streams.node_shell import NodeJournal
from streams.topics import DataTopics


@dataclass(frozen=True, slots=True)
class MeshStart:
    """Where a process goes on: all that it must know of the mesh broker before its machine starts.

    `plans` are the topology's records from the journal's position on; `offsets` by topic are where the
    in-edges, the topology after `plans`, and the node's own progress are read from.
    """

    records: tuple[JournalRecord, ...]
    plans: tuple[Stored, ...]
    offsets: dict[str, int]


def check_data(
    log: logging.Logger,
    node: str,
    journal: NodeJournal,
    broker: BrokerSettings,
    new_id: Callable[[], str],
) -> None:
    """Check what the node needs of its data broker, and whether its log is the one that the journal knows.

    Where the log ends before the journal's position it was made anew: a new life begins. Raises
    PreflightFailed, BusError.
    """
    topics, records = DataTopics(node), journal.records()
    position = dict(records[-1].data_position or ()) if records else {}
    topic = topics.records
    outside = preflight(broker, node_on_data(node, topics.group), {topic: position}, several={topic})
    if any(found.position > found.end for found in outside):
        journal.renew(new_id())
        log.warning("%s was made anew: joining as a new instance", topic)


def mesh_start(
    log: logging.Logger,
    node: str,
    journal: NodeJournal,
    surroundings: Surroundings,
    bus: KafkaBus,
    new_id: Callable[[], str],
) -> MeshStart:
    """Return where to go on. A journal older than what it has published itself begins a new life.

    Positions that are outside their logs by now give way to where the logs begin: then the node has missed
    more than H rounds, and joins again.
    """
    topics = surroundings.topics
    published = _published(node, surroundings, bus)
    if is_outdated(journal.records(), journal.instance, published):
        journal.renew(new_id())
        log.warning("the journal is older than what it has published: joining as a new instance")
    records = journal.records()
    wanted = dict(records[-1].edge_positions) if records else {}
    edges = {
        source: _inside(log, bus, topics.edge(source, node), wanted.get(source))
        for source in surroundings.expected
    }
    topology = _inside(log, bus, topics.topology, records[-1].topology_position if records else None)
    plans = tuple(bus.stored({topics.topology: topology})[topics.topology])
    if records:
        moved = tuple((source, edges[source]) for source in wanted if source in edges)
        last = records[-1]._replace(topology_position=topology, edge_positions=moved)
        records = (*records[:-1], last)
    offsets = {topics.edge(source, node): offset for source, offset in edges.items()}
    offsets[topics.topology] = plans[-1].offset + 1 if plans else topology
    offsets[topics.progress(node)] = bus.end(topics.progress(node))
    return MeshStart(records, plans, offsets)


def _inside(log: logging.Logger, bus: KafkaBus, topic: str, position: int | None) -> int:
    first, end = bus.span(topic)
    if position is not None and first <= position <= end:
        return position
    if position is not None:
        log.warning("%s: position %d is not from %d to %d, where its log is", topic, position, first, end)
    return first


def _published(node: str, surroundings: Surroundings, bus: KafkaBus) -> list[ReleaseMessage]:
    """Return all that this node's own edges hold."""
    edges = [surroundings.topics.edge(node, target) for target in surroundings.targets]
    found = []
    for records in bus.stored({edge: bus.span(edge)[0] for edge in edges}).values():
        for record in records:
            with suppress(Refused):
                found.append(decode_release(record.value, surroundings.own))
    return found
