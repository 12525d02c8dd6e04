"""Lines of files: gzip, standard input, order and parts."""

import codecs
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.mesh.settings.files import LONGEST_LINE, TakeSettings
from streams.records import lines as module
from streams.records.lines import lines, numbered_lines, ordered

ROWS = [f"row {k}".encode() for k in range(101)]


def taken(offset, *, every=4, shuffle=False, seed=0, by_time=False):
    take = TakeSettings(every=every, offset=offset)
    return list(ordered(iter(ROWS), seed, shuffle=shuffle, take=take, by_time=by_time))


def test_blank_lines_are_no_records_and_have_their_numbers(tmp_path):
    (tmp_path / "rows").write_bytes(b"\na\n\n \t\r\n\r\nb\n\x0b\n")
    assert list(numbered_lines(str(tmp_path / "rows"))) == [(2, b"a"), (6, b"b")]


def test_lines_of_a_file_with_any_ends(tmp_path):
    (tmp_path / "rows").write_bytes(b"a\nb\r\n\nc")
    assert list(lines(str(tmp_path / "rows"))) == [b"a", b"b", b"c"]
    (tmp_path / "rows").write_bytes(b"a\n")
    assert list(lines(str(tmp_path / "rows"))) == [b"a"]


def test_gzip_by_its_suffix(tmp_path):
    (tmp_path / "rows.gz").write_bytes(gzip.compress(b"a\nb\n"))
    assert list(lines(str(tmp_path / "rows.gz"))) == [b"a", b"b"]


def test_standard_input():
    assert list(lines("-", io.BytesIO(b"a\nb\n"))) == [b"a", b"b"]


def test_a_file_is_read_lazily():
    endless = io.BytesIO(b"a\nb\n")
    first = next(lines("-", endless))
    assert (first, endless.tell()) == (b"a", 2)


def test_a_huge_line_keeps_its_place_empty():
    for length in (LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE):
        found = list(lines("-", io.BytesIO(b"a\n" + b"x" * length + b"\nb\n")))
        assert (found[0], found[2:]) == (b"a", [b"b"])
        assert len(found[1]) == (length if length < LONGEST_LINE else 0)
    assert list(lines("-", io.BytesIO(b"x" * LONGEST_LINE))) == [b""]


@pytest.mark.parametrize("shuffle", [False, True])
def test_parts_share_a_file_without_a_rest(shuffle):
    parts = [taken(offset, shuffle=shuffle) for offset in range(4)]
    assert sorted(row for part in parts for row in part) == sorted(ROWS)
    assert {len(part) for part in parts} == {25, 26}


def test_without_a_shuffle_a_part_is_every_fourth_row():
    assert taken(1)[:3] == [ROWS[1], ROWS[5], ROWS[9]]


def test_with_slots_by_time_a_part_is_chosen_by_content_and_keeps_the_order():
    parts = [taken(offset, by_time=True) for offset in range(4)]
    assert sorted(row for part in parts for row in part) == sorted(ROWS)
    assert all(part and part == [row for row in ROWS if row in part] for part in parts)
    assert parts == [taken(offset, seed=1, by_time=True) for offset in range(4)]
    more = list(
        ordered(iter([b"one more", *ROWS]), 0, shuffle=False, take=TakeSettings(every=4), by_time=True)
    )
    assert [row for row in more if row != b"one more"] == parts[0]


def test_a_shuffle_is_a_permutation_of_the_seeds():
    orders = [taken(0, every=1, shuffle=True, seed=seed) for seed in (0, 0, 1)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[0]) == sorted(ROWS)
    assert orders[0] != ROWS


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"", []),
        (b"\n", []),
        (b"\n" + MARK + b"a\n", [MARK + b"a"]),
        (b"x" * LONGEST_LINE + b"\nb\n", [b"", b"b"]),
    ],
    ids=["rows", "none", "blank line", "not the first", "huge"],
)
def test_a_byte_order_mark_is_the_file_s_and_no_record_s(content, expected):
    assert list(lines("-", io.BytesIO(MARK + content))) == expected


@given(
    st.lists(
        st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b" ", b"\t", codecs.BOM_UTF8, b"\x00", b"dddd"]),
        max_size=25,
    ),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_lines_of_blocks_are_those_that_are_read_one_by_one(parts, longest, block):
    content = b"".join(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "LONGEST_LINE", max(longest, block + 1))
        patched.setattr(module, "_BLOCK", block)
        by_blocks = list(module._by_blocks(io.BufferedReader(io.BytesIO(content))))
        assert by_blocks == list(module._one_by_one(io.BytesIO(content)))
