"""One node on a broker: its machine, and everything that it hears of the mesh."""

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from nodes.learner import Learner
from nodes.machine.events import Decided, Halt, OpenSlot, Report, SlotClosed, StartDeadline
from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from streams.bus.bus import BusError
from streams.bus.kafka import KafkaBus
from streams.codec import Reason, Refused
from streams.live.deadlines import Deadlines, FetchClock, InFlight
from streams.live.loop import Loop
from streams.live.node_shell import NodeShell, Ports
from streams.live.node_watcher import DeadLetters
from streams.live.start import MeshStart
from streams.live.stopping import Failed, ProcessExit
from streams.mesh.mesh import Surroundings
from streams.state.memory_journal import NodeJournal
from topology.scheduler import heartbeat_period

CATCH_UP = 1.0
"""Seconds that what was left for later may wait, at most."""


class Watcher(Protocol):
    """Who is told what the node does and hears, one thing at a time: metrics, decisions, the log."""

    def report(self, report: Report) -> None:
        """Take a report of the machine."""

    def began(self) -> None:
        """Take note that something is begun."""

    def catch_up(self) -> None:
        """Do what was left for later."""

    def entered(self) -> None:
        """Take note that a round is entered."""

    def closed(self) -> None:
        """Take note that its slot is there."""

    def planned(self, round: int) -> None:
        """Take note that plans up to that round have been read."""

    def committed(self, seconds: float) -> None:
        """Take how long it took to make a record durable."""

    def sent(self) -> None:
        """Take note of a release that the broker has acknowledged; in the reader's thread."""

    def received(self, source: str) -> None:
        """Take note of a record read from an in-edge."""

    def refused(self, reason: Reason) -> None:
        """Take note of a peer's record that was refused."""


class LiveNode:
    """Runs a node's machine on one bus. `open_slot` asks for a slot, which comes back by `slot_closed`.

    `clock` is kept going by the own heartbeats, as they are read back.
    """

    def __init__(
        self,
        start: MeshStart,
        learner: Learner,
        journal: NodeJournal,
        surroundings: Surroundings,
        bus: KafkaBus,
        clock: FetchClock,
        open_slot: Callable[[OpenSlot], None],
        watcher: Watcher,
    ) -> None:
        self._journal, self._mesh, self._bus, self._watcher = journal, surroundings, bus, watcher
        self._start, self._name, self._topics = start, start.who.name, surroundings.topics
        self._loop, self._clock = Loop(watcher.began), clock
        self._sources = {self._topics.edge(source, self._name): source for source in surroundings.expected}
        self._edges = {self._topics.edge(self._name, target) for target in surroundings.targets}
        self._progress = self._topics.progress(self._name)
        self._letters = DeadLetters(partial(bus.send, self._topics.dead_letters(self._name)))
        self._beats = InFlight()
        self._ask_for_slot = open_slot
        ports = Ports(
            self._append,
            self._send,
            self._open_slot,
            self._start_deadline,
            self._report,
            self._refuse,
            self._halt,
        )
        self._shell = NodeShell(start, learner, journal, surroundings, ports)
        self._deadlines = Deadlines(
            self._loop,
            clock,
            bus,
            tuple(self._sources),
            surroundings.round_timeout,
            self._shell.deadline_passed,
        )

    def slot_closed(self, slot: SlotClosed) -> None:
        """Take the slot that was asked for. From any thread."""
        self._loop.put(partial(self._take_slot, slot))

    def stop(self) -> None:
        """End `run` after the transition at hand. From any thread."""
        self._loop.stop()

    def run(self) -> None:
        """Work until `stop`. Raises ProcessExit when the run is over, Failed, JournalError, BusError."""
        reader = self._bus.subscribe(self._start.offsets, self._read, self._reading_failed)
        try:
            self._deadlines.watch(reader)
            self._loop.every(heartbeat_period(self._mesh.silence), self._beat)
            self._loop.every(CATCH_UP, self._watcher.catch_up)
            self._shell.start()
            self._watcher.planned(self._shell.machine.planned)
            self._loop.run()
        finally:
            self._loop.stop()  # the reader may wait for it to begin
            reader.close()

    # ------------------------------------------------------------------------- in the reader's thread

    def _read(self, topic: str, offset: int, value: bytes) -> None:
        source = self._sources.get(topic)
        if source is not None:
            self._loop.do(partial(self._release_read, source, offset, value))
        elif topic == self._progress:
            self._own_beat_read(offset, value)
        else:
            self._loop.do(partial(self._plan_read, offset, value))

    def _own_beat_read(self, offset: int, value: bytes) -> None:
        """Keep the clock going; give way to a process of this node that has said hello after this one."""
        if self._shell.own_beat_read(offset, value):
            self._clock.beat()
        elif self._shell.replaced:
            reason = f"another process of node {self._name} has started after this one, and takes its place"
            self._loop.fail(Failed(reason))

    def _reading_failed(self, topic: str, error: BusError) -> None:
        self._loop.fail(Failed(f"{topic} cannot be read any more: {error}"))

    # ------------------------------------------------------------------- one at a time, as the loop's

    def _release_read(self, source: str, offset: int, value: bytes) -> None:
        self._watcher.received(source)
        self._shell.release_read(source, offset, value)

    def _plan_read(self, offset: int, value: bytes) -> None:
        self._shell.plan_read(offset, value)
        self._watcher.planned(self._shell.machine.planned)

    def _open_slot(self, opened: OpenSlot) -> None:
        self._watcher.entered()
        self._ask_for_slot(opened)

    def _take_slot(self, slot: SlotClosed) -> None:
        self._watcher.closed()
        self._shell.slot_closed(slot)

    def _beat(self) -> None:
        if self._beats.none:  # else the broker is away, and would get them all at once
            self._shell.beat()

    def _append(self, record: JournalRecord, secret: Secret | None) -> None:
        began = time.perf_counter()
        self._journal.append(record, secret)
        self._watcher.committed(time.perf_counter() - began)

    def _send(self, topic: str, value: bytes) -> None:
        if topic not in self._edges:
            self._beats.sent()
            self._bus.send(topic, value, self._beats.acknowledged)
            return
        self._deadlines.sent()
        self._bus.send(topic, value, self._acknowledged)

    def _acknowledged(self) -> None:
        self._deadlines.acknowledged()
        self._watcher.sent()

    def _start_deadline(self, started: StartDeadline) -> None:
        self._deadlines.start(started)

    def _report(self, report: Report) -> None:
        if isinstance(report, Decided):
            self._deadlines.cancel()
        self._watcher.report(report)

    def _refuse(self, topic: str, value: bytes, refused: Refused) -> None:
        self._watcher.refused(refused.reason)
        self._letters.write(topic, value, refused)

    def _halt(self, halt: Halt) -> None:
        raise ProcessExit(halt.reason)
