import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from streams.tools.broker.broker import start, status, stop
from streams.tools.broker.folder import CONTROLLER
from streams.tools.broker.java import BrokerError, BrokerMisused
from tests.support.brokers.development import Client, free_port, started

pytestmark = pytest.mark.kafka
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The folder of a broker that the tests start and stop as they like."""
    folder = tmp_path_factory.mktemp("broker") / "own"
    try:
        started(folder)
        yield folder
    finally:
        stop(folder)


def gone(pid):
    """Whether the process has ended; its parent need not have noticed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_records_go_in_and_come_out(broker):
    client = Client(broker)
    topic = client.new_topic()
    client.send(topic, b"one")
    client.send(topic, b"two")
    assert client.read(topic, 2) == [b"one", b"two"]


def test_a_misspelt_topic_is_not_made(broker):
    client = Client(broker)
    client.admin.list_topics("misspelt", timeout=30)  # asks for it by its name
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        client.send("misspelt", b"lost")
    assert "misspelt" not in client.topics()


def test_status_is_what_start_returned(broker):
    assert status(broker.folder) == broker
    assert (broker.running, broker.secure, broker.password_file) == (True, False, None)
    assert not gone(broker.pid)
    assert "Kafka Server started" in broker.log.read_text()


def test_it_runs_in_a_session_of_its_own(broker):
    assert os.getsid(broker.pid) != os.getsid(0)


def test_it_listens_on_loopback_alone(broker):
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    listening = [row[1].split(":") for row in rows if row[3] == "0A"]
    for port in (broker.port, broker.port + CONTROLLER):
        assert {address for address, at in listening if int(at, 16) == port} <= LOOPBACK
        assert any(int(at, 16) == port for _, at in listening)


def test_a_second_start_leaves_it_alone(broker):
    assert start(broker.folder) == broker
    assert start(broker.folder, broker.port) == broker


def test_a_running_broker_is_not_another_one(broker):
    with pytest.raises(BrokerMisused, match=rf"runs on port {broker.port}: stop it first"):
        start(broker.folder, broker.port + 1)
    with pytest.raises(BrokerMisused, match="without security"):
        start(broker.folder, secure=True)
    assert status(broker.folder) == broker


def test_its_port_is_taken(broker, tmp_path):
    for port in (broker.port, broker.port - CONTROLLER, broker.port + CONTROLLER):
        with pytest.raises(BrokerMisused, match=r"port \d+ is not available: Address already in use"):
            start(tmp_path / "second", port)
        assert status(tmp_path / "second") is None


def test_stop_and_start_keep_topics_and_port(own):
    first = start(own)
    topic = Client(first).new_topic()
    Client(first).send(topic, b"kept")
    assert stop(own) is True
    assert gone(first.pid)
    found = status(own)
    assert (found.running, found.pid, found.port) == (False, None, first.port)
    assert stop(own) is False
    with pytest.raises(BrokerMisused, match="was made without security"):
        start(own, secure=True)
    again = start(own)
    assert (again.address, again.running, again.pid != first.pid) == (first.address, True, True)
    assert Client(again).read(topic, 1) == [b"kept"]
    assert "Kafka Server started" in again.log.with_name("broker.log.old").read_text()


def test_killed_it_goes_on_where_it_was_also_on_another_port(own):
    first = start(own)
    topic = Client(first).new_topic()
    Client(first).send(topic, b"kept")
    os.kill(first.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while status(own).running:
        assert time.monotonic() < end
        time.sleep(0.01)
    port = free_port()
    again = start(own, port)
    assert (again.running, again.port) == (True, port)
    assert Client(again).read(topic, 1) == [b"kept"]


def test_a_broker_that_does_not_start_says_why(own):
    stop(own)
    meta = own / "data" / "meta.properties"
    right = meta.read_text()
    meta.write_text(right.replace("node.id=1", "node.id=7"))
    with pytest.raises(BrokerError) as failed:
        start(own)
    meta.write_text(right)
    first, *rest = str(failed.value).splitlines()
    assert first == f"the broker did not start; {own / 'broker.log'}:"
    assert any("node.id" in line or "node id" in line for line in rest)
    assert len(rest) <= 5
    assert status(own).running is False


def test_two_starts_at_once_make_one_broker_even_of_a_start_that_was_cut_off(new_broker, tmp_path):
    (tmp_path / "broker" / "data").mkdir(parents=True)
    (tmp_path / "broker" / "broker.lock").touch()  # its first file
    (tmp_path / "broker" / "data" / "meta.properties").write_text("half")
    port = free_port()
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: new_broker(port=port), range(2))
    assert first == second
    assert Client(first).topics() == set()
