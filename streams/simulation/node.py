"""The processes of nodes in a simulated history. They run the product's role, runner and host.

A process has one bus, one link to the broker and one place among the turns, and runs one node or several.
Half of the histories append as a host does on a broker: records arrive while an append is being made. So a
process may die between an append and what follows it, and an append may fail late.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from nodes.machine.events import Journal, Report
from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.protocol import StartDeadline
from streams.bus.bus import Unreachable
from streams.codec import Refused
from streams.live.node_role import NodeObserver, NodeRole
from streams.local.mesh import MemorySlots, NodeParts
from streams.mesh.mesh import NodeContext
from streams.records.decoder import SchemaDecoder
from streams.records.record import RawRecord
from streams.records.slot_feed import DataLog, SlotFeed
from streams.runtime.actions import Action, Ended, ProcessWorld, at_once, in_memory
from streams.runtime.floods import Summed
from streams.runtime.process import BEGINS_AGAIN
from streams.runtime.runner import Host, Runner, is_orderly
from streams.simulation.bus import (
    Appends,
    FaultyBroker,
    FaultyBus,
    Killed,
    Link,
    PausedScheduler,
    PlannedCrash,
)
from streams.simulation.history import Reached, Violation
from streams.simulation.journal import DiskFull, SimulatedJournal
from streams.simulation.labels import DrawnLabels, ProcessLabels
from streams.state.folder import JournalError
from topology.scheduler import heartbeat_period

# A node's data topic in a simulated history. All records stay, and every process of the node reads them.


class DataTopic(DataLog):
    """The records of one node. The topic ends behind the last record that was read."""

    has_end = False

    def __init__(self, records: Sequence[RawRecord]) -> None:
        super().__init__(iter(()))
        self._all, self._end = records, 0

    @property
    def end(self) -> int:
        """The offset after the last record that was read."""
        return self._end

    def read(self, offset: int) -> RawRecord | None:
        """Return the record at `offset`; None if there is none."""
        if offset >= len(self._all):
            return None
        self._end = max(self._end, offset + 1)
        return self._all[offset]

    def read_on(self, offset: int, count: int) -> list[RawRecord]:
        """Return up to `count` records from `offset` on."""
        records = list(self._all[offset : offset + count])
        self._end = max(self._end, offset + len(records))
        return records

    def trim(self, offset: int) -> None:
        """Do nothing, as another process of the node may read the records again."""


RETRY = 0.5
"""Seconds after which a process that could not continue starts again."""
NOTICED = 2.0
"""Seconds after which an operator restarts a process in which one node has failed."""


class SimulatedWatcher(Protocol):
    """The interface of what watches the processes of nodes."""

    def started(self, node: "SimulatedNode") -> None:
        """Record that a process has started, before its first event."""

    def stopped(self, node: "SimulatedNode", why: str, *, halted: bool = False) -> None:
        """Record that a process has ended. `halted`: its machine is done."""

    def wished(self, node: "SimulatedNode", leave_from: int | None) -> None:
        """Record that a process has learnt of its owner's wish to leave."""

    def data_ended(self, node: "SimulatedNode") -> None:
        """Record that a process has no more records for a slot."""

    def effect(self, node: "SimulatedNode") -> None:
        """Record that the machine's next effect follows."""

    def journalled(self, node: "SimulatedNode", record: JournalRecord, secret: Secret | None) -> None:
        """Record that a record has become durable."""

    def sending(self, node: "SimulatedNode", topic: str, value: bytes) -> None:
        """Handle what a process is about to send."""

    def reported(self, node: "SimulatedNode", report: Report) -> None:
        """Handle a report of the machine."""

    def refused(self, node: "SimulatedNode", topic: str, refused: Refused) -> None:
        """Record that a peer's record was refused."""

    def reached(self, reached: Reached) -> None:
        """Record an event of interest."""


