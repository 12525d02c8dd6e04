import json

import numpy as np
import pytest

from streams.records.faults import NO_TIME, Fault
from streams.records.record import RawRecord
from streams.records.sources import Source
from streams.tools.feed.feed_source import Opened
from streams.tools.feed.lines import Lines, encode_letter


class Digits:
    dimension = 1
    longest = 1000

    def decode(self, value):
        return (np.array([float(value)]), 0.0) if value.isdigit() else None

    def fault(self, value):
        return Fault(None, "not a digit")


def lines(values, *, largest=10, timed=False, time_of=None, shift=0.0):
    records = (value if isinstance(value, RawRecord) else RawRecord(value) for value in values)
    return Lines(Opened(Source(records, Digits()), timed, None, time_of, shift=shift), largest)


def test_lines_are_numbered_from_one():
    assert [(line.number, line.value, line.bad) for line in lines([b"5", b"6"])] == [
        (1, b"5", None),
        (2, b"6", None),
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "not a digit"),
        (b"x", "not a digit"),
        (b"1" * 11, "longer than 10 bytes, the most that the topic takes"),
    ],
)
def test_what_cannot_be_learnt_from_is_told_and_keeps_its_number(value, words):
    found = list(lines([b"5", value, b"6"]))
    assert [line.bad for line in found] == [None, Fault(None, words), None]
    assert [line.number for line in found] == [1, 2, 3]


@pytest.mark.parametrize("time", [None, -1.0, float("nan"), float("inf"), 1e15])
def test_with_times_a_record_needs_one_that_kafka_takes(time):
    (line,) = lines([RawRecord(b"5", time)], timed=True)
    assert (line.bad, line.timestamp) == (Fault(None, NO_TIME), None)
    (line,) = lines([b"5"], timed=True, time_of=lambda _: time)
    assert (line.bad, line.timestamp) == (Fault(None, NO_TIME), None)


def test_a_bad_record_keeps_its_time():
    (line,) = lines([RawRecord(b"x", 7.5)], timed=True)
    assert line.bad is not None
    assert line.timestamp == 7.5


def test_without_times_none_is_looked_for():
    (line,) = lines([RawRecord(b"5", 7.5)])
    assert (line.bad, line.timestamp) == (None, None)


def test_going_on_skips_what_is_there_and_knows_it_again():
    values = [b"%d" % k for k in range(10)]
    everything = list(lines(values))
    later = lines(values)
    assert later.skip(4) == everything[3].mark
    assert list(later) == everything[4:]
    assert lines(values).skip(10) == everything[-1].mark
    assert lines(values).skip(11) is None


@pytest.mark.parametrize(
    "others",
    [
        [b"1", b"2", b"4"],
        [b"2", b"1", b"3"],
        [b"12", b"", b"3"],  # the same bytes, in other lines
        [b"1", b"23", b""],
    ],
)
def test_other_lines_have_another_mark(others):
    assert lines(others).skip(3) != lines([b"1", b"2", b"3"]).skip(3)


def test_a_letter_says_which_line_and_why_and_holds_it():
    (line,) = lines([b"x\xff"])
    assert json.loads(encode_letter(line)) == {
        "line": 1,
        "reason": "not a digit",
        "value": "eP8=",
    }


def test_lines_that_were_fed_with_another_shift_are_others():
    marks = {next(lines([b"5"], shift=shift)).mark for shift in (0.0, 60.0, 61.0)}
    assert len(marks) == 3
