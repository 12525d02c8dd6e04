import os
from io import BytesIO, TextIOWrapper
from itertools import islice

import pytest

from streams.mesh.file import MeshFileError
from streams.records.sources import check_source
from streams.tools.feed.lines import FeedOptions, opened
from tests.support.brokers.feeding import SCHEMA, row, rows
from tests.support.meshes.files import changed, loaded


def file_of(tmp_path, source, **mesh):
    tree = changed(**({} if source == {"kind": "localisation"} else {"loss": "squared"}) | mesh)
    tree["nodes"] = {"a": {} if source is None else {"source": source}}
    return loaded(tmp_path, tree)


def records_file(tmp_path, name="records.jsonl", **more):
    (tmp_path / name).write_bytes(b"".join(line + b"\n" for line in rows(6)))
    return {"kind": "json-lines", "path": name, "schema": SCHEMA} | more


def values(found, count=None):
    return [record.value for record in islice(found.source.records, count)]


GENERATOR = {"kind": "localisation"}
TIMES = {"by": "time", "size": 3, "period": 2, "start": 1_700_000_000}


def refused(tmp_path, source, wanted, **mesh):
    with pytest.raises(MeshFileError) as error:
        opened(file_of(tmp_path, source, **mesh), "a", wanted)
    (line,) = error.value.lines
    return line.partition("mesh.yaml: ")[2]


def test_a_file_is_fed_whole_in_its_order(tmp_path):
    found = opened(file_of(tmp_path, records_file(tmp_path)), "a", FeedOptions())
    assert (values(found), found.most, found.timed) == (rows(6), None, False)


def test_another_file_is_read_as_the_sources_own(tmp_path):
    records_file(tmp_path, "other.jsonl")
    source = records_file(tmp_path, take={"every": 2, "offset": 1}) | {"path": "nowhere"}
    found = opened(file_of(tmp_path, source), "a", FeedOptions(str(tmp_path / "other.jsonl")))
    assert values(found) == rows(6)[1::2]


def test_what_is_fed_in_place_of_a_source_needs_its_schema(tmp_path):
    words = "nodes.a.source: must have the kind and schema of x.csv"
    for source in (None, GENERATOR):
        assert refused(tmp_path, source, FeedOptions("x.csv")) == words


def test_standard_input_cannot_be_shuffled(tmp_path):
    line = refused(tmp_path, records_file(tmp_path, shuffle=True), FeedOptions("-"))
    assert line == "nodes.a.source.shuffle: true: standard input cannot be shuffled: must be false"


@pytest.mark.parametrize(("slots", "most"), [({"by": "count", "size": 5}, 60), (TIMES, 12)])
def test_a_generator_gives_what_a_run_takes(tmp_path, slots, most):
    found = opened(file_of(tmp_path, GENERATOR, slots=slots), "a", FeedOptions())
    assert found.most == most
    if slots["by"] == "count":
        assert opened(file_of(tmp_path, GENERATOR, slots=slots), "a", FeedOptions(records=7)).most == 7


@pytest.mark.parametrize(("option", "value"), [("rate", 7.0), ("records", 7)])
def test_with_slots_by_time_nothing_goes_by_the_places_of_records(tmp_path, option, value):
    for source in (GENERATOR, timed(tmp_path, 1)[0]):
        line = refused(tmp_path, source, FeedOptions(**{option: value}), slots=TIMES)
        text = f"--{option} goes by the place of each record, and with slots by time none may count"
        assert line == f'mesh.slots.by: "time": {text}: must be count, or leave --{option} out'
        if source != GENERATOR:
            line = refused(tmp_path, source, FeedOptions("-", **{option: value}), slots=TIMES)
            assert line.startswith(f'mesh.slots.by: "time": {text}')


def test_a_generator_without_end_must_be_given_one_or_a_pace(tmp_path):
    line = refused(tmp_path, GENERATOR, FeedOptions(), rounds=None)
    assert (
        line == "mesh.rounds: none, and a generator has no end: must be a number, or give --records or --rate"
    )
    file = file_of(tmp_path, GENERATOR, rounds=None)
    assert opened(file, "a", FeedOptions(records=7)).most == 7
    assert opened(file, "a", FeedOptions(rate=7.0)).most is None
    line = refused(tmp_path, GENERATOR, FeedOptions(), rounds=None, slots=TIMES)
    assert line == "mesh.rounds: none, and a generator has no end: must be a number, or give --timestamps"
    file = file_of(tmp_path, GENERATOR, rounds=None, slots=TIMES)
    assert opened(file, "a", FeedOptions(timestamps=True)).most is None


def test_times_need_a_column_or_slots_by_time(tmp_path):
    line = refused(tmp_path, records_file(tmp_path), FeedOptions(timestamps=True))
    assert line == "nodes.a.source.schema.timestamp: missing: --timestamps needs a column"
    line = refused(tmp_path, GENERATOR, FeedOptions(timestamps=True))
    assert line.startswith("nodes.a.source: --timestamps needs records that have a time")


