"""A feed on a real broker: each record once, in order, and nothing that would be learnt from twice."""

import base64
import time
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper

import numpy as np
import pytest
from kafka import TopicPartition

from nodes.machine.events import OpenSlot
from nodes.privacy.reveal import opened
from streams.bus.preflight import PreflightFailed
from streams.bus.provision import Admin
from streams.bus.rights import feeder
from streams.mesh.mesh import Mesh
from streams.mesh.settings.files import LONGEST_LINE
from streams.records.faults import Fault
from streams.records.record import RawRecord
from streams.records.slot_feed import DataLog, SlotFeed
from streams.records.sources import open_source
from streams.runtime.process import Stop
from streams.tools.feed.feed import Writer, producer_settings
from streams.tools.feed.lines import FeedFailed, Line, encode_letter, feed_topic
from tests.support.brokers.feeding import Feeding, row, rows, stored
from tests.support.brokers.topics import bus_of

pytestmark = pytest.mark.kafka

TIMES = {"by": "time", "size": 3, "period": 2, "start": 1_700_000_000}
GENERATOR = {"kind": "localisation"}


@pytest.fixture
def feeding(broker, tmp_path):
    return Feeding(tmp_path, broker.address)


def test_every_line_once_and_in_order(feeding):
    feeding.provision().write(rows(25_000))  # more than are ever on their way
    fed = feeding()
    assert (fed.before, fed.records, fed.counts.malformed, fed.stopped) == (0, 25_000, 0, False)
    assert feeding.values() == rows(25_000)
    assert feeding.numbers() == list(range(1, 25_001))
    assert feeding.letters() == []


def test_started_again_it_goes_on_after_the_last_line(feeding):
    feeding.provision().write(rows(10))
    assert feeding(records=4).records == 4
    assert feeding(records=4).records == 0
    assert feeding(records=2).records == 0
    assert feeding().records == 6
    assert feeding().records == 0
    feeding.write(rows(12))  # the file has grown
    assert (feeding().before, feeding().records) == (10, 0)
    assert feeding.values() == rows(12)
    assert feeding.numbers() == list(range(1, 13))


def test_a_file_in_place_of_the_sources_own(feeding):
    path = feeding.provision().write(rows(5), "other.jsonl")
    assert feeding(path).records == 5
    assert feeding.values() == rows(5)


def test_a_bad_record_is_dead_lettered_and_its_place_kept(feeding):
    long = row(3)[:-1] + b", " + b'"w": "' + b"x" * 3000 + b'"}'
    lines = [row(1), b"{", long, b"[", b"\xff\x00", row(6)]
    feeding.provision(max_message_bytes=3500).write(lines)
    fed = feeding()
    assert (fed.records, fed.counts.malformed) == (6, 4)
    assert feeding.values() == [row(1), b"", b"", b"", b"", row(6)]
    letters = feeding.letters()
    assert [letter["line"] for letter in letters] == [2, 3, 4, 5]
    assert letters[1]["reason"] == "longer than 2,476 bytes, the most that the topic takes"
    assert [base64.b64decode(letter["value"]) for letter in letters] == lines[1:5]
    assert feeding().records == 0  # and the lines are known again


def test_a_blank_line_is_no_record(feeding):
    feeding.provision().write([row(1), b"", row(2), b"  ", row(3)])
    assert feeding().records == 3
    assert feeding.values() == [row(1), row(2), row(3)]
    assert feeding().records == 0  # and the lines are known again


def test_a_mended_record_is_appended_and_moves_no_other(feeding):
    """As docs/howto/own-data.md says: the bad one keeps its place, and the mended one gets one of its own."""
    feeding.provision().write([row(1), b"{", row(3)])
    assert feeding().counts.malformed == 1
    feeding.write([row(1), b"{", row(3), row(2)])
    assert (feeding().before, feeding.values()) == (3, [row(1), b"", row(3), row(2)])
    feeding.write([row(1), row(2), row(3)])
    with pytest.raises(FeedFailed, match="are not the first of these"):
        feeding()


