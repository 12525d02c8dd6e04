"""What the processes of a collaboration's learner and owners share: options, opening, the orderly end."""

import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from nodes.protocol import Identity
from streams.bus.diagnosis import Expiry
from streams.bus.kafka import KafkaBus
from streams.bus.rights import Access
from streams.bus.topic_specs import TopicSpec
from streams.live.certificates import warn_of_end
from streams.live.live_party import LiveParty
from streams.mesh.collaboration_file import CollaborationFile
from streams.mesh.settings.base import Address
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.kafka import opened, reached
from streams.runtime.liveness import Liveness
from streams.runtime.presence import Presence
from streams.runtime.process import FLUSH, Ask, ProcessExit, ServiceManager, Stop, retry_until_reachable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartyOptions:
    """The operator's options: the folder of the journal, and where to serve metrics.

    `other_data`: whether a new run of an owner reads other data than all earlier runs in `state`.
    """

    state: Path
    metrics: Address | None = None
    private_metrics: Address | None = None
    other_data: bool = False


def new_id() -> str:
    """Return a random id, of a journal's life or a process."""
    return secrets.token_hex(16)


def asker(stop: Stop) -> Ask:
    """Return what repeats a request while its broker is away. It raises Stopped."""

    def ask(question: Callable[[], T]) -> T:
        return retry_until_reachable(stop, question)

    return ask


def open_bus(
    broker: BrokerSettings, access: Access, specs: Iterable[TopicSpec], stop: Stop, closing: ExitStack
) -> KafkaBus:
    """Open the shared topics of a process, after the preflight. Raises PreflightFailed, BusError, Stopped."""
    reached(broker, stop)
    made = tuple(specs)
    bus = retry_until_reachable(stop, lambda: opened(broker, access, made))
    closing.callback(bus.close)
    closing.callback(bus.flush, FLUSH)
    return bus


def presence_of(file: CollaborationFile, name: str, instance: str) -> Presence:
    """Return the presence of a new process."""
    return Presence(Identity(name, file.mesh.run, instance, new_id()), file.digest())


def certificates(broker: BrokerSettings, log: logging.Logger) -> Expiry:
    """Return when the certificates for the shared broker end; log a warning if that is soon."""
    expiry = Expiry({"brokers.mesh": broker})
    warn_of_end(expiry, log)
    return expiry


def liveness(party: LiveParty, limit: float, whose: str, log: logging.Logger) -> Liveness:
    """Return what tells whether a process works."""
    pulses = {f"the {whose}'s loop": party.pulse}
    return Liveness(limit, pulses, {"the thread that reads the mesh broker": lambda: party.reading}, log)


def attended(party: LiveParty, alive: Liveness, bus: KafkaBus, stop: Stop, run: Callable[[], None]) -> None:
    """Do `run` until it ends or is asked to stop; what it has sent is acknowledged before it exits with 0."""
    stop.then(party.loop.stop)
    with ServiceManager() as manager:
        manager.attend(party.loop.every, alive.stalled, stop)
        try:
            run()
        except ProcessExit as ended:
            while not ended.exit_code and not stop.asked.is_set() and not bus.flush(FLUSH):
                manager.works(None)
            raise
