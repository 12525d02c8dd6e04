"""The role of a scheduler: it reads plans and heartbeats, and publishes the plans that follow.

A scheduler has no journal, and recovers from the logs. Before its first event it has read all stored plans
and heartbeats, and it continues where they end. Any number of schedulers may run, so a scheduler's own
heartbeats have no name. They are the clock by which nodes become silent: time passes for a scheduler only
while it reads its own heartbeats.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import inf
from typing import NamedTuple, Protocol

from nodes.protocol import Halt
from streams.bus.bus import Bus, Stored
from streams.codec import Reason, Refused, decode_heartbeat, decode_plans, encode_plans
from streams.codec.envelope import PLAIN, Envelope
from streams.codec.topics import MeshTopics, may_lose
from streams.runtime.actions import ProcessWorld
from streams.runtime.deadlines import FetchClock
from streams.runtime.presence import Beacon
from streams.runtime.process import Unmendable, lacking
from streams.runtime.runner import Arrived, Role
from topology.plans import Heartbeat, Plan, PlanRecord, SlotClock
from topology.scheduler import (
    HeartbeatRead,
    LeftOut,
    PlansRead,
    PublishPlans,
    RecordsRefused,
    Refusal,
    SchedulerEffect,
    SchedulerEvent,
    SchedulerMachine,
    SchedulerSettings,
    SchedulerStarted,
    Ticked,
    heartbeat_period,
)


class SchedulerStart(NamedTuple):
    """The stored records of topology and progress, and the next offsets to read, by topic."""

    stored: Mapping[str, list[Stored]]
    offsets: Mapping[str, int]


def scheduler_start(topics: MeshTopics, nodes: Iterable[str], bus: Bus) -> SchedulerStart:
    """Return what the logs hold, and where a scheduler continues. Raises BusError."""
    log_topics = topics.topology, *map(topics.progress, nodes)
    first = {topic: bus.span(topic)[0] for topic in log_topics}
    stored = bus.stored(first)
    ends = {topic: records[-1].offset + 1 if records else first[topic] for topic, records in stored.items()}
    return SchedulerStart(stored, ends)


class SchedulerWatcher(Protocol):
    """Observes a scheduler. Subclasses need not define calls that they ignore."""

    def planned(self, plan: Plan | None) -> None:
        """Handle the newest valid plan, whoever published it."""
        del plan

    def published(self, count: int) -> None:
        """Note that this scheduler has published that many plans."""
        del count

    def heard(self, live: int, slowest: int) -> None:
        """Handle the number of live nodes, and the last round that the slowest node has stepped."""
        del live, slowest

    def silent(self, nodes: frozenset[str]) -> None:
        """Handle the nodes that were heard and are silent now."""
        del nodes

    def replayed(self, beat: Heartbeat, at: float) -> None:
        """Handle a heartbeat from the log, and the time at which it was sent (seconds since 1970)."""
        del beat, at

    def beat(self, beat: Heartbeat) -> None:
        """Handle a heartbeat that was read just now, and not refused."""
        del beat

    def refused(self, reason: Reason | Refusal) -> None:
        """Note that a record was refused."""
        del reason

    def left_out(self, left: LeftOut) -> None:
        """Note that a member is left out of plans, as it has delayed the others."""
        del left


class SchedulerRole:
    """Makes the role of one scheduler's process; `boot` is the process's id in its heartbeats.

    `envelope`: how its plans, and what it reads, are signed. `slots`: the clock of slots by time.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        topics: MeshTopics,
        digest: bytes,
        boot: bytes,
        watcher: SchedulerWatcher,
        envelope: Envelope = PLAIN,
        slots: SlotClock | None = None,
    ) -> None:
        self._settings, self._topics, self._digest, self._envelope = settings, topics, digest, envelope
        self._slots, self._watcher = slots, watcher
        self._progress = {topics.progress(node): node for node in settings.schedule.graph.nodes}
        self.presence = Beacon(boot, "the scheduler", topics.scheduler)

    def role(
        self,
        start: SchedulerStart,
        world: ProcessWorld,
        current: Callable[[], int | None],
        *,
        beats: bool = True,
    ) -> Role:
        """Return the role that continues at `start`, after `presence` has found its place.

        `current` returns the round of the process's own clock (None: slots by count). `beats`: whether the
        process sends heartbeats, without which no time passes for it.
        """
        settings, topics, watcher, lag = self._settings, self._topics, self._watcher, self._settings.lag
        period = heartbeat_period(settings.silence)
        clock = FetchClock(world.clock, settings.silence)
        time = SchedulerTime(clock, current, self._slots, period)

        def plans_read(read: Arrived) -> Iterator[SchedulerEvent]:
            record = self._plans(read.value)
            yield from time.confirmed(read.appended)
            yield PlansRead(record, self._is_ahead(record, read.appended))

        def beat_read(node: str, read: Arrived) -> Iterator[SchedulerEvent]:
            beat = self._beat(node, read.value)
            yield from time.confirmed(read.appended)
            yield HeartbeatRead(beat)

        def ticked() -> Iterator[SchedulerEvent]:
            yield time.tick()

        def own_beat_read(read: Arrived) -> Iterator[SchedulerEvent]:
            yield from time.confirmed(read.appended)
            yield from ticked()

        decode: dict[str, Callable[[Arrived], Iterable[SchedulerEvent]]] = {
            topic: partial(beat_read, node) for topic, node in self._progress.items()
        }
        return Role(
            machine=PlanningMachine(settings, watcher),
            first=self._recovered(start, time),
            presence=self.presence,
            beat=period if beats else None,
            offsets=start.offsets,
            decode={**decode, topics.topology: plans_read, topics.scheduler: own_beat_read},
            send={PublishPlans: self._published},
            keep={},
            timers=[(lag.period, ticked)] if beats and lag and lag.period else [],
            letters=None,
            lossy=may_lose(start.offsets, topics),
            clock=clock,
            report={
                LeftOut: watcher.left_out,
                RecordsRefused: lambda effect: watcher.refused(effect.reason),
            },
            refused=lambda _, refused: watcher.refused(refused.reason),
            failure=Unmendable,
        )

    def _recovered(self, start: SchedulerStart, time: "SchedulerTime") -> SchedulerStarted:
        """Return the event of a process that has read its logs."""
        plans, beats = [], []
        for topic, records in start.stored.items():
            for record in records:
                time.confirm(record.appended)
                try:
                    if topic == self._topics.topology:
                        plan_record = self._plans(record.value)
                        if self._is_ahead(plan_record, record.appended):
                            self._watcher.refused(Refusal.AHEAD)
                        else:
                            plans.append(plan_record)
                    else:
                        beats.append(self._beat(self._progress[topic], record.value))
                        self._watcher.replayed(beats[-1], record.timestamp)
                except Refused as refused:
                    self._watcher.refused(refused.reason)
        stored = start.stored[self._topics.topology]
        has_beginning = not stored or stored[0].offset == 0
        return SchedulerStarted(tuple(plans), tuple(beats), has_beginning, time.tick().current)

    def _plans(self, value: bytes) -> PlanRecord:
        return decode_plans(self._envelope.of_scheduler(value), self._topics.run, self._digest)

    def _beat(self, node: str, value: bytes) -> Heartbeat:
        return decode_heartbeat(self._envelope.of_node(value, node), self._topics.run, node, self._digest)

    def _is_ahead(self, record: PlanRecord, appended: float) -> bool:
        return self._slots is not None and self._slots.is_ahead(record, appended)

    def _published(self, effect: PublishPlans) -> Iterator[tuple[str, bytes]]:
        for value in encode_plans(effect.last, effect.plans, self._digest):
            yield self._topics.topology, self._envelope.sealed(value)
        self._watcher.published(len(effect.plans))


