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
from streams.codec.signatures import PLAIN, Envelope
from streams.codec.topics import MeshTopics, may_lose
from streams.live.scheduler_shell import SchedulerShell
from streams.local.memory_node import MemoryNode, NodeParts
from streams.mesh.mesh import Surroundings
from streams.state.journal import open_journal
from streams.state.memory_journal import MemoryJournal
from topology.plans import Heartbeat, Plan
from topology.scheduler import LeftOut, Refusal, SchedulerSettings, heartbeat_period
from topology.slot_clock import SlotClock


@dataclass(frozen=True, slots=True)
class MeshParts:
    """The parts of a mesh. `round_timeout` None: nodes wait for ever.

    `prices`: the price of each node's releases, for its journal; a node without one has an unknown price.
    `agreed`: the settings of which `digest` is one, for journals; empty if they are not known. `isolates`:
    whether evidence counts against its source. `envelopes`, `planner`: how each node and the scheduler sign.
    `told`: whether nodes read who has evidence against them. `clock`: the broker's, where slots follow it.
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
        topics, topic_names = self.topics, [self.topics.topology]
        for name in sorted(self.nodes):
            topic_names += [topics.progress(name), topics.dead_letters(name)]
            topic_names += [topics.edge(name, target) for target in self.surroundings(name).targets]
        return tuple(dict.fromkeys(topic_names))

    def surroundings(self, name: str) -> Surroundings:
        """Return a node's settings for the mesh."""
        sources, targets = self.scheduler.schedule.graph.neighbours(name)
        expected = {source: self.expected(source) for source in sources}
        waits = self.round_timeout, self.scheduler.silence
        own_releases = self.expected(name)
        return Surroundings(
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
        around = {name: parts.surroundings(name) for name in names}
        self.broker = MemoryBroker(parts.all_topics, faults)
        self.bus = MemoryBus(self.broker)
        self.nodes = {}
        for name in names:
            price, instance = parts.prices.get(name), new_id()
            self.nodes[name] = MemoryNode(
                name,
                parts.nodes[name],
                around[name],
                self.broker,
                faults or Faults(),
                new_id=new_id,
                journal=MemoryJournal(instance, parts.horizon)
                if state is None
                else open_journal(state, name, around[name], instance, price),
                report=report,
            )
        self.scheduler = MemoryScheduler(parts, self.broker)
        for node in self.nodes.values():
            node.start()
        self._period = heartbeat_period(parts.scheduler.silence)
        if parts.scheduler.silence is not None:
            self.broker.after(self._period, self._beat)

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
            return
        for node in self.nodes.values():
            node.beat()
        self.scheduler.tick(self._period)
        self.broker.after(self._period, self._beat)


class MemoryScheduler:
    """A scheduler on the memory bus. `current` returns the round of its own clock (None: it has none)."""

    def __init__(self, parts: MeshParts, broker: MemoryBroker) -> None:
        self.refused: list[Reason | Refusal] = []
        self.current: Callable[[], int | None] = lambda: None
        self._bus = MemoryBus(broker)
        watcher = _Refusals(self.refused)
        self._shell = SchedulerShell(
            parts.scheduler, parts.topics, parts.digest, self._bus, watcher, parts.planner, parts.clock
        )
        start = self._shell.logs()
        lossy = may_lose(start.offsets, parts.topics)
        self._bus.subscribe(start.offsets, self._read, self._reading_failed, lossy=lossy)
        self._shell.start(start)

    @property
    def superseded(self) -> int | None:
        """The generation of a newer mesh file, by which the last plan was made; None: by this one."""
        return self._shell.superseded

    def tick(self, seconds: float) -> None:
        """Advance the virtual time."""
        self._shell.tick(seconds, self.current())

    def end(self) -> None:
        """End the run after the last planned round."""
        self._shell.end()

    def stop(self) -> None:
        """End the process here and now, as a kill would."""
        self._bus.close()

    def _read(self, topic: str, _: int, value: bytes, appended: float) -> None:
        self._shell.read(topic, value, appended)

    def _reading_failed(self, _: str, error: BusError) -> None:
        raise error


class _Refusals:
    """Keeps only what a scheduler has refused."""

    def __init__(self, refused: list[Reason | Refusal]) -> None:
        self.refused = refused.append

    def planned(self, plan: Plan | None) -> None:
        """Ignored here."""

    def published(self, count: int) -> None:
        """Ignored here."""

    def heard(self, live: int, slowest: int) -> None:
        """Ignored here."""

    def recalled(self, beat: Heartbeat, at: float) -> None:
        """Ignored here."""

    def beat(self, beat: Heartbeat) -> None:
        """Ignored here."""

    def left_out(self, left: LeftOut) -> None:
        """Ignored here."""
