"""Arrays of a Parquet file are what its lines decode to, bit for bit; where they may not be, lines it is."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.mesh.settings.node import FileSettings
from streams.records.lines import ordered
from streams.records.passes import chunks, number_chunks
from streams.records.sources import opened_records
from tests.support.meshes.sources import write_parquet

SCHEMA = {
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


def source(path, schema=SCHEMA, **changes):
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
        (SCHEMA | {"norm": 1.0}, {}),
        (SCHEMA | {"label": {"column": "z", "positive": "1"}}, {}),
        (SCHEMA | {"features": {"x": {"log": [1, 2]}, "k": "number", "y": "number"}}, {}),
        (SCHEMA, {"take": {"every": 2}}),
        (SCHEMA, {"max_record_bytes": 100}),
        (SCHEMA, {"kind": "csv"}),
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
