"""One hostile value at any place of a source of any kind costs its own record alone.

All other records decode as in the file without it, wherever many of them are read at once.
"""

import gzip
import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.collaboration.passes import number_chunks
from streams.mesh.errors import MeshFileError
from streams.mesh.file import load
from streams.mesh.settings.files import LONGEST_LINE
from streams.mesh.settings.schema import SchemaSettings
from streams.records import lines as lines_module
from streams.records import parquet
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.faults import json_fault
from streams.records.parquet import parquet_columns, parquet_lines
from streams.records.sources import check_source, held_out, open_source
from streams.tools.feed.lines import FeedOptions, Lines, opened
from tests.support.meshes.files import changed, written
from tests.support.meshes.sources import write_parquet
from tests.support.processes.in_process import Commands

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'mirrormesh[parquet]'")
pq = pytest.importorskip("pyarrow.parquet")

ROWS, GROUP, CHUNK = 60, 25, 8
PLACES = {"first": 0, "at the end of a chunk": 7, "in a later row group": 41, "last": ROWS - 1}
LABEL = {"column": "label"}
FEATURES = {
    "hashed": {"hashed": 4},
    "number": "number",
    "bounds": {"bounds": [0, 1]},
    "log": {"log": [0.01, 100]},
    "buckets": {"buckets": [1, 2]},
    "hour": {"hour": "Europe/Berlin"},
    "weekday": {"weekday": "UTC"},
    "categories": {"categories": ["a", "b"]},
}
"""What a column may become."""
ANY = st.binary(max_size=40).filter(lambda value: b"\n" not in value)
NO_SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)


def mesh_of(folder, source, loss="squared", **rest):
    """A mesh whose node b has the source."""
    tree = changed(nodes=["a", "b"], loss=loss, dimension=_width(source), topology={"graph": "complete"})
    tree["mesh"]["algorithm"]["constraint"] = {"l2-ball": 1}
    tree["mesh"] |= rest
    tree["nodes"] = {"b": {"source": source}}
    tree["held_out"] = {key: value for key, value in source.items() if key != "take"}
    return load(written(folder, tree), {})


def _width(source):
    if "schema" not in source:
        return 2
    widths = {"hashed": 4, "buckets": 3, "hour": 24, "weekday": 7, "categories": 2}
    return sum(
        1 if column == "number" else widths.get(next(iter(column)), 1)
        for column in source["schema"]["features"].values()
    )


def plain(pair):
    """A decoded record as it can be compared."""
    if pair is None:
        return None
    row, label = pair
    return (row.indices.tolist(), row.values.tolist(), label) if hasattr(row, "indices") else (*row, label)


def seen(file):
    """What each reader of many records makes of node b's: record by record, None for a malformed one."""
    check_source(file, "b")
    source = open_source(file, "b", 0)
    decoded = [plain(source.decoder.decode(record.value)) for record in source.records]
    fed = Lines(opened(file, "b", FeedOptions()), 1 << 30)
    assert [line.bad is None for line in fed] == [pair is not None for pair in decoded]
    _, labels = held_out(file)
    assert labels.tolist() == [pair[-1] for pair in decoded if pair is not None]
    return decoded


def without(records, place):
    return records[:place] + records[place + 1 :]


# Parquet: every type of a column


def texts(kind, values):
    """Text of these bytes, whatever they are."""
    coded = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }[kind]
    array = pa.array(values, coded)
    return pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count)


def words(index, kind):
    """Makes dictionary columns of such indices and words."""

    def made(_, values):
        there = list(dict.fromkeys(value for value in values if value is not None))
        places = [None if value is None else there.index(value) for value in values]
        return pa.DictionaryArray.from_arrays(pa.array(places, index), texts(kind, there))

    return made


def ticks(kind, values):
    """Times by their numbers, in range or not."""
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def numbers(kind, values):
    if pa.types.is_float16(kind):
        values = [None if value is None else np.float16(value) for value in values]
    return pa.array(values, kind)


def coded(kind, values):
    """A dictionary column of values that are no text."""
    there = list(dict.fromkeys(value for value in values if value is not None))
    places = [None if value is None else there.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), pa.array(there, kind))


