"""Runs a machine as a process: on a broker, in memory and in a simulation by the same code.

A process is a *role* in a *world*. A **role** is a value: a machine, the topics that it reads, the functions
that carry out its effects, and the result of its recovery (the offsets to read from, and the messages to send
again). It is made anew for each process, from its journal, or from its log if it has no journal. A **world**
is a bus, the turns of a loop, a clock, and a place for long work. The runner feeds the machine one event at a
time, and carries out its effects:

    a record --decode--> events --> machine --> effects    keep      made durable before the next effect
       |                                                   send      encoded, and sent until acknowledged
       +--Refused--> a dead letter                         later     answered by an event made elsewhere
                                                           report    passed to metrics and log
    a deadline, an answer --> events                       evidence  kept as dead letters

`StartDeadline` and `Halt` mean the same for all machines, so the runner carries them out itself.

Rules
-----
1. An event is handled after all effects of the previous event are done, in their order.
2. What `keep` writes is durable before any later effect is carried out. If other roles share the loop, a
   second thread writes it. This role is on hold meanwhile: no record, timer or answer has its turn. The other
   roles continue. An append that fails ends the role, and none of its later effects is done. That thread also
   waits for what must be elsewhere before the append (`written`).
3. A message is sent again until it is acknowledged. `unsent` has the messages that an earlier process left.
4. Records wait for the role in the reader's thread. There `floods` checks the records that anybody can send
   in great numbers, before they cost a turn. The process's own heartbeats are read there too. They show that
   the broker answers while the loop is busy, and that a newer process has replaced this one.
5. A deadline starts with the acknowledgement of the process's message, and pauses while the broker is away.
   It passes only after the peers' topics were read to the ends that they had at it.
6. A role ends by itself: with `Halt`, after a journal or a topic has failed, or when a newer process replaces
   it. The other roles of its process continue.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from nodes.protocol import DeadlinePassed, Halt, Machine, StartDeadline
from streams.bus.bus import Bus, BusError, Reader
from streams.codec import Refused
from streams.runtime.actions import Action, Ended, Loop, ProcessWorld, RoleQueue
from streams.runtime.deadlines import Deadlines, FetchClock, InFlight, Patience
from streams.runtime.floods import DeadLetters
from streams.runtime.presence import Beacon, Presence
from streams.runtime.process import Failed, ProcessExit, unreadable

BEAT = 1.0
"""Seconds between two heartbeats."""
LAST_BEAT = 1.0
"""The longest wait for the last heartbeats' acknowledgement, in seconds."""


class Arrived(NamedTuple):
    """A record that was read. `appended` is as in `streams.bus.bus.Stored`."""

    offset: int
    value: bytes
    appended: float


class BadMessage(NamedTuple):
    """A peer's message that is kept as a dead letter, its topic, and the reason."""

    topic: str
    value: bytes
    refused: Refused


