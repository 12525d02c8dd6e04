"""Letters about bad lines: written beside their lines, and again where a kill has cost them."""

import base64
import json
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError

from streams.bus.bus import Unreachable
from streams.bus.rights import feeder
from streams.codec.topics import DataTopics
from streams.runtime.process import ProcessStopped, Stop
from streams.tools.feed import feed as module
from streams.tools.feed.feed import Writer
from streams.tools.feed.lines import (
    BYTES,
    FeedFailed,
    FeedTopic,
    HeldLines,
    Line,
    digest,
    encode_letter,
    lacking,
)
from tests.support.brokers.topics import connection

TOPICS = DataTopics("m", "a")


def line(number, *, bad=None, value=b"{"):
    return Line(number, value, None, b"mark", bad)


def numbers(letters):
    return [json.loads(letter)["line"] for letter in letters]


def test_the_letters_that_are_not_there_are_those_of_bad_lines():
    lines = [line(1), line(2, bad="why"), line(3, bad="why"), line(4), line(5, bad="why")]
    assert numbers(lacking(lines, ())) == [2, 3, 5]
    assert numbers(lacking(lines, {digest(encode_letter(lines[2]))})) == [2, 5]
    assert lacking(lines, {digest(encode_letter(one)) for one in lines}) == []


def test_no_more_letters_lack_than_were_ever_on_their_way():
    lines = [line(k, bad="long", value=bytes(2**20)) for k in range(1, 12)]
    size = len(encode_letter(lines[-1]))
    assert len(lacking(lines, ())) == BYTES // size
    assert numbers(lacking(lines, ()))[-1] == 11
    huge = line(12, bad="long", value=bytes(BYTES))
    assert numbers(lacking([*lines, huge], ())) == [12]  # one at least


class Producer:
    """In the client's place: keeps what is sent, and reports on it when told to."""

    def __init__(self, settings, logger):
        self.sent, self.waiting = [], []

    def produce(self, topic, value, *, on_delivery, **more):
        self.sent.append((topic, value))
        self.waiting.append(Report(on_delivery))

    def poll(self, seconds):
        return 0

    def purge(self, **more):
        pass


class Report:
    def __init__(self, on_delivery):
        self.refused = lambda error: on_delivery(error, self)
        self.arrived = lambda: on_delivery(None, self)

    def offset(self):
        return None  # as of a batch that was stored before


@pytest.fixture
def writing(monkeypatch):
    monkeypatch.setattr(module, "Producer", Producer)
    topic = FeedTopic(
        "records", "letters", 10**6, 0.0, False, HeldLines(7, b"mark", 7, 0), frozenset(), feeder(TOPICS)
    )
    with Stop() as stop:
        writer = Writer(connection("nowhere:1"), "a", topic, stop)
        monkeypatch.setattr(writer._waiting, "sleep", in_vain)
        yield writer


def in_vain(seconds):
    """In place of a wait for the broker, which here would have no end."""
    raise ProcessStopped


def test_a_bad_line_is_sent_at_once_as_a_good_one_is_and_its_letter_with_it(writing):
    writing.put(line(8))
    writing.put(line(9, bad="why"))
    writing.put(line(10))
    sent = writing._producer.sent
    assert [(topic, value if topic == "records" else numbers([value])) for topic, value in sent] == [
        ("records", b"{"),
        ("records", b""),
        ("letters", [9]),
        ("records", b"{"),
    ]
    assert json.loads(sent[2][1])["value"] == base64.b64encode(b"{").decode()
    assert (writing.acknowledged, writing.counts.malformed) == (0, 0)
    for report in writing._producer.waiting:
        report.arrived()
    assert (writing.acknowledged, writing.counts.malformed) == (3, 1)
    writing.finish()


def test_a_feed_ends_when_its_letters_are_there_too(writing):
    writing.put(line(8, bad="why"))
    record, letter = writing._producer.waiting
    record.arrived()
    with pytest.raises(ProcessStopped):
        writing.finish()
    letter.arrived()
    writing.finish()


def test_a_letter_that_the_broker_refuses_ends_the_feed(writing):
    writing.put(line(8, bad="why"))
    writing._producer.waiting[1].refused(KafkaError(KafkaError.INVALID_RECORD, "no"))
    with pytest.raises(FeedFailed, match=r"letters: .*no"):
        writing.put(line(9))


def test_a_broker_that_answers_and_dies_again_is_waited_for(writing, monkeypatch):
    answers = iter([Unreachable("away"), Unreachable("away"), None])
    asked = []

    def preflight(*_):
        asked.append(answer := next(answers))
        if answer is not None:
            raise answer

    monkeypatch.setattr(module, "reached", lambda *_: "cluster")
    monkeypatch.setattr(module, "preflight", preflight)
    writing.put(line(8))
    writing._heard -= module.QUIET + 1
    writing.tend()
    assert len(asked) == 3


def test_a_letter_that_is_there_is_not_written_again(writing):
    one = line(8, bad="why")
    writing._topic = replace(writing._topic, lettered=frozenset([digest(encode_letter(one))]))
    writing.put(one)
    writing.put(line(9, bad="why"))
    assert [topic for topic, _ in writing._producer.sent] == ["records", "records", "letters"]


def test_letters_on_their_way_stay_near_their_lines(writing, monkeypatch):
    monkeypatch.setattr(module, "WINDOW", 3)
    writing.put(line(8, bad="why"))
    writing._producer.waiting[0].arrived()  # its letter does not
    for number in (9, 10):
        writing.put(line(number))
        writing._producer.waiting[-1].arrived()
    with pytest.raises(ProcessStopped):
        writing.put(line(11))  # a start looks no further back for it
    writing._producer.waiting[1].arrived()
    writing.put(line(11))


def test_letters_on_their_way_are_few_bytes(writing):
    for number in range(8, 13):
        writing.put(line(number, bad="long", value=bytes(2**20)))
    with pytest.raises(ProcessStopped):
        writing.put(line(13, bad="long", value=bytes(2**20)))
