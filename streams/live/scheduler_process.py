"""A scheduler's process on a broker: from a mesh file to an orderly end. Any number may run."""

import logging
import secrets
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from streams.bus.bus import Bus, Unreachable
from streams.bus.diagnosis import Expiry
from streams.bus.mesh_log import Entry, MeshLog, messages, valid
from streams.bus.rights import scheduler as scheduler_access
from streams.bus.topic_specs import mesh_specs
from streams.codec import encode_plans
from streams.codec.envelope import PLAIN, Envelope
from streams.live.scheduler_role import SchedulerRole, scheduler_start
from streams.live.serving import warn_of_end
from streams.mesh.file import MeshFile, refuse_ended, scheduler_envelope
from streams.mesh.settings.node import LIVENESS
from streams.metrics.endpoint import Endpoint
from streams.metrics.scheduler_metrics import SchedulerMetrics
from streams.runtime.kafka import KafkaProcess, open_bus, opened, reached
from streams.runtime.process import FLUSH, Ask, Failed, Stop, retry_until_reachable
from topology.planning import end_plan
from topology.plans import Chain, Plan, PlanRecord

LOGGER = logging.getLogger("mirrormesh.scheduler")


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
        access = scheduler_access(topics, mesh.nodes)
        bus = open_bus(broker, access, mesh_specs(file.resolved), stop, closing)
        process = KafkaProcess(bus, "scheduler", LIVENESS, LOGGER)
        expiry = Expiry({"brokers.mesh": broker})
        warn_of_end(expiry, LOGGER)
        figures = SchedulerMetrics(
            mesh.name,
            mesh.nodes,
            connected=lambda: process.connected,
            ends=expiry.first,
            generation=mesh.generation,
        )
        boot = secrets.token_bytes(16)
        scheduler = SchedulerRole(settings, topics, file.digest(), boot, figures, envelope, slots)
        if endpoint is not None:
            endpoint.show(figures.shared, figures.missing, noted=expiry.soon)
        LOGGER.info("planning run %s of mesh %s for %d nodes", mesh.run, mesh.name, len(mesh.nodes))
        start = ask(lambda: scheduler_start(topics, mesh.nodes, bus))
        scheduler.presence.hello(bus, ask)
        if not start.stored[topics.topology]:  # a run that has begun is ended in order
            refuse_ended(file, time.time())

        def current() -> int | None:
            return None if slots is None else int(slots.round_at(time.time()))

        process.run({"scheduler": scheduler.role(start, process.world, current)}, stop)
        LOGGER.info("stopped, as asked")


# Ends a run for an operator: publishes a plan without members, as a scheduler publishes plans.

PATIENCE = 60.0
"""Seconds for which schedulers' plans may be published before this one."""


class RunEnd:
    """Ends one run.

    Schedulers continue meanwhile, and the first record after the last plan is the valid one.
    """

    def __init__(self, digest: bytes, log: MeshLog, bus: Bus, envelope: Envelope = PLAIN) -> None:
        self._digest, self._log, self._bus, self._envelope = digest, log, bus, envelope
        self._topic = log.topics.topology
        stored = log.plans()
        self._next = stored[-1].record.offset + 1 if stored else bus.span(self._topic)[0]
        self._chain = Chain(whole=not stored)
        self._take(valid(stored))

    @property
    def last(self) -> Plan | None:
        """The last valid plan."""
        return self._chain.last

    def attempt(self) -> Plan | None:
        """Publish the end after the last valid plan, and read on; return the plan that ends the run, if any.

        Raises Unreachable, although the plan may have been published, and OffsetOutOfRange.
        """
        last = self._follow()
        if last is not None and not last.ended:
            end = end_plan(self._log.topics.run, last.round + 1, last, last.generation)
            for value in encode_plans(last, (end,), self._digest):
                self._bus.send(self._topic, self._envelope.sealed(value))
            if not self._bus.flush(FLUSH):
                raise Unreachable("the end of the run is not acknowledged yet")
            last = self._follow()
        return last if last is not None and last.ended else None

    def _follow(self) -> Plan | None:
        entries = self._log.plans(self._next)
        if entries:
            self._next = entries[-1].record.offset + 1
            self._take(entries)
        return self.last

    def _take(self, entries: list[Entry[PlanRecord]]) -> None:
        for record in messages(entries):
            self._chain.take(record)


def end_run(file: MeshFile, stop: Stop) -> Plan:
    """End the run of a mesh file, and return its last plan. Raises Failed, Stopped, BusError.

    The process needs a scheduler's rights.
    """
    mesh, topics, envelope = file.mesh, file.resolved.topics, scheduler_envelope(file)
    with ExitStack() as closing:
        reached(file.mesh_broker, stop)
        access = scheduler_access(topics, mesh.nodes)
        bus = retry_until_reachable(stop, lambda: opened(file.mesh_broker, access, mesh_specs(file.resolved)))
        closing.callback(bus.close)
        end = retry_until_reachable(stop, lambda: RunEnd(file.digest(), MeshLog.of(file, bus), bus, envelope))
        until = time.monotonic() + PATIENCE
        while (ended := retry_until_reachable(stop, end.attempt)) is None:
            if end.last is None:
                raise Failed(f"run {mesh.run} of mesh {mesh.name} has no plan yet: there is nothing to end")
            if time.monotonic() > until:
                raise Failed(f"other plans came between for {PATIENCE:.0f} s: stop the schedulers first")
        return ended