def _nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One process of a machine.

    Attributes
    ----------
    machine, first
        The machine, and the event that starts it.
    presence
        The process's hello and heartbeats; one is sent every `beat` seconds (None: nobody waits for them).
    offsets
        Where to read each topic from.
    decode
        Makes events of a topic's record. Raises Refused. Of the heartbeats' topic it gets only those of the
        process itself.
    send
        Makes (topic, bytes) of an effect.
    keep
        Makes an effect durable, and then returns. Any thread may call it.
    later
        Begins work for an effect, which `Pending` answers.
    report, evidence
        Passes an effect to metrics and log; makes dead letters of an effect.
    timers
        Pairs of an interval in seconds and a function that makes events after each interval.
    unsent, refusals
        (topic, bytes) that an earlier process should have sent; what the recovery has refused.
    peers, timeout
        The topics that a deadline reads to their ends, and its seconds (None: there is no deadline).
    settles, patience
        The effects that cancel the deadline, as the machine then waits for no peer; and the patience that
        ends the deadline earlier if only few peers are slow (None: it does not end earlier).
    letters
        The topic of dead letters (None: no letters are written).
    lossy
        The topics, besides that of heartbeats, in which records may be deleted before they are read.
    clock
        Counts the seconds in which the broker answers (None: the runner makes one).
    floods
        Returns whether a topic's record is worth a turn. Called in the reader's thread.
    ends, caught_up
        `caught_up` is called in a turn after the topics were read to the offsets `ends`.
    before
        Called before each turn of the role.
    written
        Called before an effect is made durable, by the same thread. It returns when what must be elsewhere
        before the effect is there.
    kept, refused
        `kept` is called with what has become durable and the seconds that this took; `refused` with the
        topic of a refused record and the reason.
    acknowledged
        Called, in the reader's thread, for each message that the broker has acknowledged.
    failure
        The exception that ends a process whose machine refuses to continue.
    """

    machine: Machine
    first: Any
    presence: Presence | Beacon
    beat: float | None = BEAT
    offsets: Mapping[str, int]
    decode: Mapping[str, Callable[[Arrived], Iterable[Any]]]
    send: Mapping[type, Callable[[Any], Iterable[tuple[str, bytes]]]]
    keep: Mapping[type, Callable[[Any], object]]
    later: Mapping[type, Callable[[Any, "Pending"], None]] = field(default_factory=dict)
    report: Mapping[type, Callable[[Any], object]] = field(default_factory=dict)
    evidence: Mapping[type, Callable[[Any], Iterable[BadMessage]]] = field(default_factory=dict)
    timers: Sequence[tuple[float, Callable[[], Iterable[Any]]]] = ()
    unsent: Iterable[tuple[str, bytes]] = ()
    refusals: Iterable[BadMessage] = ()
    peers: Sequence[str] = ()
    timeout: float | None = None
    settles: Collection[type] = ()
    patience: Patience | None = None
    letters: str | None
    lossy: Collection[str] = ()
    clock: FetchClock | None = None
    floods: Mapping[str, Callable[[bytes], bool]] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    caught_up: Action = _nothing
    before: Action = _nothing
    written: Action = _nothing
    kept: Callable[[Any, float], object] = _nothing
    refused: Callable[[str, Refused], object] = _nothing
    acknowledged: Action = _nothing
    failure: type[Failed] = Failed


class Pending:
    """Answers an effect by an event that is made elsewhere. Call it from any thread."""

    def __init__(self, queue: RoleQueue, handle: Callable[[Any], None]) -> None:
        self._queue, self._handle = queue, handle

    @property
    def over(self) -> bool:
        """Whether the role has ended, so that nothing waits for an answer."""
        return self._queue.ended

    def answer(self, make: Callable[[], Any | None]) -> None:
        """Call `make` in the role's turn, and handle the event that it returns, if any."""
        self._queue.put(partial(self._answer, make))

    def fail(self, error: Exception) -> None:
        """End the role."""
        self._queue.fail(error)

    def _answer(self, make: Callable[[], Any | None]) -> None:
        event = make()
        if event is not None:
            self._handle(event)


