"""Releases alone: a ring of six bare processes that send the bytes of nodes' releases, and nothing else.

Each waits for its two neighbours, then sends to both and awaits the acknowledgements. On confluent-kafka with
the settings of a node, or on aiokafka with their like: it compares the clients. kafka_floor.py does all that
a round does.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Partition

from streams.bus.connection import consumer_settings, producer_settings
from streams.mesh.settings.brokers import BrokerSettings
from tests.benchmarks.kafka_mesh import SIZE
from tests.benchmarks.kafka_processes import running
from tests.support.brokers.topics import fresh_topics

CLIENTS = ("confluent-kafka", "aiokafka")


@contextmanager
def bare_ring(
    folder: Path, address: str, client: str, value: bytes, rounds: int, size: int = SIZE
) -> Iterator[tuple[str, dict[str, int]]]:
    """Run a ring that sends `value` each round; give an edge of its first process, and all process ids."""
    edges = [(k, (k + step) % size) for k in range(size) for step in (1, -1)]
    names = fresh_topics(BrokerSettings(servers=address), *(f"{source}-{target}" for source, target in edges))
    topics = dict(zip(edges, names, strict=True))
    programs = {
        f"{client}-{k}": {
            "client": client,
            "address": address,
            "sources": [topic for (_, target), topic in topics.items() if target == k],
            "targets": [topic for (source, _), topic in topics.items() if source == k],
            "value": value.hex(),
            "rounds": rounds,
        }
        for k in range(size)
    }
    with running(folder, __name__, programs) as processes:
        yield topics[0, 1], processes


def confluent_ring(
    broker: BrokerSettings, sources: Sequence[str], targets: Sequence[str], value: bytes, rounds: int
) -> None:
    """Be one process of the ring on confluent-kafka."""
    producer = Producer(producer_settings(broker, len(value)))
    consumer = Consumer(consumer_settings(broker))
    consumer.assign([Partition(topic, 0, 0) for topic in sources])
    heard: Counter[str | None] = Counter()
    for round in range(1, rounds + 1):
        for topic in targets:
            producer.produce(topic, value, partition=0)
        producer.flush()
        while any(heard[topic] < round for topic in sources):
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                heard[message.topic()] += 1
    consumer.close()
    producer.close()


async def aiokafka_ring(
    broker: BrokerSettings, sources: Sequence[str], targets: Sequence[str], value: bytes, rounds: int
) -> None:
    """Be one process of the ring on aiokafka."""
    settings: dict[str, Any] = {"bootstrap_servers": broker.servers}
    producer = AIOKafkaProducer(**settings, acks="all", enable_idempotence=True, linger_ms=0)
    consumer = AIOKafkaConsumer(
        **settings, enable_auto_commit=False, auto_offset_reset="none", fetch_max_wait_ms=100
    )
    await producer.start()
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0) for topic in sources])
    for topic in sources:
        consumer.seek(TopicPartition(topic, 0), 0)
    heard: Counter[str] = Counter()
    for round in range(1, rounds + 1):
        await asyncio.gather(*[await producer.send(topic, value, partition=0) for topic in targets])
        while any(heard[topic] < round for topic in sources):
            heard[(await consumer.getone()).topic] += 1
    await consumer.stop()
    await producer.stop()


def main() -> None:
    """Be one process, as the argument says."""
    mine = json.loads(sys.argv[1])
    broker, value = BrokerSettings(servers=mine["address"]), bytes.fromhex(mine["value"])
    ring = (broker, mine["sources"], mine["targets"], value, mine["rounds"])
    if mine["client"] == "aiokafka":
        asyncio.run(aiokafka_ring(*ring))
    else:
        confluent_ring(*ring)


if __name__ == "__main__":
    main()