def test_with_slots_by_time_what_is_fed_needs_a_column_of_times_and_what_comes_by_a_broker_none(tmp_path):
    line = "nodes.a.source.schema.timestamp: missing: slots by time need a column"
    whole = records_file(tmp_path)
    assert refused(tmp_path, whole, FeedOptions(), slots=TIMES) == line
    without_path = {key: value for key, value in whole.items() if key != "path"}
    assert file_of(tmp_path, without_path, slots=TIMES).own("a").source.record.timestamp is None
    assert refused(tmp_path, without_path, FeedOptions(whole["path"]), slots=TIMES) == line


def test_times_are_read_where_they_are_wanted_alone(tmp_path):
    source = records_file(tmp_path) | {"schema": SCHEMA | {"timestamp": "at"}}
    assert not opened(file_of(tmp_path, source), "a", FeedOptions()).timed
    found = opened(file_of(tmp_path, source), "a", FeedOptions(timestamps=True))
    assert found.timed
    assert found.time_of(row(1, 5)) == 1_700_000_005.0


def timed(tmp_path, *times):
    (tmp_path / "records.jsonl").write_bytes(b"".join(row(k, at) + b"\n" for k, at in enumerate(times)))
    source = {"kind": "json-lines", "path": "records.jsonl", "schema": SCHEMA | {"timestamp": "at"}}
    return source, [row(k, at) for k, at in enumerate(times)]


def test_with_slots_by_time_a_file_is_in_order_of_time_up_to_the_last_round(tmp_path):
    source, lines = timed(tmp_path, 4, 1e9, 1, 24, 23.9, 1, -5)
    found = opened(file_of(tmp_path, source, slots=TIMES), "a", FeedOptions())
    assert (values(found), found.live) == ([lines[k] for k in (6, 2, 5, 0, 4)], False)
    endless = opened(file_of(tmp_path, source, slots=TIMES, rounds=None), "a", FeedOptions())
    assert values(endless) == [lines[k] for k in (6, 2, 5, 0, 4, 3, 1)]
    assert values(opened(file_of(tmp_path, source), "a", FeedOptions())) == lines


def test_a_header_alone_is_refused_and_a_pipe_is_not_looked_into(tmp_path):
    csv = {"kind": "csv", "path": "records.csv", "schema": SCHEMA}
    (tmp_path / "records.csv").write_text("x,y,z\n")
    assert refused(tmp_path, csv, FeedOptions()).endswith("holds no record")
    (tmp_path / "records.csv").write_text("x,y,z\n1,2,3\n")
    assert refused(tmp_path, csv | {"take": {"every": 2, "offset": 1}}, FeedOptions()).endswith(
        "holds no record"
    )
    os.mkfifo(tmp_path / "pipe")
    check_source(file_of(tmp_path, {"kind": "json-lines", "path": "pipe", "schema": SCHEMA}), "a")


def test_with_slots_by_time_no_record_is_a_stream(tmp_path, monkeypatch):
    source, _ = timed(tmp_path)
    assert values(opened(file_of(tmp_path, source, slots=TIMES), "a", FeedOptions())) == []
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"")))
    assert values(opened(file_of(tmp_path, source, slots=TIMES), "a", FeedOptions("-"))) == []
    (tmp_path / "records.jsonl").unlink()
    with pytest.raises(MeshFileError, match="cannot be read: No such file"):
        values(opened(file_of(tmp_path, source, slots=TIMES), "a", FeedOptions()))


def test_with_slots_by_time_standard_input_comes_as_it_comes(tmp_path, monkeypatch):
    source, lines = timed(tmp_path, 4, 1e9, 1)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"\n".join(lines))))
    found = opened(file_of(tmp_path, source, slots=TIMES), "a", FeedOptions("-"))
    assert (values(found), found.live) == (lines, True)
    line = refused(tmp_path, source, FeedOptions("-", timestamps=True), slots=TIMES)
    words = "standard input goes as it comes with slots by time: --timestamps needs a file"
    assert line == f'nodes.a.source.path: "-": {words}'


def test_slots_by_time_always_go_by_the_records_times(tmp_path):
    found = opened(file_of(tmp_path, GENERATOR, slots=TIMES), "a", FeedOptions())
    assert (found.timed, found.time_of) == (True, None)
    assert [record.timestamp for record in islice(found.source.records, 2)] == [1_700_000_001, 1_700_000_003]


def test_a_shift_moves_every_time_and_leaves_the_records_alone(tmp_path):
    source, lines = timed(tmp_path, 4, 1, 23.9, 25, -5)
    slots = TIMES | {"start": TIMES["start"] + 86_400}
    found = opened(file_of(tmp_path, source, slots=slots), "a", FeedOptions(shift=86_400.0))
    times = [record.timestamp for record in found.source.records]
    assert times == [1_700_086_400 + at for at in (-5, 1, 4, 23.9)]  # 25 lies behind the last round
    found = opened(file_of(tmp_path, source), "a", FeedOptions(timestamps=True, shift=-60.0))
    assert (values(found), found.time_of(lines[0])) == (lines, 1_699_999_944.0)
    assert found.time_of(b"{}") is None


def test_a_shift_needs_times(tmp_path):
    line = refused(tmp_path, records_file(tmp_path), FeedOptions(shift=1.0))
    assert line == 'mesh.slots.by: "count": --shift moves records\' times: must be time, or give --timestamps'
