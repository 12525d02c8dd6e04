"""A producer that has failed for good, as the client tells it: an exception, in whatever call comes next."""

import json
from threading import Event

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.bus.bus import ClientFailed, Denied, OffsetOutOfRange
from streams.bus.connection import producer_settings
from streams.bus.kafka import TOGETHER, PacedSender, Sender
from streams.bus.reader import KafkaReader
from streams.mesh.settings.brokers import BrokerSettings
from streams.runtime.process import BEGINS_AGAIN, unreadable
from tests.support.brokers.development import free_port

FATAL = KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "sequence desynchronization", fatal=True)


class Failing:
    """A producer that raises a fatal error when it is polled, as librdkafka's does."""

    def poll(self, _):
        raise KafkaException(FATAL)

    def __len__(self):
        return 1


@pytest.fixture
def nobody():
    """A broker that does not answer."""
    return BrokerSettings(servers=f"127.0.0.1:{free_port()}")


@pytest.fixture
def sender(nobody):
    sender = Sender(nobody, 1024)
    sender._producer.close()
    sender._producer = Failing()
    return sender


def test_serving_flushing_and_sending_say_that_it_has_failed(sender):
    for call in (sender.serve, lambda: sender.flush(1.0), lambda: sender.send("t", b"v", None)):
        with pytest.raises(ClientFailed, match="the producer has failed: sequence desynchronization"):
            call()


def test_a_reader_that_serves_it_tells_so_and_the_process_begins_again(sender, nobody):
    told, heard = Event(), []

    def failed(topic, error):
        heard.append(unreadable(topic, error))
        told.set()

    reader = KafkaReader(nobody, {}, lambda *_: None, failed, sender.serve)
    try:
        assert told.wait(60)
    finally:
        reader.close()
    assert len(heard) == 1
    assert isinstance(heard[0], BEGINS_AGAIN)


@pytest.mark.parametrize(
    ("error", "again"), [(OffsetOutOfRange("t", "cut"), True), (Denied("no right"), False)]
)
def test_what_else_ends_reading(error, again):
    assert isinstance(unreadable("t", error), BEGINS_AGAIN) is again


# Records go at once while they are few, and wait for each other while they are many, in order either way


class Producer:
    """A producer whose records are acknowledged when the test says so, and reported when it is asked."""

    def __init__(self, linger):
        self.linger, self.values, self.closed = linger, [], False
        self.open, self.acknowledged = [], 0

    @property
    def waiting(self):
        return len(self.open)

    def send(self, topic, value, acknowledged, key=None):
        self.values.append(value)
        self.open.append(acknowledged)

    def serve(self, seconds=0.0):
        while self.acknowledged:
            self.acknowledged -= 1
            self.open.pop(0)()

    def flush(self, seconds):
        self.acknowledged = self.waiting
        self.serve()
        return True

    def close(self):
        self.closed = True


class Side:
    """A sender by a clock of the test's own, and what has gone through which producer."""

    def __init__(self):
        self.now, self.made = 0.0, []
        self.sender = PacedSender(self.make, lambda: self.now)

    def make(self, linger):
        self.made.append(Producer(linger))
        return self.made[-1]

    def acknowledge(self):
        for one in self.made:
            one.acknowledged = one.waiting

    def send(self, count, apart, *, acknowledged=True):
        """Send that many; return how long each may wait, in milliseconds."""
        waits = []
        for _ in range(count):
            before = [len(one.values) for one in self.made]
            self.sender.send("decisions", bytes([len(waits)]), None)
            counts = zip(self.made, [*before, 0], strict=False)
            waits += [one.linger for one, known in counts if len(one.values) > known]
            if acknowledged:
                self.acknowledge()
            self.now += apart
        return waits


def test_fewer_than_fifty_a_second_are_sent_at_once():
    side = Side()
    assert side.send(100, 0.021) == [0] * 100
    assert len(side.made) == 1  # and the second producer is not there at all


def test_more_than_fifty_a_second_wait_for_each_other_until_they_are_few_again():
    side = Side()
    assert side.send(100, 0.019) == [0] * 8 + [TOGETHER] * 92
    side.now += 1
    assert side.send(10, 0.021) == [0] * 10
    assert len(side.made) == 2


def test_a_short_burst_does_not_wait():
    side = Side()
    assert side.send(3, 1.0) + side.send(5, 0.001) + side.send(9, 1.0) == [0] * 17


def test_nothing_overtakes_what_is_not_acknowledged():
    side = Side()
    assert side.send(20, 0.001, acknowledged=False) == [0] * 20
    assert side.sender.waiting == 20
    side.sender.flush(1.0)
    assert side.send(5, 0.001, acknowledged=False) == [TOGETHER] * 5
    side.now += 10
    assert side.send(1, 0.001, acknowledged=False) == [TOGETHER]
    assert side.sender.waiting == 6
    side.acknowledge()
    assert side.send(1, 1.0) == [0]


def test_a_topic_does_not_wait_for_the_acknowledgements_of_another():
    side = Side()
    for _ in range(20):
        side.sender.send("decisions.a", b"", None)
        side.now += 0.001
    side.sender.send("decisions.b", b"b", None)
    assert [one.linger for one in side.made if b"b" in one.values] == [TOGETHER]


def test_both_producers_are_closed():
    side = Side()
    side.send(20, 0.001)
    side.sender.close()
    assert [one.closed for one in side.made] == [True, True]


def test_a_producer_that_waits_takes_batches():
    settings = producer_settings(BrokerSettings(servers="localhost:9092"), 0, TOGETHER)
    assert settings["linger.ms"] == TOGETHER
    assert settings["batch.num.messages"] > 1
    assert producer_settings(BrokerSettings(servers="localhost:9092"), 0)["linger.ms"] == 0


def requests(records, **how):
    """How many requests a sender makes of records that are all there before it reaches its broker."""
    report = {}
    on_mock = {
        "test.mock.num.brokers": 1,
        "statistics.interval.ms": 10,
        "stats_cb": lambda text: report.update(json.loads(text)),
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "streams.bus.kafka.producer_settings",
            lambda *args, **more: producer_settings(*args, **more) | on_mock,
        )
        sender = Sender(BrokerSettings(servers="mock:1"), 1024, **how)
    for number in range(records):
        sender.send("predictions", b"%d" % number, None)
    while not sender.flush(1.0):
        pass
    for _ in range(2):  # the first report may be older than the last request
        report.clear()
        while not report:
            sender.serve(0.1)
    sender.close()
    return sum(broker["req"].get("Produce", 0) for broker in report["brokers"].values())


def test_records_that_are_sent_together_go_in_few_requests_if_they_may():
    assert requests(200) == 200
    assert requests(200, batches=True) < 100
    assert requests(1, batches=True) == 1
