"""Parts of a source: by the places of records, or by their content; which of them share no record."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.mesh.compatibility import Part, part_of, takes
from streams.mesh.settings.files import TakeSettings
from streams.mesh.settings.node import NodeSettings

SCHEMA = {"features": {"x": "number"}, "label": {"column": "y"}, "timestamp": "t"}
OTHER = SCHEMA | {"features": {"x": "number", "z": "number"}}
KINDS = {
    "json-lines": {"kind": "json-lines", "schema": SCHEMA},
    "csv": {"kind": "csv", "schema": SCHEMA},
    "csv without a header": {"kind": "csv", "schema": OTHER, "columns": ["x", "y", "t", "z"]},
    "parquet": {"kind": "parquet", "schema": SCHEMA},
    "parquet of other columns": {"kind": "parquet", "schema": OTHER},
    "libsvm": {"kind": "libsvm"},
    "csr": {"kind": "csr"},
}


def part(kind, every, offset, *, by_time=True, **settings):
    """The part of a source of that kind."""
    take = {} if every is None else {"take": {"every": every, "offset": offset}}
    source = KINDS[kind] | take | settings | {"path": "a"}
    return part_of(NodeSettings.model_validate({"source": source}, by_alias=True).source, by_time=by_time)


def test_two_parts_overlap_where_a_line_is_in_both():
    parts = [
        Part(first, every, header) for every in (1, 2, 3, 4, 6) for first in range(every) for header in (0, 1)
    ]
    for one, other in product(parts, parts):
        lines = [set(range(part.header + part.first, 200, part.every)) for part in (one, other)]
        assert one.overlaps(other) == bool(lines[0] & lines[1])


def test_rows_of_a_matrix():
    assert not Part(rows=(0, 5)).overlaps(Part(rows=(5, 9)))
    assert Part(rows=(0, 6)).overlaps(Part(rows=(5, 9)))
    assert not Part(split=0).overlaps(Part(split=1))
    assert Part(split=0).overlaps(Part(rows=(5, 9)))
    assert Part(first=0, every=2, rows=(0, 6)).overlaps(Part(first=1, every=2, rows=(1, 6)))  # counted from 1


@pytest.mark.parametrize("kind", KINDS)
def test_parts_by_content_of_one_every_share_nothing(kind):
    parts = [part(kind, 3, offset) for offset in range(3)]
    for one, other in product(parts, parts):
        assert one.overlaps(other) == (one == other)
        assert one.overlaps(part(kind, None, 0))
        assert part(kind, None, 0).overlaps(one)


def test_parts_by_content_share_nothing_only_for_the_same_bytes_and_every():
    alike = {
        "csv": "csv",
        "csv without a header": "csv",
    }  # a line is the same bytes, whatever names its columns
    for one, other in product(KINDS, KINDS):
        same = alike.get(one, one) == alike.get(other, other)
        assert part(one, 4, 0).overlaps(part(other, 4, 1)) != same
        assert part(one, 4, 0).overlaps(part(other, 2, 1))
        assert part(one, 4, 0).overlaps(part(other, 4, 1, by_time=False))
        assert part(one, 4, 0, by_time=False).overlaps(part(other, 4, 1))


def test_rows_of_a_matrix_by_content():
    assert not part("csr", 2, 0, rows=[0, 5]).overlaps(part("csr", 2, 0, rows=[5, 9]))
    assert part("csr", 2, 0, rows=[0, 6]).overlaps(part("csr", 2, 0, rows=[5, 9]))
    assert not part("csr", 2, 0, rows=[0, 6]).overlaps(part("csr", 2, 1, rows=[5, 9]))  # rows move nothing
    assert not part("csr", 2, 0, split=0).overlaps(part("csr", 2, 0, split=1))


@given(st.binary(), st.integers(1, 9))
def test_a_record_is_in_one_part(value, every):
    assert sum(takes(TakeSettings(every=every, offset=offset), value) for offset in range(every)) == 1


def test_the_parts_of_records_stay_what_they_are():
    """They are in every ledger: another hash or key would call parts disjoint that were learnt from."""
    parts = [[k for k in range(20) if takes(TakeSettings(every=3, offset=o), b"%d" % k)] for o in range(3)]
    assert parts == [[2, 4, 5, 6, 8, 11, 15], [7, 13], [0, 1, 3, 9, 10, 12, 14, 16, 17, 18, 19]]


def test_parts_are_about_equal():
    sizes = [
        sum(takes(TakeSettings(every=4, offset=o), b"row %d" % k) for k in range(8_000)) for o in range(4)
    ]
    assert sum(sizes) == 8_000
    assert all(abs(size - 2_000) < 200 for size in sizes)  # five standard deviations
