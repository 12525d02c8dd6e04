"""The settings of all Kafka clients, each measured on a broker; those without a reason are defaults."""

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError
from pydantic import SecretStr

from streams.log_events import LogEvent
from streams.mesh.settings.brokers import BrokerSettings

PATIENCE = 3.0
"""Seconds that a request to the broker may take. It is below the five in which a process must end."""


def _common(broker: BrokerSettings) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.servers,
        "client.id": "mirrormesh",
        "topic.metadata.propagation.max.ms": 1000,  # a missing topic is reported after this, not 30 s
        "topic.metadata.refresh.interval.ms": 10_000,  # a deleted topic is reported after this, not 5 min
        "reconnect.backoff.ms": 500,
        "reconnect.backoff.max.ms": 1000,
        "log_level": 4,  # warnings and worse, to our logger
    }
    return settings | _security(broker)


def _security(broker: BrokerSettings) -> dict[str, Any]:
    settings: dict[str, Any] = {"security.protocol": broker.protocol}
    if broker.users:
        settings |= {
            "sasl.mechanism": broker.mechanism.upper(),
            "sasl.username": broker.username,
            "sasl.password": shown(broker.password),
        }
    if broker.tls:
        settings |= {"ssl.ca.location": broker.trusted}  # else each client has a list of its own
        if not broker.verify_host_name:
            settings["ssl.endpoint.identification.algorithm"] = "none"
        if broker.certificate is not None:
            settings |= {"ssl.certificate.location": broker.certificate, "ssl.key.location": broker.key}
        if broker.key_password is not None:
            settings["ssl.key.password"] = shown(broker.key_password)
    return settings


def client_settings(broker: BrokerSettings) -> dict[str, Any]:
    """Return the settings of a client that only makes requests."""
    return _common(broker)


def producer_settings(
    broker: BrokerSettings, largest: int, linger: int = 0, *, batches: bool = False
) -> dict[str, Any]:
    """Return the settings of a producer of records of up to `largest` bytes, each sent at once.

    With `batches` all records that are queued by then go in one request. With `linger` a record also waits up
    to that many milliseconds for further ones.
    """
    settings = _common(broker) | {
        "enable.idempotence": True,  # otherwise a broker's restart duplicates records, or fails them
        "acks": "all",
        "linger.ms": 0,  # 0.55 ms a round trip against 11.3 with the default of 5
        "batch.num.messages": 1,  # a refused record fails its whole batch
        "message.timeout.ms": 0,  # no timeout: a release is sent until it is acknowledged
        "message.max.bytes": max(1_000_000, largest + 1024),
        "queue.buffering.max.kbytes": 65_536,  # the default is 1 GiB, too much while a broker is away
    }
    if linger or batches:
        settings |= {"linger.ms": linger, "batch.num.messages": 10_000}
    return settings


FETCHED = 4 * 2**20
"""The smallest limit on the records of one answer, in bytes. Many of most meshes' largest records fit."""
ANSWERED = 4
"""An answer may be this many times that limit, as it may cover every topic of a broker."""
_MOST_FETCHED = 2**29 - 1  # the client's own limit on an answer is 2 GiB


def consumer_settings(
    broker: BrokerSettings, largest: int | None = None, *, committed: bool = False
) -> dict[str, Any]:
    """Return the settings of a consumer that is given all its positions and commits none.

    `largest`: the bytes of the largest value to read; None: the client's default limit. `committed`: whether
    to read committed records alone: the log then ends at an open transaction, and records of aborted
    transactions are skipped.
    """
    settings: dict[str, Any] = {}
    if largest is not None:  # the client also limits the size of inflated zstd batches by this
        fetched = min(max(FETCHED, 2 * largest), _MOST_FETCHED)
        settings = {"fetch.max.bytes": fetched, "receive.message.max.bytes": ANSWERED * fetched}
    return (
        settings
        | _common(broker)
        | {
            "group.id": "mirrormesh",  # required but unused: it joins no group and commits nothing
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",  # otherwise a position outside the log silently loses records
            "enable.partition.eof": True,  # reports the end of a log whose last offsets hold no record
            # a peer's open transaction must not block the readers of the mesh's own topics
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 100,  # the delay of that report
            "queued.max.messages.kbytes": 16_384,
            "fetch.queue.backoff.ms": 50,  # after a full queue; 1 s by default, and 16 MiB are read sooner
        }
    )


def admin_settings(broker: BrokerSettings) -> dict[str, Any]:
    """Return the settings of kafka-python's admin client."""
    settings: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in broker.servers.split(",")],
        "client_id": "mirrormesh",
        "bootstrap_timeout_ms": 5000,
        "request_timeout_ms": 30_000,
        "security_protocol": broker.protocol,
        "ssl_context": tls_context(broker),
    }
    if broker.users:
        settings |= {
            "sasl_mechanism": broker.mechanism.upper(),
            "sasl_plain_username": broker.username,
            "sasl_plain_password": shown(broker.password),
        }
    return settings


def tls_context(broker: BrokerSettings) -> ssl.SSLContext | None:
    """Return the TLS context of the clients in Python; None if the broker's settings ask for no TLS.

    It verifies what librdkafka verifies. `ssl.create_default_context` refuses more certificates, depending on
    Python's version.
    """
    if not broker.tls or broker.trusted is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = broker.verify_host_name
    folder = Path(broker.trusted).is_dir()
    context.load_verify_locations(**{"capath" if folder else "cafile": broker.trusted})
    if broker.certificate is not None:
        context.load_cert_chain(broker.certificate, broker.key, shown(broker.key_password))
    return context


def shown(secret: SecretStr | None) -> str | None:
    """Return a secret's text. Pass it only to a client."""
    return None if secret is None else secret.get_secret_value()


PERIOD = 60.0
"""Seconds between two log lines of one kind and client."""


class RateLimited(logging.Filter):
    """Lets one log record of a kind through in `period` seconds, with the number of records dropped since.

    The kind is the unformatted message with its first two arguments. In a line of librdkafka these are the
    event and the client; in our own lines the caller chooses them.
    """

    def __init__(self, period: float = PERIOD, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._period, self._clock = period, clock
        self._last: dict[tuple[object, ...], float] = {}
        self._kept_back: dict[tuple[object, ...], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record goes through; add the number of dropped ones to it."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        kind = (record.msg, *arguments[:2])
        now = self._clock()
        if now - self._last.get(kind, -self._period) < self._period:
            self._kept_back[kind] = self._kept_back.get(kind, 0) + 1
            return False
        self._last[kind] = now
        drops = self._kept_back.pop(kind, 0)
        if drops:
            record.msg, record.args = f"{record.getMessage()} (and {drops} times since the last line)", ()
        return True


LOGGER = logging.getLogger("mirrormesh.kafka")
"""The logger of all Kafka clients."""
LOGGER.addFilter(RateLimited())
_AWAY = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT}  # noqa: SLF001 # their names


def log_error(error: KafkaError, subject: str) -> None:
    """Log an error of a client; `subject`: a topic, or the broker's address."""
    event = LogEvent.BROKER_AWAY if error.code() in _AWAY else LogEvent.CLIENT
    LOGGER.warning("%s [%s] %s", error.name(), subject, error.str(), extra=event.of())