LONG = b"x" * ((1 << 20) + 1)
TEXTS = (
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc3",
    b"a\0",
    b"\0",
    b"",
    None,
    b"9" * 5_000,
    b"1e400",
    b"nan",
    LONG,
)
FLOATS = (float("nan"), float("inf"), float("-inf"), None, -0.0, 6e4)
TIMES = (2**63 - 1, -(2**63), -1, None)


def bounds(kind):
    signed = not str(kind).startswith("u")
    most = 2 ** (kind.bit_width - signed)
    return (most - 1, -most if signed else 0, None)


INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
INDICES = [kind for kind in INTEGERS if kind != pa.uint64()]
TEXT_KINDS = (pa.string(), pa.large_string(), pa.string_view())
COLUMNS = {
    **{str(kind): (texts, kind, [b"a", b"b"], TEXTS) for kind in TEXT_KINDS},
    **{
        f"dictionary of {kind} by {index}": (words(index, kind), kind, [b"a", b"b"], TEXTS)
        for kind in TEXT_KINDS[:2]
        for index in INDICES
    },
    **{str(kind): (numbers, kind, [1, 2], bounds(kind)) for kind in INTEGERS},
    **{str(k): (numbers, k, [0.5, 2.0], FLOATS) for k in (pa.float16(), pa.float32(), pa.float64())},
    "bool": (numbers, pa.bool_(), [True, False], (None,)),
    "null": (numbers, pa.null(), [None], (None,)),
    **{
        f"timestamp {unit} {zone}": (ticks, pa.timestamp(unit, zone), [5, 6], TIMES)
        for unit in ("ms", "us", "ns")
        for zone in (None, "UTC", "Europe/Berlin", "No/Where", "+05:00")
    },
    "date32": (ticks, pa.date32(), [5, 6], (2**31 - 1, -(2**31), None)),
    "date64": (ticks, pa.date64(), [86_400_000, 0], (86_400_000 * 2**36, None)),
    "time32": (ticks, pa.time32("ms"), [5, 6], (-1, 2**31 - 1, None)),
    "time64": (ticks, pa.time64("ns"), [5, 6], (-1, 2**63 - 1, None)),
    "decimal128": (numbers, pa.decimal128(38, 2), [Decimal("1.50")], (Decimal("9" * 36 + ".99"), None)),
    "decimal256": (numbers, pa.decimal256(76, 0), [Decimal(1)], (Decimal("9" * 76), None)),
    "dictionary of float64": (coded, pa.float64(), [0.5, 2.0], FLOATS[1:]),
    "dictionary of int64": (coded, pa.int64(), [1, 2], bounds(pa.int64())),
}
"""How to make a column of each type, of ordinary values and of hostile ones."""

DECODERS = {
    role: SchemaDecoder(
        SchemaSettings.model_validate({"features": {"x": column}, "label": LABEL}), json_fields
    )
    for role, column in FEATURES.items()
}


def write_column(path, name, value=None, place=None):
    """Write a file where column x holds the value at the place; place None: nowhere."""
    make, kind, usual, _ = COLUMNS[name]
    values = [usual[k % len(usual)] for k in range(ROWS)]
    if place is not None:
        values[place] = value
    labels = [k % 7 - 3.0 for k in range(ROWS)]
    write_parquet(path, {"x": make(kind, values), "label": labels}, row_group_size=GROUP)


