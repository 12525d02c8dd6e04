"""Nodes with data topics that no other test knows, and what a feed leaves in them."""

import json
import uuid
from contextlib import closing, suppress
from itertools import islice

from confluent_kafka import Consumer, TopicPartition

from streams.bus.bus import BusError
from streams.bus.connection import consumer_settings
from streams.bus.kafka import KafkaBus
from streams.bus.logs import Logs
from streams.bus.provision import Admin
from streams.bus.topic_specs import MIB, data_specs
from streams.codec.topics import DataTopics
from streams.mesh.file import load
from streams.records.sources import open_source
from streams.runtime.process import Stop
from streams.tools.feed.feed import feed
from streams.tools.feed.lines import FeedOptions
from tests.support.brokers.topics import PATIENCE, connection, until
from tests.support.meshes.files import changed, loaded

SCHEMA = {"features": {"x": {"bounds": [0, 100]}, "y": "number"}, "label": {"column": "z"}}


def row(number, second=0):
    """A record that fits the schema."""
    return json.dumps({"x": number, "y": 1, "z": 2, "at": 1_700_000_000 + second}).encode()


def rows(count):
    """So many records, each another."""
    return [row(number, number) for number in range(1, count + 1)]


class Feeding:
    """One node's data topic on a broker, and its mesh file: `loss: squared`, one node with a source."""

    def __init__(self, folder, address, source=None, **mesh):
        self.folder, self.broker = folder, connection(address)
        self.name = f"a-{uuid.uuid4().hex[:8]}"
        self.mesh = {
            "name": "m",
            "nodes": [self.name],
            "loss": "squared",
            "topology": {"graph": "complete"},
        } | mesh
        self.source = source or {
            "kind": "json-lines",
            "path": str(folder / "records.jsonl"),
            "schema": SCHEMA | {"timestamp": "at"},
        }
        self.topics = DataTopics("m", self.name)

    @property
    def file(self):
        brokers = {side: {"servers": self.broker.servers} for side in ("data", "mesh")}
        tree = changed(**self.mesh)
        own = {"source": self.source, "brokers": brokers | {"trust_broker": True}}
        tree["nodes"] = {self.name: own}
        return loaded(self.folder, tree)

    def provision(self, partitions=1, **configs):
        """Make the node's topics, the data topic as its owner likes it."""
        records, *others = data_specs(self.file.mesh, self.name)
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        made = {"num_partitions": partitions, "configs": records.configs | settings}
        with Admin(self.broker) as admin:
            admin.create(others)
            admin._client.create_topics({records.name: made}, wait_for_metadata=True)
        return self

    def write(self, lines, name="records.jsonl"):
        """Put the lines into the source's file."""
        path = self.folder / name
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def __call__(self, path=None, **wanted):
        """Feed here, in this thread."""
        with Stop() as stop:
            return feed(
                self.file, self.name, FeedOptions(None if path is None else str(path), **wanted), stop
            )

    def held(self):
        """The records of the data topic, in order."""
        return stored(self.broker, self.topics.records)

    def values(self):
        return [message.value() or b"" for message in self.held()]

    def numbers(self):
        """The line numbers in the headers."""
        return [int(dict(message.headers())["line"]) for message in self.held()]

    def letters(self):
        """What was dead-lettered."""
        return [json.loads(message.value()) for message in stored(self.broker, self.topics.dead_letters)]


class Rations:
    """Gives nodes the records of their sources bit by bit, where a test does something in mid-run.

    Slots that wait for records, and nodes that wait for each other, hold a run at the last record that one
    node has: no machine is so fast that the run is over before the test has done what it does.
    """

    def __init__(self, path):
        self._path, self._given = path, {}

    def allow(self, name, records):
        """Let the node have so many records in all."""
        file, before = load(self._path), self._given.get(name, 0)  # a password may be another by now
        topic, source = file.data_topics(name).records, open_source(file, name, file.mesh.seed)
        with closing(opened_bus(file.brokers(name).data, topic)) as bus:
            for record in islice(source.records, before, records):
                bus.send(topic, record.value)
            assert bus.flush(PATIENCE)
        self._given[name] = records


def opened_bus(broker, topic):
    """A bus for that topic: a broker that has just started leads no partition yet."""
    buses = []

    def opened():
        with suppress(BusError):
            buses.append(KafkaBus(broker, {topic: MIB}))
        return buses

    until(opened)
    return buses[0]


def stored(broker, topic, partition=0):
    """The messages of a topic, whole."""
    logs = Logs(broker)
    first, end = logs.span(topic, partition)
    logs.close()
    consumer = Consumer(consumer_settings(broker) | {"log_level": 0})
    found = []
    try:
        consumer.assign([TopicPartition(topic, partition, first)])
        while len(found) < end - first:
            message = consumer.poll(PATIENCE)
            assert message is not None, "waited in vain"
            if message.error() is None:
                found.append(message)
    finally:
        consumer.close()
    return found
