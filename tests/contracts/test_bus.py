"""What every bus promises (streams/bus.py). Each bus that ships runs this suite."""

import pytest

from streams.bus import TooLarge, UnknownTopic
from streams.memory.bus import Faults, MemoryBus

LARGEST = 64


@pytest.fixture(params=["memory", "memory with faults"])
def bus(request):
    faults = Faults(seed=1, duplicate=0.5) if request.param == "memory with faults" else None
    return MemoryBus(["a", "b"], faults, largest=LARGEST)


def settle(bus):
    while bus.deliver():
        pass


def test_a_topic_is_read_in_the_order_of_its_sends_from_any_offset(bus):
    for k in range(5):
        bus.send("a", bytes([k]))
    assert bus.end("a") == 5
    assert list(bus.read("a", 0)) == [bytes([k]) for k in range(5)]
    assert list(bus.read("a", 3)) == [bytes([3]), bytes([4])]
    assert list(bus.read("a", 5)) == []


def test_topics_are_apart(bus):
    bus.send("a", b"x")
    assert bus.end("b") == 0


def test_a_reader_gets_every_record_at_least_once_and_new_ones_in_order(bus):
    seen = []
    bus.send("a", b"before")
    bus.subscribe("a", 0, lambda offset, value: seen.append((offset, value)))
    for k in range(20):
        bus.send("a", bytes([k]))
    settle(bus)
    first = sorted(set(seen))
    assert first == [(0, b"before"), *((k + 1, bytes([k])) for k in range(20))]
    new = [offset for k, (offset, _) in enumerate(seen) if offset not in {at for at, _ in seen[:k]}]
    assert new == sorted(new)


def test_a_reader_starts_at_its_offset_and_stops_when_it_is_cancelled(bus):
    seen = []
    for k in range(4):
        bus.send("a", bytes([k]))
    reader = bus.subscribe("a", 2, lambda offset, value: seen.append(offset))
    settle(bus)
    assert {2, 3} <= set(seen)
    bus.cancel(reader)
    seen.clear()
    bus.send("a", b"late")
    settle(bus)
    assert seen == []


def test_what_was_not_read_comes_again_to_the_next_reader(bus):
    for k in range(4):
        bus.send("a", bytes([k]))
    reader = bus.subscribe("a", 0, lambda offset, value: None)
    bus.deliver()
    bus.cancel(reader)
    seen = []
    bus.subscribe("a", 1, lambda offset, value: seen.append(offset))
    settle(bus)
    assert {1, 2, 3} <= set(seen)


def test_an_unknown_topic_and_a_record_that_is_too_large_are_refused(bus):
    with pytest.raises(UnknownTopic, match="c"):
        bus.send("c", b"")
    with pytest.raises(UnknownTopic, match="c"):
        bus.read("c", 0)
    with pytest.raises(TooLarge, match="65 bytes for a: at most 64"):
        bus.send("a", bytes(LARGEST + 1))
    bus.send("a", bytes(LARGEST))
    assert bus.end("a") == 1


def test_time_passes_only_when_nothing_is_due():
    bus = MemoryBus(["a"], Faults(latency={"a": 2.0}))
    seen = []
    bus.subscribe("a", 0, lambda offset, value: seen.append((bus.now, value)))
    bus.after(5.0, lambda: seen.append((bus.now, b"timer")))
    bus.send("a", b"slow")
    settle(bus)
    assert seen == [(2.0, b"slow"), (5.0, b"timer")]


def test_draining_reads_to_the_end_and_delivers_nothing_twice():
    bus = MemoryBus(["a"])
    seen = []
    reader = bus.subscribe("a", 0, lambda offset, value: seen.append(offset))
    for k in range(3):
        bus.send("a", bytes([k]))
    bus.drain([reader])
    assert seen == [0, 1, 2]
    settle(bus)
    assert seen == [0, 1, 2]