def test_letters_that_a_kill_has_cost_are_written_at_the_next_start(feeding, monkeypatch):
    feeding.provision().write([row(1), b"{", row(3), b"[", b"x", row(6), b"y"])
    posted, lost = Writer._put_letter, [2, 4]
    monkeypatch.setattr(
        Writer,
        "_put_letter",
        lambda writer, number, letter: None if number in lost else posted(writer, number, letter),
    )
    feeding(records=6)  # as if killed between a line and its letter
    monkeypatch.undo()
    assert [letter["line"] for letter in feeding.letters()] == [5]
    with writing(feeding) as writer:  # as if killed between the letter and its line
        bad = Line(7, b"y", None, b"mark", Fault(None, "not JSON"))
        writer._put_letter(7, encode_letter(bad))
        writer.finish()
    assert feeding().records == 1
    assert [letter["line"] for letter in feeding.letters()] == [5, 7, 2, 4]
    assert [base64.b64decode(letter["value"]) for letter in feeding.letters()] == [b"x", b"y", b"{", b"["]
    assert (feeding().records, len(feeding.letters())) == (0, 4)


def test_the_longest_lines_go_through(feeding):
    lines = [row(k)[:-1] + b', "w": "' + b"x" * (2**20 - 100) + b'"}' for k in range(3)]
    feeding.source["max_record_bytes"] = LONGEST_LINE
    feeding.provision().write([*lines, b"x" * (2**20 - 2)])
    assert feeding().records == 4
    assert feeding.values() == [*lines, b""]
    assert len(base64.b64decode(feeding.letters()[0]["value"])) == 2**20 - 2


def test_only_so_many_records_are_on_their_way(feeding, monkeypatch):
    monkeypatch.setattr("streams.tools.feed.feed.WINDOW", 10)
    feeding.provision()
    with writing(feeding) as writer:
        for number in range(1, 500):
            writer.put(Line(number, row(number), None, b"mark", None))
            assert writer.sent - writer.acknowledged <= 10
        writer.finish()
    assert feeding.numbers() == list(range(1, 500))


def test_a_topic_that_takes_little_takes_many_small_records(feeding):
    feeding.provision(max_message_bytes=1500).write(rows(2_000))
    assert feeding().records == 2_000
    assert feeding.values() == rows(2_000)
    topic = feed_topic(feeding.broker, feeding.topics, feeder(feeding.topics), by_time=False, timed=False)
    assert producer_settings(feeding.broker, topic)["batch.size"] == topic.largest == 476


@pytest.mark.parametrize("slots", [{"by": "count", "size": 3}, TIMES])
def test_the_slots_are_those_of_a_run(broker, tmp_path, slots):
    feeding = Feeding(tmp_path, broker.address, slots=slots)
    lines = [row(k, k // 2) for k in range(40)]
    lines[7:9] = [b"{", b'{"at": 1700000004.2}']
    lines[20] = b'{"x": 1, "y": 1, "z": 2}'  # it has no time
    feeding.provision().write(lines)
    feeding()
    run = open_source(feeding.file, feeding.name, feeding.file.mesh.seed)
    fed = (RawRecord(m.value() or b"", m.timestamp()[1] / 1000) for m in feeding.held())
    assert slots_of(feeding, fed, run.decoder) == slots_of(feeding, run.records, run.decoder)


def slots_of(feeding, records, decoder):
    mesh = feeding.file.mesh
    feed, position, found = SlotFeed(DataLog(iter(records)), Mesh(mesh).slots, decoder), (), []
    for round in range(1, 100):
        closed = feed.close(OpenSlot(round, position))
        if closed is None:
            break
        position, held = closed.position, opened(closed.observations)
        found.append((held.features.tolist(), held.labels.tolist(), held.present.tolist(), position))
    assert len(found) >= 10
    return found


def test_a_generator_is_fed_as_run_makes_it(broker, tmp_path):
    feeding = Feeding(tmp_path, broker.address, GENERATOR, loss="range", rounds=9).provision()
    assert feeding(records=4).records == 4
    assert feeding().records == 5
    made = open_source(feeding.file, feeding.name, 0).records
    assert feeding.values() == [next(made).value for _ in range(9)]


def test_kafkas_timestamps_are_the_records_own_with_slots_by_time(broker, tmp_path):
    feeding = Feeding(tmp_path, broker.address, slots=TIMES).provision()
    lines = [row(1, 5), row(2, 0.0019), b'{"at": 1700000003}', b"{"]
    feeding.write(lines)
    feeding()
    times = [message.timestamp()[1] for message in feeding.held()]
    assert times == [-1, 1_700_000_000_001, 1_700_000_003_000, 1_700_000_005_000]  # in order of time
    assert feeding.letters()[0]["reason"] == "not JSON"


def test_a_file_is_fed_in_order_of_time_and_goes_on_there(broker, tmp_path):
    """A record far ahead holds up no other, and nobody waits for it: no round takes it."""
    feeding = Feeding(tmp_path, broker.address, slots=TIMES).provision()
    lines = [row(k, at) for k, at in enumerate((5, 1e9, 3, 20, 3, 1, 24, 23.9))]
    feeding.write(lines)
    feeding.mesh["rounds"] = 2  # and slot 2 ends at second 4
    assert feeding().records == 3
    feeding.mesh["rounds"] = 12
    assert feeding().records == 3
    expected = [lines[k] for k in (5, 2, 4, 0, 3, 7)]
    assert feeding.values() == expected
    assert feeding.numbers() == [1, 2, 3, 4, 5, 6]
    feeding.mesh["rounds"] = 13  # and slot 13 begins at second 24
    assert feeding().records == 1
    assert feeding.values() == [*expected, lines[6]]


def test_with_slots_by_time_no_record_is_a_stream(broker, tmp_path, monkeypatch):
    feeding = Feeding(tmp_path, broker.address, slots=TIMES).provision()
    feeding.write([])
    assert (feeding().records, feeding.letters()) == (0, [])
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"")))
    assert (feeding("-").records, feeding.letters()) == (0, [])


