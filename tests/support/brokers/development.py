"""Development brokers for tests, and the few client calls that tell whether one works."""

import logging
import os
import shutil
import socket
from functools import cached_property
from itertools import islice
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streams.tools.broker.broker import Broker, start
from streams.tools.broker.folder import CONTROLLER, SASL_TLS, TLS
from streams.tools.broker.java import Missing
from tests.support.processes.programs import leave_out, missing

_SILENT = logging.getLogger("tests.kafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_LONG = 30.0
_APART = 500 - 1_000 // 16
"""Ports between the first ones of two test processes that run at once."""
_handed_out: set[int] = set()


def started(folder: Path, port: int | None = None, *, secure: bool = False) -> Broker:
    """Start a broker, on a free port unless told. Java or Maven is missing: skip, or fail if CI is set."""
    try:
        return start(folder, port or free_port(), secure=secure)
    except Missing as error:
        maven = shutil.which("mvn") or "mvn" in str(error)
        leave_out(f"on a real Kafka: {error}" + ("" if maven else f"; {missing('mvn')}"))


def free_port() -> int:
    """Return a broker's port that is free, below the range that the system hands out to anyone."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return so many of them, and none twice: the broker that a test has killed comes back to its own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    first = _APART * int(worker.removeprefix("gw")) if worker else os.getpid() * 17
    ports = (20_000 + (first + step) % 1_000 for step in range(1_000))
    chosen = list(islice((port for port in ports if port not in _handed_out and _free(port)), count))
    assert len(chosen) == count, "no port is free"
    _handed_out.update(chosen)
    return chosen


def _free(port: int) -> bool:
    for taken in (port, port + CONTROLLER, port + SASL_TLS, port + TLS):
        with socket.socket() as looking:
            looking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if looking.connect_ex(("127.0.0.1", taken)) == 0:
                return False
    return True


class Client:
    """Talks to a broker as `user`; every call raises KafkaException where the broker refuses."""

    def __init__(self, broker: Broker, user: str | None = None, password: str = "") -> None:
        self._settings: dict[str, object] = {"bootstrap.servers": broker.address}
        if user is not None:
            login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password}
            self._settings |= {"security.protocol": "SASL_PLAINTEXT", **login}

    @cached_property
    def admin(self) -> AdminClient:
        """Its calls fail when it is gone, so it lives as long as this."""
        return AdminClient(dict(self._settings), logger=_SILENT)

    def topics(self, wait: float = _LONG) -> set[str]:
        """Return the topics that the user may see."""
        return set(self.admin.list_topics(timeout=wait).topics)

    def new_topic(self) -> str:
        """Make a topic of one partition and return its name."""
        name = f"topic-{uuid4().hex}"
        self.admin.create_topics([NewTopic(name, 1, 1)])[name].result(_LONG)
        return name

    def send(self, topic: str, value: bytes) -> None:
        """Append one record, and wait until it is in the log."""
        errors: list[object] = []
        producer = Producer(
            {**self._settings, "linger.ms": 0, "topic.metadata.propagation.max.ms": 1000}, logger=_SILENT
        )
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(_LONG) == 0
        if errors[0] is not None:
            raise KafkaException(errors[0])

    def read(self, topic: str, count: int) -> list[bytes]:
        """Return the first `count` values."""
        settings = {**self._settings, "group.id": "tests", "enable.auto.commit": False}
        consumer = Consumer({**settings, "auto.offset.reset": "error"}, logger=_SILENT)
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            messages = consumer.consume(count, _LONG)
        finally:
            consumer.close()
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return [message.value() or b"" for message in messages]
