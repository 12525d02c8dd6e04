"""The start and end that all processes on a broker share."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from streams.bus.access import Access
from streams.bus.bus import BusError, ClientFailed, Denied, OffsetOutOfRange, Unreachable
from streams.bus.connection import LOGGER
from streams.bus.kafka import KafkaBus
from streams.bus.logs import wait_for
from streams.bus.preflight import preflight
from streams.bus.topic_specs import TopicSpec
from streams.live.stopping import Failed, LogCut, Stop
from streams.mesh.settings.brokers import BrokerSettings

T = TypeVar("T")

AGAIN = 0.2
"""Seconds between requests to a broker that is away."""


class Stopped(BaseException):  # like KeyboardInterrupt, so that `except Exception` does not catch it
    """The process was asked to stop before it had begun."""


def reached(broker: BrokerSettings, stop: Stop) -> str:
    """Wait until the broker answers; return its cluster's id. Raises Stopped, Denied."""
    cluster = wait_for(broker, stop.asked)
    if cluster is None:
        raise Stopped
    return cluster


def retry_until_reachable(stop: Stop, ask: Callable[[], T]) -> T:
    """Return the result of `ask`, repeated while its broker is away. Raises Stopped, and as `ask` does."""
    while not stop.asked.is_set():
        try:
            return ask()
        except (Unreachable, OffsetOutOfRange) as away:  # out of range: a log was cut meanwhile
            LOGGER.warning("waiting for the broker: %s", str(away))  # a kind is a text
            stop.asked.wait(AGAIN)
    raise Stopped


def unreadable(topic: str, error: BusError) -> Failed | ClientFailed:
    """Return the failure of a process whose reader cannot read a topic any more."""
    if isinstance(error, ClientFailed):  # it is the producer, which the reader's thread serves
        return error
    if isinstance(error, Denied):  # it names the topic and what gives the right
        return Failed(str(error))
    kind = LogCut if isinstance(error, OffsetOutOfRange) else Failed
    return kind(f"{topic} cannot be read any more: {error}")


def opened(broker: BrokerSettings, access: Access, specs: Sequence[TopicSpec]) -> KafkaBus:
    """Return a process's bus, after its preflight. Raises PreflightFailed, BusError."""
    preflight(broker, access, {}, specs=specs)
    largest = {spec.name: spec.largest for spec in specs}
    return KafkaBus(broker, {topic: largest[topic] for topic in access.topics})
