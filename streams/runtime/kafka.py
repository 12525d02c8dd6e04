"""Runs roles on a broker: a process's clients, opened and checked, its loop, and its orderly end."""

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from threading import Thread

from streams.bus.kafka import KafkaBus
from streams.bus.logs import wait_for
from streams.bus.preflight import preflight
from streams.bus.rights import Access
from streams.bus.topic_specs import TopicSpec
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.liveness import Liveness
from streams.runtime.process import FLUSH, ProcessStopped, ServiceManager, Stop, retry_until_reachable
from streams.runtime.runner import Host, Role, Runner, is_orderly
from streams.runtime.turns import Action, Ended, Loop
from streams.runtime.worlds import ProcessWorld


def reached(broker: BrokerSettings, stop: Stop) -> str:
    """Wait until the broker answers; return its cluster's id. Raises ProcessStopped, Denied."""
    cluster = wait_for(broker, stop.asked)
    if cluster is None:
        raise ProcessStopped
    return cluster


def opened(broker: BrokerSettings, access: Access, specs: Sequence[TopicSpec]) -> KafkaBus:
    """Return a process's bus, after its preflight. Raises PreflightFailed, BusError."""
    preflight(broker, access, {}, specs=specs)
    largest = {spec.name: spec.largest for spec in specs}
    return KafkaBus(broker, {topic: largest[topic] for topic in access.topics})


def open_bus(
    broker: BrokerSettings, access: Access, specs: Iterable[TopicSpec], stop: Stop, closing: ExitStack
) -> KafkaBus:
    """Open the shared topics of a process, after the preflight.

    Raises PreflightFailed, BusError, ProcessStopped.
    """
    reached(broker, stop)
    topics = tuple(specs)
    bus = retry_until_reachable(stop, lambda: opened(broker, access, topics))
    closing.callback(bus.close)
    closing.callback(bus.flush, FLUSH)
    return bus


def in_a_thread(action: Action) -> None:
    """Do long work in a thread of its own, which does not keep the process alive."""
    Thread(target=action, name="long-work", daemon=True).start()


class KafkaProcess:
    """One role on one bus, with a loop of its own.

    `whose`: the role in words, as "owner". `limit`: the seconds in which the loop must turn.
    """

    def __init__(self, bus: KafkaBus, whose: str, limit: float, log: logging.Logger) -> None:
        self._bus, self._loop = bus, Loop()
        self._host: Host | None = None
        self.world = ProcessWorld(bus, self._loop, time.monotonic, in_a_thread)
        self._runner: Runner | None = None
        self._error: Ended | None = None
        pulses = {f"the {whose}'s loop": self._loop.pulse}
        self.alive = Liveness(limit, pulses, {"the thread that reads the mesh broker": self._is_reading}, log)

    @property
    def connected(self) -> bool:
        """Whether the mesh broker is there, as far as known. From any thread."""
        return self._runner is not None and self._runner.clock.going

    def run(self, role: Role, stop: Stop) -> None:
        """Run the role until it ends or `stop` is asked; what it has sent is acknowledged before it ends
        well.

        Raises ProcessExit when it is done, Failed, JournalError, BusError.
        """
        self._runner = runner = Runner(role, self.world, self._end)
        self._host = host = Host([runner], self._bus)
        stop.then(self._loop.stop)
        with ServiceManager() as manager:
            manager.attend(self._loop.every, self.alive.stalled, stop)
            host.run(self._loop, lambda _: self._error)
            error = self._error
            if error is None:
                return
            # a peer may still need the last message, and no later process would send it
            while is_orderly(error) and not stop.asked.is_set() and not self._bus.flush(FLUSH):
                manager.works(None)
            raise error

    def _end(self, error: Ended) -> None:
        self._error = error
        self._loop.stop()

    def _is_reading(self) -> bool:
        host = self._host
        return host is None or host.is_reading
