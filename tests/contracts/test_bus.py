"""What every bus promises. Each bus that ships runs this suite."""

import pytest

from streams.bus.bus import OffsetOutOfRange, TooLarge, UnknownTopic
from streams.bus.memory import Faults, MemoryBroker, MemoryBus
from tests.support.brokers.buses import kafka_side, memory_side

LARGEST = 64
FAULTS = {
    "memory": None,
    "memory with faults": Faults(seed=1, duplicate=0.5),
    "memory that is slow": Faults(latency={"a": 0.5}),
}


@pytest.fixture(params=[*FAULTS, pytest.param("kafka", marks=pytest.mark.kafka)])
def side(request):
    if request.param == "kafka":
        made = kafka_side(request.getfixturevalue("broker").address, LARGEST)
    else:
        made = memory_side(FAULTS[request.param], LARGEST)
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
    side.subscribe({side.a: 0}, lambda _, offset, value, __: seen.append((offset, value)))
    for k in range(20):
        side.bus.send(side.a, bytes([k]))
    side.settle()
    assert first_values(seen) == [(0, b"before"), *((k + 1, bytes([k])) for k in range(20))]
    assert {value for offset, value in seen if offset == 7} == {bytes([6])}


def test_all_readers_see_one_first_value(side):
    seen = {1: [], 2: []}
    for reader, records in seen.items():
        side.subscribe({side.a: 0}, lambda _, *record, records=records: records.append(record[:2]))
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
    reader = side.subscribe({side.a: 2}, lambda _, offset, value, __: seen.append((offset, value)))
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
    side.subscribe({side.a: 0}, lambda *record: None)
    side.settle()
    side.restart()
    seen = []
    side.subscribe({side.a: 1}, lambda _, offset, value, __: seen.append((offset, value)))
    side.bus.send(side.a, bytes([4]))
    side.settle()
    assert [entry for entry in first_values(seen) if entry[0]] == [(k, bytes([k])) for k in range(1, 5)]
    assert list(side.bus.read(side.a, 0)) == [bytes([k]) for k in range(5)]


def test_an_unknown_topic_is_refused(side):
    for use in (
        lambda: side.bus.send("c", b""),
        lambda: side.bus.end("c"),
        lambda: side.bus.read("c", 0),
        lambda: side.bus.subscribe({"c": 0}, lambda *record: None, lambda *failure: None),
    ):
        with pytest.raises(UnknownTopic, match="no topic c"):
            use()


def test_a_record_that_is_too_large_is_refused_and_leaves_nothing(side):
    with pytest.raises(TooLarge, match=f"65 bytes for {side.a}: at most 64"):
        side.bus.send(side.a, bytes(LARGEST + 1))
    side.bus.send(side.a, bytes(LARGEST))
    side.settle()
    assert side.bus.end(side.a) == 1


def test_every_send_is_acknowledged_once_when_it_is_in_the_log(side):
    acknowledged = []
    for k in range(50):
        side.bus.send(side.a, bytes([k]), lambda k=k: acknowledged.append((k, side.bus.end(side.a) > k)))
    assert side.bus.flush(20.0)
    assert acknowledged == [(k, True) for k in range(50)]
    assert side.bus.waiting == 0


def test_records_are_stored_with_their_offsets_and_keys(side):
    for k in range(3):
        side.bus.send(side.a, bytes([k]), key=b"key")
    side.bus.send(side.b, b"x")
    side.settle()
    assert [side.bus.span(topic) for topic in (side.a, side.b)] == [(0, 3), (0, 1)]
    found = side.bus.stored({side.a: 1, side.b: 0})
    assert [(one.offset, one.value, one.key) for one in found[side.a]] == [
        (1, bytes([1]), b"key"),
        (2, bytes([2]), b"key"),
    ]
    assert [(one.offset, one.value, one.key) for one in found[side.b]] == [(0, b"x", b"")]


def test_reading_outside_the_log_is_an_error_not_silence(side):
    side.bus.send(side.a, b"x")
    side.settle()
    with pytest.raises(OffsetOutOfRange, match="2 is not from 0 to 1"):
        side.bus.read(side.a, 2)


