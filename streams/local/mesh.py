"""A whole mesh in one process: the real machines, the real codec, the real journals, on the memory bus.

`run` and `demo` use it, and the tests with faults. Nodes and scheduler know no more than a broker tells them.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nodes.accounting.price import Price
from nodes.machine.events import Report
from streams.bus.memory import Faults, MemoryBus
from streams.codec import Expected, Reason
from streams.codec.topics import MeshTopics
from streams.live.node_shell import NodeJournal
from streams.live.scheduler_shell import SchedulerShell
from streams.local.node import MemoryNode, NodeParts
from streams.mesh.mesh import Surroundings
from streams.state.folder import StateFolder
from streams.state.journal import Journal
from streams.state.memory_journal import MemoryJournal
from topology.plans import Plan
from topology.scheduler import Refusal, SchedulerSettings, heartbeat_period


@dataclass(frozen=True, slots=True)
class MeshParts:
    """What a mesh is made of. `round_timeout` None: nodes wait for ever.

    `prices`: what each node's releases cost, which journals keep; a node without is of unknown price.
    """

    topics: MeshTopics
    digest: bytes
    horizon: int
    scheduler: SchedulerSettings
    nodes: dict[str, NodeParts]
    round_timeout: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)

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
        neighbours = {name: parts.scheduler.schedule.graph.neighbours(name) for name in names}
        expected = {name: parts.expected(name) for name in names}
        edges = [topics.edge(name, target) for name in names for target in neighbours[name][1]]
        owned = [topic for name in names for topic in (topics.progress(name), topics.dead_letters(name))]
        self.bus = MemoryBus([topics.topology, *owned, *edges], faults)
        self.nodes = {}
        for name in names:
            sources, targets = neighbours[name]
            journal = _journal(state, parts, name, new_id())
            surroundings = Surroundings(
                topics,
                parts.digest,
                parts.horizon,
                parts.round_timeout,
                parts.scheduler.silence,
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
                journal=journal,
                report=report,
            )
        self.scheduler = MemoryScheduler(parts, self.bus)
        for node in self.nodes.values():
            node.start()
        self._period = heartbeat_period(parts.scheduler.silence)
        if parts.scheduler.silence is not None:
            self.bus.after(self._period, self._beat)

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
        self.scheduler.tick(self._period)
        self.bus.after(self._period, self._beat)


class MemoryScheduler:
    """A scheduler on the memory bus."""

    def __init__(self, parts: MeshParts, bus: MemoryBus) -> None:
        self.refused: list[Reason | Refusal] = []
        topics = parts.topics
        progress = {name: topics.progress(name) for name in sorted(parts.nodes)}
        self._bus = bus
        self._shell = SchedulerShell(parts.scheduler, topics, parts.digest, bus.send, _Refusals(self.refused))
        # what it publishes at its start, it reads
        first = {topic: bus.end(topic) for topic in (topics.topology, *progress.values())}
        self._shell.start(
            bus.read(topics.topology, 0), {name: bus.read(topic, 0) for name, topic in progress.items()}
        )
        readers: dict[str, Callable[[bytes], None]] = {topics.topology: self._shell.plan_read}
        readers |= {topic: partial(self._shell.heartbeat_read, name) for name, topic in progress.items()}
        self._subscriptions = [
            bus.subscribe(topic, first[topic], partial(_without_offset, read))
            for topic, read in readers.items()
        ]

    def tick(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._shell.tick(seconds, None)

    def end(self) -> None:
        """End the run after the last round that is planned."""
        self._shell.end()

    def stop(self) -> None:
        """End the process here and now, as a kill would."""
        for subscription in self._subscriptions:
            self._bus.cancel(subscription)


class _Refusals:
    """Keeps what a scheduler has refused, and nothing else."""

    def __init__(self, refused: list[Reason | Refusal]) -> None:
        self.refused = refused.append

    def planned(self, plan: Plan | None) -> None:
        """Nobody looks at it here."""

    def published(self) -> None:
        """As above."""

    def heard(self, live: int, slowest: int) -> None:
        """As above."""


def _without_offset(read: Callable[[bytes], None], _: int, value: bytes) -> None:
    read(value)


def _journal(state: Path | None, parts: MeshParts, name: str, instance: str) -> NodeJournal:
    if state is None:
        return MemoryJournal(instance, parts.horizon)
    return Journal(
        StateFolder(state).journal(name),
        run=parts.topics.run,
        node=name,
        digest=parts.digest,
        instance=instance,
        horizon=parts.horizon,
        mesh=parts.topics.mesh,
        price=parts.prices.get(name),
    )
