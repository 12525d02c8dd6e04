"""Stored records that nobody can read: the node goes on, as if each were malformed, and its owner is told."""

import json
import time
from typing import NamedTuple

import pytest
from aiokafka.errors import CorruptRecordException

from nodes.machine.slots import TimeSlots
from nodes.privacy.reveal import opened
from streams.bus.provision import provision
from streams.live.data.pinned import PinnedThread
from streams.mesh.file import load
from tests.support.brokers.damage import ATTRIBUTES, RECORDS, damage
from tests.support.brokers.data_streams import DataTopic, live_stream, numbers
from tests.support.meshes.on_broker import small_mesh_file
from tests.support.processes.in_process import Commands

pytestmark = pytest.mark.kafka

GOOD, BAD = 2, 4
"""Records of a good batch and of a bad one."""


class Wrong(NamedTuple):
    """What is done to a batch: a byte is changed, and the checksum is made to fit it or not."""

    codec: str
    mend: bool
    place: int = RECORDS
    by: int = 0x7F


DONE = (
    Wrong("none", mend=False, place=RECORDS + 9),
    Wrong("gzip", mend=False, place=RECORDS + 9),
    *(Wrong(codec, mend=True) for codec in ("gzip", "snappy", "lz4", "zstd")),
    Wrong("none", mend=True, place=ATTRIBUTES + 1, by=7),  # a codec that there is not
    Wrong("none", mend=True),  # a record that is longer than the batch
)
END = len(DONE) * (GOOD + BAD) + GOOD


def values(first, count):
    """Records of numbers from `first` on."""
    return [b"%d " % k for k in range(first, first + count)]


def fill(topic):
    """Send numbers, each other batch of them to be broken."""
    login = topic.client | {"linger.ms": 100}
    for number, wrong in enumerate(DONE):
        first = number * (GOOD + BAD)
        for codec, some in (("none", values(first, GOOD)), (wrong.codec, values(first + GOOD, BAD))):
            topic.client = login | {"compression.type": codec}
            topic.send(some)
    topic.send(values(END - GOOD, GOOD))


def seen(topic, tmp_path, first=0):
    """What the node sees of the topic from an offset on: its slots, and its counts."""
    position, found = ((0, first),), []
    with live_stream(topic, tmp_path, position) as live:
        for round in range(1, END - first + 1):
            slot = live.slot(round, position, 30)
            position, observations = slot.position, opened(slot.observations)
            found.append((observations.features.tolist(), observations.present.tolist(), position))
        counts = live.counts
    assert live.failed is None
    return found, (counts.records, counts.malformed)


@pytest.mark.slow
def test_broken_batches_are_seen_as_malformed_records_also_after_a_restart(broker, tmp_path, capsys):
    path = small_mesh_file(tmp_path, broker.address)
    file = load(path)
    provision(file)
    malformed, topic = (
        DataTopic(broker.address, node=node, mesh=file.mesh.name) for node in list(file.mesh.nodes)[:2]
    )
    bad = [(k * (GOOD + BAD) + GOOD, (k + 1) * (GOOD + BAD) - 1) for k in range(len(DONE))]
    places = {place for first, last in bad for place in range(first, last + 1)}
    malformed.send([b"x" if k in places else b"%d " % k for k in range(END)])
    fill(topic)
    for number, wrong in enumerate(DONE):
        damage(broker, topic.name, 2 * number + 1, mend=wrong.mend, place=wrong.place, by=wrong.by)

    slots, counts = seen(malformed, tmp_path)
    assert counts == (END, BAD * len(DONE))
    assert seen(topic, tmp_path) == (slots, counts)
    within = GOOD + BAD + GOOD + 1  # the second bad batch
    assert seen(topic, tmp_path, within)[0] == slots[within:]

    assert broken_batches(capsys, path, topic.node)[: len(bad)] == [
        f"{topic.name} [0], offsets {first} to {last}" for first, last in bad
    ]
    assert broken_batches(capsys, path, malformed.node) == []


def broken_batches(capsys, path, node):
    """What the owner is told of batches that are stored broken: other letters are of single records."""
    last = json.loads(Commands(capsys)("deadletters", path, node, "--json").out)["records"]["last"]
    return [letter["source"] for letter in last if letter["reason"].startswith("stored broken")]


def test_no_other_partition_loses_or_doubles_a_record(broker, tmp_path):
    """aiokafka drops what it had of all others as it fails."""
    topic, start = DataTopic(broker.address, partitions=3), time.time() // 1 + 6
    topic.client |= {"linger.ms": 100}
    for times in range(3):
        for partition in range(3):
            values = [b"%d " % (300 * partition + 100 * times + k) for k in range(100)]
            topic.send(values, partition, timestamp=int(start * 1000) + times)
    damage(broker, topic.name, 1, mend=False, partition=1)
    with live_stream(
        topic, tmp_path, slots=lambda: TimeSlots(900, start=start, period=1.0, grace=0.2)
    ) as live:
        slot = live.slot(1, (), 30)
    seen = opened(slot.observations)
    lost = range(400, 500)
    assert sorted(numbers(slot)) == sorted([0.0] * 100 + [float(k) for k in range(900) if k not in lost])
    assert (int(seen.present.sum()), len(seen.present)) == (800, 900)
    assert slot.position == ((0, 300), (1, 300), (2, 300))


def test_a_fetch_that_fails_in_transit_makes_no_record_malformed(broker, tmp_path, monkeypatch):
    read, failed = PinnedThread.__mro__[1]._fetch_records, []

    async def fails_once(self, *arguments):
        if not failed and self.consumer.flow_active:
            failed.append(await read(self, *arguments))
            raise CorruptRecordException("Invalid CRC")
        return await read(self, *arguments)

    monkeypatch.setattr(PinnedThread.__mro__[1], "_fetch_records", fails_once)
    topic = DataTopic(broker.address)
    topic.count_up(20)
    with live_stream(topic, tmp_path) as live:
        assert live.take(20)[0] == [float(k) for k in range(20)]
        assert (live.counts.records, live.counts.malformed) == (20, 0)
    assert len(failed) == 1
