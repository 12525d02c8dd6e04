"""The shared shell of a scheduler: bytes to events, plans to bytes, without time or threads."""

from typing import NamedTuple, Protocol

from streams.bus.bus import Bus, Stored
from streams.codec import Reason, Refused, decode_heartbeat, decode_plans, encode_plans
from streams.codec.signatures import PLAIN, Envelope
from streams.codec.topics import MeshTopics
from topology.chain import PlanRecord
from topology.plans import Heartbeat, Plan
from topology.scheduler import (
    HeartbeatRead,
    LeftOut,
    PlansRead,
    PublishPlans,
    Refusal,
    SchedulerEvent,
    SchedulerMachine,
    SchedulerSettings,
    SourceEnded,
    Started,
    Ticked,
)


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
    """The shell of one scheduler process; `envelope`: how its plans, and what it reads, are signed."""

    def __init__(
        self,
        settings: SchedulerSettings,
        topics: MeshTopics,
        digest: bytes,
        bus: Bus,
        watcher: SchedulerWatcher,
        envelope: Envelope = PLAIN,
    ) -> None:
        self._machine, self._envelope = SchedulerMachine(settings), envelope
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
        offsets = {topic: found[-1].offset + 1 if found else first[topic] for topic, found in stored.items()}
        return SchedulerStart(stored, offsets)

    def start(self, start: SchedulerStart, current: int | None = None) -> None:
        """Start the machine with all stored plans and heartbeats; `current` as in `tick`."""
        plans, beats = [], []
        stored = start.stored[self._topics.topology]
        for topic, records in start.stored.items():
            for record in records:
                message = self._decoded(topic, record.value)
                if isinstance(message, PlanRecord):
                    plans.append(message)
                elif message is not None:
                    beats.append(message)
                    self._watcher.recalled(message, record.timestamp)
        whole = not stored or stored[0].offset == 0
        self._handle(Started(tuple(plans), tuple(beats), whole, current))

    def read(self, topic: str, value: bytes) -> None:
        """Take a record of topology or progress."""
        message = self._decoded(topic, value)
        if isinstance(message, PlanRecord):
            self._handle(PlansRead(message))
        elif message is not None:
            self._handle(HeartbeatRead(message))

    def tick(self, seconds: float, current: int | None) -> None:
        """Let time pass; `current` is the clock's round (None: slots by count)."""
        self._handle(Ticked(seconds, current))

    def end(self) -> None:
        """End the run after the last planned round."""
        self._handle(SourceEnded(0))

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
