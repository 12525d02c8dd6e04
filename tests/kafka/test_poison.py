"""Records that grow without bound: who reads them on older topics lives, and a broker takes no new ones.

A bomb is a compressed record: some kB that are as many MiB of zeros. Topics of this version have
`compression.type=uncompressed`, so the broker inflates a record before it takes it. Those made by hand have
not, as those of versions before.
"""

import os
import queue
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams.bus.kafka import KafkaBus
from streams.bus.provision import Admin
from streams.bus.topic_specs import MIB, mesh_specs
from tests.support.brokers.topics import PATIENCE, bus_of, connection, fresh_topics, until
from tests.support.meshes.files import changed, loaded

pytestmark = pytest.mark.kafka

CODECS = ("gzip", "snappy", "lz4", "zstd")
SIZES = {"gzip": 24 * MIB, "snappy": 8 * MIB, "lz4": 24 * MIB, "zstd": 64 * MIB}
"""What a bomb is inflated; a client takes any but that of zstd (`receive.message.max.bytes`)."""


@pytest.fixture
def at(broker):
    return connection(broker.address)


def poison(at, codec, topic, *values, union=False):
    """Write values compressed, and return what the broker says of each: None, or its error's name."""
    told = []
    settings = {
        "bootstrap.servers": at.servers,
        "compression.type": codec,
        "message.max.bytes": 10**9,
        "batch.num.messages": 10_000 if union else 1,
        "batch.size": 2**31 - 1,
        "linger.ms": 60_000 if union else 0,
        "queue.buffering.max.kbytes": 2**21 - 1,
        "retries": 0,
        "log_level": 0,
    }
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(PATIENCE) == 0
    return [None if error is None else error.name() for error in told]


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_ends_no_reader_and_takes_nothing_else_with_it(at, codec):
    """On a topic made by hand: with records before it, after it, and in a batch of bombs."""
    (topic,) = fresh_topics(at, "edge")
    bus = bus_of(at, topic)
    bomb = bytes(SIZES[codec])
    try:
        bus.send(topic, b"before")
        assert bus.flush(PATIENCE)
        assert poison(at, codec, topic, bomb) == [None]
        bus.send(topic, b"between")
        assert bus.flush(PATIENCE)
        assert poison(at, codec, topic, *[bytes(SIZES[codec] // 3)] * 3, union=True) == [None] * 3
        bus.send(topic, b"after")
        assert bus.flush(PATIENCE)
        handed = queue.SimpleQueue()
        reader = bus.subscribe(
            {topic: 0}, lambda *record: handed.put(record[:3]), lambda *failure: handed.put(failure)
        )
        done = []
        reader.when_read({topic: 7}, partial(done.append, True))
        until(lambda: done)
        found = [handed.get() for _ in range(handed.qsize())]
        reader.close()
        stored = bus.stored({topic: 0})[topic]
    finally:
        bus.close()
    assert [(offset, value) for _, offset, value in found] == [(one.offset, one.value) for one in stored]
    assert [one[1:] for one in found if 0 < len(one[2]) < MIB] == [
        (0, b"before"),
        (2, b"between"),
        (6, b"after"),
    ]
    if codec == "zstd":  # larger than the client may take, alone and in a batch
        assert [one[1:] for one in found if not one[2]] == [(1, b""), (3, b"")]
    else:
        assert [one[1] for one in found] == list(range(7))


def test_garbage_and_transactions_end_no_reader(at):
    (topic,) = fresh_topics(at, "edge")
    bus = bus_of(at, topic)
    try:
        for codec in CODECS:
            assert poison(at, codec, topic, os.urandom(3000), b"", bytes(3000), union=True) == [None] * 3
        peer = Producer({"bootstrap.servers": at.servers, "transactional.id": topic})
        peer.init_transactions(PATIENCE)
        for end in (peer.commit_transaction, peer.abort_transaction):
            peer.begin_transaction()
            peer.produce(topic, None, partition=0, headers={"x": b"y"})
            assert peer.flush(PATIENCE) == 0
            end(PATIENCE)
        bus.send(topic, b"after")
        assert bus.flush(PATIENCE)
        handed = queue.SimpleQueue()
        reader = bus.subscribe(
            {topic: 0}, lambda *record: handed.put(record[2]), lambda *failure: handed.put(failure)
        )
        read = []
        until(lambda: read.append(handed.get()) or read[-1] == b"after")
        reader.close()
    finally:
        bus.close()
    assert len(read) == 12 + 2 + 1


def inflated(spec, codec):
    """The size of a bomb that the broker inflates: what it is compressed is less than the topic takes."""
    ratio = {"gzip": 900, "snappy": 15, "lz4": 200, "zstd": 20_000}[codec]
    return min(ratio * (spec.max_message_bytes - 1500), 200 * MIB)


def heap(broker):
    """The broker's own limit on its heap, in bytes."""
    words = Path(f"/proc/{broker.pid}/cmdline").read_bytes().split(b"\0")
    (limit,) = [word for word in words if word.startswith(b"-Xmx")]
    return int(limit.removeprefix(b"-Xmx").removesuffix(b"m")) * MIB


@pytest.fixture
def wanted(tmp_path, at):
    """The topics of a mesh of their own, one of each kind."""
    mesh = loaded(tmp_path, changed(run=f"run-{os.urandom(4).hex()}")).resolved
    specs = {spec.kind: spec for spec in mesh_specs(mesh)}
    with Admin(at) as admin:
        admin.create(specs.values())
    return specs


@pytest.fixture
def bus(at, wanted):
    """A bus for those topics."""
    bus = KafkaBus(at, {spec.name: spec.largest for spec in wanted.values()})
    yield bus
    bus.close()


@pytest.mark.slow
def test_a_provisioned_broker_refuses_bombs_lives_and_serves_the_others(at, broker, wanted, bus):
    """It needs no more heap than the 256 MiB of the development broker."""
    assert heap(broker) == 256 * MIB
    for kind in ("edge", "progress", "topology"):
        spec = wanted[kind]
        for codec in CODECS:
            (told,) = poison(at, codec, spec.name, bytes(inflated(spec, codec)))
            assert told is not None, (kind, codec)
            for one in wanted.values():
                bus.send(one.name, b"of another")
            assert bus.flush(PATIENCE)
    for spec in wanted.values():  # compressed is not forbidden: it is stored as it is inflated
        assert poison(at, "zstd", spec.name, bytes(spec.largest)) == [None]
        values = bus.read(spec.name, 0)
        assert values == [b"of another"] * 12 + [bytes(spec.largest)]


@pytest.mark.slow
def test_bombs_larger_than_its_heap_fail_one_by_one_and_all_others_are_served(at, broker, wanted, bus):
    """Memory runs out in their own requests alone, also in four at once."""
    bomb, topic = bytes(400 * MIB), wanted["topology"].name
    assert len(bomb) > heap(broker)
    with ThreadPoolExecutor(4) as senders:
        sent = [senders.submit(poison, at, "zstd", topic, bomb) for _ in range(4)]
        until(lambda: _is_served(bus, wanted) and all(one.done() for one in sent))
    assert [one.result() for one in sent] == [["UNKNOWN"]] * 4
    assert bus.read(topic, 0) == [b"of another"] * len(bus.read(topic, 0))


def _is_served(bus, wanted):
    for spec in wanted.values():
        bus.send(spec.name, b"of another")
    return bus.flush(PATIENCE)