def decoded(path):
    """What each kind of feature makes of the file's rows, which are read once."""
    lines = list(parquet_lines(str(path), ("x", "label")))
    return {role: [plain(read.decode(line)) for line in lines] for role, read in DECODERS.items()}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks so short that a small file has many."""
    monkeypatch.setattr(parquet, "ROWS", CHUNK)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_of_a_parquet_column_of_any_type(tmp_path, name):
    path = tmp_path / "rows.parquet"
    write_column(path, name)
    clean = decoded(path)
    assert all(len(records) == ROWS for records in clean.values())
    assert name == "null" or any(all(records) for records in clean.values())
    for value in COLUMNS[name][3]:
        for place in PLACES.values():
            write_column(path, name, value, place)
            for role, records in decoded(path).items():
                assert len(records) == ROWS
                assert without(records, place) == without(clean[role], place), (value, place, role)


@settings(NO_SLOW, max_examples=150)
@given(
    kind=st.sampled_from(TEXT_KINDS),
    index=st.sampled_from([None, *INDICES]),
    spoilt=st.dictionaries(st.integers(0, ROWS - 1), st.none() | st.binary(max_size=9), max_size=9),
)
def test_any_bytes_as_text_at_any_places(tmp_path, kind, index, spoilt):
    if index is not None and kind == pa.string_view():
        kind = pa.string()
    make = texts if index is None else words(index, kind)
    values = [spoilt.get(k, b"word %d" % (k % 5)) for k in range(ROWS)]
    path = tmp_path / "rows.parquet"
    write_parquet(path, {"x": make(kind, values)}, row_group_size=GROUP)
    lines = list(parquet_lines(str(path), ("x",)))
    for line, value in zip(lines, values, strict=True):
        # what JSON itself makes of these bytes, or of their absence
        wanted = None if value is None else _utf8(value)
        if wanted is _UNREADABLE:
            assert json_fields(line) is None
            assert json_fault(line).kind == "not UTF-8"
        else:
            assert json.loads(line) == {"x": wanted}


_UNREADABLE = object()


def _utf8(value):
    try:
        return value.decode("utf-8", "surrogatepass")  # as json reads its bytes
    except UnicodeDecodeError:
        return _UNREADABLE


def test_columns_that_nobody_asked_for_are_not_looked_at(tmp_path):
    bad = [b"\xff\xfe"] * 2
    wide = {
        "x": [1, 2],
        "text": words(pa.int8(), pa.string())(None, bad),
        "binary": bad,
        "fixed": pa.array(bad, pa.binary(2)),
        "list": [[1], None],
        "of text": pa.array([["a"], ["b"]]),
        "struct": [{"x": 1, "label": 2}, None],
        "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
        "duration": pa.array([2**62, -1], pa.duration("us")),
        "x.y": texts(pa.string(), bad),
        "label": [1, 2],
    }
    if hasattr(pa, "uuid"):
        wide |= {"uuid": pa.array([b"\xff" * 16] * 2, pa.uuid()), "json": pa.array(["{", "\0"], pa.json_())}
    path = tmp_path / "rows.parquet"
    write_parquet(path, wide)
    assert parquet_columns(str(path)) == ("x", "text", "x.y", "label")
    assert list(parquet_lines(str(path), ("label", "x"))) == [
        b'{"label": 1, "x": 1}',
        b'{"label": 2, "x": 2}',
    ]


@pytest.mark.parametrize("second", [pa.array([[1], [2]]), pa.array([1, 2]), pa.array([b"a", b"b"])])
def test_of_two_columns_of_one_name_none_is_read_for_the_other(tmp_path, second):
    path = tmp_path / "rows.parquet"
    table = pa.Table.from_arrays([pa.array([1, 2]), second, pa.array([1, 2])], names=["x", "x", "label"])
    pq.write_table(table, path)
    assert parquet_columns(str(path)) == ("x", "x", "label")
    assert list(parquet_lines(str(path), ("label",))) == [b'{"label": 1}', b'{"label": 2}']
    schema = {"features": {"x": "number"}, "label": LABEL}
    file = mesh_of(tmp_path, {"kind": "parquet", "path": "rows.parquet", "schema": schema})
    with pytest.raises(MeshFileError, match='"x": twice in the columns of'):
        open_source(file, "b", 0)


def test_a_value_that_cannot_be_converted_costs_its_row_alone(monkeypatch):
    convert = parquet._values

    def picky(pa, chunk):
        if 7 in chunk.to_pylist():
            raise pa.ArrowInvalid("secret 7")
        return convert(pa, chunk)

    monkeypatch.setattr(parquet, "_values", picky)
    read = parquet.arrow_column(pa, pa.array([1, 7, None, 3, 7]))
    assert [read.values[k] for k in (0, 2, 3)] == [1, None, 3]
    assert list(read.spoilt) == [1, 4]
    assert parquet._spoilt_line({"x": read.values[1], "y": 2}) == b""


# Every other kind, and every reader

NUMBERS = {"features": {"x": "number", "y": "number"}, "label": LABEL}
CATEGORIES = {"features": {"x": {"hashed": 2}}, "label": LABEL}
JSON_VALUES = (
    *("NaN", "-Infinity", "1e400", "9" * 5_000, "-0", "null", "true", "[]", "[[" * 9_000, '{"x":' * 3_000),
    *('"\\ud800"', '"\\u0000"', '"nan"', '"1e400"', '"1_0"', "", '"', "2e308", "1" + "0" * 400),
)
HOSTILE_LINES = (
    *(b"", b"\r", b"\0", b"\xff\xfe", b"\xff\xfe{\0}\0", b"\xef\xbb\xbf{}", b"\xed\xa0\x80", b"\0" * 1000),
    *(b"[" * 900_000, b"x" * (LONGEST_LINE - 1), b"x" * LONGEST_LINE, b"x" * (3 * LONGEST_LINE + 5)),
    *(b'"' * 4, b'"' + b"a" * 200_000, b"1" + b",1" * 60_000, b"1 1:1" + b" 2:2" * 50_000),
    *(b"1 9223372036854775808:1", b"1 1:1e400", b"nan 1:1", b"1 1:nan", b"1 -1:1", b"1 1:1 1:1", b"1_0 1:1"),
    *(b'{"x": %s, "y": 1, "label": 1}' % value.encode() for value in JSON_VALUES),
    *(b'{"x": 1, "y": 1, "label": %s}' % value.encode() for value in JSON_VALUES),
    *(b"%s,1,1" % value.encode() for value in JSON_VALUES),
    *(b"1,1,%s" % value.encode() for value in JSON_VALUES),
)


def usual_line(kind, k):
    return {
        "csv": b"%d,0.5,%d",
        "json-lines": b'{"x": %d, "y": 0.5, "label": %d}',
        "libsvm": b"%d 1:%d.5",
    }[kind] % (k % 5, k % 3)


def write_lines(path, kind, lines, *, ended=True):
    """Write the lines, packed if the name says so, after a header if they need one."""
    content = (b"x,y,label\n" if kind == "csv" else b"") + b"\n".join(lines) + b"\n" * ended
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)


@pytest.fixture(scope="module", params=["csv", "json-lines", "libsvm"])
def of_lines(request, tmp_path_factory):
    """A kind, and for its plain and its packed file the path and the mesh that reads it."""
    kind, files = request.param, []
    for end in ("", ".gz"):
        folder = tmp_path_factory.mktemp("lines")
        source = {"kind": kind, "path": f"rows{end}"} | ({} if kind == "libsvm" else {"schema": NUMBERS})
        files.append((folder / f"rows{end}", mesh_of(folder, source)))
    return kind, files


def is_utf8(line):
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_lines(of_lines, hostile, places):
    kind, files = of_lines
    usual = [usual_line(kind, k) for k in range(ROWS)]
    for path, file in files:
        write_lines(path, kind, usual)
        clean = seen(file)
        assert all(clean)
        for place in places:
            write_lines(
                path, kind, [*usual[:place], hostile, *usual[place + 1 :]], ended=len(hostile) % 2 == 0
            )
            if kind == "csv" and not is_utf8(hostile):
                with pytest.raises(
                    MeshFileError, match=rf"line {place + 2}, at byte [0-9,]+ of the file, is not"
                ):
                    seen(file)
                continue
            records = seen(file)
            if not hostile.strip() or (kind == "libsvm" and hostile.lstrip().startswith(b"#")):
                records.insert(place, None)  # a line without a record
            assert len(records) == ROWS, place
            assert without(records, place) == without(clean, place), place


@pytest.mark.parametrize("hostile", HOSTILE_LINES, ids=lambda value: f"{value[:20]!r} of {len(value)}")
def test_a_line(of_lines, hostile):
    check_lines(of_lines, hostile, list(PLACES.values())[:: 3 if len(hostile) > 10_000 else 1])


@settings(NO_SLOW)
@given(hostile=ANY, place=st.integers(0, ROWS - 1))
def test_any_line(of_lines, hostile, place):
    check_lines(of_lines, hostile, [place])


CSR = (
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        1e308,
        5e-324,
        np.longdouble("1e4000"),
        np.longdouble("-1e4000"),
    ),
    *(2**63 - 1, -(2**63), 2**64 - 1),
)


@pytest.mark.parametrize("value", CSR, ids=str)
@pytest.mark.parametrize("array", ["data", "indices", "y"])
def test_a_number_of_a_matrix(tmp_path, array, value):
    whole = isinstance(value, int)
    if array == "indices" and not whole:
        return  # a file that has such an array holds no matrix: it is refused
    file = mesh_of(tmp_path, {"kind": "csr", "path": "rows.npz"})
    arrays = {
        "data": np.arange(2.0 * ROWS) % 5,
        "indices": np.tile([0, 1], ROWS),
        "y": np.arange(float(ROWS)) % 3,
    }
    kept = {"indptr": np.arange(0, 2 * ROWS + 1, 2), "shape": [ROWS, 2]}
    dtype = np.longdouble if not whole else np.uint64 if value > 2**63 else np.int64
    arrays[array] = arrays[array].astype(dtype)
    np.savez(tmp_path / "rows.npz", **arrays, **kept)
    clean = seen(file)
    for place in PLACES.values():
        spoilt = arrays[array].copy()
        spoilt[place if array == "y" else 2 * place] = value
        np.savez(tmp_path / "rows.npz", **(arrays | {array: spoilt}), **kept)
        assert without(seen(file), place) == without(clean, place)


@pytest.mark.parametrize("kind", [*INTEGERS, pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_a_number_that_an_owner_reads_as_arrays(tmp_path, kind):
    """They are the observations of the lines, row by row, whatever stands in one."""
    schema = {"features": {"x": "number"}, "label": LABEL}
    source = {"kind": "parquet", "path": "rows.parquet", "schema": schema}
    mesh = mesh_of(tmp_path, source)
    own, path = mesh.own("b").source, ("nodes", "b", "source")
    usual = [1, 2]
    values = bounds(kind) if kind in INTEGERS else FLOATS
    for value in values:
        for place in PLACES.values():
            column = [value if k == place else usual[k % 2] for k in range(ROWS)]
            labels = [k % 7 - 3.0 for k in range(ROWS)]
            write_parquet(
                tmp_path / "rows.parquet",
                {"x": numbers(kind, column), "label": labels},
                row_group_size=GROUP,
            )
            arrays = number_chunks(mesh, own, path, CHUNK)
            records = seen(mesh)
            chunks = list(arrays())
            present = np.concatenate([chunk.present for chunk in chunks]).tolist()
            assert present == [record is not None for record in records]
            rows = np.concatenate([np.column_stack((chunk.features, chunk.labels)) for chunk in chunks])
            assert [tuple(row) for row, here in zip(rows.tolist(), present, strict=True) if here] == [
                record for record in records if record is not None
            ]


def category_mesh(folder, rows, bad=None):
    """A mesh of two nodes that share a file with a category as pandas writes it."""
    folder.mkdir()
    values = [b"ab"[k % 2 : k % 2 + 1] for k in range(rows)]
    if bad is not None:
        values[bad] = b"\xff\xfe"
    column = words(pa.int8(), pa.string())(None, values)
    labels = [1.0 if value == b"a" else -1.0 for value in values]
    write_parquet(folder / "rows.parquet", {"x": column, "label": labels}, row_group_size=4_000)
    schema = {"features": {"x": {"categories": ["a", "b"]}}, "label": LABEL}
    tree = changed(nodes=["a", "b"], loss="squared", topology={"graph": "complete"}, rounds=8)
    tree["mesh"]["slots"] = {"by": "count", "size": 750}
    for k, name in enumerate("ab"):
        source = {"kind": "parquet", "path": "rows.parquet", "schema": schema}
        tree["nodes"][name] = {"source": source | {"take": {"every": 2, "offset": k}}}
    tree["nodes"] = {name: tree["nodes"][name] for name in "ab"}
    written(folder, tree)
    return folder


def test_the_commands_agree_that_a_bad_category_ends_nothing(tmp_path, capsys, monkeypatch):
    """Behind the first records, which `check` looks at, and among them."""
    monkeypatch.setattr(parquet, "ROWS", 4096)
    call, outcomes = Commands(capsys), []
    for name, bad in (("good", None), ("early", 41), ("late", 11_001)):
        monkeypatch.chdir(category_mesh(tmp_path / name, 12_000, bad))
        checked = call("check", "mesh.yaml")
        ran = call("run", "mesh.yaml", "--quiet", "--output", "results")
        outcomes.append((checked.code, checked.err, ran.code, ran.err))
        summary = json.loads((tmp_path / name / "results" / "summary.json").read_text())
        assert summary["rounds"] == 8
    assert outcomes[0][0::2] == (0, 0)
    assert outcomes == [outcomes[0]] * 3


# What is small and unpacks to much

PROGRAM = """
import re, sys
from pathlib import Path
from streams.records.parquet import parquet_lines
rows = [len(line) for line in parquet_lines(sys.argv[1], ["x", "label"])]
# not ru_maxrss: that of a child begins with its parent's, a worker that has run many tests
peak = re.search(r"VmHWM:\\s+([0-9]+) kB", Path("/proc/self/status").read_text())[1]
print(len(rows), max(rows), int(peak) // 1024)
"""
MIB = 1 << 20


def memory_of_reading(path):
    """How many rows there are, the length of the longest line, and the most memory in MiB, of a process."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], check=True, capture_output=True, text=True
    )
    return map(int, ran.stdout.split())


