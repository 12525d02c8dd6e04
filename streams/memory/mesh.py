"""A whole mesh in one process: the real machines, the real codec, the real journals, on the memory bus.

`run` and `demo` use it, and the tests with faults. Nodes and scheduler know no more than a broker tells them.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nodes.events import Report
from streams.codec import Expected, Refused, decode_heartbeat, decode_plan, encode_plan
from streams.journal.journal import Journal
from streams.journal.memory import MemoryJournal
from streams.memory.bus import Faults, MemoryBus
from streams.memory.node import MemoryNode, NodeParts, Surroundings
from streams.node_shell import NodeJournal
from streams.topics import MeshTopics
from topology.plans import Heartbeat, Plan
from topology.scheduler import (
    HeartbeatRead,
    PlanRead,
    PublishPlan,
    SchedulerEvent,
    SchedulerMachine,
    SchedulerSettings,
    SourceEnded,
    Started,
    Ticked,
)

HEARTBEAT_PERIOD = 1.0
"""Seconds of virtual time between heartbeats, in a mesh where silence counts."""


@dataclass(frozen=True, slots=True)
class MeshParts:
    """What a mesh is made of. `round_timeout` None: nodes wait for ever."""

    topics: MeshTopics
    digest: bytes
    horizon: int
    scheduler: SchedulerSettings
    nodes: dict[str, NodeParts]
    round_timeout: float | None = None

    def neighbours(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the sources and the targets of a node's provisioned edges."""
        graph = self.scheduler.schedule.graph
        place = graph.nodes.index(name)
        sources = graph.sources[graph.targets == place].tolist()
        targets = graph.targets[graph.sources == place].tolist()
        return tuple(graph.nodes[k] for k in sources), tuple(graph.nodes[k] for k in targets)

    def expected(self, source: str) -> Expected:
        """Return what a reader of that source's edges accepts."""
        learner = self.nodes[source].learner
        return Expected(
            self.topics.run, source, self.digest, learner.algorithm.dimension, learner.release_bound
        )


class MemoryMesh:
    """Runs a mesh to its end. `report` takes (node, report) of every node, in the order they happen."""

    def __init__(
        self,
        parts: MeshParts,
        report: Callable[[str, Report], None],
        *,
        state: Path | None = None,
        faults: Faults | None = None,
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self.parts = parts
        names, topics = sorted(parts.nodes), parts.topics
        neighbours = {name: parts.neighbours(name) for name in names}
        expected = {name: parts.expected(name) for name in names}
        edges = [topics.edge(name, target) for name in names for target in neighbours[name][1]]
        owned = [topic for name in names for topic in (topics.progress(name), topics.dead_letters(name))]
        self.bus = MemoryBus([topics.topology, *owned, *edges], faults)
        self.nodes = {}
        for name in names:
            sources, targets = neighbours[name]
            surroundings = Surroundings(
                topics,
                parts.digest,
                parts.horizon,
                parts.round_timeout,
                expected[name],
                {source: expected[source] for source in sources},
                targets,
            )
            self.nodes[name] = MemoryNode(
                name,
                parts.nodes[name],
                surroundings,
                self.bus,
                faults or Faults(),
                new_id=new_id,
                journal=_journal(state, parts, name, new_id()),
                report=report,
            )
        self.scheduler = MemoryScheduler(parts, self.bus)
        for node in self.nodes.values():
            node.start()
        if parts.scheduler.silence is not None:
            self.bus.after(HEARTBEAT_PERIOD, self._beat)

    @property
    def done(self) -> bool:
        """Whether every node has halted."""
        return all(node.halted for node in self.nodes.values())

    def advance(self) -> bool:
        """Do one thing. Return False when there is nothing left to do."""
        return self.bus.deliver()

    def run(self) -> None:
        """Go on until every node has halted, or none can go on (their sources have ended)."""
        self.bus.run()

    def close(self) -> None:
        """Close the journals."""
        for node in self.nodes.values():
            node.journal.close()

    def _beat(self) -> None:
        if self.done:
            return
        for node in self.nodes.values():
            node.beat()
        self.scheduler.handle(Ticked(HEARTBEAT_PERIOD, None))
        self.bus.after(HEARTBEAT_PERIOD, self._beat)


class MemoryScheduler:
    """The scheduler machine on the memory bus."""

    def __init__(self, parts: MeshParts, bus: MemoryBus) -> None:
        self.refused: list[Refused] = []
        self._parts, self._bus = parts, bus
        self._machine = SchedulerMachine(parts.scheduler)
        topics = parts.topics
        first = bus.end(topics.topology)  # what it publishes at its start, it reads
        plans = [plan for value in bus.read(topics.topology, 0) if (plan := self._plan(value)) is not None]
        heartbeats = [
            beat
            for name in sorted(parts.nodes)
            for value in bus.read(topics.progress(name), 0)
            if (beat := self._heartbeat(name, value)) is not None
        ]
        self.handle(Started(tuple(plans), tuple(heartbeats)))
        self._subscriptions = [bus.subscribe(topics.topology, first, self._plan_read)]
        for name in sorted(parts.nodes):
            topic = topics.progress(name)
            handler = self._heartbeat_reader(name)
            self._subscriptions.append(bus.subscribe(topic, bus.end(topic), handler))

    def handle(self, event: SchedulerEvent) -> None:
        """Feed the machine and publish what it plans."""
        for effect in self._machine.handle(event):
            if isinstance(effect, PublishPlan):
                self._bus.send(self._parts.topics.topology, encode_plan(effect.plan, self._parts.digest))

    def end(self) -> None:
        """End the run after the last round that is planned."""
        self.handle(SourceEnded(0))

    def stop(self) -> None:
        """End the process here and now, as a kill would."""
        for subscription in self._subscriptions:
            self._bus.cancel(subscription)

    def _plan_read(self, _: int, value: bytes) -> None:
        plan = self._plan(value)
        if plan is not None:
            self.handle(PlanRead(plan))

    def _heartbeat_reader(self, name: str) -> Callable[[int, bytes], None]:
        def read(_: int, value: bytes) -> None:
            heartbeat = self._heartbeat(name, value)
            if heartbeat is not None:
                self.handle(HeartbeatRead(heartbeat))

        return read

    def _plan(self, value: bytes) -> Plan | None:
        try:
            return decode_plan(value, self._parts.topics.run, self._parts.digest)
        except Refused as refused:
            self.refused.append(refused)
            return None

    def _heartbeat(self, name: str, value: bytes) -> Heartbeat | None:
        try:
            return decode_heartbeat(value, self._parts.topics.run, name, self._parts.digest)
        except Refused as refused:
            self.refused.append(refused)
            return None


def _journal(state: Path | None, parts: MeshParts, name: str, instance: str) -> NodeJournal:
    if state is None:
        return MemoryJournal(instance, parts.horizon)
    return Journal(
        state / f"{name}.journal",
        run=parts.topics.run,
        node=name,
        digest=parts.digest,
        instance=instance,
        horizon=parts.horizon,
    )
