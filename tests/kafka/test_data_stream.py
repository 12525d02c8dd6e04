"""A node's own records through Faust, on a real broker: what is read, from where, and what stops it."""

import socket
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from nodes.machine.slots import CountSlots, TimeSlots
from streams.codec.topics import DataTopics
from streams.live.data.collector import SlotCollector
from tests.support.brokers.data_streams import DataTopic, Lengths, live_stream, new_stream, numbers
from tests.support.brokers.development import free_port
from tests.support.brokers.topics import PATIENCE, until

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(broker):
    return DataTopic(broker.address)


def by_time(start, size=9):
    return lambda: TimeSlots(size, start=start, period=1.0, grace=0.2)


# ----------------------------------------------------------------------------------------- what is read


def test_slots_come_in_order_and_read_on_as_records_arrive(topic, tmp_path):
    topic.count_up(7)
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(3)) as live:
        assert live.take(2) == ([float(k) for k in range(6)], ((0, 6),))
        live.open(3, ((0, 6),))
        topic.count_up(9, first=7)
        assert numbers(live.closed()) == [6.0, 7.0, 8.0]
    assert live.failed is None
    assert live.stopped_in < 3


def test_a_slot_may_be_opened_before_the_stream_is_served(topic, tmp_path):
    topic.count_up(7)
    live = new_stream(topic, tmp_path)
    live.open(1, ((0, 4),))
    with live_stream(topic, tmp_path, ((0, 4),)) as live:
        assert numbers(live.slot(1, ((0, 4),))) == [4.0]


def test_poisoned_records_keep_their_places_and_stop_nothing(topic, tmp_path, caplog):
    topic.count_up(1)
    topic.send([None])
    topic.send([b""], key=b"k")
    topic.send([b"x" * 2**20], key=b"\xff" * 1000)
    topic.send([bytes(range(256))], headers={"Faust-Ag-ReplyTo": b"\xff", "": None})
    topic.send([b'{"__faust": {"ns": "os.system"}}'], key=b'{"__faust": 1}', timestamp=2**52)
    topic.count_up(2, first=1)
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(7), decoder=Lengths()) as live:
        assert numbers(live.slot(1, ())) == [2.0, 0.0, 0.0, 2.0**20, 256.0, 32.0, 2.0]
        assert (live.counts.records, live.counts.malformed) == (7, 2)
    assert live.failed is None
    assert not [secret for secret in ("xxxx", "os.system", "__faust") if secret in caplog.text]


def test_a_record_whose_decoder_breaks_is_absent_and_nothing_is_said_of_it(topic, tmp_path, caplog, capfd):
    class Broken(Lengths):
        def decode(self, value):
            if value == b"secret":
                raise ValueError(f"cannot decode {value}")
            return super().decode(value)

    topic.send([b"secret", b"open"])
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(2), decoder=Broken()) as live:
        assert numbers(live.slot(1, ())) == [0.0, 4.0]
        assert (live.counts.records, live.counts.malformed) == (2, 1)
    assert live.failed is None
    out, err = capfd.readouterr()
    assert "secret" not in caplog.text + out + err


def test_slots_that_break_say_nothing_of_the_record(topic, tmp_path, caplog, capfd):
    class Broken(CountSlots):
        def extend(self, *arguments):
            raise ValueError(f"cannot take {arguments}")

    topic.send([b"secret"])
    with live_stream(topic, tmp_path, slots=lambda: Broken(1)) as live:
        live.open(1, ())
        until(lambda: live.failed is not None)
    assert str(live.failed) == f"{topic.name}: a record could not be taken: ValueError"
    out, err = capfd.readouterr()
    assert "secret" not in caplog.text + out + err


