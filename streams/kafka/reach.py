"""Whether a broker answers, with these credentials."""

from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException

from streams.kafka.connection import PATIENCE, consumer_settings
from streams.kafka.errors import Denied, Unreachable, bus_error
from streams.kafka.logs import Logs
from streams.kafka.quiet import LOGGER
from streams.mesh_file.settings.node import BrokerSettings


def reach(broker: BrokerSettings) -> str:
    """Return the id of the broker's cluster: equal for two addresses of one.

    Raises Denied for a wrong password, Unreachable where no answer comes within `PATIENCE` seconds.
    """
    told: list[KafkaError] = []
    consumer = Consumer(consumer_settings(broker) | {"error_cb": told.append, "log_level": 0})
    try:
        return str(consumer.list_topics(timeout=PATIENCE).cluster_id)
    except KafkaException:
        consumer.poll(0)  # a refused password is told there alone
        for failure in [bus_error(error, broker.servers) for error in told]:
            if isinstance(failure, Denied):
                raise failure from None
        raise Unreachable(f"{broker.servers}: the broker does not answer") from None
    finally:
        consumer.close()


def reached(broker: BrokerSettings) -> Logs:
    """Return the logs of a broker that answers. Raises Denied, Unreachable, as `reach`."""
    reach(broker)
    return Logs(broker)


class Stopped(Protocol):
    """Whether the process was asked to stop (`threading.Event` is one)."""

    def is_set(self) -> bool:
        """Whether it was."""

    def wait(self, timeout: float) -> bool:
        """Wait up to that many seconds for it, and return whether it was."""


def wait_for(broker: BrokerSettings, stopped: Stopped) -> str | None:
    """Wait until the broker answers, however long, and say so once a minute. Raises Denied.

    Returns the id of its cluster, or None where `stopped` was set before.
    """
    while not stopped.is_set():
        try:
            return reach(broker)
        except Unreachable:
            LOGGER.warning("waiting for the broker %s: it does not answer", broker.servers)
            stopped.wait(0.1)
    return None
