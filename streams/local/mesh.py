"""Runs a whole mesh in one process: the real machines, codec and journals, on the memory bus.

`run` and `demo` use it, and the tests with faults. Nodes and scheduler know no more than on a broker.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nodes.accounting.guarantee import Price
from nodes.machine.events import Report
from streams.bus.bus import BusError
from streams.bus.memory import Faults, MemoryBroker, MemoryBus
from streams.codec import Expected, Reason
from streams.codec.envelope import PLAIN, Envelope
from streams.codec.topics import MeshTopics
from streams.live.scheduler_role import SchedulerRole, SchedulerWatcher, scheduler_start
from streams.local.memory_node import MemoryNode, NodeParts
from streams.mesh.mesh import NodeContext
from streams.runtime.actions import Ended, at_once, in_memory
from streams.runtime.runner import Host, Runner
from streams.state.journal import open_journal
from streams.state.memory_journal import MemoryJournal
from topology.scheduler import Refusal, SchedulerSettings, SourceEnded, heartbeat_period
from topology.slot_clock import SlotClock


@dataclass(frozen=True, slots=True)
class MeshParts:
    """The parts of a mesh. `round_timeout` None: nodes wait for ever.

    `prices`: the price of each node's releases, for its journal; a node without one has an unknown price.
    `agreed`: the settings of which `digest` is one, for journals; empty if they are not known. `isolates`:
    whether evidence counts against its source. `envelopes`, `planner`: how each node and the scheduler sign.
    `told`: whether nodes read who has evidence against them. `clock`: the broker's, where slots follow it.
    `lag_limit`: seconds for which slower neighbours may hold a node (None: any).
    """

    topics: MeshTopics
    digest: bytes
    horizon: int
    scheduler: SchedulerSettings
    nodes: dict[str, NodeParts]
    round_timeout: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    agreed: str = ""
    isolates: bool = True
    envelopes: Mapping[str, Envelope] = field(default_factory=dict)
    planner: Envelope = PLAIN
    told: bool = True
    clock: SlotClock | None = None
    lag_limit: float | None = None
    _expected: dict[str, Expected] = field(default_factory=dict, init=False, repr=False)

    def expected(self, source: str) -> Expected:
        """Return the releases that readers of that source's edges accept: one for all, who share decoding."""
        expected = self._expected.get(source)
        if expected is None:
            learner = self.nodes[source].learner
            bounds = learner.algorithm.dimension, learner.release_bound
            expected = self._expected[source] = Expected(self.topics.run, source, self.digest, *bounds)
        return expected

    @property
    def all_topics(self) -> tuple[str, ...]:
        """All topics of the mesh."""
        topics, topic_names = self.topics, [self.topics.topology, self.topics.scheduler]
        for name in sorted(self.nodes):
            topic_names += [topics.progress(name), topics.dead_letters(name)]
            topic_names += [topics.edge(name, target) for target in self.context(name).targets]
        return tuple(dict.fromkeys(topic_names))

    def context(self, name: str) -> NodeContext:
        """Return a node's settings for the mesh."""
        sources, targets = self.scheduler.schedule.graph.neighbours(name)
        expected = {source: self.expected(source) for source in sources}
        waits = self.round_timeout, self.scheduler.silence
        own_releases = self.expected(name)
        return NodeContext(
            self.topics,
            self.digest,
            self.horizon,
            *waits,
            own_releases,
            expected,
            targets,
            self.agreed,
            self.scheduler.generation,
            isolates=self.isolates,
            envelope=self.envelopes.get(name, PLAIN),
            is_told=self.told,
            clock=self.clock,
            lag_limit=self.lag_limit,
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
        names = sorted(parts.nodes)
        contexts = {name: parts.context(name) for name in names}
        self.broker = MemoryBroker(parts.all_topics, faults)
        self.bus = MemoryBus(self.broker)
        self.nodes = {}
        for name in names:
            price, instance = parts.prices.get(name), new_id()
            self.nodes[name] = MemoryNode(
                name,
                parts.nodes[name],
                contexts[name],
                self.broker,
                faults or Faults(),
                new_id=new_id,
                journal=MemoryJournal(instance, parts.horizon)
                if state is None
                else open_journal(state, name, contexts[name], instance, price),
                report=report,
            )
        self.scheduler = MemoryScheduler(parts, self.broker)
        self._period = heartbeat_period(parts.scheduler.silence)
        if parts.scheduler.silence is not None:  # before the nodes, so that it ticks before they beat
            self.broker.after(self._period, self._beat)
        for node in self.nodes.values():
            node.start()

    @property
    def done(self) -> bool:
        """Whether every node has halted."""
        return all(node.halted for node in self.nodes.values())

    def advance(self) -> bool:
        """Do one step. Return False when nothing is left to do."""
        return self.broker.deliver()

    def run(self) -> None:
        """Run until every node has halted, or none can continue (their sources have ended)."""
        self.broker.run()

    def close(self) -> None:
        """Close the journals."""
        for node in self.nodes.values():
            node.journal.close()

    def _beat(self) -> None:
        if self.done:
            self.scheduler.stop()  # it would beat for ever
            return
        self.broker.after(self._period, self._beat)


class MemoryScheduler:
    """A scheduler's process on the memory bus. `error`: how it has ended, if it has.

    `current` returns the round of its own clock (None: it has none). `watcher` observes it, in place of
    `refused`, what it has refused.
    """

    def __init__(
        self, parts: MeshParts, broker: MemoryBroker, watcher: SchedulerWatcher | None = None
    ) -> None:
        self.refused: list[Reason | Refusal] = []
        self.error: Ended | None = None
        self.current: Callable[[], int | None] = lambda: None
        self._bus, topics, settings = MemoryBus(broker), parts.topics, parts.scheduler
        role = SchedulerRole(
            settings,
            topics,
            parts.digest,
            secrets.token_bytes(16),
            watcher or _Refusals(self.refused),
            parts.planner,
            parts.clock,
        )
        role.presence.hello(self._bus, at_once)
        start = scheduler_start(topics, settings.schedule.graph.nodes, self._bus)
        world, beats = in_memory(broker, self._bus), settings.silence is not None

        def current() -> int | None:
            return self.current()

        started = role.role(start, world, current, beats=beats)
        self.runner = Runner(started, world, self._ended)
        Host([self.runner], self._bus).begin()

    def end(self) -> None:
        """End the run after the last planned round."""
        self.runner.handle(SourceEnded(0))

    def stop(self) -> None:
        """End the process here and now, as a kill would."""
        self.runner.close()
        self._bus.close()

    def _ended(self, error: Ended) -> None:
        """Raise it, if it is no end that a process on a broker comes to."""
        if isinstance(error, BusError):
            raise error
        self.error = error


class _Refusals(SchedulerWatcher):
    """Keeps only what a scheduler has refused."""

    def __init__(self, refused: list[Reason | Refusal]) -> None:
        self._refused = refused

    def refused(self, reason: Reason | Refusal) -> None:
        """Keep it."""
        self._refused.append(reason)
