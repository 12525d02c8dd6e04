"""Records as other programs write them: compressed by any codec that Kafka knows."""

import pytest
from confluent_kafka import Producer

from nodes.machine.slots import CountSlots
from tests.support.brokers.data_streams import DataTopic, live_stream

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_compressed_record_is_read(broker, tmp_path, codec):
    topic = DataTopic(broker.address)
    producer = Producer({"bootstrap.servers": broker.address, "compression.type": codec})
    for number in range(3):
        producer.produce(topic.name, b"%d" % number + b" " * 1000, partition=0)
    assert producer.flush(30) == 0
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(3)) as live:
        assert live.take(1) == ([0.0, 1.0, 2.0], ((0, 3),))
    assert live.failed is None
