"""Records go at once while they are few, and wait for each other while they are many, in order either way."""

from streams.bus.connection import producer_settings
from streams.bus.sender import TOGETHER, PacedSender
from streams.mesh.settings.brokers import BrokerSettings


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