class SimulatedNode(NodeObserver):
    """A node's processes on one journal, one after another. The node is alone in `process`, unless a host
    runs it.

    `role`: that of the current process, if any. `slot_time`: seconds until a slot is full. `generation`: that
    of the node's mesh file. `wanted`: whether the node is to start again. `labels`: as
    its process reads them, if they come later.
    """

    def __init__(
        self,
        name: str,
        parts: NodeParts,
        context: NodeContext,
        broker: FaultyBroker,
        data: DataTopic,
        journal: SimulatedJournal,
        *,
        slot_time: float,
        new_id: Callable[[], str],
        watcher: SimulatedWatcher,
        generation: int,
        append_time: Callable[[], float],
        labels: DrawnLabels | None = None,
    ) -> None:
        self.name, self.journal, self.generation = name, journal, generation
        self.wanted, self.replaced = True, False
        self.warnings: list[str] = []
        self.role: NodeRole | None = None
        self.leave_from: int | None = None
        self.process = SimulatedProcess(broker, watcher, append_time)
        self.process.take(self)
        self._parts, self._mesh, self._broker, self._data = parts, context, broker, data
        self._slot_time, self._new_id, self._watcher = slot_time, new_id, watcher
        self._drawn_labels = labels
        self.labels: ProcessLabels | None = None
        self._bus: FaultyBus | None = None
        self.crash = PlannedCrash()
        self.runner: Runner | None = None
        self._counts = LineCounts()
        self._summed = Summed(self._counts, clock=lambda: broker.now)

    @property
    def halted(self) -> bool:
        """Whether the machine is done."""
        return self.role is not None and self.role.machine.halted

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to which the node sends messages for other parties."""
        topics = self._mesh.topics
        return (topics.progress(self.name), *(topics.edge(self.name, to) for to in self._mesh.targets))

    @property
    def looked_at(self) -> float:
        """The time of the look-up of the edges' ends for the current deadline; now, if there was none."""
        looks = {} if self._bus is None else self._bus.looks
        return looks.get(self._edges, self._broker.now)

    @property
    def _edges(self) -> tuple[str, ...]:
        return tuple(self._mesh.topics.edge(source, self.name) for source in self._mesh.expected)

    # ------------------------------------------------------------------------------- what happens to it

    def leave(self, leave_from: int | None) -> None:
        """Handle the owner's wish that no plan names the node from this round on. None: any plan may."""
        self.leave_from = leave_from

    def tell(self) -> None:
        """Notify the process of the wish now. Otherwise the process reads it some time later."""
        runner = self.runner
        if self.role is not None and runner is not None and not (self.process.paused or runner.queue.held):
            for event in self.role.wish():
                runner.handle(event)

    def use_file(self, context: NodeContext, generation: int) -> None:
        """Use another mesh file from the next start on."""
        self._mesh, self.generation = context, generation

    def crash_in(self, effects: int, restart_after: float) -> None:
        """Let the node's process die before one of its next effects (1: the next), and start the next one
        later.
        """
        self.crash.plan(effects, restart_after)

    # ------------------------------------------------------------------------------- what its process does

    def begin(self, bus: FaultyBus, world: ProcessWorld) -> Runner:
        """Return the runner of the node, after it has said hello. Raises Unreachable."""
        self._bus = bus
        self.crash.forget()
        self.journal.begin()
        parts, mesh = self._parts, self._mesh
        role = NodeRole(
            self.name,
            parts.learner,
            _Disk(self),
            mesh,
            self._new_id,
            self.warnings.append,
            lambda: self.leave_from,
        )
        role.recover(bus, at_once, alone=not bus.end(mesh.topics.progress(self.name)))
        self.role = role
        self._watcher.started(self)
        feed = SlotFeed(self._data, parts.slots, parts.decoder)
        self.labels = self._labels_anew(world)
        ended = partial(self._watcher.data_ended, self)
        slots = MemorySlots(feed, self._broker, self._slot_seconds, role.closed, self.labels, ended)
        process = role.role(self, slots.open, clock=world.clock, beat=heartbeat_period(mesh.silence))
        self.runner = Runner(process, world, partial(self.process.over, self, role), self._before_effect)
        return self.runner

    def _labels_anew(self, world: ProcessWorld) -> ProcessLabels | None:
        labels, decoder = self._drawn_labels, self._parts.decoder
        if labels is None or not isinstance(decoder, SchemaDecoder):
            return None
        return ProcessLabels.begin(labels, decoder, self.process.link, world.clock)

    def end(self) -> None:
        """End with the process. Raises Violation if the log has not counted every refused record."""
        self.role = self.runner = None
        self.journal.end()
        self._summed.end()
        if self._counts.logged != self._counts.refused:
            logged, refused = self._counts.logged, self._counts.refused
            raise Violation(f"{self.name} logs {logged} refused records: it has refused {refused}")

    def durable(self, record: JournalRecord, secret: Secret | None) -> None:
        """Record that a record is durable."""
        self._watcher.journalled(self, record, secret)

    def cut_off(self) -> None:
        """Record that an append was cut off."""
        self._watcher.reached(Reached.CUT_OFF)

    def _before_effect(self, effect: Any) -> None:
        self._watcher.effect(self)
        if isinstance(effect, StartDeadline) and self._bus is not None:
            self._bus.looks.pop(self._edges, None)
        try:
            self.crash.effect()
        except Killed:
            if not (isinstance(effect, Journal) and self.journal.dies_in_appends):
                raise
            self.journal.die_soon()  # the process dies a little later

    def _slot_seconds(self, round: int) -> float:
        """Return how long the slot of a round takes. If slots follow a clock, it ends at its end or later."""
        clock, seconds = self._mesh.clock, self._slot_time
        return seconds if clock is None else max(seconds, clock.end(round) - self._broker.now)

    # -------------------------------------------------------------------------------------- what it tells

    def report(self, report: Report) -> None:
        """Pass the report to the watcher."""
        self._watcher.reported(self, report)

    def refused(self, topic: str, refused: Refused) -> None:
        """Pass the refusal to the watcher, and log it."""
        self._counts.refused += 1
        self._summed.say(logging.WARNING, refused.reason, refused.reason.value)
        self._watcher.refused(self, topic, refused)

    def catch_up(self) -> None:
        """Log what is due."""
        self._summed.catch_up()

    def wished(self, leave_from: int | None) -> None:
        """Pass the wish to the watcher."""
        self._watcher.wished(self, leave_from)


