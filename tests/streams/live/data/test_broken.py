"""The offsets of broken batches, and the empty records in place of what cannot be read in them."""

import gzip
import struct

import pytest
from aiokafka import TopicPartition
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from streams.live.data.broken import Broken, batches, readable

OF = TopicPartition("data.a", 0)
GZIP, CRC, ATTRIBUTES, DELTA, RECORDS = 1, 17, 21, 23, 61


def batch(first, values, codec=0):
    """A batch as a log has it."""
    built = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 10**6)
    for offset, value in enumerate(values):
        built.append(offset, 1_000 + first + offset, None, value, [])
    return struct.pack(">q", first) + bytes(built.build())[8:]


def mended(stored):
    """The batch with the checksum of what it holds."""
    return stored[:CRC] + struct.pack(">I", calc_crc32c(stored[ATTRIBUTES:])) + stored[ATTRIBUTES:]


def flipped(stored, place, by=0xFF):
    return stored[:place] + bytes([stored[place] ^ by]) + stored[place + 1 :]


def delta(stored, last):
    """The batch with another last offset in its header, and its checksum right."""
    return mended(stored[:DELTA] + struct.pack(">i", last) + stored[DELTA + 4 :])


def read(stored, position=0, end=100, most=1000):
    """What comes of an answer: (offset, value) of each record, where to go on, and what is broken."""
    records, found = [], []
    for one in batches(stored, end):
        part = readable(OF, one, position, most)
        position, records = max(position, part.next), records + part.records
        found += [part.broken] if part.broken else []
    return [(one.offset, one.value) for one in records], position, found


ABC = [b"a", b"b", b"c"]
NAME = b"its name"


def named(first, names, codec=0, values=None):
    """A batch whose records have headers of these names, of eight bytes each."""
    built = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10**6)
    for offset, _ in enumerate(names):
        value = (values or ABC)[offset]
        built.append(offset, 1_000 + first + offset, b"key", value, [(NAME.decode(), b"x"), ("b", None)])
    stored = struct.pack(">q", first) + bytes(built.build())[8:]
    head, *rest = stored.split(NAME)
    stored = head + b"".join(name + part for name, part in zip(names, rest, strict=True))
    if codec:
        packed = gzip.compress(stored[RECORDS:])
        stored = stored[:RECORDS] + packed
        stored = stored[:8] + struct.pack(">i", len(stored) - 12) + stored[12:]
        stored = stored[:ATTRIBUTES] + struct.pack(">h", codec) + stored[ATTRIBUTES + 2 :]
    return mended(stored)


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("bad", [{0}, {1}, {2}, {0, 2}])
@pytest.mark.parametrize("start", range(3, 7))
def test_no_name_of_a_header_costs_a_record(codec, bad, start):
    names = [b"\xff\xfe\0 name" if place in bad else NAME for place in range(3)]
    stored = named(3, names, codec) + batch(6, ABC)
    with pytest.raises(UnicodeDecodeError):  # of aiokafka by itself
        list(MemoryRecords(named(3, names, codec)).next_batch())
    records, position, broken = read(stored, start)
    assert records == [(k, v) for k, v in enumerate([*ABC, *ABC], 3) if k >= start]
    assert (position, broken) == (9, [])


def test_times_and_absent_values_are_there_without_headers_too():
    (stored,) = batches(named(3, [b"\xff" * 8] * 3, values=[b"a", None, b""]), 100)
    records = readable(OF, stored, 0, 10).records
    assert [(one.timestamp, one.key, one.value) for one in records] == [
        (1_003, b"key", b"a"),
        (1_004, b"key", None),
        (1_005, b"key", b""),
    ]


def test_a_batch_with_such_a_name_is_as_broken_as_another():
    good = named(0, [b"\xff" * 8, NAME, NAME])
    for place in range(RECORDS, len(good)):
        records, position, _ = read(mended(flipped(good, place, 0x7F)))
        assert len(records) <= 3, place
        assert {value for _, value in records} <= {*ABC, b""} or place > RECORDS, place
        assert position >= len(records)