def test_a_reader_of_several_topics_says_which_and_fails_in_one_alone(side):
    seen, failed = [], []
    for topic in (side.a, side.b):
        side.bus.send(topic, b"x")
    reader = side.subscribe(
        {side.a: 9, side.b: 0}, lambda *record: seen.append(record[:3]), lambda *e: failed.append(e)
    )
    side.settle(reader)
    side.until(lambda: failed and seen)
    assert set(seen) == {(side.b, 0, b"x")}
    ((topic, error),) = failed
    assert (topic, type(error)) == (side.a, OffsetOutOfRange)


def test_an_action_waits_until_all_below_was_handed_on(side):
    seen = []
    reader = side.subscribe({side.a: 0, side.b: 0}, lambda topic, offset, *_: seen.append((topic, offset)))
    for _ in range(20):
        side.bus.send(side.a, b"x")
    reader.when_read({side.a: 20, side.b: 1}, lambda: seen.append("all"))
    side.settle()
    assert "all" not in seen
    side.bus.send(side.b, b"last")
    side.settle()
    side.until(lambda: "all" in seen)
    assert seen.index("all") > max(seen.index((side.a, 19)), seen.index((side.b, 0)))
    reader.when_read({side.a: 20}, lambda: seen.append("at once"))
    assert seen[-1] == "at once"


# ------------------------------------------------------------------ the memory bus's own: time and its order


@pytest.fixture
def broker_and_bus():
    made = MemoryBroker(["a"], Faults(latency={"a": 2.0}))
    return made, MemoryBus(made)


def reading(bus, offset=0):
    """What a new reader of topic a is handed, as it goes on, and the reader."""
    seen = []
    return seen, bus.subscribe(
        {"a": offset}, lambda _, *record: seen.append(record[:2]), lambda *e: seen.append(e)
    )


def test_time_passes_only_when_nothing_is_due(broker_and_bus):
    broker, bus = broker_and_bus
    seen = []
    bus.subscribe({"a": 0}, lambda *record: seen.append((broker.now, record[2])), None)
    broker.after(5.0, lambda: seen.append((broker.now, b"timer")))
    bus.send("a", b"slow")
    broker.run()
    assert seen == [(2.0, b"slow"), (5.0, b"timer")]


def test_what_a_process_had_under_way_is_lost_with_it(broker_and_bus):
    broker, bus = broker_and_bus
    acknowledged = []
    bus.send("a", b"lost", lambda: acknowledged.append(True))
    assert not bus.flush(1.0)
    bus.close()
    other = MemoryBus(broker)
    other.send("a", b"there")
    assert other.flush(3.0)
    assert (other.read("a", 0), acknowledged) == ([b"there"], [])


def test_what_was_not_delivered_comes_again_to_the_next_reader():
    broker = MemoryBroker(["a"])
    bus = MemoryBus(broker)
    for k in range(4):
        bus.send("a", bytes([k]))
    _, reader = reading(bus)
    broker.deliver()
    reader.close()
    seen, _ = reading(bus, 1)
    broker.run()
    assert [offset for offset, _ in seen] == [1, 2, 3]


def test_a_log_that_was_cut_begins_later_and_fails_who_was_behind():
    broker = MemoryBroker(["a"])
    bus = MemoryBus(broker)
    for k in range(6):
        bus.send("a", bytes([k]))
    seen, _ = reading(bus)
    broker.deliver()
    broker.trim("a", 4)
    assert bus.span("a") == (4, 6)
    assert bus.read("a", 4) == [bytes([4]), bytes([5])]
    with pytest.raises(OffsetOutOfRange, match="3 is not from 4 to 6"):
        bus.read("a", 3)
    broker.run()
    assert seen[0] == (0, bytes([0]))
    assert [type(error) for _, error in seen[1:]] == [OffsetOutOfRange]
    bus.send("a", b"new")
    assert bus.stored({"a": 6})["a"][0].offset == 6


def test_a_lossy_topic_goes_on_where_its_log_begins_and_past_its_end_it_fails():
    broker = MemoryBroker(["a", "b"])
    bus = MemoryBus(broker)
    for topic in ("a", "b"):
        for k in range(6):
            bus.send(topic, bytes([k]))
        broker.trim(topic, 4)
    seen, failed = [], []
    bus.subscribe(
        {"a": 1, "b": 9},
        lambda *record: seen.append(record[:3]),
        lambda *e: failed.append(e),
        lossy={"a", "b"},
    )
    broker.run()
    assert seen == [("a", 4, bytes([4])), ("a", 5, bytes([5]))]
    assert [(topic, type(error)) for topic, error in failed] == [("b", OffsetOutOfRange)]
