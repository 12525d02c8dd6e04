"""A scheduler on a broker: one loop that runs the scheduler machine. Any number may run."""

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from nodes.machine.time_slots import TimeSlots
from streams.bus.access import scheduler as scheduler_access
from streams.bus.bus import BusError
from streams.bus.kafka import KafkaBus
from streams.bus.topic_specs import mesh_specs
from streams.codec.topics import MeshTopics
from streams.live.deadlines import FetchClock
from streams.live.in_flight import InFlight
from streams.live.loop import Loop
from streams.live.process import FLUSH, opened, reached, retry_until_reachable
from streams.live.scheduler_shell import SchedulerShell, SchedulerWatcher
from streams.live.stopping import Failed, ProcessExit, Stop
from streams.mesh.file import MeshFile
from streams.metrics.endpoint import Endpoint
from streams.metrics.scheduler_metrics import SchedulerMetrics
from topology.scheduler import SchedulerSettings, heartbeat_period


class SchedulerStart(NamedTuple):
    """What the logs of topology and progress hold, and the offsets to read on from, by topic."""

    values: dict[str, list[bytes]]
    offsets: dict[str, int]


class LiveScheduler:
    """Runs the scheduler machine. `current` gives the round that the clock is in (None: slots by count)."""

    def __init__(
        self,
        settings: SchedulerSettings,
        topics: MeshTopics,
        digest: bytes,
        bus: KafkaBus,
        boot: bytes,
        current: Callable[[], int | None],
        watcher: SchedulerWatcher,
    ) -> None:
        self._topics, self._bus, self._boot, self._current = topics, bus, boot, current
        self._shell = SchedulerShell(settings, topics, digest, bus.send, watcher)
        self._loop, self._clock, self._ticked = Loop(), FetchClock(time.monotonic, settings.silence), 0.0
        self._period = heartbeat_period(settings.silence)
        self._beats = InFlight()
        self._progress = {topics.progress(node): node for node in settings.schedule.graph.nodes}

    @property
    def connected(self) -> bool:
        """Whether the mesh broker is there. From any thread."""
        return self._clock.going

    def stop(self) -> None:
        """End `run`. From any thread."""
        self._loop.stop()

    def logs(self) -> SchedulerStart:
        """Return what topology and progress hold, and where to read on. Raises Unreachable, BusError."""
        beats = self._topics.scheduler
        first = {topic: self._bus.span(topic)[0] for topic in (self._topics.topology, *self._progress)}
        stored = self._bus.stored(first)
        offsets = {topic: found[-1].offset + 1 if found else first[topic] for topic, found in stored.items()}
        values = {topic: [record.value for record in found] for topic, found in stored.items()}
        return SchedulerStart(values, offsets | {beats: self._bus.end(beats)})

    def run(self, start: SchedulerStart) -> None:
        """Plan until `stop`. Raises ProcessExit when the run is over, Failed, BusError."""
        heartbeats = {node: start.values[topic] for topic, node in self._progress.items()}
        reader = self._bus.subscribe(start.offsets, self._read, self._reading_failed)
        try:
            self._loop.every(self._period, self._beat)
            self._shell.start(start.values[self._topics.topology], heartbeats)
            self._leave_when_over()
            self._loop.run()
        finally:
            self._loop.stop()  # the reader may wait for it to begin
            reader.close()

    def _read(self, topic: str, _: int, value: bytes) -> None:
        """Do what was read; in the reader's thread."""
        node = self._progress.get(topic)
        if node is not None:
            self._loop.do(partial(self._shell.heartbeat_read, node, value))
        elif topic == self._topics.topology:
            self._loop.do(partial(self._plan_read, value))
        elif value == self._boot:
            self._clock.beat()
            self._loop.do(self._tick)

    def _reading_failed(self, topic: str, error: BusError) -> None:
        self._loop.fail(Failed(f"{topic} cannot be read any more: {error}"))

    def _beat(self) -> None:
        if self._beats.none:  # else the broker is away, and would get them all at once
            self._beats.sent()
            self._bus.send(self._topics.scheduler, self._boot, self._beats.acknowledged)

    def _tick(self) -> None:
        now = self._clock.now()
        seconds, self._ticked = now - self._ticked, now
        self._shell.tick(seconds, self._current())

    def _plan_read(self, value: bytes) -> None:
        self._shell.plan_read(value)
        self._leave_when_over()

    def _leave_when_over(self) -> None:
        if self._shell.over:
            raise ProcessExit("the run is over")


LOGGER = logging.getLogger("mirrormesh.scheduler")


def run_scheduler(file: MeshFile, stop: Stop, metrics: tuple[str, int] | None = None) -> None:
    """Plan until asked to stop. Raises ProcessExit when the run is over, Failed, Stopped, BusError."""
    mesh, broker, topics = file.mesh, file.mesh_broker, file.resolved.topics
    settings = file.resolved.scheduler(silence=mesh.silence, rounds=mesh.rounds)
    with ExitStack() as closing:
        endpoint = None if metrics is None else closing.enter_context(Endpoint(*metrics))
        reached(broker, stop)
        access = scheduler_access(topics, mesh.nodes)
        bus = retry_until_reachable(stop, lambda: opened(broker, access, mesh_specs(file.resolved)))
        closing.callback(bus.close)
        closing.callback(bus.flush, FLUSH)
        figures = SchedulerMetrics(mesh.name, connected=lambda: live.connected)
        boot = secrets.token_bytes(16)
        live = LiveScheduler(settings, topics, file.digest(), bus, boot, _clock(file), figures)
        if endpoint is not None:
            endpoint.show(figures.shared, figures.missing)
        LOGGER.info("planning run %s of mesh %s for %d nodes", mesh.run, mesh.name, len(mesh.nodes))
        stop.then(live.stop)
        live.run(retry_until_reachable(stop, live.logs))
        LOGGER.info("stopped, as asked")


def _clock(file: MeshFile) -> Callable[[], int | None]:
    """Return what gives the round that the clock is in, where slots go by time."""
    slots = file.resolved.slots()
    if not isinstance(slots, TimeSlots):
        return lambda: None
    return lambda: slots.round_of(time.time())
