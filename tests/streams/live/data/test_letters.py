"""What a node could not read, as letters tell it: few letters, all counts, and nothing of a value."""

import json

import pytest
from confluent_kafka import KafkaError

from streams.live.data import letters
from streams.mesh.settings.brokers import BrokerSettings
from streams.records.faults import Fault, FaultLetters, counts_of

AMOUNT, WHOLE = Fault("amount", "not a number"), Fault(None, "not JSON")


class Process:
    """A process's letters, and a clock that stands until it is moved."""

    def __init__(self, run="run-1", life="aa"):
        self.now, self.sent = 0.0, []
        self.letters = FaultLetters("data.m.a", run, life, lambda: self.now)
        self.offset = 0

    def read(self, *faults):
        places = [(0, self.offset + k) for k in range(len(faults))]
        self.offset += len(faults)
        self.sent += self.letters.count(places, faults)

    def end(self):
        self.sent += self.letters.summary()

    @property
    def values(self):
        return [json.dumps(letter).encode() for letter in self.sent]


def test_a_letter_has_place_reason_and_counts():
    process = Process()
    process.read(None, AMOUNT, None, AMOUNT)
    (letter,) = process.sent
    assert letter == {
        "run": "run-1",
        "life": "aa",
        "topic": "data.m.a",
        "partition": 0,
        "offsets": [1, 3],
        "records": 2,
        "reason": "amount: not a number",
        "total": 2,
        "read": 4,
    }


def test_there_is_one_letter_a_second_and_reason_and_none_of_the_rest_is_lost():
    process = Process()
    for tenth in range(100):
        process.now = tenth / 10
        process.read(AMOUNT, WHOLE, None)
    assert len(process.sent) == 2 * 10
    assert sum(letter["records"] for letter in process.sent if letter["reason"] == "not JSON") == 91
    process.end()
    assert process.sent[-1] == {
        "run": "run-1",
        "life": "aa",
        "topic": "data.m.a",
        "read": 300,
        "faults": {"amount: not a number": 100, "not JSON": 100},
    }
    counts = counts_of(process.values, "run-1")
    assert (counts.records, counts.malformed) == (300, 200)
    assert str(counts) == "amount: not a number (100), not JSON (100)"


def test_who_could_read_everything_writes_nothing():
    process = Process()
    process.read(None, None)
    process.end()
    assert process.sent == []


def test_lives_of_a_run_add_up_a_killed_one_too_and_other_runs_and_letters_do_not_count():
    killed, again, other = Process(), Process(life="bb"), Process(run="run-2")
    for process in (killed, again, other):
        process.read(*[AMOUNT] * 7, None, None, None)
    again.end()
    feed = json.dumps({"line": 4, "value": "eA==", "reason": "not JSON"}).encode()
    odd = [b"", b"\xff", b"[]", b"7", b'{"run": "run-1"}', b'{"run": "run-1", "life": [], "read": 1}']
    odd += [json.dumps({"run": "run-1", "life": "cc", "read": "x", "reason": 1, "total": None}).encode()]
    counts = counts_of([*killed.values, feed, *odd, *again.values, *other.values], "run-1")
    assert (counts.records, counts.malformed) == (20, 14)
    assert counts.mostly
    assert counts_of([*odd, feed], "run-1").records == 0


def test_a_summary_fits_into_its_topic_whatever_columns_are_called():
    process = Process()
    long = [Fault("\x00" * 3_000 + str(k), "not a number") for k in range(80)]
    process.read(*long, *[AMOUNT] * 3)
    process.sent.clear()
    process.end()
    (letter,) = process.sent
    assert len(json.dumps(letter)) < letters._LARGEST
    assert letter["read"] == sum(letter["faults"].values()) == 83
    assert letter["faults"]["amount: not a number"] == 3


class SlowProducer:
    """Delivers after some flushes; `error` is what it tells of while it does not."""

    def __init__(self, flushes, error, settings):
        self.left, self.error, self.tell, self.purged = flushes, error, settings["error_cb"], False

    def flush(self, seconds):
        self.left -= 1
        if self.error is not None:
            self.tell(KafkaError(self.error))
            self.tell(KafkaError(KafkaError._TRANSPORT))  # the next attempt
        return max(0, self.left)

    def produce(self, topic, value, on_delivery):
        pass

    def poll(self, seconds):
        pass

    def purge(self):
        self.purged = True


@pytest.mark.parametrize(
    ("flushes", "error", "left"),
    [
        (1, None, 0),
        (4, None, 0),  # a busy broker, which is still connecting
        (99, KafkaError._ALL_BROKERS_DOWN, 98),  # nobody is there: a moment must do
    ],
)
def test_the_last_letters_wait_for_a_broker_that_connects(monkeypatch, flushes, error, left):
    producers = []

    def made(settings, logger):
        producers.append(SlowProducer(flushes, error, settings))
        return producers[-1]

    monkeypatch.setattr(letters, "Producer", made)
    writer = letters.DataLetters(BrokerSettings(servers="127.0.0.1:1"), {"data": "letters"})
    writer.close()
    assert producers == []
    assert writer.send("data", {"a": 1})
    writer.close()
    assert producers[0].left == left
    assert producers[0].purged


def test_the_last_letters_do_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(letters, "_CONNECTING", 0.0)
    monkeypatch.setattr(letters, "Producer", lambda settings, logger: SlowProducer(10**9, None, settings))
    writer = letters.DataLetters(BrokerSettings(servers="127.0.0.1:1"), {"data": "letters"})
    writer.send("data", {})
    writer.close()
