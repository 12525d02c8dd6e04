"""`mirrormesh deadletters` shows what anybody may have written as letters: no such thing ends it."""

import json

import pytest

from streams.bus.bus import Stored
from streams.cli import operate
from streams.codec import Reason, Refused, encode_dead_letter
from tests.support.collaborations.files import collaboration_file
from tests.support.meshes.files import changed, written

BROKERS = {"mesh": {"servers": "one:9092"}, "data": {"servers": "two:9092"}}
NO_LETTERS = [
    b"[" * 100_000,
    b"7",
    b"{}",
    json.dumps({"line": 1e999, "reason": "x", "value": ""}).encode(),
    b"\xff",
]


class Logs:
    """A broker's logs, with these records in each topic."""

    def __init__(self, records):
        self._records = records

    def partitions(self, topics):
        return dict.fromkeys(topics, 1)

    def span(self, _):
        return 0, len(self._records)

    def stored(self, offsets):
        return {topic: self._records[first:] for topic, first in offsets.items()}

    def close(self):
        pass


@pytest.fixture
def path(tmp_path):
    return written(tmp_path, changed() | {"brokers": BROKERS})


def test_what_is_no_letter_is_listed_as_such(call, path, monkeypatch):
    records = [Stored(offset, value, 0.0) for offset, value in enumerate(NO_LETTERS)]
    monkeypatch.setattr(operate, "reached", lambda _: Logs(records))
    outcome = call("deadletters", path, "a")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count(operate.BROKEN) == 2 * len(NO_LETTERS)


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63)])
def test_a_time_that_no_calendar_has_is_said_in_words(call, path, monkeypatch, milliseconds):
    records = [Stored(0, b"7", milliseconds / 1e3)]
    monkeypatch.setattr(operate, "reached", lambda _: Logs(records))
    outcome = call("deadletters", path, "a")
    assert (outcome.code, outcome.err) == (0, "")
    assert "at no time that a calendar has" in outcome.out


@pytest.mark.parametrize("name", ["analyst", "bank-b"])
def test_what_a_party_of_a_collaboration_has_refused_is_listed(call, tmp_path, monkeypatch, name):
    asked = []
    letter = encode_dead_letter("a-topic", b"forged", Refused(Reason.SIGNATURE, "wrong"))
    logs = Logs([Stored(0, letter, 0.0)])
    monkeypatch.setattr(operate, "reached", lambda broker: asked.append(broker.servers) or logs)
    path = collaboration_file(tmp_path, "one:9092", name="lending")
    outcome = call("deadletters", path, name, "--content", "--json")
    assert (outcome.code, outcome.err, asked) == (0, "", ["one:9092"])
    shown = json.loads(outcome.out)
    assert shown.keys() == {"node", "peers"}
    assert shown["peers"]["topic"] == f"lending.first.deadletter.{name}"
    (last,) = shown["peers"]["last"]
    assert (last["source"], last["content"]) == ("a-topic", "forged")
    assert "signature" in last["reason"]
    outcome = call("deadletters", path, "nobody")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("nobody: not the learner or an owner of the collaboration: must be one of")