WRONG = {
    "its checksum": flipped(batch(3, ABC), RECORDS + 8),
    "its compression": mended(flipped(batch(3, ABC, GZIP), RECORDS)),
    "its codec": mended(flipped(batch(3, ABC), ATTRIBUTES + 1, 7)),
    "its first record": mended(flipped(batch(3, ABC), RECORDS, 0x7F)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_broken_batch_gives_an_empty_record_at_each_of_its_offsets(wrong):
    stored = batch(0, ABC) + WRONG[wrong] + batch(6, ABC)
    records, position, broken = read(stored)
    assert records == [(k, v) for k, v in enumerate([*ABC, b"", b"", b"", *ABC])]
    assert position == 9
    assert [(one.first, one.last) for one in broken] == [(3, 5)]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("start", range(3, 7))
def test_they_are_the_same_wherever_a_reader_begins(wrong, start):
    whole, *_ = read(WRONG[wrong] + batch(6, ABC), 3)
    records, position, _ = read(WRONG[wrong] + batch(6, ABC), start)
    assert (records, position) == ([one for one in whole if one[0] >= start], 9)


@pytest.mark.parametrize("start", range(3))
def test_records_before_a_bad_one_within_a_batch_are_good_wherever_a_reader_begins(start):
    good = batch(0, [b"a", b"bb", b"c"])
    middle = len(batch(0, [b"a"]))  # the second record begins here
    records, position, broken = read(mended(flipped(good, middle, 0x7F)), start)
    assert records == [(0, b"a"), (1, b""), (2, b"")][start:]
    assert (position, len(broken)) == (3, 1)


@pytest.mark.parametrize(("last", "empty"), [(2, 3), (1, 2), (0, 1), (-9, 0), (50, 3), (2**31 - 1, 3)])
def test_no_batch_reaches_into_the_next_one(last, empty):
    bad = mended(flipped(delta(batch(0, ABC, GZIP), last), RECORDS))
    records, position, _ = read(bad + batch(3, ABC))
    assert records == [(k, b"") for k in range(empty)] + [(3, b"a"), (4, b"b"), (5, b"c")]
    assert position == 6


def test_the_last_batch_ends_with_the_log():
    bad = delta(WRONG["its compression"], 10**6)
    assert read(bad, 3, end=6) == ([(3, b""), (4, b""), (5, b"")], 6, [Broken(3, 5, "BadGzipFile")])


def test_an_answer_may_end_within_a_batch():
    stored = WRONG["its checksum"] + batch(6, ABC)
    for end in range(len(WRONG["its checksum"]), len(stored)):
        records, position, _ = read(stored[:end])
        assert (records, position) == ([(3, b""), (4, b""), (5, b"")], 6)
    for end in range(len(WRONG["its checksum"])):
        assert read(stored[:end]) == ([], 0, [])


def test_a_broken_batch_that_claims_the_old_format_has_one_offset_as_for_the_broker():
    stored = flipped(batch(3, ABC), 16, 3) + batch(6, ABC)
    assert read(stored, 3)[:2] == ([(3, b""), (6, b"a"), (7, b"b"), (8, b"c")], 9)


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 4, 2**31 - 1])
def test_a_length_that_leads_nowhere_ends_the_answer(length):
    bad = batch(3, ABC)
    stored = batch(0, ABC) + bad[:8] + struct.pack(">i", length) + bad[12:]
    assert read(stored)[1] == 3


def test_a_long_batch_is_handed_on_in_parts():
    bad = delta(WRONG["its compression"], 90)
    (one,) = batches(bad, 94)
    parts = [readable(OF, one, position, 40) for position in (3, 43, 83)]
    assert [[found.offset for found in part.records] for part in parts] == [
        list(range(3, 43)),
        list(range(43, 83)),
        list(range(83, 94)),
    ]
    assert [part.next for part in parts] == [43, 83, 94]


def test_an_empty_record_has_the_time_of_the_batch():
    (one,) = batches(WRONG["its checksum"], 6)
    assert [found.timestamp for found in readable(OF, one, 0, 9).records] == [1_003] * 3
