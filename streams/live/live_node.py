"""One node on a broker: its machine, and its reading and sending."""

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Protocol

from nodes.learner import Learner
from nodes.machine.events import Decided, OpenSlot, Report, SlotClosed
from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.protocol import Halt, StartDeadline
from streams.bus.bus import BusError, Reader
from streams.bus.kafka import KafkaBus
from streams.codec import Reason, Refused
from streams.codec.topics import may_lose
from streams.live.node_shell import Later, NodeShell, Ports
from streams.live.start import MeshStart
from streams.mesh.mesh import Surroundings
from streams.runtime.deadlines import EACH, Deadlines, FetchClock, InFlight, Patience
from streams.runtime.floods import DeadLetters
from streams.runtime.process import Failed, ProcessExit, unreadable
from streams.runtime.turns import Lane
from streams.state.memory_journal import NodeJournal
from topology.scheduler import heartbeat_period

CATCH_UP = 1.0
"""Longest wait of work put off, in seconds."""


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

    def left(self) -> None:
        """Note that the node has ended."""

    def made_by(self, generation: int) -> None:
        """Take the generation of the newest mesh file that a plan was made by."""

    def committed(self, seconds: float) -> None:
        """Take the seconds that a record needed to become durable."""

    def sent(self) -> None:
        """Note that the broker has acknowledged a release; in the reader's thread."""

    def received(self, source: str) -> None:
        """Note a record read from an in-edge."""

    def refused(self, reason: Reason) -> None:
        """Note that a peer's record was refused."""


class LiveNode:
    """Runs a node's machine in turns of its lane. `open_slot` asks for a slot; `slot_closed` returns it.

    The node's own heartbeats, when read back, keep `clock` running. `commits`: what waits for the disk while
    other nodes go on; None: there are no others. `leave_from` returns the first round without the node, if
    its owner has asked.
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
        *,
        lane: Lane,
        commits: Executor | None = None,
        leave_from: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._commits = commits
        self._leave_from, self._leaving = leave_from, start.leave_from
        self._journal, self._mesh, self._bus, self._watcher = journal, surroundings, bus, watcher
        self._name, self._topics, self.offsets = start.who.name, surroundings.topics, start.offsets
        self._lane, self._clock = lane, clock
        self._sources = {self._topics.edge(source, self._name): source for source in surroundings.expected}
        self._edges = {self._topics.edge(self._name, target) for target in surroundings.targets}
        self._progress = self._topics.progress(self._name)
        self._letters = DeadLetters.to(bus, self._topics.dead_letters(self._name))
        self._readers = {self._topics.progress(target): target for target in surroundings.targets}
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
        self._patience = (
            None
            if surroundings.lag_limit is None
            else Patience(surroundings.lag_limit, clock.now, self._shell.machine)
        )
        self._deadlines = Deadlines(
            self._lane,
            clock,
            bus,
            tuple(self._sources),
            surroundings.round_timeout,
            self._shell.deadline_passed,
            self._patience,
        )

    @property
    def lossy(self) -> frozenset[str]:
        """The topics of which records may be lost that were deleted unread: plans may not."""
        return may_lose(self.offsets, self._topics)

    def slot_closed(self, slot: SlotClosed) -> None:
        """Take the requested slot. From any thread."""
        self._lane.put(partial(self._take_slot, slot))

    def begin(self, reader: Reader) -> None:
        """Start the machine, before the loop runs; `reader` reads from `offsets` on, and waits for it."""
        self._lane.turn(partial(self._begin, reader))

    def leave(self) -> None:
        """Say where the node has stopped, if it has not ended by itself. After the loop has run."""
        self._lane.turn(self._beat)
        self._watcher.left()

    def _begin(self, reader: Reader) -> None:
        self._deadlines.watch(reader)
        self._lane.every(heartbeat_period(self._mesh.silence), self._beat)
        self._lane.every(CATCH_UP, self._watcher.catch_up)
        if self._patience is not None:
            self._lane.every(EACH, self._patience.look)
        self._shell.start()
        self._watch_plans()

    # ------------------------------------------------------------------------- in the reader's thread

    def read(self, topic: str, offset: int, value: bytes, appended: float) -> None:
        """Take a record of one of the node's topics; `appended` as in Stored."""
        source = self._sources.get(topic)
        if source is not None:
            self._lane.do(partial(self._release_read, source, offset, value))
        elif topic == self._progress:
            self._own_beat_read(offset, value)
        elif topic in self._readers:
            if self._shell.may_accuse(value):
                self._lane.do(partial(self._shell.peer_beat_read, self._readers[topic], value))
        else:
            self._lane.do(partial(self._plan_read, offset, value, appended))

    def _own_beat_read(self, offset: int, value: bytes) -> None:
        """Keep the clock running; end if a newer process of this node has said hello."""
        if self._shell.own_beat_read(offset, value):
            self._clock.beat()
        elif self._shell.replaced:
            reason = f"another process of node {self._name} has started after this one, and takes its place"
            self._lane.fail(Failed(reason))

    def reading_failed(self, topic: str, error: BusError) -> None:
        """Take that a topic cannot be read any more."""
        self._lane.fail(unreadable(topic, error))

    # ------------------------------------------------------------------- one at a time, as the loop's

    def _release_read(self, source: str, offset: int, value: bytes) -> None:
        self._watcher.received(source)
        self._shell.release_read(source, offset, value)

    def _plan_read(self, offset: int, value: bytes, appended: float) -> None:
        plans = self._shell.plans_of(offset, value, appended)
        if plans:  # of a flood no record is worth a look at the folder
            self._heed()
            self._shell.take_plans(plans)
            self._watch_plans()

    def _watch_plans(self) -> None:
        self._watcher.planned(self._shell.machine.planned)
        self._watcher.made_by(self._shell.generation)

    def _open_slot(self, opened: OpenSlot) -> None:
        self._watcher.entered()
        self._ask_for_slot(opened)

    def _take_slot(self, slot: SlotClosed) -> None:
        self._watcher.closed()
        self._shell.slot_closed(slot)

    def _beat(self) -> None:
        self._heed()
        if self._beats.none:  # otherwise the broker is away, and would get them all at once
            self._shell.beat()

    def _heed(self) -> None:
        """Look for a wish to leave; before each plan, so that no plan of its last rounds is unknown."""
        wish = self._leave_from()
        if wish != self._leaving and not self._shell.machine.halted:
            self._leaving = wish
            self._shell.leave(wish)

    def _append(self, record: JournalRecord, secret: Secret | None) -> Later | None:
        if self._commits is not None:
            return partial(self._commit, self._commits, record, secret)
        start = time.perf_counter()
        self._journal.append(record, secret)
        self._watcher.committed(time.perf_counter() - start)
        return None

    def _commit(
        self, commits: Executor, record: JournalRecord, secret: Secret | None, follow: Callable[[], None]
    ) -> None:
        """Make a record durable in another thread: other nodes go on meanwhile, this one waits for it."""
        self._lane.hold()
        start = time.perf_counter()

        def durable(done: "Future[None]") -> None:
            seconds, error = time.perf_counter() - start, done.exception()

            def go_on() -> None:
                if error is not None:
                    raise error
                self._watcher.committed(seconds)
                follow()

            self._lane.resume(go_on)

        commits.submit(self._journal.append, record, secret).add_done_callback(durable)

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
