"""A scheduler's process: from the shared part of its mesh file to its end."""

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack

from nodes.time_slots import TimeSlots
from streams.kafka.access import scheduler as scheduler_access
from streams.kafka.topic_specs import mesh_specs
from streams.live.process import FLUSH, opened, patiently, reached
from streams.live.scheduler import LiveScheduler
from streams.live.stopping import Stop
from streams.mesh_file import build
from streams.mesh_file.file import MeshFile
from streams.metrics.endpoint import Endpoint
from streams.metrics.scheduler import SchedulerMetrics
from streams.topics import MeshTopics

LOGGER = logging.getLogger("mirrormesh.scheduler")


def run_scheduler(file: MeshFile, stop: Stop, metrics: tuple[str, int] | None = None) -> None:
    """Plan until asked to stop. Raises Ended when the run is over, Failed, Stopped, BusError, NotServed."""
    mesh, broker = file.mesh, file.mesh_broker
    topics = MeshTopics(mesh.name, mesh.run)
    settings = build.scheduler(mesh, mesh.seed, silence=mesh.silence, rounds=mesh.rounds)
    with ExitStack() as closing:
        endpoint = None if metrics is None else closing.enter_context(Endpoint(*metrics))
        reached(broker, stop)
        access = scheduler_access(topics, mesh.nodes)
        bus = patiently(stop, lambda: opened(broker, access, mesh_specs(mesh)))
        closing.callback(bus.close)
        closing.callback(bus.flush, FLUSH)
        figures = SchedulerMetrics(mesh.name, connected=lambda: live.connected)
        boot = secrets.token_bytes(16)
        live = LiveScheduler(settings, topics, file.digest(), bus, boot, _clock(file), figures)
        if endpoint is not None:
            endpoint.show(figures.shared, figures.missing)
        LOGGER.info("planning run %s of mesh %s for %d nodes", mesh.run, mesh.name, len(mesh.nodes))
        stop.then(live.stop)
        live.run(patiently(stop, live.logs))
        LOGGER.info("stopped, as asked")


def _clock(file: MeshFile) -> Callable[[], int | None]:
    """Return what gives the round that the clock is in, where slots go by time."""
    slots = build.slots(file.mesh)
    if not isinstance(slots, TimeSlots):
        return lambda: None
    return lambda: slots.round_of(time.time())
