import json

import numpy as np
import pytest

from streams.mesh.errors import MeshFileError
from streams.mesh.settings.schema import SchemaSettings
from streams.records.decoder import CsvFields, SchemaDecoder
from streams.records.faults import NO_TIME, Fault
from streams.records.record import RawRecord
from streams.records.sources import Source
from streams.tools.feed.lines import FeedOptions, Lines, Opened, encode_letter, opened
from tests.support.meshes.files import changed, loaded


class Digits:
    dimension = 1
    longest = 1000

    def decode(self, value):
        return (np.array([float(value)]), 0.0) if value.isdigit() else None

    def decode_each(self, values):
        return [self.decode(value) for value in values]

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


SCHEMA = SchemaSettings.model_validate({"features": {"x": "number"}, "label": {"column": "y"}})
NUMBER_LINES = [b"%d,%d" % (k, k % 3) for k in range(600)]


def read_ahead(values, ahead):
    """The lines of a source of which so many are read before the first is sent."""
    source = Source(map(RawRecord, values), SchemaDecoder(SCHEMA, CsvFields(("x", "y"))))
    return Lines(Opened(source, timed=False, most=None, time_of=None, ahead=ahead), 9)


def test_lines_that_are_read_together_are_those_read_one_by_one():
    values = list(NUMBER_LINES)
    values[300], values[310], values[599] = b"x,1", b"1,2,3,4,5,6", b""
    together, one_by_one = list(read_ahead(values, 256)), list(read_ahead(values, 1))
    assert together == one_by_one
    assert [line.number for line in together if line.bad is not None] == [301, 311, 600]
    skipped = read_ahead(values, 256)
    assert skipped.skip(280) == together[279].mark
    assert list(skipped) == together[280:]


def test_what_stands_before_a_damaged_place_is_fed():
    def damaged():
        yield from NUMBER_LINES[:300]
        raise MeshFileError(["cannot be read"])

    lines, numbers = read_ahead(damaged(), 256), []
    with pytest.raises(MeshFileError, match="cannot be read"):
        numbers.extend(line.number for line in lines)
    assert numbers == list(range(1, 301))


def test_no_record_of_a_pipe_waits_for_the_next():
    asked = []

    def piped():
        for value in NUMBER_LINES:
            asked.append(value)
            yield value

    lines = read_ahead(piped(), 1)
    assert [next(lines).number, next(lines).number, len(asked)] == [1, 2, 2]


def test_records_over_lines_are_fed_whole_and_from_the_start_of_one_after_a_restart(tmp_path):
    path = tmp_path / "records.csv"
    dialect = {"delimiter": ";", "encoding": "cp1252", "line_breaks": True}
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
    source = {"kind": "csv", "path": str(path), "schema": schema, "dialect": dialect}
    tree = changed(nodes=["a"], loss="squared", topology={"graph": "complete"})
    file = loaded(tmp_path, tree | {"nodes": {"a": {"source": source}}})

    def fed(records):
        path.write_bytes("\n".join(["x;y;z;note", *records, ""]).encode("cp1252"))
        return Lines(opened(file, "a", FeedOptions()), 1 << 20)

    records = [f'{k};1;2;"é\nof {k}\n\nlines"' for k in range(300)]
    records[4] = '4;1;2;"never closed'
    whole = list(fed(records))
    assert [line.value for line in whole] == [record.encode() for record in records]
    assert [line.number for line in whole] == list(range(1, 301))
    assert [(line.number, str(line.bad)) for line in whole if line.bad] == [(5, "a quote that is not closed")]
    for count in (1, 5, 256, 300):
        grown = fed([*records, '9;1;2;"\n"'])
        assert grown.skip(count) == whole[count - 1].mark
        rest = list(grown)
        assert rest[:-1] == whole[count:]
        assert rest[-1].value == b'9;1;2;"\n"'
