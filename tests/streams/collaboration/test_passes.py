"""An owner's fixed set is read whole, in chunks, once for each query; a bad one is refused before that."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.collaboration.messages import ReadSet
from nodes.privacy.reveal import opened
from streams.collaboration import passes as module
from streams.collaboration.passes import chunks, number_chunks, passes
from streams.mesh.errors import MeshFileError
from streams.mesh.file import load_any
from streams.mesh.settings.node import FileSettings
from streams.records.lines import ordered
from streams.records.sources import opened_records
from tests.support.meshes.sources import write_parquet

HEAD = """\
mesh:
  kind: collaboration
  name: lending
  run: first
  learner: analyst
  owners: {bank-a: {records: 7, epsilon: 1}}
  dimension: 3
  loss: squared
  constraint: {l2-ball: 10}
  algorithm: {name: averaged, step: 1}
  queries: 10
  gradient_bound: 1
"""
SCHEMA = "schema: {features: {x: number, y: number}, label: {column: z}, intercept: true}"
VALUES = [(k / 8, -k / 4, k / 2 - 1) for k in range(7)]


def own(kind: str, path: str, more: str = SCHEMA) -> str:
    return f"owners: {{bank-a: {{source: {{kind: {kind}, path: {path}, {more}}}}}}}\n"


def made(folder, kind="csv", rows=VALUES, head=HEAD):
    """The owner's passes over a file of that kind."""
    path = folder / f"records.{kind}"
    more = SCHEMA
    match kind:
        case "csv":
            path.write_text("x,y,z\n" + "".join(f"{x},{y},{z}\n" for x, y, z in rows))
        case "json-lines":
            path.write_text("".join(json.dumps(dict(zip("xyz", row, strict=True))) + "\n" for row in rows))
        case "libsvm":
            path.write_text("".join(f"{z} 1:{x} 2:{y} 3:1\n" for x, y, z in rows))
            more = "label: {}"
        case "parquet":
            write_parquet(path, {name: [row[k] for row in rows] for k, name in enumerate("xyz")})
    (folder / "lending.yaml").write_text(head + own(kind, path.name, more))
    return passes(load_any(folder / "lending.yaml"), "bank-a")


def total(read) -> list[int]:
    return opened(read.total).total.tolist()


@pytest.mark.parametrize("kind", ["csv", "json-lines", "libsvm", "parquet"])
def test_a_pass_sums_the_gradients_of_every_record_whatever_the_kind(tmp_path, kind):
    found = made(tmp_path, kind)
    fixed = found.fixed()
    assert fixed.records == 7
    assert fixed.extent == (("bytes", (tmp_path / f"records.{kind}").stat().st_size),)
    read = found.read(ReadSet(3, np.array([0.5, 0.25, -1.0])))
    assert (read.query, read.set) == (3, fixed)
    rows = np.array([[x, y, 1.0] for x, y, _ in VALUES])
    errors = rows @ np.array([0.5, 0.25, -1.0]) - np.array([z for *_, z in VALUES])
    gradients = errors[:, None] * rows
    clipped = gradients / np.maximum(1, np.abs(gradients).sum(1, keepdims=True))
    step = load_any(tmp_path / "lending.yaml").resolved.mechanism("bank-a").answers.grid.step
    assert np.array(total(read)) * step == pytest.approx(clipped.sum(0), abs=1e-7)


def test_small_chunks_give_the_same_sum(tmp_path, monkeypatch):
    found, asked = made(tmp_path), ReadSet(1, np.ones(3))
    whole = total(found.read(asked))
    monkeypatch.setattr(module, "_MOST_ROWS", 2)
    assert [chunk.labels.size for chunk in chunks(found._values(), found._decoder)] == [2, 2, 2, 1]
    assert total(found.read(asked)) == whole


def test_a_pass_that_is_not_wanted_any_more_ends(tmp_path):
    assert made(tmp_path).read(ReadSet(1, np.ones(3)), lambda: False) is None


def test_a_part_of_a_file_may_be_taken(tmp_path):
    head = HEAD.replace("records: 7", "records: 3")
    made(tmp_path, head=head)
    text = (
        (tmp_path / "lending.yaml").read_text().replace("kind: csv", "kind: csv, take: {every: 2, offset: 1}")
    )
    (tmp_path / "lending.yaml").write_text(text)
    assert passes(load_any(tmp_path / "lending.yaml"), "bank-a").fixed().records == 3


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "mesh.owners.bank-a.records: 7: the set holds no record: must be that number"),
        (VALUES[:1], "mesh.owners.bank-a.records: 7: the set holds 1 of them: must be that number"),
        ([*VALUES, (1, 1, 1)], "mesh.owners.bank-a.records: 7: the set holds 8 of them"),
        (
            [*VALUES[:5], (1, 1, "nan"), (1, "x", 1)],
            "owners.bank-a.source: 2 of 7 records cannot be read (z: not finite (1), y: not a number (1))",
        ),
        ([*VALUES[:6], (1, 1, "")], "owners.bank-a.source: 1 of 7 records cannot be read (z: empty (1))"),
    ],
)
def test_a_bad_set_is_refused_with_owner_and_field(tmp_path, rows, says):
    with pytest.raises(MeshFileError) as error:
        made(tmp_path, rows=rows).fixed()
    assert str(error.value).removeprefix(f"{tmp_path / 'lending.yaml'}: ").startswith(says)


