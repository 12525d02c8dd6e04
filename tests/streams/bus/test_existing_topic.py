"""Which settings of an existing topic let records vanish that nobody has read, and what is said of them."""

import logging

import pytest

from streams.bus import existing_topic
from streams.bus.bus import Unreachable
from streams.bus.existing_topic import UNSEEN, ExistingTopics, Judgement, judged
from streams.mesh.settings.brokers import BrokerSettings

WEEK, DAY_MS = 7 * 86_400.0, 86_400_000
PLAIN = {
    "cleanup.policy": "delete",
    "min.compaction.lag.ms": "0",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "message.timestamp.type": "LogAppendTime",
}


@pytest.mark.parametrize(
    ("configs", "lag", "refusal"),
    [
        ({}, None, None),
        ({}, WEEK, None),
        (
            {"cleanup.policy": "compact"},
            None,
            "cleanup.policy is compact: must be delete, or needs source",
        ),
        ({"cleanup.policy": "compact,delete"}, None, "cleanup.policy is compact,delete: must be delete, or"),
        ({"cleanup.policy": "compact"}, WEEK, "min.compaction.lag.ms is 0: must be at least 604800000 (7d,"),
        (
            {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * DAY_MS - 1)},
            WEEK,
            "min.compaction.lag.ms is 604799999: must be at least 604800000 (7d, source.lag)",
        ),
        ({"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * DAY_MS)}, WEEK, None),
        ({"cleanup.policy": "delete,compact", "min.compaction.lag.ms": str(9 * DAY_MS)}, WEEK, None),
        ({"cleanup.policy": "compact", "min.compaction.lag.ms": "5400000"}, 5400.0, None),
        ({"cleanup.policy": "compact"}, 5400.0, "must be at least 5400000 (90m, source.lag)"),
    ],
)
def test_a_compacted_topic_must_spare_what_waits(configs, lag, refusal):
    refusals = judged(PLAIN | configs, lag).refusals
    assert len(refusals) == (refusal is not None)
    assert refusal is None or refusal in refusals[0]


@pytest.mark.parametrize(
    ("configs", "lag", "caution"),
    [
        ({}, WEEK, None),
        ({"retention.bytes": "1000"}, None, "retention.bytes is 1000: the sizes of other records decide"),
        ({"retention.ms": str(DAY_MS)}, None, None),
        ({"retention.ms": str(7 * DAY_MS)}, WEEK, None),
        (
            {"retention.ms": str(DAY_MS)},
            WEEK,
            "retention.ms is 86400000: records that wait for 7d",
        ),
        ({"retention.ms": "1", "cleanup.policy": "compact", "min.compaction.lag.ms": "9" * 12}, WEEK, None),
    ],
)
def test_what_the_owner_should_know(configs, lag, caution):
    judgement = judged(PLAIN | configs, lag)
    assert judgement.refusals == ()
    assert len(judgement.cautions) == (caution is not None)
    assert caution is None or caution in judgement.cautions[0]


COMPACTED = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(7 * DAY_MS)}


@pytest.mark.parametrize("stated", [True, False], ids=["stated", "by default"])
@pytest.mark.parametrize(
    ("configs", "lag", "settings"),
    [
        ({}, None, None),
        (COMPACTED, WEEK, "min.compaction.lag.ms goes"),
        ({"retention.ms": str(9 * DAY_MS)}, None, "retention.ms goes"),
        ({"retention.ms": str(9 * DAY_MS)}, WEEK, "retention.ms goes"),
        (COMPACTED | {"retention.ms": "1"}, WEEK, "min.compaction.lag.ms goes"),
        (
            COMPACTED | {"cleanup.policy": "compact,delete", "retention.ms": str(9 * DAY_MS)},
            WEEK,
            "min.compaction.lag.ms and retention.ms go",
        ),
    ],
)
def test_ages_by_the_times_that_producers_write_are_one_caution(configs, lag, settings, stated):
    """The cleaner compares a segment's largest timestamp: with LogAppendTime it is the broker's."""
    by_broker = PLAIN | configs
    by_producers = by_broker | {"message.timestamp.type": "CreateTime"}
    if not stated:
        del by_producers["message.timestamp.type"]
    assert judged(by_broker, lag) == Judgement((), ())
    refusals, cautions = judged(by_producers, lag)
    assert refusals == ()
    assert len(cautions) == (settings is not None)
    line = f"message.timestamp.type is CreateTime: {settings} by the times that producers write, "
    assert settings is None or cautions[0].startswith(line)


