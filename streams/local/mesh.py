"""Runs a whole mesh in one process: the real machines, codec and journals, on the memory bus.

`run` and `demo` use it, and the tests with faults. Nodes and scheduler know no more than on a broker.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from nodes.accounting.guarantee import Price
from nodes.learner import Learner
from nodes.machine.events import NoSlot, OpenSlot, Report, SlotClosed
from nodes.machine.journal import DataPosition
from nodes.machine.slots import ClosedSlot, Slots
from nodes.privacy.private import Private
from nodes.values import Observations
from streams.bus.bus import BusError
from streams.bus.memory import Faults, MemoryBroker, MemoryBus
from streams.codec import Expected, Reason, Refused
from streams.codec.envelope import PLAIN, Envelope
from streams.codec.topics import MeshTopics
from streams.live.node_role import NodeObserver, NodeRole
from streams.live.scheduler_role import SchedulerRole, SchedulerWatcher, scheduler_start
from streams.mesh.mesh import NodeContext
from streams.metrics.verdict import OwnerScore
from streams.records.record import Decoder, RawRecord
from streams.records.slot_feed import DataLog, RecordCounts, SlotFeed
from streams.runtime.actions import Ended, at_once, in_memory
from streams.runtime.process import ProcessExit
from streams.runtime.runner import Host, Pending, Runner, is_orderly
from streams.state.folder import JournalError
from streams.state.journal import MemoryJournal, NodeJournal, open_journal
from topology.plans import SlotClock
from topology.scheduler import Refusal, SchedulerSettings, SourceEnded, heartbeat_period


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts of one node. `score` makes what scores the node's run for its owner."""

    learner: Learner
    slots: Callable[[], Slots[bytes]]
    decoder: Decoder
    records: Iterable[RawRecord]
    score: Callable[[], OwnerScore | None] = lambda: None


@dataclass(frozen=True, slots=True)
class MeshParts:
    """The parts of a mesh. `round_timeout` None: nodes wait without limit.

    `prices`: the price of each node's releases, for its journal; a node without an entry has an unknown
    price. `agreed`: the settings with the digest `digest`, for journals; empty if they are not known.
    `isolates`: whether evidence counts against its source. `envelopes`, `planner`: how each node and the
    scheduler sign. `told`: whether nodes read which peers have evidence against them. `clock`: the broker's
    clock, if slots follow it. `lag_limit`: seconds for which slower neighbours may delay a node (None:
    without limit).
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
        """Return what readers of this source's edges accept.

        It is one object, so that they share the decoding.
        """
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
    """Runs a mesh to its end. `report` is called with (node, report) of every node, in order of time."""

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
        slotless = Slotless()
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
                slotless=slotless,
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
            self.scheduler.stop()  # else it would send heartbeats for ever
            return
        self.broker.after(self._period, self._beat)


class MemoryScheduler:
    """A scheduler's process on the memory bus. `error`: how it has ended, if it has.

    `current` returns the round of the scheduler's own clock (None: it has none). `watcher` observes the
    scheduler; without it, `refused` collects the messages that the scheduler has refused.
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
        """Raise the error, unless it is an end that a process on a broker may have."""
        if isinstance(error, BusError):
            raise error
        self.error = error


class _Refusals(SchedulerWatcher):
    """Collects a scheduler's refusals, and ignores other events."""

    def __init__(self, refused: list[Reason | Refusal]) -> None:
        self._refused = refused

    def refused(self, reason: Reason | Refusal) -> None:
        """Add the refusal."""
        self._refused.append(reason)


# Runs one node of a mesh in one process: its journal, its data, and its processes one after another.


class Crashed(ProcessExit):
    """A planted fault: the node's process dies here."""

    exit_code = 1


