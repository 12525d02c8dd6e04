"""One process of a node in a simulated history: the real shell, and what may happen to its process."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from nodes.machine.events import Decided, Report
from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.protocol import Halt, StartDeadline
from streams.bus.bus import BusError, Unreachable
from streams.bus.memory import Faults
from streams.codec import Refused
from streams.live.node_shell import NodeShell, Ports
from streams.local.memory_node import Crashed, MemoryNode, NodeParts
from streams.mesh.mesh import Surroundings
from streams.runtime.deadlines import Deadlines, FetchClock
from streams.runtime.floods import DeadLetters
from streams.runtime.turns import Action, Turns
from streams.simulation.broker import FaultyBroker
from streams.simulation.bus import FaultyBus
from streams.simulation.journal import DiskFull, FaultyJournal
from streams.simulation.link import Link
from streams.simulation.records import DataTopic

TURN = 1e-6
"""The shortest wait, in seconds: virtual time must go on where a difference of times is only rounding."""
RETRY = 0.5
"""Seconds after which a process starts again that found no broker."""


class SimulatedWatcher(Protocol):
    """Watches what the processes of nodes do."""

    def started(self, node: "SimulatedNode") -> None:
        """Record that a process has started, before its first event."""

    def stopped(self, node: "SimulatedNode", why: str, *, halted: bool = False) -> None:
        """Record that a process has ended, or (`halted`) that its machine is done."""

    def wished(self, node: "SimulatedNode", leave_from: int | None) -> None:
        """Record that a process has been told its owner's wish to leave."""

    def journalled(self, node: "SimulatedNode", record: JournalRecord, secret: Secret | None) -> None:
        """Record that a record has become durable."""

    def sending(self, node: "SimulatedNode", topic: str, value: bytes) -> None:
        """Record that a process sends."""

    def reported(self, node: "SimulatedNode", report: Report) -> None:
        """Handle a report of the machine."""

    def refused(self, node: "SimulatedNode", topic: str, refused: Refused) -> None:
        """Record that a peer's record was refused."""


