"""The shared shell of a scheduler: bytes to events, plans to bytes, without time or threads."""

from math import inf
from typing import NamedTuple, Protocol

from streams.bus.bus import Bus, Stored
from streams.codec import Reason, Refused, decode_heartbeat, decode_plans, encode_plans
from streams.codec.signatures import PLAIN, Envelope
from streams.codec.topics import MeshTopics
from topology.plans import Heartbeat, Plan, PlanRecord
from topology.scheduler import (
    HeartbeatRead,
    LeftOut,
    PlansRead,
    PublishPlans,
    Refusal,
    SchedulerEvent,
    SchedulerMachine,
    SchedulerSettings,
    SchedulerStarted,
    SourceEnded,
    Ticked,
    heartbeat_period,
)
from topology.slot_clock import SlotClock


class SchedulerStart(NamedTuple):
    """The records of topology and progress, and the next offsets to read, by topic."""

    stored: dict[str, list[Stored]]
    offsets: dict[str, int]


class SchedulerWatcher(Protocol):
    """Observes a scheduler."""

    def planned(self, plan: Plan | None) -> None:
        """Take the newest valid plan, whoever published it."""

    def published(self, count: int) -> None:
        """Note that this scheduler has published that many plans."""

    def heard(self, live: int, slowest: int) -> None:
        """Take the number of live nodes, and the last round that the slowest has stepped."""

    def recalled(self, beat: Heartbeat, at: float) -> None:
        """Take a heartbeat from the log, and when it was sent (seconds since 1970)."""

    def beat(self, beat: Heartbeat) -> None:
        """Take a heartbeat read just now, and not refused."""

    def refused(self, reason: Reason | Refusal) -> None:
        """Note that a record was refused."""

    def left_out(self, left: LeftOut) -> None:
        """Note that a member is planned without, as it has held the others."""


class SchedulerShell:
    """The shell of one scheduler process.

    `envelope`: how its plans, and what it reads, are signed. `clock`: that of slots by time; the process's
    own counts as far as the append times (Stored) of what it reads confirm it, and a period of heartbeats.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        topics: MeshTopics,
        digest: bytes,
        bus: Bus,
        watcher: SchedulerWatcher,
        envelope: Envelope = PLAIN,
        clock: SlotClock | None = None,
    ) -> None:
        self._machine, self._envelope = SchedulerMachine(settings), envelope
        self._clock, self._period = clock, heartbeat_period(settings.silence)
        self._confirmed = -inf  # the newest append time that was read; inf: records have none
        self._current: int | None = None  # by the own clock
        self._counted: int | None = None  # of that, what counts
        self._topics, self._digest, self._bus, self._watcher = topics, digest, bus, watcher
        self._progress = {topics.progress(node): node for node in settings.schedule.graph.nodes}

    @property
    def over(self) -> bool:
        """Whether the last plan ends the run."""
        last = self._machine.last
        return last is not None and last.ended

    @property
    def superseded(self) -> int | None:
        """The generation of a newer mesh file, by which the last plan was made; None: by this one."""
        return self._machine.superseded

    def logs(self) -> SchedulerStart:
        """Return the records of topology and progress, and where to continue. Raises BusError."""
        first = {topic: self._bus.span(topic)[0] for topic in (self._topics.topology, *self._progress)}
        stored = self._bus.stored(first)
        offsets = {
            topic: records[-1].offset + 1 if records else first[topic] for topic, records in stored.items()
        }
        return SchedulerStart(stored, offsets)

    def start(self, start: SchedulerStart, current: int | None = None) -> None:
        """Start the machine with all stored plans and heartbeats; `current` as in `tick`."""
        clock = self._clock
        plans, beats = [], []
        stored = start.stored[self._topics.topology]
        for topic, records in start.stored.items():
            for record in records:
                self._confirm(record.appended)
                message = self._decoded(topic, record.value)
                if isinstance(message, PlanRecord):
                    if clock is not None and clock.is_ahead(message, record.appended):
                        self._watcher.refused(Refusal.AHEAD)
                    else:
                        plans.append(message)
                elif message is not None:
                    beats.append(message)
                    self._watcher.recalled(message, record.timestamp)
        whole = not stored or stored[0].offset == 0
        self._current = current
        self._counted = self._bounded()
        self._handle(SchedulerStarted(tuple(plans), tuple(beats), whole, self._counted))

    def read(self, topic: str, value: bytes, appended: float = inf) -> None:
        """Take a record of topology or progress; `appended` as in Stored."""
        self.confirm(appended)
        message = self._decoded(topic, value)
        if isinstance(message, PlanRecord):
            ahead = self._clock is not None and self._clock.is_ahead(message, appended)
            self._handle(PlansRead(message, ahead))
        elif message is not None:
            self._handle(HeartbeatRead(message))

    def confirm(self, appended: float) -> None:
        """Take the append time of a record that was read just now."""
        self._confirm(appended)
        if self._bounded() != self._counted:
            self.tick(0.0, self._current)

    def tick(self, seconds: float, current: int | None) -> None:
        """Let time pass; `current` is the round of the process's own clock (None: slots by count)."""
        self._current = current
        self._counted = self._bounded()
        self._handle(Ticked(seconds, self._counted))

    def end(self) -> None:
        """End the run after the last planned round."""
        self._handle(SourceEnded(0))

    def _confirm(self, appended: float) -> None:
        is_finite = -inf < self._confirmed < inf
        if appended < inf:
            self._confirmed = max(self._confirmed, appended) if is_finite else appended
        elif not is_finite:  # the topics have no times
            self._confirmed = inf

    def _bounded(self) -> int | None:
        if self._current is None or self._clock is None:
            return self._current
        return self._clock.bounded(self._current, self._confirmed + self._period)

    def _handle(self, event: SchedulerEvent) -> None:
        before = self._machine.last
        refused: Refusal | None = None
        for effect in self._machine.handle(event):
            if isinstance(effect, PublishPlans):
                for value in encode_plans(effect.last, effect.plans, self._digest):
                    self._bus.send(self._topics.topology, self._envelope.sealed(value))
                self._watcher.published(len(effect.plans))
            elif isinstance(effect, LeftOut):
                self._watcher.left_out(effect)
            else:
                refused = effect.reason
                self._watcher.refused(effect.reason)
        if isinstance(event, HeartbeatRead) and refused in {None, Refusal.PROGRESS}:
            self._watcher.beat(event.heartbeat)
        if self._machine.last is not before:
            self._watcher.planned(self._machine.last)
        if not isinstance(event, PlansRead | HeartbeatRead):  # it takes longer than a heartbeat of many
            self._watcher.heard(*self._machine.standing)

    def _decoded(self, topic: str, value: bytes) -> PlanRecord | Heartbeat | None:
        run, node = self._topics.run, self._progress.get(topic)
        try:
            if node is None:
                return decode_plans(self._envelope.of_scheduler(value), run, self._digest)
            return decode_heartbeat(self._envelope.of_node(value, node), run, node, self._digest)
        except Refused as refused:
            self._watcher.refused(refused.reason)
            return None
