"""A node's data stream on a real broker: its topic, its records, and the slots that come of them."""

import asyncio
import threading
import time
import uuid
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from nodes.machine.events import OpenSlot
from nodes.machine.slots import CountSlots
from nodes.privacy.reveal import opened
from streams.codec.topics import DataTopics
from streams.live.data.start import DataFailed
from streams.live.data.stream import DataStream
from streams.live.data.streams import DataStreams
from streams.records.faults import Fault
from tests.support.brokers.topics import PATIENCE, connection, until


class Lengths:
    """Decodes any bytes but b"" into (their number, the first of them)."""

    dimension = 2

    def decode(self, value):
        return (np.array([float(len(value)), float(value[0])]), 0.0) if len(value) else None

    def fault(self, value):
        return Fault(None, "empty")


class Numbers:
    """Decodes b"7..." up to a space into 7."""

    dimension = 1

    def decode(self, value):
        digits = value.split(b" ")[0]
        return (np.array([float(digits)]), 0.0) if digits.isdigit() else None

    def fault(self, value):
        return Fault(None, "no digits")


def numbers(slot):
    return opened(slot.observations).features[:, 0].tolist()


class DataTopic:
    """The data topic of a node, by default one that no other test knows, made anew.

    `login`: what a client says to the broker first.
    """

    def __init__(self, address, partitions=1, node=None, mesh="m", **login):
        self.node = node or f"n{uuid.uuid4().hex[:12]}"
        self.topics = DataTopics(mesh, self.node)
        self.name = self.topics.records
        self.address = address
        self.client = {"bootstrap.servers": address} | login
        self.admin = AdminClient(self.client)
        settings = {"max.message.bytes": str(2**21), "message.timestamp.after.max.ms": str(2**62)}
        if node is not None:
            self.admin.delete_topics([self.name])[self.name].result(20)
        self.admin.create_topics([NewTopic(self.name, partitions, 1, config=settings)])[self.name].result(20)

    def send(self, values, partition=0, **fields):
        """Append the values, in order."""
        producer = Producer(self.client | {"message.max.bytes": 2**22, "enable.idempotence": True})
        refused = []
        fields["on_delivery"] = lambda error, _: refused.append(error) if error else None
        for value in values:
            producer.produce(self.name, value, partition=partition, **fields)
            producer.poll(0)
        assert producer.flush(PATIENCE) == 0
        assert refused == []

    def count_up(self, end, first=0, size=0):
        """Append the numbers from `first` to before `end`, each in at least `size` bytes."""
        self.send(f"{k} ".encode().ljust(size, b".") for k in range(first, end))


class Live:
    """A data stream that runs in a thread of its own."""

    def __init__(self, stream, streams):
        self.stream, self.streams = stream, streams
        self.slots = SimpleQueue()
        self.failed = None
        self.stopped_in = None

    def open(self, round, position):
        self.stream.open_slot(OpenSlot(round, position))

    def slot(self, round, position, patience=PATIENCE):
        """Open a slot and wait until it is closed."""
        self.open(round, position)
        return self.closed(patience)

    def closed(self, patience=PATIENCE):
        return self.slots.get(timeout=patience)

    def take(self, count, position=(), first=1):
        """Return the numbers in so many slots one after the other, and where the next one starts."""
        found = []
        for round in range(first, first + count):
            slot = self.slot(round, position)
            assert slot.round == round
            found += numbers(slot)
            position = slot.position
        return found, position

    @property
    def lag(self):
        return opened(self.stream.lag)

    @property
    def counts(self):
        return opened(self.stream.counts)


def run(lives, positions, begun):
    """Serve the streams, all of one app, by node from these positions on."""

    async def main():
        stopped = asyncio.Event()
        begun(asyncio.get_running_loop(), stopped)
        try:
            closed = {live.stream.node: live.slots.put for live in lives}
            await lives[0].streams.read(positions, stopped, closed)
        except DataFailed as error:
            lives[0].failed = error

    asyncio.run(main())


def new_stream(topic, tmp_path, slots=lambda: CountSlots(1), **changes):
    """A stream on that topic; its slots come to `.slots`."""
    given = {"decoder": Numbers(), "timeout": None, "late": None, "state": tmp_path, "web": None}
    given |= {"broker": connection(topic.address), "slots": slots} | changes
    stream = DataStream(topic.topics, "r", given["slots"], given["decoder"], given["timeout"], given["late"])
    return Live(stream, DataStreams(given["broker"], [stream], state=given["state"], web=given["web"]))


@contextmanager
def live_stream(topic, tmp_path, position=(), slots=lambda: CountSlots(1), **changes):
    """A stream that runs until the end of the block, and then stops in time."""
    live = new_stream(topic, tmp_path, slots, **changes)
    with running([live], {live.stream.node: position}):
        yield live


@contextmanager
def running(lives, positions):
    """Streams of one app that run until the end of the block, and then stop in time."""
    handles = {}
    begun = lambda loop, stopped: handles.update(loop=loop, stopped=stopped)  # noqa: E731 # it is called once
    thread = threading.Thread(target=run, args=(lives, positions, begun))
    thread.start()
    try:
        yield
    finally:
        until(lambda: handles)
        asked = time.monotonic()
        if thread.is_alive():
            handles["loop"].call_soon_threadsafe(handles["stopped"].set)
        thread.join(PATIENCE)
        lives[0].stopped_in = time.monotonic() - asked
        assert not thread.is_alive()