class LabelFiller(Protocol):
    """Labels that come later, for the slots of one process."""

    @property
    def waits(self) -> bool:
        """Whether slots wait for labels that cannot be read; otherwise they close empty."""

    def due(self, slot: ClosedSlot[bytes]) -> float:
        """Return the virtual time at which the last record of a slot is due."""

    def fill(self, slot: ClosedSlot[bytes], observations: Observations) -> Observations | None:
        """Return a slot's records with their labels; None while the labels cannot be read."""


LOOK = 0.1
"""Seconds of virtual time between looks for labels that cannot be read."""


class Slotless:
    """The nodes of one process whose records have ended: they go without slots while another one learns.

    Without a slot a node relays. A round in which no node has a slot is not run: the run ends before it, and
    a longer source can continue all nodes from there.
    """

    def __init__(self) -> None:
        self._learnt = 0
        self._waiting: list[tuple[int, Pending]] = []

    def add(self, round: int, pending: Pending) -> None:
        """Let a node wait in a round for which it has no slot."""
        self._waiting.append((round, pending))
        self._answer()

    def learns(self, round: int) -> None:
        """Note that a node has a slot in a round."""
        self._learnt = max(self._learnt, round)
        self._answer()

    def _answer(self) -> None:
        due = [waiting for waiting in self._waiting if waiting[0] <= self._learnt]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > self._learnt]
        for round, pending in due:
            pending.answer(partial(NoSlot, round))


class MemorySlots:
    """Closes a process's slots from records in memory, each `seconds` of virtual time after it was opened.

    `closed` is called with a slot in the node's turn. `labels`: if labels come later, a slot closes when its
    records are due. `starved`: no records are left for a slot; `ended` is called then. `slotless`: the nodes
    of its process that have no records; None: it waits for no others.
    """

    def __init__(
        self,
        feed: SlotFeed,
        broker: MemoryBroker,
        seconds: Callable[[int], float],
        closed: Callable[[SlotClosed], SlotClosed],
        labels: LabelFiller | None = None,
        ended: Callable[[], None] = lambda: None,
        slotless: Slotless | None = None,
    ) -> None:
        self._feed, self._broker, self._seconds, self._closed = feed, broker, seconds, closed
        self._labels, self._ended, self._slotless = labels, ended, slotless
        self.starved = False

    @property
    def counts(self) -> Private[RecordCounts]:
        """The counts of the records so far."""
        return self._feed.counts

    def open(self, opened: OpenSlot, pending: Pending) -> None:
        """Fill the slot, and answer with it after its time."""
        slot_records = self._feed.take(opened)
        if slot_records is None:
            self.starved = True
            self._ended()
            if self._slotless is None:
                pending.answer(partial(NoSlot, opened.round))
            else:
                self._slotless.add(opened.round, pending)
            return
        if self._slotless is not None:
            self._slotless.learns(opened.round)
        answer = partial(self._answer, *slot_records, pending)
        seconds = self._seconds(opened.round)
        if self._labels is not None:
            seconds = max(seconds, self._labels.due(slot_records[0]) - self._broker.now)
        if seconds:
            self._broker.after(seconds, answer)
        else:
            answer()

    def _answer(self, slot: ClosedSlot[bytes], observations: Observations, pending: Pending) -> None:
        """Answer with the slot, after its labels are read."""
        labels, closed = self._labels, partial(self._feed.closed, slot)
        if labels is not None and slot.values and not pending.over:
            filled = labels.fill(slot, observations)
            if filled is None and labels.waits:
                self._broker.after(LOOK, partial(self._answer, slot, observations, pending))
                return
            answer = self._feed.emptied(slot) if filled is None else closed(filled)
        else:
            answer = closed(observations)
        pending.answer(partial(self._closed, answer))


class _Told(NodeObserver):
    """Forwards a node's reports, and collects its refusals."""

    def __init__(self, report: Callable[[Report], None], refused: list[tuple[str, Refused]]) -> None:
        self._report, self._refused = report, refused

    def report(self, report: Report) -> None:
        """Forward the report."""
        self._report(report)

    def refused(self, topic: str, refused: Refused) -> None:
        """Add the refusal."""
        self._refused.append((topic, refused))


