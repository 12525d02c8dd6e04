"""What every shell of a scheduler does alike: bytes to events, plans to bytes. No time or threads here."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from streams.codec import Reason, Refused, decode_heartbeat, decode_plan, encode_plan
from streams.codec.topics import MeshTopics
from topology.plans import Heartbeat, Plan
from topology.scheduler import (
    HeartbeatRead,
    PlanRead,
    PublishPlan,
    Refusal,
    SchedulerEvent,
    SchedulerMachine,
    SchedulerSettings,
    SourceEnded,
    Started,
    Ticked,
)


class SchedulerWatcher(Protocol):
    """Who is told what a scheduler hears and does."""

    def planned(self, plan: Plan | None) -> None:
        """Take the newest valid plan, whoever published it."""

    def published(self) -> None:
        """Take note of a plan that this scheduler has published."""

    def heard(self, live: int, slowest: int) -> None:
        """Take how many nodes are live, and the last round that the slowest of them has stepped."""

    def refused(self, reason: Reason | Refusal) -> None:
        """Take note of a record that was refused."""


class SchedulerShell:
    """One process's life of a scheduler. `send` takes (topic, bytes)."""

    def __init__(
        self,
        settings: SchedulerSettings,
        topics: MeshTopics,
        digest: bytes,
        send: Callable[[str, bytes], None],
        watcher: SchedulerWatcher,
    ) -> None:
        self._machine = SchedulerMachine(settings)
        self._topics, self._digest, self._send, self._watcher = topics, digest, send, watcher

    @property
    def over(self) -> bool:
        """Whether the last plan ends the run."""
        last = self._machine.last
        return last is not None and last.ended

    def start(self, plans: Iterable[bytes], heartbeats: Mapping[str, Iterable[bytes]]) -> None:
        """Start the machine with all plans, and each node's heartbeats, that the logs hold."""
        read = [plan for value in plans if (plan := self._plan(value)) is not None]
        beats = [
            beat
            for node, values in heartbeats.items()
            for value in values
            if (beat := self._heartbeat(node, value)) is not None
        ]
        self._handle(Started(tuple(read), tuple(beats)))

    def plan_read(self, value: bytes) -> None:
        """Take a record of the topology."""
        plan = self._plan(value)
        if plan is not None:
            self._handle(PlanRead(plan))

    def heartbeat_read(self, node: str, value: bytes) -> None:
        """Take a record of the progress of `node`."""
        heartbeat = self._heartbeat(node, value)
        if heartbeat is not None:
            self._handle(HeartbeatRead(heartbeat))

    def tick(self, seconds: float, current: int | None) -> None:
        """Let time pass; `current` is the round that the clock is in (None: slots by count)."""
        self._handle(Ticked(seconds, current))

    def end(self) -> None:
        """End the run after the last round that is planned."""
        self._handle(SourceEnded(0))

    def _handle(self, event: SchedulerEvent) -> None:
        before = self._machine.last
        for effect in self._machine.handle(event):
            if isinstance(effect, PublishPlan):
                self._send(self._topics.topology, encode_plan(effect.plan, self._digest))
                self._watcher.published()
            else:
                self._watcher.refused(effect.reason)
        if self._machine.last is not before:
            self._watcher.planned(self._machine.last)
        if not isinstance(event, PlanRead):
            self._watcher.heard(*self._machine.standing)

    def _plan(self, value: bytes) -> Plan | None:
        try:
            return decode_plan(value, self._topics.run, self._digest)
        except Refused as refused:
            self._watcher.refused(refused.reason)
            return None

    def _heartbeat(self, node: str, value: bytes) -> Heartbeat | None:
        try:
            return decode_heartbeat(value, self._topics.run, node, self._digest)
        except Refused as refused:
            self._watcher.refused(refused.reason)
            return None
