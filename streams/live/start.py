"""Finds where a node's process continues on any bus: compares its journal with the bus's logs."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from nodes.machine.journal import JournalRecord, ReleaseMessage, is_outdated
from nodes.protocol import Identity
from streams.bus.bus import Bus, Stored, UnknownTopic
from streams.bus.mesh_log import Entry, MeshLog, messages, valid
from streams.codec import encode_release
from streams.mesh.mesh import NodeContext
from streams.runtime.process import Ask
from streams.state.journal import NodeJournal
from topology.plans import Plan, PlanRecord


@dataclass(frozen=True, slots=True)
class NodeStart:
    """The state of the mesh when a node's machine starts.

    `who`: the process. `records`: the journal's records. `plans`: the topology's records from the journal's
    position on, without void ones. `offsets`: by topic, where to read the in-edges, the topology after
    `plans`, and the progress of the nodes that hear this node. `unsent`: (topic, bytes) of journalled
    releases that an edge lacks.
    """

    who: Identity
    records: tuple[JournalRecord, ...]
    plans: tuple[Stored, ...]
    offsets: dict[str, int]
    unsent: tuple[tuple[str, bytes], ...]


class _Plans(NamedTuple):
    """The offset from which a journal needs plans, the topology from there or before, and its
    valid records.
    """

    topology: int
    stored: list[Entry[PlanRecord]]
    valid: list[Entry[PlanRecord]]


@dataclass(frozen=True, slots=True)
class Starter:
    """Finds where the processes of one node continue on a bus, the first one and those after a crash.

    Call `start` once the process has said hello, as an older process of the node stops when it reads the
    hello. `start` reads the node's own edges, including edges that only another mesh file has and plans have
    switched on. A journal older than its own published releases begins a new life (`new_id` gives ids), as
    another process. Positions outside their logs are replaced by the logs' beginnings: the node has missed
    more than H rounds, and joins again.

    `simulated`: whether the mechanism's noise is seeded. `warn` logs a line for the operator.
    """

    node: str
    journal: NodeJournal
    mesh: NodeContext
    bus: Bus
    new_id: Callable[[], str]
    simulated: bool
    warn: Callable[[str], None]

    def start(self, who: Identity, ask: Ask) -> NodeStart:
        """Return where to continue. Raises BusError."""
        rounds, plans = ask(self._renewed), ask(self._plans)
        if ask(lambda: self._is_renewed_by_others(plans)):
            rounds, plans = {}, ask(self._plans)
        if self.journal.instance != who.instance:
            # a boot has one instance, and its hello named the old one
            who = replace(who, instance=self.journal.instance, boot=self.new_id())
        return ask(lambda: self._look(who, rounds, plans))

    def _renewed(self) -> dict[str, frozenset[int]]:
        """Read the node's edges, and begin a new life if they hold releases that the journal lacks.

        Return, by target, the rounds of the journal's life on the edge.
        """
        mesh, journal, rounds = self.mesh, self.journal, {}
        sent_by_topic: dict[str, list[ReleaseMessage]] = {}
        for target in mesh.targets:
            topic = mesh.topics.edge(self.node, target)
            if topic not in sent_by_topic:  # an outbox is one topic for all targets
                sent_by_topic[topic] = self._sent(target)
            messages = sent_by_topic[topic]
            if self._renews(messages):
                return {}
            rounds[target] = frozenset(
                message.round for message in messages if message.instance == journal.instance
            )
        return rounds

    def _is_renewed_by_others(self, plans: "_Plans") -> bool:
        """Return whether a new life begins, as edges that only another mesh file has hold newer releases.

        A journal may be restored while the file changes, or together with an older file. Then all releases
        that the journal lacks may be on edges that the current file does not have. Plans name these edges.
        """
        if self.mesh.topics.layout == "outbox":  # the one topic was read
            return False
        planned = [plan for record in messages(plans.valid) for plan in record.plans]
        planned_targets = {target for plan in planned for target in plan.outgoing(self.node)}
        for target in sorted(planned_targets - set(self.mesh.targets)):
            with suppress(UnknownTopic):  # a topic that was never made, or exists no more, has no records
                if self._renews(self._sent(target)):
                    return True
        return False

    def _sent(self, target: str) -> list[ReleaseMessage]:
        return [release for _, _, release in self._log().releases(self.mesh.own, [target])]

    def _renews(self, sent: list[ReleaseMessage]) -> bool:
        """Begin a new life if the journal lacks any of these releases; return whether it does."""
        if not is_outdated(self._of_life(), self.journal.instance, sent):
            return False
        self.journal.renew(self.new_id())
        self.warn("the journal is older than what it has published: joining as a new instance")
        return True

    def _of_life(self) -> tuple[JournalRecord, ...]:
        """Return the journal's records, without the record that its life inherits from the life before."""
        return tuple(record for record in self.journal.records() if record.round != self.journal.inherited)

    def _look(
        self,
        who: Identity,
        rounds: dict[str, frozenset[int]],
        plans: "_Plans",
    ) -> NodeStart:
        topics, records = self.mesh.topics, self.journal.records()
        positions = dict(records[-1].edge_positions) if records else {}
        edges = {
            source: self._inside(topics.edge(source, self.node), positions.get(source))
            for source in self.mesh.expected
        }
        topology, stored, planned = plans
        replayed = tuple(
            (topics.edge(self.node, target), self._sealed(message))
            for target, record in unsent(self.node, self._of_life(), messages(planned), rounds)
            for message in [record.message(topics.run, self.node, who.instance, simulated=self.simulated)]
        )
        if records:
            edge_positions = tuple((source, edges[source]) for source in positions if source in edges)
            last = records[-1]._replace(topology_position=topology, edge_positions=edge_positions)
            records = (*records[:-1], last)
        offsets = {topics.edge(source, self.node): offset for source, offset in edges.items()}
        readers = self.mesh.targets if self.mesh.is_told else ()  # they may have evidence against this one
        beats = map(topics.progress, readers)
        offsets |= {topic: self.bus.end(topic) for topic in beats}
        offsets[topics.topology] = stored[-1].record.offset + 1 if stored else topology
        taken_offsets = {entry.record.offset for entry in planned} | {
            entry.record.offset for entry in stored if entry.message is None
        }
        taken_plans = tuple(
            entry.record
            for entry in stored
            if entry.record.offset >= topology and entry.record.offset in taken_offsets
        )
        return NodeStart(who, records, taken_plans, offsets, tuple(dict.fromkeys(replayed)))

    def _plans(self) -> "_Plans":
        """Return the offset from which plans are needed, and the topology from there or before.

        If the log has another plan in the place of the journal's newest one, that plan was lost with its
        broker's disk, and others were made since. Then the whole log is read.
        """
        topic, records = self.mesh.topics.topology, self.journal.records()
        log = self._log()
        topology = self._inside(topic, records[-1].topology_position if records else None)
        beginning = self.bus.span(topic)[0]
        oldest = records[0].topology_position if records else topology
        first = max(beginning, min(topology, oldest))
        stored = log.plans(first)
        if not records or holds(stored, records[-1]):
            has_oldest = bool(records) and first == oldest and holds(stored, records[0])
            return _Plans(topology, stored, valid(stored, known=has_oldest))
        if topology > beginning:
            self.warn(f"{topic}: its plan for round {records[-1].round} was lost, and others were made since")
            stored = log.plans(beginning)
        return _Plans(beginning, stored, valid(stored))

    def _log(self) -> MeshLog:
        mesh = self.mesh
        return MeshLog(mesh.topics, mesh.digest, self.bus, mesh.envelope, mesh.clock)

    def _sealed(self, message: ReleaseMessage) -> bytes:
        return self.mesh.envelope.sealed(encode_release(message, self.mesh.digest))

    def _inside(self, topic: str, position: int | None) -> int:
        first, end = self.bus.span(topic)
        if position is not None and first <= position <= end:
            return position
        if position is not None:
            self.warn(f"{topic}: position {position} is not from {first} to {end}, where its log is")
        return first


def holds(stored: Iterable[Entry[PlanRecord]], record: JournalRecord) -> bool:
    """Return whether the log has the plan of a journal's record at the record's position."""
    return any(
        entry.record.offset == record.topology_position
        and entry.message is not None
        and any(plan.round == record.round for plan in entry.message.plans)
        for entry in stored
    )


def unsent(
    node: str,
    records: tuple[JournalRecord, ...],
    plans: Iterable[PlanRecord],
    rounds: dict[str, frozenset[int]],
) -> Iterator[tuple[str, JournalRecord]]:
    """Yield (target, record) of journalled releases that are missing on edges that their plans switched on.

    A process may have died, or its broker been away, before the releases were sent. The newest record is left
    out, as the machine sends its release again in any case.
    """
    planned: dict[int, Plan] = {}
    for plan_record in plans:
        planned |= {plan.round: plan for plan in plan_record.plans}
    for record in records[:-1]:
        if record.round in planned:
            for target in planned[record.round].outgoing(node):
                if target in rounds and record.round not in rounds[target]:
                    yield target, record