class MemoryNode:
    """A node on the memory bus. `report` gets its reports; `role` is that of its process, if any."""

    def __init__(
        self,
        name: str,
        parts: NodeParts,
        context: NodeContext,
        broker: MemoryBroker,
        faults: Faults,
        *,
        new_id: Callable[[], str],
        journal: NodeJournal,
        report: Callable[[str, Report], None],
        slotless: Slotless | None = None,
    ) -> None:
        self.name = name
        self.refused: list[tuple[str, Refused]] = []
        self.warnings: list[str] = []
        self.replaced = False
        self.journal = journal
        self._parts, self._mesh, self._broker, self._faults = parts, context, broker, faults
        self._new_id, self._told = new_id, _Told(partial(report, name), self.refused)
        self._data, self._slotless = DataLog(iter(parts.records)), slotless
        self._effects = 0
        self._leave_from: int | None = None
        self._bus = MemoryBus(broker)
        self._host: Host | None = None
        self._runner: Runner | None = None
        self._slots: MemorySlots | None = None
        self.role: NodeRole | None = None

    @property
    def halted(self) -> bool:
        """Whether the machine is done."""
        return self.role is not None and self.role.machine.halted

    @property
    def starved(self) -> bool:
        """Whether its source has ended, so that it only relays."""
        return self._slots is not None and self._slots.starved

    @property
    def counts(self) -> Private[RecordCounts]:
        """The counts of this process's records."""
        return Private(RecordCounts()) if self._slots is None else self._slots.counts

    def unread(self, position: DataPosition) -> Private[int]:
        """Return the number of records from a position on. Reads what is left, up to `MOST_COUNTED`."""
        return Private(self._data.after(position[0][1] if position else 0))

    def start(self) -> None:
        """Start a process, the first or a later one."""
        mesh, broker, parts = self._mesh, self._broker, self._parts
        self._bus = bus = MemoryBus(broker)
        role = NodeRole(
            self.name,
            parts.learner,
            self.journal,
            mesh,
            self._new_id,
            self.warnings.append,
            lambda: self._leave_from,
        )
        role.recover(bus, at_once, alone=not bus.end(mesh.topics.progress(self.name)))
        feed = SlotFeed(self._data, parts.slots, parts.decoder)
        seconds = self._faults.slot_time
        self._slots = slots = MemorySlots(
            feed, broker, lambda _: seconds, role.closed, slotless=self._slotless
        )
        beat = None if mesh.silence is None else heartbeat_period(mesh.silence)
        process = role.role(self._told, slots.open, clock=lambda: broker.now, beat=beat)
        runner = Runner(process, in_memory(broker, bus), partial(self._over, role), self._before_effect)
        self.role, self._runner, self._host = role, runner, Host([runner], bus)
        self._host.begin()

    def stop(self) -> None:
        """End the process here and now, as a kill would."""
        host, self._host, self.role = self._host, None, None
        if host is not None:
            host.close()
        self._bus.close()

    def leave(self, leave_from: int | None) -> None:
        """Handle the owner's wish that no plan names the node from that round on (None: any may)."""
        self._leave_from = leave_from
        if self.role is not None and self._runner is not None:
            for event in self.role.wish():
                self._runner.handle(event)

    def _before_effect(self, _: Any) -> None:
        self._effects += 1
        if (self.name, self._effects) in self._faults.crash_before:
            raise Crashed("a planted fault")

    def _over(self, role: NodeRole, error: Ended) -> None:
        """Handle the end of the process as a live process that is restarted. A machine that is done stays."""
        if isinstance(error, JournalError):
            raise error
        if is_orderly(error):
            return
        self.stop()
        if role.presence.replaced:
            self.replaced = True
            return
        if not isinstance(error, Crashed):
            self.warnings.append(str(error))
        self._broker.after(self._faults.restart_after, self.start)
