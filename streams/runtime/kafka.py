"""Runs roles on a broker: opens and checks a process's clients, runs its loop, and ends it in order.

Schedulers and a collaboration's parties use this module. Nodes have `NodeProcess`, as Faust reads their data.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from threading import Thread

from streams.bus.kafka import KafkaBus
from streams.bus.logs import wait_for
from streams.bus.preflight import preflight
from streams.bus.rights import Access
from streams.bus.topic_specs import TopicSpec
from streams.log_events import LogEvent
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.actions import Action, Ended, Loop, ProcessWorld
from streams.runtime.process import (
    BEGINS_AGAIN,
    FLUSH,
    Failed,
    Liveness,
    ProcessExit,
    ProcessStopped,
    ServiceManager,
    Stop,
    retry_until_reachable,
)
from streams.runtime.runner import Host, Role, Runner, is_orderly


def reached(broker: BrokerSettings, stop: Stop) -> str:
    """Wait until the broker answers, and return its cluster's id. Raises ProcessStopped, Denied."""
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
    """Do long work in a thread of its own. The thread does not keep the process alive."""
    Thread(target=action, name="long-work", daemon=True).start()


class KafkaProcess:
    """Roles on one bus, with one loop; each ends independently of the others.

    `whose`: a role in words, such as "owner". `limit`: the longest seconds between two turns of the loop.
    `commits` does the appends of several roles in other threads, so that no role waits for another's append.
    """

    def __init__(
        self,
        bus: KafkaBus,
        whose: str,
        limit: float,
        log: logging.Logger,
        commits: Callable[[Action], object] | None = None,
    ) -> None:
        self._bus, self._loop, self._whose, self._log = bus, Loop(), whose, log
        self._host: Host | None = None
        self.world = ProcessWorld(bus, self._loop, time.monotonic, in_a_thread, commits)
        self._runners: dict[str, Runner] = {}
        self._errors: dict[str, Ended] = {}
        pulses = {f"the {whose}'s loop": self._loop.pulse}
        self.alive = Liveness(limit, pulses, {"the thread that reads the mesh broker": self._is_reading}, log)

    @property
    def connected(self) -> bool:
        """Whether the mesh broker answers, as far as is known. From any thread."""
        return any(runner.clock.going for runner in self._runners.values())

    def run(self, roles: Mapping[str, Role], stop: Stop) -> None:
        """Run the roles, by name, until all have ended or `stop` is asked.

        Before an orderly end all sent messages are acknowledged. Raises ProcessExit if all roles are done;
        Failed, JournalError or BusError if roles have failed, and then the first failure. An error of
        `BEGINS_AGAIN` is raised at once.
        """
        self._runners = {
            name: Runner(role, self.world, partial(self._end, name)) for name, role in roles.items()
        }
        self._host = host = Host(self._runners.values(), self._bus)
        stop.then(self._loop.stop)
        with ServiceManager() as manager:
            manager.attend(self._loop.every, self.alive.stalled, stop)
            names = {runner: name for name, runner in self._runners.items()}

            def is_well(runner: Runner) -> bool:
                error = self._errors.get(names[runner])
                return error is None or is_orderly(error)

            host.run(self._loop, is_well)
            error = self._outcome()
            if error is None:
                return
            # a peer may still need the last message, and no later process would send it
            while is_orderly(error) and not stop.asked.is_set() and not self._bus.flush(FLUSH):
                manager.works(None)
            raise error

    def _end(self, name: str, error: Ended) -> None:
        self._errors[name] = error
        begins_again = isinstance(error, BEGINS_AGAIN)
        if len(self._runners) > 1 and not begins_again:
            level = logging.INFO if is_orderly(error) else logging.ERROR
            extra = LogEvent.ENDED.of(node=name)
            self._log.log(level, "%s %s has ended: %s", self._whose, name, str(error), extra=extra)
        if begins_again or len(self._errors) == len(self._runners):
            self._loop.stop()

    def _outcome(self) -> Ended | None:
        """Return the exception that ends the process; None if the process was asked to stop."""
        cut = next((error for error in self._errors.values() if isinstance(error, BEGINS_AGAIN)), None)
        if cut is not None or len(self._errors) < len(self._runners):
            return cut
        failed = {name: error for name, error in self._errors.items() if not is_orderly(error)}
        if len(self._runners) == 1:
            return next(iter(self._errors.values()))
        if not failed:
            return ProcessExit(f"all {len(self._runners)} {self._whose}s have ended")
        name, first = next(iter(failed.items()))
        suffix = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return Failed(f"{self._whose} {name} has failed{suffix}: {first}")

    def _is_reading(self) -> bool:
        host = self._host
        return host is None or host.is_reading