class Runner:
    """Runs one process of a role in a world. `over` is called once, when the role ends by itself.

    `before` is called before each effect; a simulation lets the process die there. `pending` answers the
    effects of `Role.later`.
    """

    def __init__(
        self,
        role: Role,
        world: ProcessWorld,
        over: Callable[[Ended], None],
        before: Callable[[Any], None] = _nothing,
    ) -> None:
        self.role, self._bus, self._world, self._before = role, world.bus, world, before
        self.clock = role.clock or FetchClock(world.clock)
        self.queue = RoleQueue(world.actions, self._before_turn, over)
        self.offsets = {**role.offsets, role.presence.topic: role.presence.first}
        self._deadlines = Deadlines(
            self.queue,
            self.clock,
            world.bus,
            role.peers,
            role.timeout,
            lambda number: self._handle(DeadlinePassed(number)),
            role.patience,
        )
        letters = role.letters
        self._letters = None if letters is None else DeadLetters.to(world.bus, letters, world.clock)
        self._beats = InFlight()
        self._events: deque[Any] = deque()
        self._effects: Iterator[Any] = iter(())
        self.pending = Pending(self.queue, self._handle)
        self._table = self._effect_table()

    @property
    def lossy(self) -> frozenset[str]:
        """The topics in which records may be deleted unread."""
        return frozenset({self.role.presence.topic, *self.role.lossy})

    # ---------------------------------------------------------------------------- for the process's host

    def begin(self, reader: Reader) -> None:
        """Start the machine. `reader` reads the topics from `offsets` on."""
        self.queue.turn(partial(self._begin, reader))

    def read(self, topic: str, offset: int, value: bytes, appended: float) -> None:
        """Handle a record of one of the role's topics, in the reader's thread (rule 4)."""
        presence = self.role.presence
        if topic == presence.topic:
            if presence.read(offset, value):
                self.clock.beat()
                if topic in self.role.decode:
                    self.queue.do(partial(self._take, topic, Arrived(offset, value, appended)))
            elif presence.replaced:
                reason = (
                    f"another process of {presence.whose} has started after this one, and takes its place"
                )
                self.queue.fail(Failed(reason))
            return
        is_worth = self.role.floods.get(topic)
        if is_worth is None or is_worth(value):
            self.queue.do(partial(self._take, topic, Arrived(offset, value, appended)))

    def reading_failed(self, topic: str, error: BusError) -> None:
        """Handle a topic that can no longer be read: the role ends."""
        self.queue.fail(unreadable(topic, error))

    def handle(self, event: Any) -> None:
        """Handle an event from outside, in a turn."""
        self.queue.turn(partial(self._handle, event))

    def last_beat(self) -> None:
        """Send a heartbeat with the round in which the process has stopped.

        Call it after the loop has ended.
        """
        # while an append is being made the machine is ahead of what is durable (rule 2)
        if self.role.beat is not None and not self.queue.held:
            self._beat()

    def close(self) -> None:
        """Ignore all later records, timers and answers."""
        self.queue.ended = True

    # ---------------------------------------------------------------------------------------- in its turns

    def _before_turn(self) -> None:
        if self.role.patience is not None:  # what the machine waits for changes only in turns
            self.role.patience.look()
        self.role.before()

    def _begin(self, reader: Reader) -> None:
        role = self.role
        self._deadlines.watch(reader)
        for seconds, make in role.timers:  # before the heartbeat, which may tell of what they change
            self.queue.every(seconds, partial(self._tick, make))
        if role.beat is not None:
            self.queue.every(role.beat, self._beat)
        for topic, value in role.unsent:
            self._send(topic, value)
        for letter in role.refusals:
            self._refuse(letter)
        self._handle(role.first)
        if role.ends:
            reader.when_read(role.ends, partial(self.queue.put, role.caught_up))

    def _take(self, topic: str, arrived: Arrived) -> None:
        try:
            events = tuple(self.role.decode[topic](arrived))
        except Refused as refused:
            self._refuse(BadMessage(topic, arrived.value, refused))
            return
        self._events.extend(events)
        self._go_on()

    def _tick(self, make: Callable[[], Iterable[Any]]) -> None:
        self._events.extend(make())
        self._go_on()

    def _handle(self, event: Any) -> None:
        self._events.append(event)
        self._go_on()

    def _go_on(self) -> None:
        """Carry out the remaining effects, up to an append that another thread makes (rules 1 and 2)."""
        machine = self.role.machine
        while not self.queue.held:
            effect = next(self._effects, None)
            if effect is not None:
                self._before(effect)
                self._table[type(effect)](effect)
            elif self._events and not machine.halted:
                self._effects = iter(machine.handle(self._events.popleft()))
            else:
                self._events.clear()
                return

    def _effect_table(self) -> dict[type, Callable[[Any], object]]:
        role, pending = self.role, self.pending
        table: dict[type, Callable[[Any], object]] = {StartDeadline: self._start_deadline, Halt: self._halt}
        table |= {kind: partial(self._send_all, encode) for kind, encode in role.send.items()}
        table |= {kind: partial(self._keep, keep) for kind, keep in role.keep.items()}
        table |= {kind: partial(_begin_later, begin, pending) for kind, begin in role.later.items()}
        table |= {kind: partial(self._keep_evidence, letters) for kind, letters in role.evidence.items()}
        table |= role.report
        return table | {kind: partial(self._settle, table[kind]) for kind in role.settles}

    def _settle(self, report: Callable[[Any], object], effect: Any) -> None:
        self._deadlines.cancel()
        report(effect)

    def _send_all(self, encode: Callable[[Any], Iterable[tuple[str, bytes]]], effect: Any) -> None:
        for topic, value in encode(effect):
            self._send(topic, value)

    def _send(self, topic: str, value: bytes) -> None:
        if topic == self.role.presence.topic:
            self._beats.sent()
            self._bus.send(topic, value, self._beats.acknowledged)
        else:
            self._deadlines.sent()
            self._bus.send(topic, value, self._acknowledged)

    def _acknowledged(self) -> None:
        self._deadlines.acknowledged()
        self.role.acknowledged()

    def _keep(self, keep: Callable[[Any], object], effect: Any) -> None:
        commits, start_time = self._world.commits, self._world.clock()
        if commits is None:
            self.role.written()
            start_time = self._world.clock()
            keep(effect)
            self._kept(effect, start_time, None)
            return

        def append() -> None:
            nonlocal start_time
            error: BaseException | None = None
            try:
                self.role.written()
                start_time = self._world.clock()
                keep(effect)
            except BaseException as failed:  # noqa: BLE001 # it is raised in the role's turn, which it ends
                error = failed
            self.queue.resume(partial(self._resume, effect, start_time, error))

        self.queue.hold()
        commits(append)

    def _resume(self, effect: Any, start_time: float, error: BaseException | None) -> None:
        self._kept(effect, start_time, error)
        self._go_on()

    def _kept(self, effect: Any, start_time: float, error: BaseException | None) -> None:
        if error is not None:
            raise error
        self.role.kept(effect, self._world.clock() - start_time)

    def _keep_evidence(self, letters: Callable[[Any], Iterable[BadMessage]], effect: Any) -> None:
        for letter in letters(effect):
            self._refuse(letter)

    def _refuse(self, letter: BadMessage) -> None:
        self.role.refused(letter.topic, letter.refused)
        if self._letters is not None:
            self._letters.write(*letter)

    def _start_deadline(self, started: StartDeadline) -> None:
        if self.role.timeout is not None or started.at_once:
            self._deadlines.start(started)

    def _halt(self, halt: Halt) -> None:
        raise (self.role.failure if halt.failed else ProcessExit)(halt.reason)

    def _beat(self) -> None:
        if self._beats.none:  # else the broker is away, and would later get all of them at once
            self._send(self.role.presence.topic, self.role.presence.value())


