"""`mirrormesh schema`: `check` and `run` read what it writes; it shows no value unless they are public."""

import gzip
import json
import re

import numpy as np
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from streams.mesh.settings.files import read_yaml
from streams.mesh.settings.schema import SchemaSettings
from streams.records.notation import FILE
from streams.tools.schema import _scalar, column_of
from tests.streams.cli.test_exports import EXPORTS
from tests.support.meshes.files import changed

ROWS = 60


def records():
    return [
        {
            "amount": 1000.25 + 7 * k,
            "country": ("de", "fr", "xk")[k % 3],
            "shop": f"shop-{k % 31}",
            "customer_id": 77_000 + k,
            "token": f"t{k:05}",
            "created_at": 1_700_000_000_000 + 1000 * k,
            "fraud": k % 4 == 0,
        }
        for k in range(ROWS)
    ]


def csv(delimiter=","):
    lines = [delimiter.join(records()[0])]
    lines += [delimiter.join(str(value) for value in row.values()) for row in records()]
    return ("\n".join(lines) + "\n").encode()


def json_lines():
    return "".join(json.dumps(row) + "\n" for row in records()).encode()


FILES = {
    "rows.csv": csv,
    "rows.tsv": lambda: csv("\t"),
    "rows.csv.gz": lambda: gzip.compress(csv()),
    "rows.jsonl": json_lines,
    "no-suffix": json_lines,
}


def source_of(text):
    """Return the source that stands at the top of a schema."""
    (line,) = [line for line in text.splitlines() if line.startswith("#   source: ")]
    return yaml.safe_load(line.removeprefix("#   "))["source"]


def mesh_of(folder, text, **changes):
    changes = {"loss": "hinge"} | changes
    tree = changed(nodes=["a"], topology={"graph": "complete"}, rounds=ROWS, **changes)
    del tree["mesh"]["dimension"]
    tree["mesh"]["features"] = "schema.yaml"
    source = source_of(text)
    assert source.pop("schema") == "schema.yaml"
    path = folder / "mesh.yaml"
    path.write_text(yaml.safe_dump(tree | {"nodes": {"a": {"source": source}}}, allow_unicode=True))
    return path


def round_trip(call, folder, name, **changes):
    """Write the schema of a public file, then a mesh file with it; check and run that."""
    schema = call("schema", name, "--public", "--output", "schema.yaml")
    assert (schema.code, schema.err) == (0, "")
    text = (folder / "schema.yaml").read_text()
    mesh = mesh_of(folder, text, **changes)
    checked = call("check", mesh)
    assert (checked.code, checked.err) == (0, "")
    assert "malformed" not in checked.out
    outcome = call("run", mesh, "--output", "out")
    assert (outcome.code, outcome.err) == (0, "")
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert (summary["rounds"], summary["nodes"][0]["malformed"]) == (ROWS, 0)
    return text


@pytest.mark.parametrize("name", EXPORTS)
def test_an_ordinary_export_goes_from_schema_to_run(call, tmp_path, name):
    (tmp_path / "rows.csv").write_bytes(EXPORTS[name][0])
    text = round_trip(call, tmp_path, "rows.csv")
    assert source_of(text).get("dialect", {}) == EXPORTS[name][2].get("dialect", {})


@pytest.mark.parametrize("name", FILES)
def test_each_format_goes_from_schema_to_run(call, tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name]())
    text = round_trip(call, tmp_path, name)
    schema = SchemaSettings.model_validate(read_yaml(tmp_path / "schema.yaml"))
    assert list(schema.features) == ["amount", "country", "shop"]
    assert schema.features["amount"].bounds == (1000.25, 1000.25 + 7 * (ROWS - 1))
    assert set(schema.features["country"].categories) == {"de", "fr", "xk"}
    assert (schema.label.column, schema.label.positive[0].lower()) == ("fraud", "true")
    assert "# timestamp: {column: created_at, unit: ms}" in text
    assert re.search("# customer_id .*left out", text)
    assert re.search("# token .*left out: another value in nearly each record", text)


def test_parquet_goes_from_schema_to_run(call, tmp_path):
    rows = {name: [row[name] for row in records()] for name in records()[0]}
    parquet.write_table(pa.table(rows), tmp_path / "rows.parquet")
    round_trip(call, tmp_path, "rows.parquet")