@pytest.mark.parametrize("kind", ["text", "category"])
def test_a_long_text_that_every_row_holds_is_in_memory_once(tmp_path, kind):
    """A file of 3 kB, whose rows have 64 GiB of text."""
    path, rows = tmp_path / "bomb.parquet", 4096
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * (16 * MIB)]))
    table = pa.table({"x": column, "label": [1.0] * rows})
    pq.write_table(table, path, compression="zstd", store_schema=kind == "category")
    assert path.stat().st_size < 10_000
    count, longest, memory = memory_of_reading(path)
    assert (count, longest) == (rows, 0)
    assert memory < 512


def test_rows_are_read_fewer_at_a_time_where_they_are_long(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS", 4096)
    monkeypatch.setattr(parquet, "_CHUNK", 1 << 16)
    read, sizes = parquet.arrow_column, []

    def counted(pa, chunk):
        sizes.append(len(chunk))
        return read(pa, chunk)

    monkeypatch.setattr(parquet, "arrow_column", counted)
    for length, wanted in ((1, range(2_000, 4_097)), (1_000, range(50, 66))):
        write_parquet(tmp_path / "rows.parquet", {"x": [f"{k:0{length}}" for k in range(5_000)]})
        assert sum(1 for _ in parquet_lines(str(tmp_path / "rows.parquet"), ("x",))) == 5_000
        assert max(sizes) in wanted
        sizes.clear()


def test_a_packed_file_of_far_too_many_lines_is_an_error_before_memory_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(lines_module, "_LEAST", 10 * MIB)
    schema = {"features": {"x": "number"}, "label": LABEL}
    file = mesh_of(tmp_path, {"kind": "json-lines", "path": "rows.gz", "shuffle": True, "schema": schema})
    path = tmp_path / "rows.gz"
    path.write_bytes(gzip.compress(b"1\n" * (4 * MIB)))
    with pytest.raises(MeshFileError, match=r"rows.gz\": cannot be read: it unpacks to more than 300 times"):
        open_source(file, "b", 0)
    usual = b"".join(usual_line("json-lines", k) + b"\n" for k in range(50_000))
    path.write_bytes(gzip.compress(usual))
    assert sum(1 for _ in open_source(file, "b", 0).records) == 50_000


def test_brackets_without_end_cost_a_record():
    """In the longest record that a source may allow."""
    read = SchemaDecoder(SchemaSettings.model_validate(NUMBERS), json_fields, LONGEST_LINE)
    for part in (b"[", b'{"x":', b'[{"x":'):
        value = part * (LONGEST_LINE // len(part))
        assert read.decode(value) is None
        assert read.fault(value).kind == "not JSON"