def is_orderly(error: BaseException | None) -> bool:
    """Return whether a role that ended with this error is done, and has not failed."""
    return isinstance(error, ProcessExit) and not error.exit_code


def _begin_later(begin: Callable[[Any, Pending], None], pending: Pending, effect: Any) -> None:
    begin(effect, pending)


class Host:
    """Runs the roles of one process on one subscription and one bus. Each role ends independently."""

    def __init__(self, runners: Collection[Runner], bus: Bus) -> None:
        self._runners, self._bus = tuple(runners), bus
        self.reader: Reader | None = None
        self._hearers: dict[str, list[tuple[int, Runner]]] = {}
        for runner in self._runners:
            for topic, offset in runner.offsets.items():
                self._hearers.setdefault(topic, []).append((offset, runner))

    @property
    def is_reading(self) -> bool:
        """Whether the reader's thread runs, or is not needed. From any thread."""
        reader = self.reader
        return reader is None or reader.alive

    def begin(self) -> None:
        """Read the roles' topics, and start their machines."""
        offsets = {topic: min(offset for offset, _ in hearers) for topic, hearers in self._hearers.items()}
        lossy = {topic for runner in self._runners for topic in runner.lossy}
        self.reader = reader = self._bus.subscribe(offsets, self._read, self._reading_failed, lossy=lossy)
        for runner in self._runners:
            runner.begin(reader)

    def run(self, loop: Loop, is_well: Callable[[Runner], bool]) -> None:
        """Work until `loop` is stopped. Then each role that is well sends its last heartbeat."""
        try:
            self.begin()
            loop.run()
            well = [runner for runner in self._runners if is_well(runner)]
            if well and self._bus.flush(LAST_BEAT):  # a heartbeat is sent once the one before is acknowledged
                for runner in well:
                    runner.last_beat()
                self._bus.flush(LAST_BEAT)
        finally:
            loop.stop()  # the reader may wait for it to begin
            self.close()
            loop.pulse.rest()

    def close(self) -> None:
        """Stop reading, and end the roles."""
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()
        for runner in self._runners:
            runner.close()

    def _read(self, topic: str, offset: int, value: bytes, appended: float) -> None:
        for first, runner in self._hearers[topic]:
            if offset >= first:
                runner.read(topic, offset, value, appended)

    def _reading_failed(self, topic: str, error: BusError) -> None:
        hearers = self._hearers.get(topic)
        for runner in self._runners if hearers is None else [runner for _, runner in hearers]:
            runner.reading_failed(topic, error)