def test_a_file_of_another_width_is_refused(tmp_path):
    made(tmp_path)
    (tmp_path / "records.csv").write_text("x,z\n1,2\n")
    with pytest.raises(MeshFileError, match=r"owners.bank-a.source.schema: \"y\": not in the header"):
        passes(load_any(tmp_path / "lending.yaml"), "bank-a")


def test_a_file_that_is_gone_or_a_folder_is_refused(tmp_path):
    made(tmp_path)
    (tmp_path / "records.csv").unlink()
    with pytest.raises(MeshFileError, match=r"owners.bank-a.source.path: .*cannot be read"):
        passes(load_any(tmp_path / "lending.yaml"), "bank-a")
    (tmp_path / "records.csv").mkdir()
    with pytest.raises(MeshFileError, match=r"owners.bank-a.source.path: .*must be one"):
        passes(load_any(tmp_path / "lending.yaml"), "bank-a")


def test_a_set_that_grows_meanwhile_shows_in_what_was_read(tmp_path):
    found = made(tmp_path)
    fixed = found.fixed()
    with (tmp_path / "records.csv").open("a") as file:
        file.write("1,1,1\n")
    read = found.read(ReadSet(1, np.ones(3)))
    assert read.set.records == 8
    assert read.set.extent != fixed.extent


# Arrays of a Parquet file are what its lines decode to, bit for bit; where they may not be, lines it is


COLUMNS = {
    "features": {"x": {"bounds": [-1.5, 2.5]}, "k": "number", "y": "number"},
    "label": {"column": "z"},
    "intercept": True,
}
FLOATS = st.one_of(st.floats(width=64), st.floats(-3, 3), st.none())
ROWS = st.lists(
    st.tuples(FLOATS, st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()), FLOATS, FLOATS), min_size=1
)


class File:
    dimension = 4

    def refuse(self, path, allowed, value=None):
        return ValueError(f"{path}: {allowed}")


def source(path, schema=COLUMNS, **changes):
    made = FileSettings.model_validate({"kind": "parquet", "path": str(path), "schema": schema} | changes)
    return made.model_copy(update={"path": str(path)})


def write(path, rows):
    columns = {name: [row[k] for row in rows] for k, name in enumerate("xkyz")}
    write_parquet(path, columns, {"x": "float64", "k": "int64", "y": "float64", "z": "float64"})


def whole(found):
    parts = list(found)
    return [np.concatenate([np.asarray(part[k], np.float64) + 0.0 for part in parts]) for k in range(3)]


@settings(max_examples=60)
@given(rows=ROWS, size=st.integers(1, 5))
def test_the_arrays_are_what_the_lines_decode_to(rows, size, tmp_path_factory):
    path = tmp_path_factory.mktemp("p") / "rows.parquet"
    write(path, rows)
    made = source(path)
    read = number_chunks(File(), made, ("source",), size)
    lines, decoder = opened_records(File(), made, ("source",))
    expected = whole(chunks(ordered(lines, 0, shuffle=False, take=None, by_time=False), decoder))
    for _ in range(2):  # anew each time
        for one, other in zip(whole(read()), expected, strict=True):
            assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(
    ("schema", "changes"),
    [
        (COLUMNS | {"norm": 1.0}, {}),
        (COLUMNS | {"label": {"column": "z", "positive": "1"}}, {}),
        (COLUMNS | {"features": {"x": {"log": [1, 2]}, "k": "number", "y": "number"}}, {}),
        (COLUMNS, {"take": {"every": 2}}),
        (COLUMNS, {"max_record_bytes": 100}),
        (COLUMNS, {"kind": "csv"}),
    ],
)
def test_what_needs_lines_is_read_by_lines(tmp_path, schema, changes):
    write(tmp_path / "rows.parquet", [(1.0, 2, 3.0, 4.0)])
    assert number_chunks(File(), source(tmp_path / "rows.parquet", schema, **changes), ("source",), 8) is None


def test_a_column_of_text_is_read_by_lines(tmp_path):
    write_parquet(tmp_path / "rows.parquet", {"x": ["1"], "k": [1], "y": [1.0], "z": [1.0]})
    assert number_chunks(File(), source(tmp_path / "rows.parquet"), ("source",), 8) is None


def test_a_value_that_is_not_finite_leaves_its_place(tmp_path):
    write(tmp_path / "rows.parquet", [(1.0, 2, 3.0, 4.0), (1.0, 2, math.inf, 4.0), (1.0, None, 3.0, 4.0)])
    (found,) = number_chunks(File(), source(tmp_path / "rows.parquet"), ("source",), 8)()
    assert found.present.tolist() == [True, False, False]
    assert found.features.tolist() == [[0.625, 2, 3, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