def test_standard_input_waits_for_no_time_with_slots_by_time(broker, tmp_path, monkeypatch):
    slots = TIMES | {"start": 0}
    feeding = Feeding(tmp_path, broker.address, slots=slots, rounds=None).provision()
    ahead = time.time() - 1_700_000_000
    lines = [row(1, ahead + 1e9), row(2, ahead + 1200), row(3, ahead)]
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"\n".join(lines))))
    fed = feeding("-")
    assert (fed.records, fed.counts.malformed) == (3, 0)
    assert fed.seconds < 20
    assert feeding.values() == lines
    times = [message.timestamp()[1] for message in feeding.held()]
    assert times[0] == -1  # later than the topic takes: it is in no slot
    assert times[1:] == [pytest.approx(1000 * (1_700_000_000 + at), abs=2) for at in (ahead + 1200, ahead)]


def test_without_times_kafkas_timestamp_is_now(feeding):
    feeding.provision().write(rows(1))
    before = time.time()
    feeding()
    (message,) = feeding.held()
    assert before - 1 <= message.timestamp()[1] / 1000 <= time.time() + 1


def test_timestamps_set_the_pace_and_stand_in_kafka(feeding):
    feeding.provision().write([row(1, 0), row(2, 0.3), row(3, 1.2)])
    fed = feeding(timestamps=True)
    assert 1.2 <= fed.seconds < 5
    times = [message.timestamp()[1] - 1_700_000_000_000 for message in feeding.held()]
    assert times == [0, 300, 1200]


def test_a_rate_sets_the_pace(feeding):
    feeding.provision().write(rows(30))
    fed = feeding(rate=20.0)
    assert 29 / 20 <= fed.seconds < 5
    sent = [message.timestamp()[1] for message in feeding.held()]
    assert np.median(np.diff(sent)) == pytest.approx(50, abs=25)


def others_write(feeding, *values):
    """Somebody without a feed writes to the data topic."""
    bus = bus_of(feeding.broker, feeding.topics.records)
    for value in values:
        bus.send(feeding.topics.records, value)
    assert bus.flush(10)
    bus.close()


def numbers(feeding):
    """The line of each record of the data topic; None: of others."""
    return [
        int(dict(message.headers() or [])["line"]) if message.headers() else None
        for message in feeding.held()
    ]


def test_a_feed_goes_on_behind_records_of_others_and_says_how_many(feeding, caplog):
    feeding.provision().write(rows(10))
    others_write(feeding, row(1), b"{")
    fed = feeding(records=4)
    assert (fed.before, fed.records, fed.others) == (0, 4, 2)
    others_write(feeding, b"[", row(7), row(8))
    fed = feeding(records=5)
    assert (fed.before, fed.records, fed.others) == (4, 1, 5)
    fed = feeding()
    assert (fed.before, fed.records, fed.others) == (5, 5, 5)
    assert numbers(feeding) == [None, None, 1, 2, 3, 4, None, None, None, 5, 6, 7, 8, 9, 10]
    assert f"{feeding.topics.records}: holds 5 records of others; goes on after line 5" in caplog.messages
    feeding.write(rows(9))
    with pytest.raises(FeedFailed, match="the 10 lines that it holds are not the first of these"):
        feeding()