def test_several_partitions_with_slots_by_time(broker, tmp_path):
    topic = DataTopic(broker.address, partitions=3)
    start = time.time() // 1 + 4  # in time to see both slots open
    for partition, offset, number in [(2, 0.3, 1), (0, 0.1, 2), (1, 0.2, 3), (0, 1.5, 4), (1, -5.0, 5)]:
        topic.send([f"{number}".encode()], partition, timestamp=int((start + offset) * 1000))
    with live_stream(topic, tmp_path, slots=by_time(start)) as live:
        assert live.take(1) == ([2.0, 3.0, 1.0], ((0, 1), (1, 2), (2, 1)))
        assert time.time() >= start + 1.2
        found, position = live.take(1, ((0, 1), (1, 2), (2, 1)), first=2)
        assert found == [4.0]
        assert time.time() >= start + 2.2
        assert live.counts.late == 1
    with live_stream(topic, tmp_path, ((0, 1), (1, 2), (2, 1)), slots=by_time(start)) as live:
        assert live.take(1, ((0, 1), (1, 2), (2, 1)), first=2) == ([4.0], position)


def test_a_record_that_is_dated_too_far_ahead_is_dropped_and_holds_no_position(broker, tmp_path):
    topic = DataTopic(broker.address)
    start = time.time() // 1 + 4

    def slots():
        return TimeSlots(9, start=start, period=1.0, grace=0.2, horizon=20)

    for offset, number in [(600.0, 1), (0.1, 2), (10_000.0, 3), (0.3, 4), (1.5, 5)]:
        topic.send([f"{number}".encode()], timestamp=int((start + offset) * 1000))
    with live_stream(topic, tmp_path, slots=slots) as live:
        assert live.take(1) == ([2.0, 4.0], ((0, 4),))
        assert live.counts.early == 2
        assert live.take(1, ((0, 4),), first=2) == ([5.0], ((0, 5),))


def test_a_slot_by_time_closes_though_the_log_ends_without_a_record(topic, tmp_path):
    """A transaction's marker takes an offset, and is no record."""
    producer = Producer({"bootstrap.servers": topic.address, "transactional.id": topic.node})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    start = time.time()
    producer.produce(topic.name, b"7", timestamp=int((start + 0.5) * 1000))
    producer.commit_transaction(PATIENCE)
    with live_stream(topic, tmp_path, slots=by_time(start)) as live:
        assert numbers(live.slot(1, ())) == [7.0]
        until(lambda: live.lag == 0)


# ---------------------------------------------------------------------------------------- from where


def committed(topic):
    """What the group has committed, and who is in it."""
    group = topic.topics.group("r")
    offsets = topic.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = offsets[group].result(PATIENCE).topic_partitions
    members = topic.admin.describe_consumer_groups([group])[group].result(PATIENCE).members
    return [partition.offset for partition in found], members


def test_positions_are_the_given_ones_whatever_is_committed(topic, tmp_path):
    topic.count_up(9)
    with live_stream(topic, tmp_path) as live:
        live.take(9)
        until(lambda: committed(topic) == ([9], []))  # for the owner's eyes; and there are no members
    with live_stream(topic, tmp_path, ((0, 4),)) as live:
        assert live.take(2, ((0, 4),))[0] == [4.0, 5.0]
    topic.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(topic.topics.group("r"), [TopicPartition(topic.name, 0, 8)])]
    )[topic.topics.group("r")].result(PATIENCE)
    with live_stream(topic, tmp_path) as live:
        assert live.take(2)[0] == [0.0, 1.0]


def test_a_slot_at_the_topics_end_reads_what_comes_from_then_on(topic, tmp_path, monkeypatch):
    offered, add = [], SlotCollector.add

    def counted(self, arrivals, first=0):
        place, blocked = add(self, arrivals, first)
        offered.extend(arrivals[first:place])
        return place, blocked

    monkeypatch.setattr(SlotCollector, "add", counted)
    topic.count_up(3000)
    with live_stream(topic, tmp_path, slots=lambda: CountSlots(2)) as live:
        assert live.take(1) == ([0.0, 1.0], ((0, 2),))
        live.open(2, None)
        until(lambda: live.lag == 0)
        topic.count_up(3002, first=3000)
        assert numbers(live.closed()) == [3000.0, 3001.0]
    assert len(offered) < 2000  # the rest was passed over, not read


