"""`mirrormesh deadletters` shows what anybody may have written as letters: no such thing ends it."""

import json

import pytest

from streams.bus.bus import Stored
from streams.cli import deadletters
from tests.support.meshes import changed, written

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
    monkeypatch.setattr(deadletters, "reached", lambda _: Logs(records))
    outcome = call("deadletters", path, "a")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count(deadletters.BROKEN) == 2 * len(NO_LETTERS)


@pytest.mark.parametrize("milliseconds", [2**63 - 1, -(2**63)])
def test_a_time_that_no_calendar_has_is_said_in_words(call, path, monkeypatch, milliseconds):
    records = [Stored(0, b"7", milliseconds / 1e3)]
    monkeypatch.setattr(deadletters, "reached", lambda _: Logs(records))
    outcome = call("deadletters", path, "a")
    assert (outcome.code, outcome.err) == (0, "")
    assert "at no time that a calendar has" in outcome.out
