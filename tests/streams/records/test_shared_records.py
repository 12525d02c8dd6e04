"""Which nodes may hold the same records: by path, size and content, and by what they take."""

import gzip
import os
from threading import Thread

import pytest

from streams.mesh.settings.node import NodeSettings
from streams.records.shared_records import has_header_alone, shared_records

LINES = "".join(f'{{"x": {k}, "y": 1}}\n' for k in range(2_000))
SCHEMA = {"features": {"x": "number"}, "label": {"column": "y"}}


def sharing(nodes, *, by_time=False):
    """What `shared_records` gives, with slots by count unless said otherwise."""
    return shared_records(nodes, by_time=by_time)


def node(path, **source):
    """A node that reads the file."""
    given = {"kind": "json-lines", "path": str(path), "schema": SCHEMA} | source
    return NodeSettings.model_validate({"source": given}, by_alias=True)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(LINES)
    return path


def test_the_same_file_by_any_name(file, tmp_path):
    (tmp_path / "link.json").symlink_to(file)
    (tmp_path / "copy.json").write_text(LINES)
    with gzip.open(tmp_path / "packed.json.gz", "wt") as packed:
        packed.write(LINES)
    (tmp_path / "other.json").write_text(LINES.replace("1999", "1998"))  # of one size, and one beginning
    names = ("a.json", "link.json", "copy.json", "packed.json.gz", "other.json")
    found = sharing({name: node(tmp_path / name) for name in names})
    assert found == {name: [other for other in names[:4] if other != name] for name in names[:4]}


def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for ever
    (tmp_path / "empty.json").touch()
    paths = (
        tmp_path / "pipe",
        tmp_path / "pipe",
        "-",
        "-",
        tmp_path,
        tmp_path / "nowhere",
        tmp_path / "empty.json",
    )
    nodes = {str(k): node(path) for k, path in enumerate(paths)}
    assert sharing(nodes | {"made": NodeSettings(), "made too": NodeSettings()}) == {}


def test_a_file_that_is_split_shares_nothing(file):
    split = {str(k): node(file, take={"every": 3, "offset": k}, shuffle=True) for k in range(3)}
    assert sharing(split) == {}
    assert sharing(split | {"all": node(file)})["1"] == ["all"]
    assert sharing(split | {"in order": node(file, take={"every": 3, "offset": 0})})["1"] == ["in order"]


def test_with_slots_by_time_a_split_shares_nothing_whatever_stands_before(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n" * 9)
    with_header, without = {"kind": "csv"}, {"kind": "csv", "columns": ["x", "y"]}
    split = {
        "a": node(path, **with_header, take={"every": 2, "offset": 0}),
        "b": node(path, **without, take={"every": 2, "offset": 1}),
        "c": node(path, **without, take={"every": 2, "offset": 0}),
    }
    assert sharing(split, by_time=True) == {"a": ["c"], "c": ["a"]}
    more = split | {"d": node(path, **with_header, take={"every": 4, "offset": 1})}
    assert sharing(more, by_time=True)["d"] == ["a", "b", "c"]


def test_a_header_moves_the_lines_that_are_taken(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,2\n" * 9)
    take = {"every": 2, "offset": 0}
    with_header = node(path, kind="csv", take=take)
    without = node(path, kind="csv", columns=["x", "y"], take=take)
    assert sharing({"a": with_header, "b": without}) == {}
    assert sharing({"a": with_header, "b": without, "c": with_header}) == {"a": ["c"], "c": ["a"]}


@pytest.mark.parametrize("kind", ["csv", "parquet", "json-lines"])
def test_a_pipe_is_not_opened_again_to_look_for_a_header(tmp_path, kind):
    os.mkfifo(tmp_path / "pipe")
    source = node(tmp_path / "pipe", kind=kind).source
    answers = []
    asked = Thread(target=lambda: answers.append(has_header_alone(source)), daemon=True)
    asked.start()
    asked.join(10)  # to open it would wait for ever
    assert answers == [False]
