"""Runs roles on a broker: the clients of a process, opened and checked."""

from collections.abc import Sequence

from streams.bus.kafka import KafkaBus
from streams.bus.logs import wait_for
from streams.bus.preflight import preflight
from streams.bus.rights import Access
from streams.bus.topic_specs import TopicSpec
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import Stop, Stopped


def reached(broker: BrokerSettings, stop: Stop) -> str:
    """Wait until the broker answers; return its cluster's id. Raises Stopped, Denied."""
    cluster = wait_for(broker, stop.asked)
    if cluster is None:
        raise Stopped
    return cluster


def opened(broker: BrokerSettings, access: Access, specs: Sequence[TopicSpec]) -> KafkaBus:
    """Return a process's bus, after its preflight. Raises PreflightFailed, BusError."""
    preflight(broker, access, {}, specs=specs)
    largest = {spec.name: spec.largest for spec in specs}
    return KafkaBus(broker, {topic: largest[topic] for topic in access.topics})