class PlanningMachine:
    """The scheduler machine, halted once the run is over, or a scheduler with another mesh file plans.

    `watcher` is notified of each event's changes.
    """

    def __init__(self, settings: SchedulerSettings, watcher: SchedulerWatcher) -> None:
        self.halted = False
        self._machine, self._watcher = SchedulerMachine(settings), watcher

    def handle(self, event: SchedulerEvent) -> tuple[SchedulerEffect | Halt, ...]:
        """Handle one event and return the effects to carry out, in order. Raises ValueError."""
        before = self._machine.last
        effects = self._machine.handle(event)
        last, watcher = self._machine.last, self._watcher
        refusals = {effect.reason for effect in effects if isinstance(effect, RecordsRefused)}
        if isinstance(event, HeartbeatRead) and refusals <= {Refusal.PROGRESS}:
            watcher.beat(event.heartbeat)
        if last is not before:
            watcher.planned(last)
        if not isinstance(event, PlansRead | HeartbeatRead):  # it takes longer than a heartbeat of many
            watcher.heard(*self._machine.standing)
            watcher.silent(self._machine.silent)
        halt = self._halt(last)
        self.halted = halt is not None
        return effects if halt is None else (*effects, halt)

    def _halt(self, last: Plan | None) -> Halt | None:
        newer = self._machine.superseded
        if last is not None and last.ended:
            return Halt("the run is over")
        if newer is not None:
            file = lacking(newer, self._machine.settings.generation)
            return Halt(f"{file}: a scheduler needs that file", failed=True)
        return None


class SchedulerTime:
    """A scheduler's time: the seconds in which it has read its own heartbeats, and the round.

    With slots by time the scheduler's own clock gives the round. A clock that runs ahead must not plan rounds
    that no record can be in, so the broker's append times bound it: the round counts up to the newest append
    time that the scheduler has read, plus the time between two heartbeats.
    """

    def __init__(
        self, clock: FetchClock, current: Callable[[], int | None], slots: SlotClock | None, period: float
    ) -> None:
        self._clock, self._own, self._slots, self._period = clock, current, slots, period
        self._passed = 0.0
        self._confirmed = -inf  # the newest append time that was read; inf: records have none
        self._current: int | None = None  # the round of the own clock
        self._counted: int | None = None  # the part of it that counts

    def confirm(self, appended: float) -> None:
        """Handle the append time of a record."""
        is_known = -inf < self._confirmed < inf
        if appended < inf:
            self._confirmed = max(self._confirmed, appended) if is_known else appended
        elif not is_known:  # the topics have no times
            self._confirmed = inf

    def confirmed(self, appended: float) -> Iterator[Ticked]:
        """Handle the append time of a record that was read just now; yield the events that follow."""
        self.confirm(appended)
        bounded = self._bounded()
        if bounded != self._counted:
            self._counted = bounded
            yield Ticked(0.0, bounded)

    def tick(self) -> Ticked:
        """Return how much time has passed since the last one."""
        now, before = self._clock.now(), self._passed
        self._passed, self._current = now, self._own()
        self._counted = self._bounded()
        return Ticked(now - before, self._counted)

    def _bounded(self) -> int | None:
        if self._current is None or self._slots is None:
            return self._current
        return self._slots.bounded(self._current, self._confirmed + self._period)