class LineCounts(logging.Logger):
    """Counts the refused records that a log reports."""

    def __init__(self) -> None:
        super().__init__("simulated")
        self.refused = self.logged = 0

    def log(self, level: int, msg: object, *args: object, **_: object) -> None:
        """Count a line, or the lines that it sums up."""
        del level, msg
        self.logged += int(str(args[1])) if len(args) > 1 else 1


class _Disk:
    """A node's journal. It reports each append when the record is durable."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node, self._journal = node, node.journal

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Append the record and the secret. Raises Killed, DiskFull, JournalError."""
        try:
            self._journal.append(record, secret)
        except (Killed, JournalError) as error:
            if isinstance(error, Killed):
                self._node.cut_off()
            if self._journal.holds(record):
                self._node.durable(record, secret)
            raise
        self._node.durable(record, secret)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


class SimulatedProcess:
    """A process of one or more nodes.

    `append_time` draws the seconds of an append; with 0 it is done in the turn.
    """

    def __init__(
        self, broker: FaultyBroker, watcher: SimulatedWatcher, append_time: Callable[[], float]
    ) -> None:
        self.link, self.starting = Link(), False
        self.nodes: list[SimulatedNode] = []
        self._broker, self._watcher, self._append_time = broker, watcher, append_time
        self._actions = PausedScheduler(broker)
        self._bus: FaultyBus | None = None
        self._host: Host | None = None
        self._appends = Appends(broker)

    def start(self) -> None:
        """Start a process for the nodes that are wanted, unless one runs.

        Without a broker try again later.
        """
        wanted_nodes = [node for node in self.nodes if node.wanted]
        if self._bus is not None or self.starting or not wanted_nodes:
            return
        self.starting, self._actions = True, PausedScheduler(self._broker)
        bus = FaultyBus(self._broker, self.link)
        world = in_memory(self._broker, bus)
        has_threads = len(wanted_nodes) > 1 or self._append_time() > 0
        commits = self._append_later if has_threads else None
        world = ProcessWorld(bus, self._actions, world.clock, world.elsewhere, commits)
        try:
            self.link.check()
            runners = [node.begin(bus, world) for node in wanted_nodes]
            senders = {topic: node for node in wanted_nodes for topic in node.topics}
            bus.observer = partial(self._sending, senders)
            self._bus, self._host = bus, Host(runners, bus)
            self._host.begin()
        except (Unreachable, DiskFull, Killed) as error:
            bus.close()
            for node in [node for node in wanted_nodes if node.role is not None]:
                self._gone(node, str(error))
            self._broker.after(RETRY, self.start)
        finally:
            self.starting = False

    def end(self, why: str, restart_after: float | None = None) -> None:
        """End the process now. Start the next one after `restart_after` seconds, if given.

        Of the appends that were being made some have reached the disk.
        """
        host, bus = self._host, self._bus
        self._host = self._bus = None
        if host is not None and bus is not None:
            host.close()
            running_nodes = [node for node in self.nodes if node.role is not None]
            for node in running_nodes:
                node.journal.die_soon()
            self._appends.die(partial(self._watcher.reached, Reached.APPEND))
            bus.close()
            for node in running_nodes:
                self._gone(node, why)
        if restart_after is not None:
            self._broker.after(restart_after, self.start)

    def stop(self, restart_after: float) -> None:
        """End the process in order.

        Its nodes send last heartbeats with the round in which they have stopped.
        """
        for node in self.nodes:
            if node.runner is not None and not node.halted:
                node.runner.last_beat()
        self.end("asked to end", restart_after)

    @property
    def paused(self) -> bool:
        """Whether the process is paused."""
        return self._actions.paused

    def take(self, node: SimulatedNode) -> None:
        """Run another node too, which has had no process before."""
        node.process = self
        self.nodes.append(node)

    def part(self, node: SimulatedNode) -> None:
        """Let a node have a process of its own from its next start on."""
        if len(self.nodes) == 1:
            return
        self.end("its nodes get processes of their own", RETRY)
        self.nodes.remove(node)
        SimulatedProcess(self._broker, self._watcher, self._append_time).take(node)
        self._broker.after(RETRY, node.process.start)

    def pause(self) -> None:
        """Pause the process, as SIGSTOP does."""
        self._actions.pause()
        self.link.cut(deaf=True)

    def resume(self) -> None:
        """Continue the process. What its timers wanted in the pause is done first."""
        self._actions.resume()
        self.link.heal(deaf=True)

    def over(self, node: SimulatedNode, role: NodeRole, error: Ended) -> None:
        """Handle the end of one node. Unless it ends the process, the process's other nodes continue."""
        if is_orderly(error):
            self._watcher.stopped(node, f"done: {error}", halted=True)
        elif role.presence.replaced:
            node.replaced, node.wanted = True, False
            self._end_alone(node, "a newer process has taken its place", None)
        elif isinstance(error, DiskFull):
            self._end_alone(node, str(error), RETRY)
        elif isinstance(error, Killed):
            self.end(str(error), node.crash.restart_after)
        elif isinstance(error, BEGINS_AGAIN):
            self.end(str(error), RETRY)
        else:
            raise error

    def _end_alone(self, node: SimulatedNode, why: str, restart_after: float | None) -> None:
        if all(neighbour is node or neighbour.role is None for neighbour in self.nodes):
            self.end(why, restart_after)
            return
        self._watcher.reached(Reached.ALONE)
        self._gone(node, why)
        if restart_after is not None:
            self._broker.after(NOTICED, partial(self._start_again, node))

    def _start_again(self, node: SimulatedNode) -> None:
        if node.process is self and node.role is None and node.wanted and not self.starting:
            self.end("its operator starts it again", 0.0)

    def _gone(self, node: SimulatedNode, why: str) -> None:
        node.end()
        self._watcher.stopped(node, why)

    def _sending(self, senders: dict[str, SimulatedNode], topic: str, value: bytes) -> None:
        node = senders.get(topic)
        if node is not None:  # a dead letter has no sender here
            self._watcher.sending(node, topic, value)

    def _append_later(self, append: Action) -> None:
        self._appends.begin(self._append_time(), append)
