"""Parquet files: rows become the records that the same JSON lines would be, a chunk at a time."""

import json
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pytest

from streams.mesh.errors import MeshFileError
from streams.mesh.file import load
from streams.records import parquet
from streams.records.parquet import NotParquet, parquet_columns, parquet_lines
from streams.records.sources import held_out, open_source
from streams.tools.feed.lines import FeedOptions, opened
from tests.support.meshes.files import changed, written
from tests.support.meshes.sources import mesh_of, write_parquet

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'mirrormesh[parquet]'")
NOON = datetime(2026, 11, 22, 12, 0, 0, 250_000)  # noqa: DTZ001 # a time without a zone is meant


def read(path, columns=None):
    return [json.loads(line) for line in parquet_lines(str(path), columns or parquet_columns(str(path)))]


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        ([1, None, -(2**62)], pa.int64(), [1, None, -(2**62)]),
        ([1, 2**64 - 1], pa.uint64(), [1, 2**64 - 1]),
        ([0.1, None, 1e308], pa.float64(), [0.1, None, 1e308]),
        ([0.5], pa.float32(), [0.5]),
        ([np.float16(0.5)], pa.float16(), [0.5]),
        ([True, None], pa.bool_(), [True, None]),
        (["a", "", None, "\u00e9"], pa.string(), ["a", "", None, "\u00e9"]),
        (["a", "b", "a", None], pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None]),
        ([Decimal("1.50"), None], pa.decimal128(5, 2), ["1.50", None]),
        ([date(2026, 11, 22)], pa.date32(), ["2026-11-22"]),
        ([time(12, 30)], pa.time32("s"), ["12:30:00.000"]),
        (
            [NOON.replace(tzinfo=UTC), None],
            pa.timestamp("us", "UTC"),
            [NOON.replace(tzinfo=UTC).timestamp(), None],
        ),
        ([0, -1, 10**18 + 1], pa.timestamp("ns", "Europe/Berlin"), [0.0, -1e-9, (10**18 + 1) / 10**9]),
        ([2**62], pa.timestamp("ms", "UTC"), [2**62 / 1000]),
        ([NOON], pa.timestamp("us"), ["2026-11-22 12:00:00.250000"]),
        ([1], pa.timestamp("ns"), ["1970-01-01 00:00:00.000000001"]),
        ([None, None], pa.null(), [None, None]),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)
def test_values_of_every_type_are_as_json_has_them(tmp_path, values, kind, wanted):
    write_parquet(tmp_path / "a.parquet", {"x": values}, {"x": kind})
    assert [row["x"] for row in read(tmp_path / "a.parquet")] == wanted


def test_what_is_not_a_single_value_is_no_column(tmp_path):
    columns = {"x": [1], "list": [[1]], "struct": [{"a": 1}], "bytes": [b"\xff"]}
    write_parquet(tmp_path / "a.parquet", columns)
    assert parquet_columns(str(tmp_path / "a.parquet")) == ("x",)


def test_text_that_is_none_stops_nothing(tmp_path):
    bad = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a\xff", b"b"]).buffers())
    path = tmp_path / "a.parquet"
    write_parquet(path, {"x": bad})
    assert list(parquet_lines(str(path), ("x",))) == [b'{"x": "a\xff"}', b'{"x": "b"}']


def test_rows_are_read_in_chunks_and_only_the_columns_asked_for(tmp_path, monkeypatch):
    path, n = tmp_path / "a.parquet", 10_000
    write_parquet(path, {"x": range(n), "y": range(n), "z": ["z" * 50] * n}, row_group_size=n)
    seen, values = [], parquet._values

    def counted(pa, column):
        seen.append(len(column))
        return values(pa, column)

    monkeypatch.setattr(parquet, "_values", counted)
    lines = parquet_lines(str(path), ("y", "x"))
    assert next(lines) == b'{"y": 0, "x": 0}'
    assert seen == [4096] * 2
    assert sum(1 for _ in lines) == n - 1
    assert max(seen) == 4096


def test_a_row_longer_than_a_line_may_be_is_an_empty_record(tmp_path):
    write_parquet(tmp_path / "a.parquet", {"x": ["a", "b" * (1 << 20), "c"]})
    lines = list(parquet_lines(str(tmp_path / "a.parquet"), ("x",)))
    assert lines == [b'{"x": "a"}', b"", b'{"x": "c"}']


