"""What every bus promises. Each bus that ships runs this suite."""

import pytest

from streams.bus.bus import TooLarge, UnknownTopic
from streams.bus.memory import Faults, MemoryBus
from tests.support.kafka import KafkaSide
from tests.support.memory import MemorySide

LARGEST = 64
FAULTS = {"memory": None, "memory with faults": Faults(seed=1, duplicate=0.5)}


@pytest.fixture(params=[*FAULTS, pytest.param("kafka", marks=pytest.mark.kafka)])
def side(request):
    if request.param == "kafka":
        made = KafkaSide(request.getfixturevalue("broker").address, LARGEST)
    else:
        made = MemorySide(FAULTS[request.param], LARGEST)
    yield made
    made.close()


def first_values(seen):
    """What a reader was handed as (offset, value), each offset the first time, in that order."""
    values = {}
    for offset, value in seen:
        values.setdefault(offset, value)
    return list(values.items())


def test_a_topic_is_read_in_the_order_of_its_sends_from_any_offset(side):
    for k in range(5):
        side.bus.send(side.a, bytes([k]))
    side.settle()
    assert side.bus.end(side.a) == 5
    assert list(side.bus.read(side.a, 0)) == [bytes([k]) for k in range(5)]
    assert list(side.bus.read(side.a, 3)) == [bytes([3]), bytes([4])]
    assert list(side.bus.read(side.a, 5)) == []


def test_topics_are_apart(side):
    side.bus.send(side.a, b"x")
    side.settle()
    assert (side.bus.end(side.a), side.bus.end(side.b)) == (1, 0)
    assert list(side.bus.read(side.b, 0)) == []


def test_any_bytes_come_back_as_they_were_sent(side):
    values = [b"", bytes(LARGEST), bytes(range(LARGEST)), b"\xff\x00\n"]
    for value in values:
        side.bus.send(side.a, value)
    side.settle()
    assert list(side.bus.read(side.a, 0)) == values


def test_a_reader_gets_every_record_at_least_once_and_new_ones_in_order(side):
    seen = []
    side.bus.send(side.a, b"before")
    side.subscribe(side.a, 0, lambda offset, value: seen.append((offset, value)))
    for k in range(20):
        side.bus.send(side.a, bytes([k]))
    side.settle()
    assert first_values(seen) == [(0, b"before"), *((k + 1, bytes([k])) for k in range(20))]
    assert {value for offset, value in seen if offset == 7} == {bytes([6])}


def test_all_readers_see_one_first_value(side):
    seen = {1: [], 2: []}
    for reader, records in seen.items():
        side.subscribe(side.a, 0, lambda offset, value, records=records: records.append((offset, value)))
        side.bus.send(side.a, bytes([reader]))
    for k in range(10):
        side.bus.send(side.a, bytes([k]))
    side.settle()
    assert first_values(seen[1]) == first_values(seen[2])
    assert [value for _, value in first_values(seen[1])] == list(side.bus.read(side.a, 0))


def test_a_reader_starts_at_its_offset_and_stops_when_it_is_cancelled(side):
    seen = []
    for k in range(4):
        side.bus.send(side.a, bytes([k]))
    side.settle()
    reader = side.subscribe(side.a, 2, lambda offset, value: seen.append((offset, value)))
    side.settle()
    assert [entry for entry in first_values(seen) if entry[0] >= 2] == [(2, bytes([2])), (3, bytes([3]))]
    side.cancel(reader)
    seen.clear()
    side.bus.send(side.a, b"late")
    side.settle()
    assert seen == []


def test_a_restarted_process_reads_again_from_where_it_says(side):
    for k in range(4):
        side.bus.send(side.a, bytes([k]))
    side.settle()
    side.subscribe(side.a, 0, lambda offset, value: None)
    side.settle()
    side.restart()
    seen = []
    side.subscribe(side.a, 1, lambda offset, value: seen.append((offset, value)))
    side.bus.send(side.a, bytes([4]))
    side.settle()
    assert [entry for entry in first_values(seen) if entry[0]] == [(k, bytes([k])) for k in range(1, 5)]
    assert list(side.bus.read(side.a, 0)) == [bytes([k]) for k in range(5)]


def test_an_unknown_topic_is_refused(side):
    for use in (
        lambda: side.bus.send("c", b""),
        lambda: side.bus.end("c"),
        lambda: side.bus.read("c", 0),
    ):
        with pytest.raises(UnknownTopic, match="no topic c"):
            use()


def test_a_record_that_is_too_large_is_refused_and_leaves_nothing(side):
    with pytest.raises(TooLarge, match=f"65 bytes for {side.a}: at most 64"):
        side.bus.send(side.a, bytes(LARGEST + 1))
    side.bus.send(side.a, bytes(LARGEST))
    side.settle()
    assert side.bus.end(side.a) == 1


# ------------------------------------------------------------------ the memory bus's own: time and its order


def test_time_passes_only_when_nothing_is_due():
    bus = MemoryBus(["a"], Faults(latency={"a": 2.0}))
    seen = []
    bus.subscribe("a", 0, lambda offset, value: seen.append((bus.now, value)))
    bus.after(5.0, lambda: seen.append((bus.now, b"timer")))
    bus.send("a", b"slow")
    bus.run()
    assert seen == [(2.0, b"slow"), (5.0, b"timer")]


def test_what_was_not_delivered_comes_again_to_the_next_reader():
    bus = MemoryBus(["a"])
    for k in range(4):
        bus.send("a", bytes([k]))
    reader = bus.subscribe("a", 0, lambda offset, value: None)
    bus.deliver()
    bus.cancel(reader)
    seen = []
    bus.subscribe("a", 1, lambda offset, value: seen.append(offset))
    bus.run()
    assert seen == [1, 2, 3]


def test_draining_reads_to_the_end_and_delivers_nothing_twice():
    bus = MemoryBus(["a"])
    seen = []
    reader = bus.subscribe("a", 0, lambda offset, value: seen.append(offset))
    for k in range(3):
        bus.send("a", bytes([k]))
    bus.drain([reader])
    assert seen == [0, 1, 2]
    bus.run()
    assert seen == [0, 1, 2]
