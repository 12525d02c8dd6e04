"""Runs one node on a broker: its machine, and its reading and sending."""

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
from streams.bus.reader import KafkaReader
from streams.codec import Reason, Refused
from streams.live.deadlines import Deadlines, FetchClock, InFlight
from streams.live.liveness import Pulse
from streams.live.loop import Loop
from streams.live.node_shell import NodeShell, Ports
from streams.live.node_watcher import DeadLetters
from streams.live.process import unreadable
from streams.live.start import MeshStart
from streams.live.stopping import Failed, ProcessExit
from streams.mesh.mesh import Surroundings
from streams.state.memory_journal import NodeJournal
from topology.scheduler import heartbeat_period

CATCH_UP = 1.0
"""Longest wait of work put off, in seconds."""
LAST_BEAT = 1.0
"""Longest wait for the last heartbeat's acknowledgement, in seconds."""


class Watcher(Protocol):
    """Observes the node, one call at a time: metrics, decisions, the log."""

    def report(self, report: Report) -> None:
        """Take a report of the machine."""

    def began(self) -> None:
        """Note that the machine begins to handle an event."""

    def catch_up(self) -> None:
        """Do the work put off."""

    def entered(self) -> None:
        """Note that a round is entered."""

    def closed(self) -> None:
        """Note that the round's slot is closed."""

    def planned(self, round: int) -> None:
        """Note that plans up to that round were read."""

    def committed(self, seconds: float) -> None:
        """Take the seconds that a record needed to become durable."""

    def sent(self) -> None:
        """Note that the broker has acknowledged a release; in the reader's thread."""

    def received(self, source: str) -> None:
        """Note a record read from an in-edge."""

    def refused(self, reason: Reason) -> None:
        """Note that a peer's record was refused."""


class LiveNode:
    """Runs a node's machine on one bus. `open_slot` asks for a slot; `slot_closed` returns it.

    The node's own heartbeats, when read back, keep `clock` running.
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
        self._reader: KafkaReader | None = None
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

    @property
    def pulse(self) -> Pulse:
        """The loop's signs of life."""
        return self._loop.pulse

    @property
    def reading(self) -> bool:
        """Whether the reader's thread is there, or not needed. From any thread."""
        reader = self._reader
        return reader is None or reader.alive

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Do `action` every `seconds` in the loop. Call it before `run`."""
        self._loop.every(seconds, action)

    def slot_closed(self, slot: SlotClosed) -> None:
        """Take the requested slot. From any thread."""
        self._loop.put(partial(self._take_slot, slot))

    def stop(self) -> None:
        """End `run` after the current transition. From any thread."""
        self._loop.stop()

    def run(self) -> None:
        """Work until `stop`. Raises ProcessExit when the run is over, Failed, JournalError, BusError."""
        self._reader = reader = self._bus.subscribe(self._start.offsets, self._read, self._reading_failed)
        try:
            self._deadlines.watch(reader)
            self._loop.every(heartbeat_period(self._mesh.silence), self._beat)
            self._loop.every(CATCH_UP, self._watcher.catch_up)
            self._shell.start()
            self._watcher.planned(self._shell.machine.planned)
            self._loop.run()
            self._beat()  # the last one tells where the node has stopped
            self._bus.flush(LAST_BEAT)
        finally:
            self._loop.stop()  # the reader may wait for it to begin
            self._reader = None
            reader.close()
            self._loop.pulse.rest()

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
        """Keep the clock running; end if a newer process of this node has said hello."""
        if self._shell.own_beat_read(offset, value):
            self._clock.beat()
        elif self._shell.replaced:
            reason = f"another process of node {self._name} has started after this one, and takes its place"
            self._loop.fail(Failed(reason))

    def _reading_failed(self, topic: str, error: BusError) -> None:
        self._loop.fail(unreadable(topic, error))

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
        if self._beats.none:  # otherwise the broker is away, and would get them all at once
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
