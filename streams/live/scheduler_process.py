"""A scheduler's process on a broker: from a mesh file to an orderly end. Any number may run."""

import logging
import secrets
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from streams.bus.diagnosis import Expiry
from streams.bus.mesh_log import MeshLog
from streams.bus.rights import scheduler as scheduler_access
from streams.bus.topic_specs import mesh_specs
from streams.live.scheduler_role import SchedulerRole, SchedulerWatcher, scheduler_start
from streams.live.serving import warn_of_end
from streams.log_events import LogEvent
from streams.mesh.file import MeshFile, refuse_ended, scheduler_envelope
from streams.mesh.settings.node import LIVENESS
from streams.metrics.endpoint import Endpoint, LastReads
from streams.metrics.scheduler_metrics import SchedulerMetrics
from streams.runtime.kafka import KafkaProcess, open_bus
from streams.runtime.process import Ask, Failed, ProcessExit, ProcessStopped, Stop, retry_until_reachable
from streams.runtime.runner import is_orderly
from topology.plans import Heartbeat, Plan

LOGGER = logging.getLogger("mirrormesh.scheduler")


class LoggedScheduler(SchedulerMetrics):
    """The metrics of a scheduler; the log says who joins, falls silent, is heard again, and leaves.

    Of the members of the newest plan at the start nothing is said. Several schedulers all say the same.
    `silence`: the mesh file's, in seconds.
    """

    def __init__(self, *arguments: Any, silence: float | None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._silence = silence
        self._members: dict[str, str] | None = None  # the newest plan's, with their instances
        self._silent: frozenset[str] = frozenset()
        self._beats: dict[str, Heartbeat] = {}

    def planned(self, plan: Plan | None) -> None:
        """Record the newest valid plan, and log the changes of its members."""
        super().planned(plan)
        if plan is None or plan.ended:
            return
        members = {member.name: member.instance for member in plan.members}
        known_members, self._members = self._members, members
        if known_members is None:
            return
        for name, instance in members.items():
            if known_members.get(name) != instance:
                event = LogEvent.NODE_JOINED.of(peer=name, round=plan.round)
                LOGGER.info("%s has joined, from round %d on", name, plan.round, extra=event)
        for name in known_members.keys() - members.keys():
            if self._has_left(name):
                event = LogEvent.NODE_LEFT.of(peer=name, round=plan.round)
                LOGGER.info("%s has left, from round %d on", name, plan.round, extra=event)

    def replayed(self, beat: Heartbeat, at: float) -> None:
        """Handle a heartbeat from the log."""
        super().replayed(beat, at)
        self._beats[beat.node] = beat

    def beat(self, beat: Heartbeat) -> None:
        """Handle a heartbeat read just now."""
        super().beat(beat)
        self._beats[beat.node] = beat

    def silent(self, nodes: frozenset[str]) -> None:
        """Log who has fallen silent, and who is heard again."""
        nodes = frozenset(name for name in nodes if not self._has_left(name))
        for name in sorted(nodes - self._silent):
            text = "%s has not been heard for %g s: it is planned without until it is heard"
            event = LogEvent.NODE_SILENT.of(peer=name)
            LOGGER.warning(text, name, self._silence, extra=event)
        for name in sorted(self._silent - nodes):
            LOGGER.info("%s is heard again", name, extra=LogEvent.NODE_RETURNED.of(peer=name))
        self._silent = nodes

    def _has_left(self, name: str) -> bool:
        beat, plan = self._beats.get(name), self._plan
        return beat is not None and plan is not None and beat.has_left(plan)


def run_scheduler(file: MeshFile, stop: Stop, metrics: tuple[str, int] | None = None) -> None:
    """Plan until asked to stop. Raises ProcessExit when the run is over, Failed, ProcessStopped, BusError.

    Raises Unmendable if plans are made by a newer mesh file, MeshFileError if all slots have ended before the
    first plan.
    """
    mesh, broker, topics, slots = file.mesh, file.mesh_broker, file.resolved.topics, file.resolved.clock
    settings = file.resolved.scheduler(silence=mesh.silence, rounds=mesh.rounds)
    settings = replace(settings, lag=file.resolved.lag)
    envelope = scheduler_envelope(file)
    ask: Ask = partial(retry_until_reachable, stop)
    with ExitStack() as closing:
        endpoint = None if metrics is None else closing.enter_context(Endpoint(*metrics))
        last_reads = closing.enter_context(LastReads(is_orderly, stop.asked.wait, stays=stop.stays))
        access = scheduler_access(topics, mesh.nodes)
        bus = open_bus(broker, access, mesh_specs(file.resolved), stop, closing)
        process = KafkaProcess(bus, "scheduler", LIVENESS, LOGGER)
        expiry = Expiry({"brokers.mesh": broker})
        warn_of_end(expiry, LOGGER)
        figures = LoggedScheduler(
            mesh.name,
            mesh.nodes,
            connected=lambda: process.connected,
            ends=expiry.first,
            generation=mesh.generation,
            silence=mesh.silence,
        )
        boot = secrets.token_bytes(16)
        scheduler = SchedulerRole(settings, topics, file.digest(), boot, figures, envelope, slots)
        if endpoint is not None:
            endpoint.show(figures.shared, figures.missing, noted=expiry.soon)
        last_reads.watch(endpoint, [figures.shared])
        text = "planning run %s of mesh %s for %d nodes"
        LOGGER.info(text, mesh.run, mesh.name, len(mesh.nodes), extra=LogEvent.STARTED.of())
        start = ask(lambda: scheduler_start(topics, mesh.nodes, bus))
        scheduler.presence.hello(bus, ask)
        if not start.stored[topics.topology]:  # a run that has begun is ended in order
            refuse_ended(file, time.time())

        def current() -> int | None:
            return None if slots is None else int(slots.round_at(time.time()))

        process.run({"scheduler": scheduler.role(start, process.world, current)}, stop)
        LOGGER.info("stopped, as asked", extra=LogEvent.STOPPED.of())


# Ends a run by the word of an operator: one more scheduler, which begins the closing rounds at once.

PATIENCE = 60.0
"""Seconds, and two slots by time, without another plan, after which the run ends without more of them."""


class _Newest(SchedulerWatcher):
    """Keeps the newest valid plan."""

    def __init__(self) -> None:
        self.plan: Plan | None = None

    def planned(self, plan: Plan | None) -> None:
        """Keep it."""
        self.plan = plan


def end_run(file: MeshFile, stop: Stop) -> Plan:
    """End the run of a mesh file, after its closing rounds, and return its last plan.

    Schedulers continue meanwhile: once one closing round is planned, all plan the others. The process needs a
    scheduler's rights. Raises Failed, ProcessStopped, BusError.
    """
    mesh, topics, slots = file.mesh, file.resolved.topics, file.resolved.clock
    patience = PATIENCE + (0.0 if slots is None else 2 * slots.period)
    settings = file.resolved.scheduler(silence=mesh.silence, rounds=None)
    ask: Ask = partial(retry_until_reachable, stop)
    with ExitStack() as closing:
        access = scheduler_access(topics, mesh.nodes)
        bus = open_bus(file.mesh_broker, access, mesh_specs(file.resolved), stop, closing)
        plans = ask(lambda: MeshLog.of(file, bus).valid_plans())
        if not plans:
            raise Failed(f"run {mesh.run} of mesh {mesh.name} has no plan yet: there is nothing to end")
        newest = _Newest()
        newest.plan = plans[max(plans)]
        process = KafkaProcess(bus, "scheduler", LIVENESS, LOGGER)
        scheduler = SchedulerRole(
            replace(settings, ends=patience),
            topics,
            file.digest(),
            secrets.token_bytes(16),
            newest,
            scheduler_envelope(file),
            slots,
        )
        start = ask(lambda: scheduler_start(topics, mesh.nodes, bus))
        scheduler.presence.hello(bus, ask)
        try:
            process.run({"scheduler": scheduler.role(start, process.world, lambda: None)}, stop)
        except ProcessExit:
            return newest.plan
        raise ProcessStopped