def test_numbers_and_several_classes_are_labels_too(call, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["x,y"] + [f"{a},{b}" for a, b in zip(rng.normal(size=ROWS), rng.normal(size=ROWS), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    text = round_trip(call, tmp_path, "a.csv", loss="squared")
    assert "label: {column: " in text
    (tmp_path / "schema.yaml").unlink()
    lines = ["x,class"] + [f"{k},{('oak', 'ash', 'elm')[k % 3]}" for k in range(ROWS)]
    (tmp_path / "b.csv").write_text("\n".join(lines))
    text = round_trip(call, tmp_path, "b.csv", loss={"softmax": 3})
    assert "label: {column: class, classes: [ash, elm, oak]}" in text


def test_a_file_without_a_header_gets_names(call, tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{k},{k % 5 + 0.5},{k % 2}\n" for k in range(ROWS)))
    text = round_trip(call, tmp_path, "a.csv")
    assert source_of(text)["columns"] == ["column_1", "column_2", "column_3"]


@pytest.mark.parametrize("name", FILES)
def test_without_public_no_value_is_shown_and_check_refuses_what_is_open(call, tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name]())
    shown = call("schema", name)
    assert (shown.code, shown.err) == (0, "")
    body = "\n".join(line for line in shown.out.splitlines() if not line.startswith("#"))
    for row in records():
        for value in row.values():
            if not isinstance(value, bool):
                assert re.search(rf"(?<![\w.]){re.escape(str(value))}(?![\w.])", body) is None, value
    assert "LOOKING AT the first 60 records" in shown.out
    (tmp_path / "schema.yaml").write_text(shown.out)
    checked = call("check", mesh_of(tmp_path, shown.out))
    assert checked.code == 2
    lines = checked.err.splitlines()
    known = 'FILL-IN": stands for what must be known without looking at the records: must be'
    assert all(known in line for line in lines)
    assert [re.search(r"schema.yaml: ([a-z.]+)", line)[1] for line in lines] == [
        "features.amount.bounds",
        "features.country.categories",
        "label.positive",
    ]


def test_a_filled_schema_is_right(call, tmp_path):
    (tmp_path / "rows.csv").write_bytes(csv())
    text = call("schema", "rows.csv").out
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("  #", "# timestamp")))
    for value in ("[0, 2000]", "[de, fr]", "[true, True]"):
        text = text.replace(": FILL-IN", f": {value}", 1)
    (tmp_path / "schema.yaml").write_text(text)
    checked = call("check", mesh_of(tmp_path, text))
    assert (checked.code, checked.err) == (0, "")


def test_an_odd_value_changes_no_type(call, tmp_path):
    (tmp_path / "rows.csv").write_bytes(csv())
    before = call("schema", "rows.csv").out
    (tmp_path / "rows.csv").write_bytes(csv().replace(b"1007.25", b"odd").replace(b"\nde", b"\n"))
    after = call("schema", "rows.csv").out
    assert after == before


def test_it_looks_at_as_many_as_are_asked_for(call, tmp_path):
    (tmp_path / "rows.csv").write_bytes(csv())
    text = call("schema", "rows.csv", "--public", "--first", "5").out
    assert "first 5 records" in text
    assert f"bounds: [1000.25, {1000.25 + 28}]" in text


REFUSED = {
    "nothing": ([], "schema: must have either FILE, or --topic and --servers"),
    "both": (["rows.csv", "--topic", "t", "--servers", "a:1"], "must have either FILE, or --topic"),
    "a topic without a broker": (["--topic", "t"], "must have either FILE, or --topic and --servers"),
    "a registry of a file": (
        ["rows.csv", "--registry", "http://a:1"],
        "--registry http://a:1: goes with --topic",
    ),
    "columns of a file": (["rows.csv", "--columns", "a,b"], "--columns a,b: goes with --topic"),
    "two formats": (
        ["--topic", "t", "--servers", "a:1", "--columns", "a", "--registry", "http://a:1"],
        "--registry and --columns: must be one of them",
    ),
    "no file": (["none.csv"], "none.csv: cannot be read: No such file"),
    "standard input": (
        ["-"],
        "-: is standard input, which can be read once alone: must be the path of a file",
    ),
    "a folder": (["."], "cannot be read: Is a directory"),
    "an empty one": (["empty"], "empty: "),
    "a list": (["list.json"], "list.json: holds a JSON list: must have one JSON object a line"),
    "libsvm": (
        ["a.svm"],
        r"need no schema: source: \{kind: libsvm, path: a.svm\} .*dimension of 12 or more",
    ),
    "libsvm from 0": (["b.svm"], "source: {kind: libsvm, path: b.svm, index_base: 0} .* of 13 or more"),
    "one column": (["one.csv"], "one.csv: must have a column for the label and one for a feature at least"),
    "its own input": (
        ["rows.csv", "--output", "rows.csv"],
        "rows.csv: is there already: must be another file",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_one_line_and_nothing_is_written(call, tmp_path, name):
    (tmp_path / "rows.csv").write_bytes(csv())
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "list.json").write_text('[{"a": 1}]')
    (tmp_path / "a.svm").write_text("# made up\n1 qid:3 1:0.5 12:1\n-1 2:1\n")
    (tmp_path / "b.svm").write_text("1 0:0.5 12:1\n")
    (tmp_path / "one.csv").write_text("x\n" + "1\n2\n3\n" * 5)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    arguments, line = REFUSED[name]
    outcome = call("schema", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.splitlines()) == 1
    assert line in outcome.err or re.search(line, outcome.err)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_broker_that_is_not_there_is_one_line(call):
    outcome = call("schema", "--topic", "payments", "--servers", "127.0.0.1:9")
    assert (outcome.code, outcome.out, len(outcome.err.splitlines())) == (1, "", 1)


NAMES = [
    "a",
    "yes",
    "null",
    "1",
    "1e5",
    "",
    " x",
    "a: b",
    "#a",
    "Größe",
    "a\nb",
    '"',
    "\x85",
    "~",
    "a,b",
    "\u2028",
    "[x",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_read_again_as_it_is(tmp_path, name):
    path = tmp_path / "a.yaml"
    path.write_text(f"{{{_scalar(name)}: [{_scalar(name)}]}}\n", "utf-8")
    assert read_yaml(path) == {name: [name]}


KINDS = {
    "number": ["1", "2.5", "x", "-3", "", "1e3"],
    "time": ["31.01.2026 10:00", "15.02.2026 11:30", "", "x"],
    "words": ["a", "b", "a", "a", "b", "b"],
    "texts": [f"w{k % 60}" for k in range(120)],
    "ids": [f"w{k}" for k in range(120)],
    "nested": [{"a": 1}, [1], None],
    "empty": [None, "", "NA", "?"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_is_what_most_of_its_values_are(kind):
    assert column_of("x", KINDS[kind], FILE).kind == kind


TIMES = {
    "2026-01-31T12:00:00Z": {},
    "2026-01-31 12:00:00": {"zone": "UTC"},
    "31.01.2026 12:00": {"format": "%d.%m.%Y %H:%M", "zone": "UTC"},
    "01/31/2026 02:00 PM": {"format": "%m/%d/%Y %I:%M %p", "zone": "UTC"},
    "31/01/2026": {"format": "%d/%m/%Y", "zone": "UTC"},
}


@pytest.mark.parametrize("text", TIMES)
def test_times_are_told_with_how_they_are_spelt(text):
    column = column_of("x", [text] * 5, FILE)
    assert (column.kind, column.time) == ("time", TIMES[text])


@pytest.mark.parametrize(
    ("number", "unit"), [(1.7e9, {}), (1.7e12, {"unit": "ms"}), (1.7e18, {"unit": "ns"})]
)
def test_numbers_are_times_by_name_and_size_alone(number, unit):
    assert column_of("created_at", [number] * 3, FILE)[1::3] == ("time", unit)
    assert column_of("revenue", [number] * 3, FILE).kind == "number"
    assert column_of("rate_at", [2.0] * 3, FILE).kind == "number"


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (["name,2023,2024,y"] + [f"n{k},{k + 0.5},{k % 7},{k % 2}" for k in range(ROWS)], True),
        (["name,2021,2022,2023,class"] + [f"n{k},{k},{k % 7},{k},a" for k in range(ROWS)], True),
        ([f"2026-01-{1 + k % 28:02},{77_000 + k},n{k},{k % 2}" for k in range(ROWS)], False),
    ],
)
def test_a_first_row_is_a_record_where_most_of_it_looks_like_the_rows_below(call, tmp_path, lines, names):
    (tmp_path / "a.csv").write_text("\n".join(lines))
    text = call("schema", "a.csv").out
    assert ("columns" not in source_of(text)) == names
    assert ("# The first row names the columns." in text) == names
    assert ("# The first row looks like those below it, so it is a record" in text) != names


def test_the_source_of_a_schema_in_another_folder_is_read_from_there(call, tmp_path):
    (tmp_path / "a.csv").write_bytes(csv())
    assert call("schema", "a.csv", "--output", "d/pub.yaml").code == 0
    source = source_of((tmp_path / "d" / "pub.yaml").read_text())
    assert (source["path"], source["schema"]) == ("../a.csv", "pub.yaml")
    assert source_of(call("schema", str(tmp_path / "a.csv")).out)["path"] == str(tmp_path / "a.csv")


def test_of_several_columns_of_times_one_is_the_timestamp(call, tmp_path):
    rows = [
        f"2026-01-{k % 28 + 1:02}T12:00:00Z,{k % 28 + 1:02}.01.2026 12:00,{k},{k % 2}" for k in range(ROWS)
    ]
    (tmp_path / "a.csv").write_text("\n".join(["at,paid,amount,y", *rows]))
    text = call("schema", "a.csv", "--public").out
    assert text.count("# timestamp: ") == 1
    assert "# timestamp: {column: at}" in text
    assert "# at: {hour: FILL-IN}" in text
    assert '# paid: {hour: FILL-IN, format: "%d.%m.%Y %H:%M", zone: FILL-IN}' in text
