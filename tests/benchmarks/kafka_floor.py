"""The floor of a round: six bare processes and a bare scheduler that send, acknowledge and wait as nodes do.

No journal, no machine, no learning, no threads of Python: confluent-kafka alone, with a node's own settings,
and records as long as the mesh's were. Each process awaits the plan of its round and both neighbours'
releases, writes a decision, reads a record of its data topic and sends two releases; acknowledgements are
taken as they come, for a node does not wait for them within a round either. Every H/4-th round a heartbeat
goes to the scheduler, and is read back; the scheduler publishes plans together, at most H rounds ahead of the
slowest, and without waiting for the echo. What happens once a second is left out.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from streams.bus.connection import consumer_settings, producer_settings
from streams.mesh.settings.brokers import BrokerSettings
from tests.benchmarks.kafka_processes import running
from tests.support.brokers.topics import fresh_topics

HORIZON = 32
BEATS = HORIZON // 4
"""Rounds from one heartbeat to the next."""
POLL = 0.2
_NUMBER = 8  # bytes of a heartbeat or of plans that say the round


@dataclass(frozen=True, slots=True)
class Lengths:
    """Bytes of a mesh's records."""

    release: int
    plan: int
    heartbeat: int
    decision: int


@dataclass(frozen=True, slots=True)
class Topics:
    """What one process reads and writes."""

    topology: str
    progress: str
    sources: list[str]
    targets: list[str]
    data: str
    decisions: str


@contextmanager
def bare_mesh(
    folder: Path, address: str, data: list[str], lengths: Lengths, rounds: int
) -> Iterator[tuple[str, dict[str, int]]]:
    """Run the floor on the records of the topics `data`; give an edge of its first process, and all ids."""
    broker, size = BrokerSettings(servers=address), len(data)
    members = range(size)
    edges = [(k, (k + step) % size) for k in members for step in (1, -1)]
    kinds = [f"{kind}-{k}" for kind in ("progress", "decisions") for k in members]
    names = fresh_topics(broker, "topology", *kinds, *(f"{source}-{target}" for source, target in edges))
    topology, progress, decisions = names[0], names[1 : 1 + size], names[1 + size : 1 + 2 * size]
    topics = dict(zip(edges, names[1 + 2 * size :], strict=True))
    common = {"address": address, "lengths": asdict(lengths), "rounds": rounds}
    programs = {"scheduler": common | {"topology": topology, "progress": progress}}
    for k in members:
        sources = [topic for (_, target), topic in topics.items() if target == k]
        targets = [topic for (source, _), topic in topics.items() if source == k]
        mine = Topics(topology, progress[k], sources, targets, data[k], decisions[k])
        programs[f"floor-{k}"] = common | {"topics": asdict(mine)}
    with running(folder, __name__, programs) as processes:
        yield topics[0, 1], processes


class Scheduler:
    """Publishes plans that say nothing, as a scheduler does its own."""

    def __init__(
        self, address: str, lengths: Lengths, rounds: int, topology: str, progress: list[str]
    ) -> None:
        broker, topics = BrokerSettings(servers=address), [topology, *progress]
        self._producer = Producer(producer_settings(broker, lengths.plan))
        self._consumer = _reading(broker, topics)
        self._topology, self._length, self._rounds = topology, lengths.plan, rounds
        self._stepped = dict.fromkeys(progress, -1)

    def run(self) -> None:
        """Publish all plans."""
        published = read = 0
        while read < self._rounds:
            self._producer.poll(0)
            message = self._consumer.poll(POLL)
            if message is None or message.error() is not None:
                continue
            if message.topic() == self._topology:
                read = _round(message)
            else:
                self._stepped[str(message.topic())] = _round(message)
            slowest = min(self._stepped.values())
            last = min(self._rounds, slowest + HORIZON)
            if slowest >= 0 and published < last:
                plans = last.to_bytes(_NUMBER, "big").ljust(self._length, b"\0")
                self._producer.produce(self._topology, plans, partition=0)
                published = last


class Node:
    """Goes through its rounds without learning anything."""

    def __init__(self, address: str, lengths: Lengths, rounds: int, topics: Topics) -> None:
        broker = BrokerSettings(servers=address)
        self._lengths, self._rounds, self._topics = lengths, rounds, topics
        self._mesh = _reading(broker, [topics.topology, topics.progress, *topics.sources])
        self._data = _reading(broker, [topics.data])
        self._sender = Producer(producer_settings(broker, lengths.release))
        self._writer = Producer(producer_settings(broker, lengths.decision))  # a data broker may be another
        self._heard: Counter[str] = Counter()

    def run(self) -> None:
        """Go through all rounds."""
        release, decision = bytes(self._lengths.release), bytes(self._lengths.decision)
        self._beat(0)
        for round in range(1, self._rounds + 1):
            while not self._may_enter(round):
                self._read()
            self._writer.produce(self._topics.decisions, decision, partition=0)
            self._writer.poll(0)
            while (record := self._data.poll(POLL)) is None or record.error() is not None:
                pass
            for topic in self._topics.targets:
                self._sender.produce(topic, release, partition=0)
            if round % BEATS == 0:
                self._beat(round)

    def _may_enter(self, round: int) -> bool:
        """Whether the plan is there, and what the neighbours sent in the round before."""
        return self._heard[self._topics.topology] >= round and all(
            self._heard[topic] >= round - 1 for topic in self._topics.sources
        )

    def _read(self) -> None:
        message = self._mesh.poll(POLL)
        if message is not None and message.error() is None:
            topic = str(message.topic())
            self._heard[topic] = _round(message) if topic == self._topics.topology else self._heard[topic] + 1
        self._sender.poll(0)

    def _beat(self, round: int) -> None:
        value = round.to_bytes(_NUMBER, "big").ljust(self._lengths.heartbeat, b"\0")
        self._sender.produce(self._topics.progress, value, partition=0)


def _reading(broker: BrokerSettings, topics: list[str]) -> Consumer:
    consumer = Consumer(consumer_settings(broker))
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    return consumer


def _round(message: "Message[bytes, bytes]") -> int:
    return int.from_bytes((message.value() or b"")[:_NUMBER], "big")


def main() -> None:
    """Be one process, as the argument says."""
    told = json.loads(sys.argv[1])
    told["lengths"] = Lengths(**told["lengths"])
    if "topics" in told:
        Node(**told | {"topics": Topics(**told["topics"])}).run()
    else:
        Scheduler(**told).run()


if __name__ == "__main__":
    main()