def test_below_the_logs_start_it_goes_on_and_counts_what_is_lost(topic, tmp_path):
    topic.count_up(30)
    topic.admin.delete_records([TopicPartition(topic.name, 0, 20)])
    until(lambda: spans(topic) == (20, 30))
    with live_stream(topic, tmp_path, ((0, 5),)) as live:
        assert live.take(1, ((0, 5),)) == ([20.0], ((0, 21),))
        assert live.counts.lost == 15


def spans(topic):
    consumer = Consumer({"bootstrap.servers": topic.address, "group.id": "tests"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic.name, 0), PATIENCE)
    finally:
        consumer.close()


def test_records_that_go_while_it_waits_are_counted_and_it_goes_on(topic, tmp_path, monkeypatch):
    monkeypatch.setattr("streams.live.data.collector.AHEAD", 4)
    topic.count_up(400, size=50_000)
    with live_stream(topic, tmp_path) as live:
        live.take(1)
        topic.admin.delete_records([TopicPartition(topic.name, 0, 390)])
        until(lambda: spans(topic) == (390, 400))
        found, position = [0.0], ((0, 1),)
        while found[-1] < 399:
            more, position = live.take(1, position)
            found += more
        assert found == sorted(set(found))
        assert {390.0 + k for k in range(10)} <= set(found)
        assert live.counts.lost == 400 - len(found) > 0


# ------------------------------------------------------------------------------------- what stops it


def test_a_position_beyond_the_log_is_said(topic, tmp_path):
    topic.count_up(3)
    with live_stream(topic, tmp_path, ((0, 4),)) as live:
        until(lambda: live.failed is not None)
    assert str(live.failed) == (
        f"{topic.name}: the position of partition 0 is beyond the log's end: the topic was made anew"
    )


def test_a_missing_topic_is_said(topic, tmp_path):
    topic.topics = DataTopics("m", f"{topic.node}-gone")
    with live_stream(topic, tmp_path) as live:
        until(lambda: live.failed is not None)
    assert f"no topic {topic.name}-gone" in str(live.failed)


def test_it_stops_at_once_however_early(topic, tmp_path):
    with live_stream(topic, tmp_path) as live:
        pass
    assert live.stopped_in < 3
    assert live.failed is None


# -------------------------------------------------------------------------------------------- Faust


def test_faust_makes_no_topics_and_writes_nothing(topic, tmp_path, capfd):
    topic.count_up(2)
    before = set(topic.admin.list_topics().topics)
    with live_stream(topic, tmp_path, web=("127.0.0.1", free_port())) as live:
        live.take(2)
        until(lambda: live.lag == 0)
    made = set(topic.admin.list_topics().topics) - before
    assert [name for name in made if topic.node in name] == []
    assert capfd.readouterr().out == ""


def test_the_web_pages_are_where_they_were_asked_for_without_tables(topic, tmp_path):
    port = free_port()
    with live_stream(topic, tmp_path, web=("127.0.0.1", port)) as live:
        topic.count_up(1)
        live.take(1)
        assert [status(port, path) for path in ("/", "/table/", "/router/", "/stats/")] == [
            200,
            404,
            404,
            404,
        ]
        assert listening(port) == {"127.0.0.1"}


def test_a_port_that_is_taken_is_said(topic, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with live_stream(topic, tmp_path, web=taken.getsockname()) as live:
            until(lambda: live.failed is not None)
        assert "address already in use" in str(live.failed)


def status(port, path):
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def listening(port):
    """The addresses on which this process listens at that port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = {line[1].split(":")[0] for line in lines if line[3] == "0A" and line[1].endswith(f":{port:04X}")}
    return {socket.inet_ntoa(bytes.fromhex(address)[::-1]) for address in found}
