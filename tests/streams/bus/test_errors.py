from functools import partial

import pytest
from confluent_kafka import KafkaError

from streams.bus.bus import NOWHERE, BusError, OffsetOutOfRange, UnknownTopic, Unreachable
from streams.bus.errors import OUTSIDE, PASSING, UNREADABLE, Cure, bus_error, cure
from streams.bus.logs import Logs
from streams.bus.reader import ALL, KafkaReader
from streams.mesh.settings.brokers import BrokerSettings
from tests.support.brokers.scripted import Said, ScriptedConsumer
from tests.support.brokers.topics import until


def test_a_topic_that_is_missing_says_who_makes_it():
    error = bus_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "m.run-1.topology")
    assert isinstance(error, UnknownTopic)
    assert str(error) == "no topic m.run-1.topology: run mirrormesh provision"


def test_an_answer_without_words_is_told_by_its_code():
    code = KafkaError.COORDINATOR_NOT_AVAILABLE
    error = bus_error(KafkaError(code, "ConsumerGroupDescribe: "), "group data.a")
    assert str(error) == "group data.a: ConsumerGroupDescribe: Broker: Coordinator not available"
    assert str(bus_error(KafkaError(code, "busy"), "group data.a")) == "group data.a: busy"


# Every error that a client knows leaves its reader reading, or says that it cannot


CODES = {
    name: code
    for name, code in vars(KafkaError).items()
    if isinstance(code, int) and name.strip("_").isupper()
}
BROKER = BrokerSettings(servers="127.0.0.1:1")
every = pytest.mark.parametrize("name", CODES)


class Read:
    """What a reader of topic a is handed."""

    def __init__(self, monkeypatch, consumer, lossy=(), offset=0):
        monkeypatch.setattr("streams.bus.reader.Consumer", consumer)
        self.records, self.failed = [], []
        self.reader = KafkaReader(
            BROKER,
            {"a": offset},
            lambda *record: self.records.append(record[:3]),
            lambda *failure: self.failed.append(failure),
            lambda: None,
            lossy=lossy,
        )


@pytest.fixture
def read(monkeypatch):
    made = []

    def start(consumer, **options):
        made.append(Read(monkeypatch, consumer, **options))
        return made[-1]

    yield start
    for one in made:
        one.reader.close()


def test_the_client_has_all_the_names_and_each_is_in_one_table():
    assert len(CODES) > 180
    tables = [*PASSING, *OUTSIDE, *UNREADABLE]
    assert len(set(tables)) == len(tables) == len({CODES[name] for name in tables})


@every
def test_each_error_of_a_topic_has_one_outcome(name, read):
    consumer = ScriptedConsumer(a=(0, [b"0", b"1"]))
    consumer.saying = [Said("a", None, error=KafkaError(CODES[name]))]
    said = read(consumer)
    what = cure(KafkaError(CODES[name]))
    if what is Cure.WAIT:
        until(lambda: len(said.records) == 2)
        assert (said.records, said.failed) == ([("a", 0, b"0"), ("a", 1, b"1")], [])
    elif what is Cure.SKIP:
        until(lambda: len(said.records) == 2)
        assert (said.records, said.failed) == ([("a", 0, b""), ("a", 1, b"1")], [])
    else:
        until(lambda: said.failed)
        ((topic, error),) = said.failed
        assert (topic, said.reader.position("a")) == ("a", NOWHERE)
        assert isinstance(error, BusError)
        assert not isinstance(error, Unreachable)
        assert isinstance(error, OffsetOutOfRange) == (what is Cure.SEEK) == (name in OUTSIDE)


@every
def test_each_error_of_the_client_passes_or_is_told_once(name, read):
    consumer = ScriptedConsumer(a=(0, [b"0"]))
    consumer.calling = [KafkaError(CODES[name], "no topic's")] * 2
    said = read(consumer)
    until(lambda: said.records)
    passes = cure(KafkaError(CODES[name])) is Cure.WAIT
    assert [topic for topic, _ in said.failed] == ([] if passes else [ALL])


@pytest.mark.parametrize(("retriable", "expected"), [(True, Cure.WAIT), (False, Cure.END)])
def test_a_code_that_nobody_knows_passes_if_the_client_may_try_again_and_ends_otherwise(retriable, expected):
    assert cure(KafkaError(30_000, "new", retriable=retriable)) is expected
    assert cure(KafkaError(KafkaError._TRANSPORT, "fatal", fatal=True)) is Cure.END


