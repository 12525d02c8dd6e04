"""Aborted transactions where broken batches are read around: a broker's answers, and what comes of them."""

import asyncio
import struct
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from aiokafka import TopicPartition
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.live.data.broken import read_around

OF = TopicPartition("data.a", 0)
CRC, ATTRIBUTES, CONTROL, RECORDS = 17, 21, 32, 61
PLAIN = -1
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"
"""The keys of the two markers: version 0, and the kind."""


class Entry(NamedTuple):
    """A batch of a log: records (the values) or the marker that ends a transaction (its key)."""

    first: int
    producer: int
    values: tuple[bytes, ...]
    marker: bool
    broken: bool

    @property
    def behind(self):
        return self.first + len(self.values)

    @property
    def stored(self):
        transactional = int(self.producer != PLAIN)
        built = DefaultRecordBatchBuilder(2, 0, transactional, self.producer, 0, 0, 10**6)
        for number, value in enumerate(self.values):
            key, content = (value, b"\0\0\0\0\0\0") if self.marker else (None, value)
            built.append(number, 1_000, key, content, [])
        stored = bytearray(struct.pack(">q", self.first) + bytes(built.build())[8:])
        if self.marker:
            stored[ATTRIBUTES + 1] |= CONTROL
            stored[CRC:ATTRIBUTES] = struct.pack(">I", calc_crc32c(bytes(stored[ATTRIBUTES:])))
        if self.broken:
            stored[RECORDS] ^= 0x7F
        return bytes(stored)


STEPS = st.tuples(
    st.sampled_from(["plain", "send", "send", "abort", "commit"]), st.integers(0, 1), st.integers(1, 3)
)
"""What is done, by which of two producers with transactions, and with how many records."""


@st.composite
def logs(draw):
    """A log, its aborted transactions as (producer, first offset, marker's offset), and its stable end."""
    entries, aborted, open_since, end = [], [], {}, 0
    steps = draw(st.lists(STEPS, min_size=8, max_size=30))
    if draw(st.booleans()):  # nothing stays open, so all can be read
        steps += [("commit", 0, 1), ("commit", 1, 1)]
    for what, sender, count in steps:
        producer = PLAIN if what == "plain" else sender
        if what in {"abort", "commit"}:
            if producer not in open_since:
                continue
            values, marker = (ABORT if what == "abort" else COMMIT,), True
            begun = open_since.pop(producer)
            if what == "abort":
                aborted.append((producer, begun, end))
        else:
            values, marker = tuple(b"%d" % (end + k) for k in range(count)), False
            if producer != PLAIN:
                open_since.setdefault(producer, end)
        broken = draw(st.integers(0, 3)) == 0
        entries.append(Entry(end, producer, values, marker, broken))
        end += len(values)
    return entries, aborted, min([end, *open_since.values()])


def committed(entries, aborted, stable):
    """What a reader is to be handed on, by offset."""
    dropped = {(pid, k) for pid, first, marker in aborted for k in range(first, marker)}
    found = {}
    for entry in entries:
        if entry.marker or entry.first >= stable or (entry.producer, entry.first) in dropped:
            continue
        found |= {entry.first + k: b"" if entry.broken else v for k, v in enumerate(entry.values)}
    return found


class Log:
    """The part of aiokafka that asks a broker, which answers from a log, a few batches at a time."""

    def __init__(self, entries, aborted, stable, version, batches):
        self.entries, self.aborted, self.stable = entries, aborted, stable
        self.version, self.batches = version, batches
        self.cluster = SimpleNamespace(leader_for_partition=lambda of: 0)
        self._client = self

    async def send(self, _, asked):
        ((_, ((_, position, _),)),) = asked.topics
        assert asked._isolation_level == 1
        answered = [e for e in self.entries if e.behind > position and e.first < self.stable][: self.batches]
        until = answered[-1].behind if answered else position
        aborted = [(p, first) for p, first, marker in self.aborted if marker >= position and first < until]
        more = [self.stable, 0, aborted, -1] if self.version >= 11 else [self.stable, 0, aborted]
        end = self.entries[-1].behind if self.entries else 0
        part = (0, 0, end, *more, b"".join(entry.stored for entry in answered))
        return SimpleNamespace(API_VERSION=self.version, topics=[("data.a", [part])])


def read(log, position, most):
    """All that is handed on from there, by offset, and where it ends."""
    found, told = {}, []
    while True:
        part = asyncio.run(read_around(log, {OF: position}, most, lambda _, broken: told.append(broken)))[OF]
        for record in part.records:
            assert record.offset not in found
            found[record.offset] = record.value
        if part.next <= position:
            return found, position, told
        position = part.next


@settings(max_examples=400)
@given(logs(), st.data(), st.sampled_from([4, 11]), st.integers(1, 20), st.integers(1, 9))
def test_what_is_committed_is_read_once_wherever_a_reader_begins_and_whatever_is_broken(
    log, data, version, batches, most
):
    entries, aborted, stable = log
    start = data.draw(st.integers(0, stable))
    expected = {k: v for k, v in committed(entries, aborted, stable).items() if k >= start}
    found, end, told = read(Log(entries, aborted, stable, version, batches), start, most)
    assert found == expected
    assert end >= stable
    assert {k for one in told for k in range(max(one.first, start), one.last + 1)} == {
        k for k, value in expected.items() if value == b""
    }


@pytest.mark.parametrize("broken", range(5))
def test_the_producer_of_an_aborted_transaction_goes_on(broken):
    """By hand: one transaction is aborted, the next committed, and any one batch is broken."""
    whole = [(0, (b"a", b"b"), False), (2, (ABORT,), True), (3, (b"c",), False), (4, (COMMIT,), True)]
    entries = [
        Entry(k, 7, values, marker, number == broken) for number, (k, values, marker) in enumerate(whole)
    ]
    found, end, told = read(Log(entries, [(7, 0, 2)], 5, 11, 9), 0, 9)
    assert (found, end) == ({3: b"" if broken == 2 else b"c"}, 5)
    assert len(told) == (broken == 2)
