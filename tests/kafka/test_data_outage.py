"""The party's own stream when its broker dies, when it has a backlog, and with a password."""

import os
import signal
import uuid

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, KafkaError
from confluent_kafka.admin import AclOperation, ResourceType
from pydantic import SecretStr

from nodes.machine.slots import CountSlots
from streams.bus.errors import denied
from streams.mesh.settings.brokers import BrokerSettings
from streams.tools.broker.broker import start
from tests.support.brokers.data_streams import DataTopic, live_stream, numbers
from tests.support.brokers.topics import until
from tests.support.brokers.users import add_user, allow, rule
from tests.support.processes.resident import resident

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CLIENT = 30.0
"""Seconds of its clients' own time-outs, for which it must not wait; it takes one on an idle machine."""


def test_a_killed_broker_delays_records_and_loses_and_doubles_none(new_broker, tmp_path):
    broker = new_broker()
    topic = DataTopic(broker.address)
    topic.count_up(100)
    with live_stream(topic, tmp_path) as live:
        found, position = live.take(50)
        until(lambda: live.lag is not None)
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: live.lag is None)
        live.open(51, position)
        start(broker.folder, broker.port)
        topic.count_up(200, first=100)
        found += numbers(live.closed())
        more, position = live.take(149, ((0, 51),), first=52)
        assert (found + more, position) == ([float(k) for k in range(200)], ((0, 200),))
    assert live.failed is None


def test_a_slot_at_the_topics_end_waits_until_the_broker_says_where_that_is(new_broker, tmp_path):
    broker = new_broker()
    topic = DataTopic(broker.address)
    topic.count_up(3)
    with live_stream(topic, tmp_path) as live:
        until(lambda: live.lag is not None)
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: live.lag is None)
        live.open(1, None)
        start(broker.folder, broker.port)
        until(lambda: not live.stream._collector.unplaced)
        topic.count_up(4, first=3)
        assert numbers(live.closed()) == [3.0]


@pytest.mark.parametrize(
    ("request_of_start", "error"),
    [("bootstrap", KafkaConnectionError("gone")), ("fetch_all_metadata", KafkaError("gone"))],
)
def test_a_broker_that_dies_while_it_starts_is_waited_for(
    broker, tmp_path, monkeypatch, request_of_start, error
):
    attempts, ask = [], getattr(AIOKafkaClient, request_of_start)

    async def fail_twice(self):
        attempts.append(self)
        if len(attempts) < 3:
            raise error
        return await ask(self)

    monkeypatch.setattr(AIOKafkaClient, request_of_start, fail_twice)
    topic = DataTopic(broker.address)
    topic.count_up(3)
    with live_stream(topic, tmp_path) as live:
        assert live.take(3)[0] == [0.0, 1.0, 2.0]
    assert len(attempts) >= 3
    assert live.failed is None


@pytest.mark.parametrize("answered", [0, 1])  # Faust starts a producer, then the thread that reads
def test_it_stops_in_time_while_it_waits_to_begin(broker, tmp_path, monkeypatch, answered):
    attempts, ask = [], AIOKafkaClient.bootstrap

    async def fail(self):
        attempts.append(self)
        if len(attempts) > answered:
            raise KafkaConnectionError("gone")
        await ask(self)

    monkeypatch.setattr(AIOKafkaClient, "bootstrap", fail)
    with live_stream(DataTopic(broker.address), tmp_path) as live:
        until(lambda: len(attempts) > answered + 1)
    assert live.stopped_in < CLIENT
    assert live.failed is None


def test_it_stops_in_time_while_the_broker_is_away(new_broker, tmp_path):
    broker = new_broker()
    topic = DataTopic(broker.address)
    topic.count_up(1)
    with live_stream(topic, tmp_path) as live:
        live.take(1)
        until(lambda: live.lag is not None)
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: live.lag is None)
    assert live.stopped_in < CLIENT
    assert live.failed is None


def test_a_backlog_makes_lag_and_no_memory(broker, tmp_path):
    topic = DataTopic(broker.address)
    records, size = 100_000, 200
    topic.count_up(records, size=size)
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(100)) as live:
        _, position = live.take(1)
        until(lambda: live.stream._collector._blocked and live.lag is not None)
        before = resident(os.getpid())
        assert live.lag >= records - 1000  # and so it stays while no slot is open
        _, position = live.take(records // 100 - 1, position, first=2)
        assert position == ((0, records),)
        until(lambda: live.lag == 0)
        assert resident(os.getpid()) - before < 8 * 2**20  # of 20 MB that went through
        assert live.counts.records == records


def test_a_party_that_logs_in_reads_what_it_may(secure_broker, tmp_path):
    broker, user = secure_broker, f"ann-{uuid.uuid4().hex[:8]}"
    password = broker.password_file.read_text().strip()
    topic = DataTopic(
        broker.address,
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": password,
        },
    )
    add_user(topic.admin, user, "hers")
    topic.count_up(2)
    ann = BrokerSettings(servers=broker.address, username=user, password=SecretStr("hers"))
    group = topic.topics.group("r")
    for resource, name, reason in [
        (ResourceType.TOPIC, topic.name, f"no topic {topic.name}"),
        (ResourceType.GROUP, group, str(denied(broker.address, f"group {group}", "commit offsets"))),
    ]:
        until(lambda reason=reason: refused(topic, ann, tmp_path) == reason)
        allow(topic.admin, rule(user, resource, name, AclOperation.READ))
    until(lambda: refused(topic, ann, tmp_path) is None)


def refused(topic, broker, tmp_path):
    """Return why records are not read; None when they are."""
    with live_stream(topic, tmp_path, broker=broker) as live:
        live.open(1, ())
        until(lambda: live.failed or (live.slots.qsize() and live.lag is not None))
    return live.failed and str(live.failed)