def test_a_callback_that_names_a_topic_fails_that_topic(read):
    consumer = ScriptedConsumer(a=(0, [b"0"]))
    consumer.calling = [KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "a [0] is gone")]
    said = read(consumer)
    until(lambda: said.failed)
    assert [topic for topic, _ in said.failed] == ["a"]


def test_a_cut_log_without_an_offset_is_told(read):
    """What librdkafka says of a log that has lost its end: no offset, and its own code."""
    said = read(ScriptedConsumer(a=(0, [b"0"])), offset=5)
    until(lambda: said.failed)
    assert [(topic, type(error)) for topic, error in said.failed] == [("a", OffsetOutOfRange)]


def test_where_records_may_be_lost_the_reader_goes_on_at_the_beginning_of_the_log(read):
    said = read(ScriptedConsumer(a=(7, [b"7", b"8"])), lossy={"a"}, offset=2)
    until(lambda: len(said.records) == 2)
    assert (said.records, said.failed) == ([("a", 7, b"7"), ("a", 8, b"8")], [])
    truncated = read(ScriptedConsumer(a=(0, [b"0"])), lossy={"a"}, offset=5)
    until(lambda: truncated.failed)  # its end is gone: a start sends what is lost again
    assert isinstance(truncated.failed[0][1], OffsetOutOfRange)


def test_a_broker_that_is_away_when_a_log_is_looked_at_is_asked_again(read):
    consumer = ScriptedConsumer()
    said = read(consumer, lossy={"a"}, offset=2)
    until(lambda: consumer.at.get("a") == -1)
    consumer.logs["a"] = (7, [b"7"])
    until(lambda: said.records)
    assert (said.records, said.failed) == ([("a", 7, b"7")], [])


BAD, WORSE = KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG
LOGS = {
    "one": ([b"0", BAD, b"2"], [(0, b"0"), (1, b""), (2, b"2")]),
    "the first": ([BAD, b"1"], [(0, b""), (1, b"1")]),
    "the last": ([b"0", BAD], [(0, b"0"), (1, b"")]),
    "a batch": ([b"0", *[BAD] * 37, b"38", b"39"], [(0, b"0"), (1, b""), (38, b"38"), (39, b"39")]),
    "a batch at the end": ([b"0", *[BAD] * 9], [(0, b"0"), (1, b"")]),
    "two batches": ([BAD, BAD, WORSE, b"3"], [(0, b""), (2, b""), (3, b"3")]),
    "many": ([*[BAD, WORSE, WORSE] * 3, b"9"], [(k, b"") for k in (0, 1, 3, 4, 6, 7)] + [(9, b"9")]),
    "two, and one between": ([BAD, BAD, b"2", WORSE, b"4"], [(0, b""), (2, b"2"), (3, b""), (4, b"4")]),
}
logs = pytest.mark.parametrize(("values", "expected"), LOGS.values(), ids=LOGS)


@logs
def test_what_cannot_be_read_is_one_empty_record_and_nothing_else_is_lost(read, values, expected):
    done = []
    said = read(ScriptedConsumer(a=(0, values)))
    said.reader.when_read({"a": len(values)}, partial(done.append, True))
    until(lambda: done)
    assert said.records == [("a", *one) for one in expected]
    assert (said.failed, said.reader.position("a")) == ([], len(values))


@logs
def test_stored_records_that_cannot_be_read_are_one_empty_record_too(monkeypatch, values, expected):
    monkeypatch.setattr("streams.bus.logs.Consumer", ScriptedConsumer(a=(0, values)))
    found = Logs(BROKER).stored({"a": 0})["a"]
    assert [(one.offset, one.value) for one in found] == expected


@every
def test_a_request_for_stored_records_answers_or_raises(monkeypatch, name):
    consumer = ScriptedConsumer(a=(0, [b"0", b"1"]))
    consumer.saying = [Said("a", None, error=KafkaError(CODES[name]))]
    monkeypatch.setattr("streams.bus.logs.Consumer", consumer)
    reading, what = partial(Logs(BROKER).stored, {"a": 0}), cure(KafkaError(CODES[name]))
    if what in {Cure.WAIT, Cure.SKIP}:
        assert [one.value for one in reading()["a"]] == [b"" if what is Cure.SKIP else b"0", b"1"]
    else:
        with pytest.raises(BusError):
            reading()