def test_a_topic_that_is_refused_is_not_said_to_spare_anything():
    """Its line on compaction would be of no use, and the owner has one line to mend."""
    judgement = judged(PLAIN | {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}, WEEK)
    assert (len(judgement.refusals), judgement.cautions) == (1, ())


def test_a_caution_is_logged_once_and_a_broker_that_is_away_refuses_nothing(monkeypatch, caplog):
    answers = [
        {"a": Judgement((), (UNSEEN,))},
        {"a": Judgement((), (UNSEEN,))},
        Unreachable("away"),
        {"a": Judgement(("is other now",), (UNSEEN, "more"))},
    ]

    def next_answer(_, lags):
        assert lags == {"a": None}
        current = answers.pop(0)
        if isinstance(current, Exception):
            raise current
        return current

    monkeypatch.setattr(existing_topic, "judgements", next_answer)
    topics = ExistingTopics(None, {"a": None}, logging.getLogger("test"))
    assert topics.refusals(["a"]) == []
    assert [topics.unfit() for _ in range(3)] == [None, None, "a: is other now"]
    assert [record.getMessage() for record in caplog.records] == [f"a: {UNSEEN}", "a: more"]


def test_without_an_existing_topic_no_broker_is_asked():
    assert ExistingTopics(None, {}, logging.getLogger("test")).refusals([]) == []


class Stored:
    """A message, or with an `error` the end of its partition."""

    def __init__(self, partition, offset, error=None):
        self._partition, self._offset, self._error = partition, offset, error

    def partition(self):
        return self._partition

    def offset(self):
        return self._offset

    def error(self):
        return self._error


class Client:
    """A consumer of partitions that hold so many records; the client tells where each ends."""

    def __init__(self, held):
        self.held, self.waiting, self.closed = held, [], 0

    def partitions(self, topics):
        return dict.fromkeys(topics, len(self.held))

    def span(self, topic, partition):
        return 0, self.held[partition]

    def assign(self, partitions):
        for of in partitions:
            held = self.held[of.partition]
            assert held
            self.waiting += [Stored(of.partition, k) for k in range(held)] + [
                Stored(of.partition, held, "end")
            ]

    def consume(self, most, seconds):
        some, self.waiting = self.waiting[:7], self.waiting[7:]
        return some

    def close(self):
        self.closed += 1


@pytest.mark.parametrize(
    ("held", "partitions", "most", "expected"),
    [
        ([20, 3, 0], None, 16, {0: 8, 1: 3}),  # of partitions that hold something, evenly
        ([20, 30, 5], (1, 2), 100, {1: 30, 2: 5}),
        ([0, 0], None, 10, {}),
    ],
)
def test_the_first_messages_come_evenly_from_the_partitions(monkeypatch, held, partitions, most, expected):
    client = Client(held)
    monkeypatch.setattr(existing_topic, "Logs", lambda *_, **__: client)
    monkeypatch.setattr(existing_topic, "Consumer", lambda _: client)
    first = existing_topic.sample(BrokerSettings(servers="127.0.0.1:1"), "t", partitions, most)
    assert first.partitions == len(held)
    places = {(message.partition(), message.offset()) for message in first.messages}
    assert places == {(part, offset) for part, count in expected.items() for offset in range(count)}
    assert client.closed == 2


def test_a_partition_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(existing_topic, "Logs", lambda *_, **__: Client([1, 1]))
    with pytest.raises(existing_topic.NoPartition, match="has no partition 7: must be among 0 to 1"):
        existing_topic.sample(BrokerSettings(servers="127.0.0.1:1"), "t", (0, 7), 10)


def test_a_broker_that_stalls_gives_what_it_gave(monkeypatch):
    client = Client([5])
    client.consume = lambda most, seconds: []
    monkeypatch.setattr(existing_topic, "_SAMPLING", 0.0)
    monkeypatch.setattr(existing_topic, "Logs", lambda *_, **__: client)
    monkeypatch.setattr(existing_topic, "Consumer", lambda _: client)
    assert existing_topic.sample(BrokerSettings(servers="127.0.0.1:1"), "t", None, 10).messages == ()