def test_records_of_others_between_lines_of_one_feed_are_counted(feeding):
    feeding.provision()
    with writing(feeding) as writer:
        written(writer, *(Line(k, row(k), None, b"mark", None) for k in range(1, 5)))
        others_write(feeding, row(1), row(2))
        written(writer, *(Line(k, row(k), None, b"mark", None) for k in range(5, 8)))
        assert writer.others == 2
    assert numbers(feeding) == [1, 2, 3, 4, None, None, 5, 6, 7]


def test_two_feeds_of_one_topic_find_each_other(feeding):
    feeding.provision().write(rows(10))
    feeding(records=2)
    with writing(feeding) as writer:
        with writing(feeding) as other:
            written(other, *(Line(k, row(k), None, b"mark", None) for k in (3, 4)))
        with pytest.raises(FeedFailed, match="another feed wrote to it"):
            written(writer, Line(3, row(3), None, b"mark", None))
    with pytest.raises(FeedFailed, match=r"line 3 is its record 5, behind line 4: another feed wrote to it"):
        feeding()


def test_a_topic_without_its_lines_is_not_fed(feeding):
    """Records of others are left, and nobody knows which line was the last."""
    feeding.provision().write(rows(3))
    feeding(records=2)
    others_write(feeding, row(1))
    with Admin(feeding.broker) as admin:
        admin._client.delete_records({TopicPartition(feeding.topics.records, 0): 1})
    assert feeding().records == 1  # a line of it is left
    with Admin(feeding.broker) as admin:
        admin._client.delete_records({TopicPartition(feeding.topics.records, 0): 4})
    others_write(feeding, row(1))
    with pytest.raises(FeedFailed, match="its first records are gone and the rest is others'"):
        feeding()


def test_nothing_gets_in_after_a_record_that_the_broker_refuses(feeding):
    feeding.provision(message_timestamp_before_max_ms=3_600_000)
    now = time.time()
    with writing(feeding, timed=True) as writer:
        written(writer, Line(1, row(1), now, b"mark", None))
        late = Line(2, bytes(100_000), now - 7200, b"mark", None)  # a batch of its own
        with pytest.raises(FeedFailed, match="Invalid timestamp"):
            written(writer, late, *(Line(k, row(k), now, b"mark", None) for k in range(3, 1000)))
    assert feeding.numbers() == [1]


@contextmanager
def writing(feeding, *, timed=False):
    """A feed's writer on the topic as it stands now."""
    topic = feed_topic(feeding.broker, feeding.topics, feeder(feeding.topics), by_time=False, timed=timed)
    with Stop() as stop:
        writer = Writer(feeding.broker, feeding.name, topic, stop)
        try:
            yield writer
        finally:
            writer.close()


def written(writer, *lines):
    for line in lines:
        writer.put(line)
    writer.finish()


def test_a_topic_of_another_source_is_refused(feeding):
    feeding.provision().write(rows(10))
    feeding()
    feeding.write([row(0), *rows(20)[1:]])  # the last line is as it was
    with pytest.raises(FeedFailed, match="the 10 lines that it holds are not the first of these"):
        feeding()
    feeding.write(rows(9))
    with pytest.raises(FeedFailed, match="the 10 lines that it holds"):
        feeding()
    assert len(feeding.held()) == 10


def test_a_topic_that_is_not_there_is_a_line(feeding):
    feeding.write(rows(1))
    with pytest.raises(PreflightFailed) as failed:
        feeding()
    topics = feeding.topics
    assert [line.partition(": ")[2] for line in failed.value.lines] == [
        f"no topic {topics.records}: run mirrormesh provision",
        f"no topic {topics.dead_letters}: run mirrormesh provision",
    ]


def test_several_partitions_go_with_slots_by_time_alone(feeding):
    feeding.provision(partitions=2).write(rows(3))
    with pytest.raises(PreflightFailed, match="has 2 partitions: must have one"):
        feeding()
    feeding.mesh["slots"] = TIMES
    assert feeding().records == 3
    assert feeding.values() == rows(3)
    assert stored(feeding.broker, feeding.topics.records, 1) == []


def test_times_need_a_topic_that_keeps_them(feeding):
    feeding.provision(message_timestamp_type="LogAppendTime").write(rows(3))
    with pytest.raises(FeedFailed, match=r"message\.timestamp\.type must be CreateTime"):
        feeding(timestamps=True)
    assert feeding().records == 3
