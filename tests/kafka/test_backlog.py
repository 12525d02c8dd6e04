"""A node whose data topic is far ahead of it: what waits stays at the broker, and the owner sees how much."""

import math
from itertools import islice

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from streams.records.sources import open_source
from tests.support.brokers.development import free_ports
from tests.support.brokers.topics import PATIENCE
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.nodes.metrics import samples, scraped
from tests.support.processes.mesh import LiveMesh, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WAITING, SIZE = 100_000, 500
PORTION = WAITING // 20
"""Records that the other node has at once: between two of them the memory is looked at."""
FULL, LITTLE = 0.9 * WAITING, 0.1 * WAITING
FLAT = 4 * 2**20
"""Bytes by which the memory may move while 80,000 records of 60 bytes pass through."""


class Gauges:
    """Lag and memory, as the owner's endpoint shows them, since the test began to look."""

    def __init__(self, port):
        self._port = port
        self.seen = []

    def look(self):
        """Look; return how much waits, NaN where nobody knows."""
        try:
            text = scraped("127.0.0.1", self._port)
        except OSError:
            return float("nan")
        shown = samples(text_string_to_metric_families(text))
        if not shown:  # served, and not begun
            return float("nan")
        memory = shown["mirrormesh_process_resident_memory_bytes",]
        lag = shown["mirrormesh_data_lag_records",]
        self.seen.append((lag, memory))
        return lag


def test_memory_is_flat_while_a_backlog_is_worked_off(tmp_path, broker):
    slots = {"by": "count", "size": SIZE, "timeout": "none"}
    path = small_mesh_file(tmp_path, broker.address, nodes=["a", "b"], rounds=WAITING, slots=slots)
    with LiveMesh(path) as mesh:
        producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
        node, other = mesh.file.mesh.nodes
        for record in islice(open_source(mesh.file, node, 0).records, WAITING):
            producer.produce(mesh.file.data_topics(node).records, record.value)
            producer.poll(0)
        assert producer.flush(PATIENCE) == 0
        (port,) = free_ports(1)
        gauges = Gauges(port)
        mesh.node(node, "--private-metrics", port)
        wait_until(lambda: gauges.look() >= FULL)  # it stands, for there is no plan yet
        mesh.node(other)
        mesh.scheduler()
        for left in range(WAITING, -1, -PORTION):  # it waits for the other one
            mesh.allow(other, WAITING - left)
            wait_until(lambda left=left: gauges.look() <= left)
    lags = [lag for lag, _ in gauges.seen]
    known = lags[next(k for k, lag in enumerate(lags) if lag >= 0) :]
    assert not any(math.isnan(lag) for lag in known)
    assert known == sorted(known, reverse=True)
    under_way = [memory for lag, memory in gauges.seen if LITTLE <= lag <= FULL]
    (tmp_path / "seen").write_text(repr(gauges.seen))
    assert len(under_way) > 10
    assert max(under_way) - min(under_way) < FLAT