class SimulatedNode(MemoryNode):
    """A node's processes on one journal, one after another.

    `slot_time`: seconds until a slot is full. `generation`: that of the node's mesh file.
    """

    journal: FaultyJournal

    def __init__(
        self,
        name: str,
        parts: NodeParts,
        around: Surroundings,
        broker: FaultyBroker,
        data: DataTopic,
        journal: FaultyJournal,
        *,
        slot_time: float,
        new_id: Callable[[], str],
        watcher: SimulatedWatcher,
        generation: int,
    ) -> None:
        faults = Faults(slot_time=slot_time)
        super().__init__(
            name, parts, around, broker, faults, new_id=new_id, journal=journal, report=self._watched_report
        )
        self.link, self.wanted, self.starting = Link(), True, False
        self._faulty, self._watcher, self._data = broker, watcher, data
        self.generation = generation
        self.leave_from: int | None = None
        self._paused: list[Callable[[], None]] | None = None
        self._crash_in: int | None = None
        self._restart_after = 0.0

    # ------------------------------------------------------------------------------- what happens to it

    def start(self) -> None:
        """Start a process, unless one runs; try again later if the broker does not answer."""
        if self.shell is not None or self.starting or not self.wanted:
            return
        self.starting, self._paused, self._crash_in = True, None, None
        try:
            self.link.check()
            super().start()
        except Unreachable:
            self._bus.close()
            self._faulty.after(RETRY, self.start)
        finally:
            self.starting = False

    def end(self, why: str, restart_after: float | None = None) -> None:
        """End the process at once; start another after that many seconds, if any."""
        if self.shell is not None:
            self.stop()
            self._watcher.stopped(self, why)
        if restart_after is not None:
            self._faulty.after(restart_after, self.start)

    def leave(self, leave_from: int | None) -> None:
        """Handle the owner's wish that no plan names the node from that round on (None: any may)."""
        self.leave_from = self._leave_from = leave_from
        shell = self.shell
        if shell is not None and not shell.machine.halted:
            self._do(self._wish, shell, leave_from)

    def _wish(self, shell: NodeShell, leave_from: int | None) -> None:
        if self.shell is shell and not shell.machine.halted:
            self._watcher.wished(self, leave_from)
            shell.leave(leave_from)

    def use_file(self, around: Surroundings, generation: int) -> None:
        """Use another mesh file from the next start on."""
        self._mesh, self.generation = around, generation
        self._edges = {source: around.topics.edge(source, self.name) for source in around.expected}

    def crash_in(self, effects: int, restart_after: float) -> None:
        """Let the process die before that effect from now (1: the next), and start again later."""
        self._crash_in, self._restart_after = effects, restart_after

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does."""
        if self._paused is None:
            self._paused = []
            self.link.cut(deaf=True)

    def resume(self) -> None:
        """Let it go on: what its timers wanted meanwhile comes first."""
        waiting, self._paused = self._paused or [], None
        for action in waiting:
            action()
        self.link.heal(deaf=True)

    @property
    def looked_at(self) -> float:
        """When the ends of the edges were looked up for the current deadline; now, if they were not."""
        bus = self._bus
        looked = bus.looked_at if isinstance(bus, FaultyBus) else None
        return self._faulty.now if looked is None else looked

    def beat(self) -> None:
        """Send the current heartbeat, if the broker has acknowledged the one before."""
        if not self.link.mute and self._paused is None:
            super().beat()

    # -------------------------------------------------------------------------------- what it is made of

    def _connect(self) -> FaultyBus:
        bus = FaultyBus(self._faulty, self.link)
        edges = tuple(self._edges.values())
        turns = _Turns(self._faulty, self._alive(bus))
        self._clock = FetchClock(lambda: self._faulty.now, self._mesh.silence)
        timeout = self._mesh.round_timeout
        self._deadlines = Deadlines(turns, self._clock, bus, edges, timeout, self._expire)
        letters = partial(bus.send, self._mesh.topics.dead_letters(self.name))
        self._letters = DeadLetters(letters, self._faulty.largest, lambda: self._faulty.now)
        self._sent_on = {self._mesh.topics.edge(self.name, target) for target in self._mesh.targets}
        return bus

    def _ports(self) -> Ports:
        return Ports(
            append=self._append,
            send=self._send,
            open_slot=self._open_slot,
            start_deadline=self._start_deadline,
            report=partial(self._report, self.name),
            refused=self._refuse,
            halt=self._halt,
        )

    def _effects_watched(self) -> Callable[[], None]:
        self._watcher.started(self)
        return self._before_effect

    def _before_effect(self) -> None:
        if self._crash_in is not None:
            self._crash_in -= 1
            if self._crash_in == 0:
                raise Crashed

    def _do(self, action: Callable[..., None], *given: object) -> None:
        if self._paused is not None:
            self._paused.append(partial(self._alive(self._bus), partial(self._do, action, *given)))
            return
        try:
            action(*given)
        except Crashed:
            self.end("killed", self._restart_after)
        except DiskFull as full:
            self.end(str(full), RETRY)

    def _alive(self, bus: object) -> Callable[[Action], None]:
        """Return what does an action only while the process with that bus is there."""

        def do(action: Action) -> None:
            if self.shell is not None and self._bus is bus:
                self._do(action)

        return do

    def _append(self, record: JournalRecord, secret: Secret | None) -> None:
        self.journal.append(record, secret)
        self._watcher.journalled(self, record, secret)

    def _send(self, topic: str, value: bytes) -> None:
        self._watcher.sending(self, topic, value)
        if topic in self._sent_on:
            self._deadlines.sent()
            self._bus.send(topic, value, self._deadlines.acknowledged)
        else:
            self._bus.send(topic, value)

    def _slot_seconds(self, round: int) -> float:
        """Return how long the slot of a round takes: to its end at least, where slots follow a clock."""
        clock, seconds = self._mesh.clock, super()._slot_seconds(round)
        return seconds if clock is None else max(seconds, clock.end(round) - self._faulty.now)

    def _start_deadline(self, started: StartDeadline) -> None:
        if self._reader is not None:
            self._deadlines.watch(self._reader)
        if isinstance(self._bus, FaultyBus):
            self._bus.looked_at = None
        self._deadlines.start(started)

    def _expire(self, round: int) -> None:
        shell = self.shell
        if shell is not None:
            shell.deadline_passed(round)

    def _watched_report(self, _: str, report: Report) -> None:
        if isinstance(report, Decided):
            self._deadlines.cancel()
        self._watcher.reported(self, report)

    def _own_beat_read(self, offset: int, value: bytes) -> None:
        shell = self.shell
        if shell is None:
            return
        if shell.own_beat_read(offset, value):
            self._clock.beat()
        elif shell.replaced:
            self.replaced = True
            self.wanted = False
            self.end("a newer process has taken its place")

    def _reading_failed(self, topic: str, error: BusError) -> None:
        self.end(f"cannot read {topic.split('.', 2)[-1]}: {error}", RETRY)

    def _refuse(self, topic: str, value: bytes, refused: Refused) -> None:
        self._watcher.refused(self, topic, refused)
        self._letters.write(topic, value, refused)

    def _halt(self, halt: Halt) -> None:
        self._watcher.stopped(self, f"done: {halt.reason}", halted=True)


class _Turns(Turns):
    """A process's turns in virtual time; `alive` does an action while the process is there."""

    def __init__(self, broker: FaultyBroker, alive: Callable[[Action], None]) -> None:
        self._broker, self._alive = broker, alive

    def put(self, action: Action) -> None:
        """Do `action` among the due deliveries."""
        self._broker.soon(partial(self._alive, action))

    def do(self, action: Action) -> None:
        """Do `action` now."""
        self._alive(action)

    def after(self, seconds: float, action: Action) -> None:
        """Do `action` after that much virtual time."""
        self._broker.after(max(seconds, TURN), partial(self._alive, action))
