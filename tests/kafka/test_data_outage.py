"""The party's own stream when its broker dies, is slow to come back, or has a backlog; and with a password."""

import os
import signal
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pydantic import SecretStr

from nodes.slots import CountSlots
from streams.broker.broker import start
from streams.mesh_file.settings.node import BrokerSettings
from tests.support.data_streams import DataTopic, live_stream, numbers
from tests.support.kafka import PATIENCE, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_killed_broker_delays_records_and_loses_and_doubles_none(new_broker, tmp_path):
    broker = new_broker()
    topic = DataTopic(broker.address)
    topic.count_up(100)
    with live_stream(topic, tmp_path) as live:
        found, position = live.take(50)
        until(lambda: live.lag is not None)
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: live.lag is None)
        live.open(99, None)  # where the log ends nobody can say now
        start(broker.folder, broker.port)
        until(lambda: live.lag is not None)
        topic.count_up(101, first=100)
        assert numbers(live.closed()) == [100.0]
        more, position = live.take(50, position, first=100)
        assert (found + more, position) == ([float(k) for k in range(100)], ((0, 100),))
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
    assert live.stopped_in < 3
    assert live.failed is None


def test_a_backlog_makes_lag_and_no_memory(broker, tmp_path):
    topic = DataTopic(broker.address)
    records, size, waiting = 100_000, 200, 90_000
    topic.count_up(records, size=size)
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(100)) as live:
        live.take(1)
        until(lambda: live.lag is not None)
        before, lag = resident(), live.lag
        assert lag > waiting
        _, position = live.take(records // 100 - 1, ((0, 100),), first=2)
        assert position == ((0, records),)
        until(lambda: live.lag == 0)
        assert resident() - before < 8 * 2**20  # of 20 MB that went through
        assert live.counts.records == records


def resident():
    """The bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_party_that_logs_in_reads_what_it_may(new_broker, tmp_path):
    broker = new_broker(secure=True)
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
    made = UserScramCredentialUpsertion(
        "ann", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"hers"
    )
    topic.admin.alter_user_scram_credentials([made])["ann"].result(PATIENCE)
    topic.count_up(2)
    ann = BrokerSettings(servers=broker.address, username="ann", password=SecretStr("hers"))
    with live_stream(topic, tmp_path, broker=ann) as live:
        until(lambda: live.failed is not None)
    assert str(live.failed) == f"no topic {topic.name}"
    place = (ResourceType.TOPIC, topic.name, ResourcePatternType.LITERAL)
    rule = AclBinding(*place, "User:ann", "*", AclOperation.READ, AclPermissionType.ALLOW)
    topic.admin.create_acls([rule])[rule].result(PATIENCE)
    with live_stream(topic, tmp_path, broker=ann) as live:  # the group may be denied: nothing is read from it
        assert live.take(2)[0] == [0.0, 1.0]
        until(lambda: live.lag == 0)
    assert live.failed is None
