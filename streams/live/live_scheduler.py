"""Runs a scheduler on a broker: one loop with the scheduler machine. Any number may run."""

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from streams.bus.bus import BusError
from streams.bus.diagnosis import Expiry
from streams.bus.kafka import KafkaBus
from streams.bus.reader import KafkaReader
from streams.bus.rights import scheduler as scheduler_access
from streams.bus.topic_specs import mesh_specs
from streams.codec.signatures import PLAIN, Envelope
from streams.codec.topics import MeshTopics, may_lose
from streams.live.certificates import warn_of_end
from streams.live.generation import lacking
from streams.live.scheduler_shell import SchedulerShell, SchedulerStart, SchedulerWatcher
from streams.mesh.ended_slots import refuse_ended
from streams.mesh.file import MeshFile
from streams.mesh.settings.node import LIVENESS
from streams.mesh.signing import scheduler_envelope
from streams.metrics.endpoint import Endpoint
from streams.metrics.scheduler_metrics import SchedulerMetrics
from streams.runtime.deadlines import FetchClock, InFlight
from streams.runtime.kafka import opened, reached
from streams.runtime.liveness import Liveness
from streams.runtime.process import (
    FLUSH,
    ProcessExit,
    ServiceManager,
    Stop,
    Unmendable,
    retry_until_reachable,
    unreadable,
)
from streams.runtime.turns import Loop
from topology.scheduler import SchedulerSettings, heartbeat_period
from topology.slot_clock import SlotClock


class LiveScheduler:
    """Runs the scheduler machine. `clock`: that of slots by time."""

    def __init__(
        self,
        settings: SchedulerSettings,
        topics: MeshTopics,
        digest: bytes,
        bus: KafkaBus,
        boot: bytes,
        clock: SlotClock | None,
        watcher: SchedulerWatcher,
        envelope: Envelope = PLAIN,
    ) -> None:
        self._topics, self._bus, self._boot, self._slots = topics, bus, boot, clock
        self._generation = settings.generation
        self._shell = SchedulerShell(settings, topics, digest, bus, watcher, envelope, clock)
        self._loop, self._clock, self._ticked = Loop(), FetchClock(time.monotonic, settings.silence), 0.0
        self._period = heartbeat_period(settings.silence)
        self._lag = None if settings.lag is None else settings.lag.period
        self._beats = InFlight()
        self._reader: KafkaReader | None = None

    @property
    def connected(self) -> bool:
        """Whether the mesh broker is there. From any thread."""
        return self._clock.going

    def liveness(self) -> Liveness:
        """Return what tells whether it works."""
        threads = {
            "the thread that reads the mesh broker": lambda: self._reader is None or self._reader.alive
        }
        return Liveness(LIVENESS, {"the scheduler's loop": self._loop.pulse}, threads, LOGGER)

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Do `action` every `seconds` in the loop. Call it before `run`."""
        self._loop.every(seconds, action)

    def stop(self) -> None:
        """End `run`. From any thread."""
        self._loop.stop()

    def logs(self) -> SchedulerStart:
        """Return the logs' records, and where to continue. Raises Unreachable, BusError."""
        start, beats = self._shell.logs(), self._topics.scheduler
        return start._replace(offsets=start.offsets | {beats: self._bus.end(beats)})

    def run(self, start: SchedulerStart) -> None:
        """Plan until `stop`. Raises ProcessExit when the run is over, Failed, Unmendable, BusError."""
        lossy = may_lose(start.offsets, self._topics)
        self._reader = reader = self._bus.subscribe(
            start.offsets, self._read, self._reading_failed, lossy=lossy
        )
        try:
            self._loop.every(self._period, self._beat)
            if self._lag is not None:
                self._loop.every(self._lag, self._tick)
            self._shell.start(start, self._current())
            self._leave_when_over()
            self._loop.run()
        finally:
            self._loop.stop()  # the reader may wait for it to begin
            self._reader = None
            reader.close()
            self._loop.pulse.rest()

    def _read(self, topic: str, _: int, value: bytes, appended: float) -> None:
        """Handle a record, in the reader's thread."""
        if topic != self._topics.scheduler:
            self._loop.do(partial(self._mesh_read, topic, value, appended))
        elif value == self._boot:
            self._clock.beat()
            self._loop.do(partial(self._confirm, appended))

    def _reading_failed(self, topic: str, error: BusError) -> None:
        self._loop.fail(unreadable(topic, error))

    def _beat(self) -> None:
        if self._beats.none:  # otherwise the broker is away, and would get them all at once
            self._beats.sent()
            self._bus.send(self._topics.scheduler, self._boot, self._beats.acknowledged)

    def _confirm(self, appended: float) -> None:
        self._shell.confirm(appended)
        self._tick()

    def _tick(self) -> None:
        now = self._clock.now()
        seconds, self._ticked = now - self._ticked, now
        self._shell.tick(seconds, self._current())

    def _current(self) -> int | None:
        return None if self._slots is None else int(self._slots.round_at(time.time()))

    def _mesh_read(self, topic: str, value: bytes, appended: float) -> None:
        self._shell.read(topic, value, appended)
        self._leave_when_over()

    def _leave_when_over(self) -> None:
        if self._shell.over:
            raise ProcessExit("the run is over")
        newer = self._shell.superseded
        if newer is not None:
            raise Unmendable(f"{lacking(newer, self._generation)}: a scheduler needs that file")


LOGGER = logging.getLogger("mirrormesh.scheduler")


def run_scheduler(file: MeshFile, stop: Stop, metrics: tuple[str, int] | None = None) -> None:
    """Plan until asked to stop. Raises ProcessExit when the run is over, Failed, Stopped, BusError.

    Raises Unmendable if plans are made by a newer mesh file, MeshFileError if all slots have ended before the
    first plan.
    """
    mesh, broker, topics = file.mesh, file.mesh_broker, file.resolved.topics
    settings = file.resolved.scheduler(silence=mesh.silence, rounds=mesh.rounds)
    settings = replace(settings, lag=file.resolved.lag)
    envelope = scheduler_envelope(file)
    with ExitStack() as closing:
        endpoint = None if metrics is None else closing.enter_context(Endpoint(*metrics))
        reached(broker, stop)
        access = scheduler_access(topics, mesh.nodes)
        bus = retry_until_reachable(stop, lambda: opened(broker, access, mesh_specs(file.resolved)))
        closing.callback(bus.close)
        closing.callback(bus.flush, FLUSH)
        expiry = Expiry({"brokers.mesh": broker})
        warn_of_end(expiry, LOGGER)
        figures = SchedulerMetrics(
            mesh.name,
            mesh.nodes,
            connected=lambda: live.connected,
            ends=expiry.first,
            generation=mesh.generation,
        )
        boot = secrets.token_bytes(16)
        live = LiveScheduler(
            settings, topics, file.digest(), bus, boot, file.resolved.clock, figures, envelope
        )
        if endpoint is not None:
            endpoint.show(figures.shared, figures.missing, noted=expiry.soon)
        LOGGER.info("planning run %s of mesh %s for %d nodes", mesh.run, mesh.name, len(mesh.nodes))
        stop.then(live.stop)
        manager = closing.enter_context(ServiceManager())
        manager.attend(live.every, live.liveness().stalled, stop)
        start = retry_until_reachable(stop, live.logs)
        if not start.stored[topics.topology]:  # a run that has begun is ended in order
            refuse_ended(file, time.time())
        live.run(start)
        LOGGER.info("stopped, as asked")