def test_other_files_are_refused_and_nothing_of_them_is_shown(tmp_path):
    path = tmp_path / "a.parquet"
    write_parquet(path, {"x": ["secret"] * 1000})
    whole = path.read_bytes()
    for content in (b"", b"secret,1\n", whole[:-20], whole[20:], whole[:20] + b"\0" * 200 + whole[220:]):
        path.write_bytes(content)
        with pytest.raises(NotParquet) as raised:
            list(parquet_lines(str(path), ("x",)))
        assert str(raised.value) == "must be a Parquet file, whole and not encrypted"


def mesh_file(tmp_path, **source):
    tree = changed(nodes=["b"], loss="squared", topology={"graph": "complete"})
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "label"}}
    whole = {"kind": "parquet", "path": "a.parquet", "schema": schema} | source
    tree["nodes"] = {"b": {"source": whole}}
    return load(written(tmp_path, tree), {})


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": [1], "y": [1]}, 'schema: "label": not in the columns of'),
        ({"x": [[1]], "y": [1], "label": [1]}, 'schema: "x": not in the columns of'),
    ],
)
def test_columns_that_lack_are_named_with_those_there_are(tmp_path, columns, said):
    write_parquet(tmp_path / "a.parquet", columns)
    with pytest.raises(MeshFileError) as raised:
        open_source(mesh_file(tmp_path), "b", 0)
    (line,) = raised.value.lines
    single = json.dumps([name for name in columns if columns[name] == [1]])[1:-1]
    assert said in line
    assert line.endswith(f"a.parquet with single values, which is {single}")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"path": "-"}, 'nodes.b.source.path: "-": must be the path of a Parquet file, not standard input'),
        ({"columns": ["x"]}, 'nodes.b.source.columns: ["x"]: goes with kind csv'),
    ],
)
def test_settings_that_do_not_go_with_it_are_refused(tmp_path, source, said):
    with pytest.raises(MeshFileError) as raised:
        mesh_file(tmp_path, **source)
    assert said in str(raised.value)


def test_a_missing_file_and_one_of_another_kind_are_named(tmp_path):
    path, whole = tmp_path / "a.parquet", "must be a Parquet file, whole and not encrypted"
    for content, said in (
        (None, "cannot be read: No such file or directory"),
        (b"x", whole),
    ):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(MeshFileError) as raised:
            open_source(mesh_file(tmp_path), "b", 0)
        assert str(raised.value).endswith(f'a.parquet": {said}')


def test_without_pyarrow_an_error_says_what_to_install(tmp_path, monkeypatch):
    write_parquet(tmp_path / "a.parquet", {"x": [1], "y": [1], "label": [1]})
    file = mesh_file(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MeshFileError) as raised:
        open_source(file, "b", 0)
    assert 'nodes.b.source.kind: "parquet": needs pyarrow, which is not installed: pip install' in str(
        raised.value
    )
    assert "mirrormesh[parquet]" in str(raised.value)


def test_take_shuffle_and_the_order_of_time_are_those_of_json_lines(tmp_path, monkeypatch):
    rows = [str(k) for k in range(20)]
    for own in ({}, {"take": {"every": 3, "offset": 1}}, {"shuffle": True}):
        found = []
        for kind in ("json-lines", "parquet"):
            source = open_source(mesh_of(tmp_path, monkeypatch, kind, rows=rows, **own), "b", 5)
            found.append([source.decoder.decode(record.value)[1] for record in source.records])
        assert found[0] == found[1]
        assert len(found[0]) == (7 if "take" in own else 20)


def test_held_out_records_and_a_feed_are_those_of_json_lines(tmp_path, monkeypatch):
    files = [
        mesh_of(tmp_path, monkeypatch, kind, held_out=None, rows=["1", "x", "3"])
        for kind in ("json-lines", "parquet")
    ]
    (rows, labels), (others, other_labels) = map(held_out, files[1:] * 2)
    assert labels.tolist() == other_labels.tolist() == [1, 3]
    assert rows.tolist() == others.tolist()
    fed = opened(files[1], "b", FeedOptions()).source
    assert [fed.decoder.decode(record.value) is None for record in fed.records] == [False, True, False]


def test_a_feed_takes_no_parquet_from_standard_input(tmp_path):
    with pytest.raises(MeshFileError, match="standard input holds lines: must be csv or json-lines"):
        opened(mesh_file(tmp_path), "b", FeedOptions(path="-"))
