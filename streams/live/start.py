"""Where a node's process goes on from: its journal, held against what the brokers' logs say."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from nodes.machine.journal import JournalRecord, is_outdated
from nodes.machine.membership import Identity
from streams.bus.kafka import KafkaBus
from streams.bus.logs import Stored
from streams.bus.mesh_log import MeshLog, messages
from streams.codec import encode_heartbeat, encode_release
from streams.live.node_shell import NodeJournal
from streams.mesh.mesh import Surroundings
from topology.plans import Heartbeat, Plan


@dataclass(frozen=True, slots=True)
class MeshStart:
    """All that a process must know of the mesh broker before its machine starts.

    `plans` are the topology's records from the journal's position on; `offsets` by topic are where the
    in-edges, the topology after `plans`, and the node's own progress are read from; `unsent` are (topic,
    bytes) of releases that the journal knows, and an edge lacks.
    """

    records: tuple[JournalRecord, ...]
    plans: tuple[Stored, ...]
    offsets: dict[str, int]
    unsent: tuple[tuple[str, bytes], ...]


def is_named(node: str, surroundings: Surroundings, bus: KafkaBus) -> bool:
    """Return whether a plan of this run names the node, or says that one did. Raises BusError."""
    plans = messages(MeshLog(surroundings.topics, surroundings.digest, bus).plans())
    return any(node in dict(plan.named) or plan.member(node) is not None for plan in plans)


def hello(who: Identity, stepped: int, surroundings: Surroundings, bus: KafkaBus) -> int:
    """Say that this process is there; return the offset on the own progress from which it is read back.

    It comes before the own edges are read: an older process of the node stops when it reads this. What is
    said is in the log when the bus is flushed.
    """
    progress = surroundings.topics.progress(who.name)
    offset = bus.end(progress)
    beat = Heartbeat(who.run, who.name, who.instance, who.boot, stepped, hello=True)
    bus.send(progress, encode_heartbeat(beat, surroundings.digest))
    return offset


def mesh_start(
    log: logging.Logger,
    node: str,
    journal: NodeJournal,
    surroundings: Surroundings,
    bus: KafkaBus,
    new_id: Callable[[], str],
    *,
    progress: int,
    simulated: bool,
) -> MeshStart:
    """Return where to go on. A journal older than what it has published itself begins a new life.

    Positions that are outside their logs by now give way to where the logs begin: then the node has missed
    more than H rounds, and joins again. `progress` is what `hello` returned; `simulated` says of the noise
    that it is. Raises Unreachable, OffsetOutOfRange where a log was cut meanwhile, BusError.
    """
    topics = surroundings.topics
    found = published(journal, surroundings, bus)
    if found.outdated:
        journal.renew(new_id())
        log.warning("the journal is older than what it has published: joining as a new instance")
    records = journal.records()
    wanted = dict(records[-1].edge_positions) if records else {}
    edges = {
        source: _inside(log, bus, topics.edge(source, node), wanted.get(source))
        for source in surroundings.expected
    }
    topology = _inside(log, bus, topics.topology, records[-1].topology_position if records else None)
    oldest = records[0].topology_position if records else topology
    first = max(bus.span(topics.topology)[0], min(topology, oldest))
    planned = MeshLog(topics, surroundings.digest, bus).plans(first)
    again = tuple(
        (topics.edge(node, target), encode_release(message, surroundings.digest))
        for target, record in unsent(node, records, messages(planned), found.rounds)
        for message in [record.message(topics.run, node, journal.instance, simulated=simulated)]
    )
    if records:
        moved = tuple((source, edges[source]) for source in wanted if source in edges)
        last = records[-1]._replace(topology_position=topology, edge_positions=moved)
        records = (*records[:-1], last)
    offsets = {topics.edge(source, node): offset for source, offset in edges.items()}
    offsets[topics.topology] = planned[-1].record.offset + 1 if planned else topology
    offsets[topics.progress(node)] = progress
    plans = tuple(entry.record for entry in planned if entry.record.offset >= topology)
    return MeshStart(records, plans, offsets, again)


def _inside(log: logging.Logger, bus: KafkaBus, topic: str, position: int | None) -> int:
    first, end = bus.span(topic)
    if position is not None and first <= position <= end:
        return position
    if position is not None:
        log.warning("%s: position %d is not from %d to %d, where its log is", topic, position, first, end)
    return first


class Published(NamedTuple):
    """What the own edges say.

    `outdated`: the journal's instance has published what the journal does not know. `rounds`: by target, the
    rounds of this instance that are on the edge.
    """

    outdated: bool
    rounds: dict[str, frozenset[int]]


def published(journal: NodeJournal, surroundings: Surroundings, bus: KafkaBus) -> Published:
    """Read the own edges to their ends, one after the other. Raises Unreachable, BusError."""
    log = MeshLog(surroundings.topics, surroundings.digest, bus)
    records, outdated, rounds = journal.records(), False, {}
    for target in surroundings.targets:
        sent = [release for _, _, release in log.releases(surroundings.own, [target])]
        outdated = outdated or is_outdated(records, journal.instance, sent)
        rounds[target] = frozenset(one.round for one in sent if one.instance == journal.instance)
    return Published(outdated, rounds)


def unsent(
    node: str,
    records: tuple[JournalRecord, ...],
    plans: Iterable[Plan],
    rounds: dict[str, frozenset[int]],
) -> Iterator[tuple[str, JournalRecord]]:
    """Yield (target, record) of what was journalled, and is not on an edge that its round's plan switched on.

    A process may have died, or its broker have been away, before it was taken. The newest record is left to
    the machine, which sends it again in any case.
    """
    planned: dict[int, Plan] = {}
    for plan in plans:
        planned.setdefault(plan.round, plan)
    for record in records[:-1]:
        if record.round in planned:
            for target in planned[record.round].outgoing(node):
                if target in rounds and record.round not in rounds[target]:
                    yield target, record
