"""The records of CSV files of every dialect: where they lie, and that what is odd in one stays there."""

import csv
import encodings
import gzip
import os
import pkgutil
from contextlib import suppress
from io import BytesIO, StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from streams.mesh.errors import MeshFileError
from streams.mesh.settings.node import DialectSettings, is_wide
from streams.records.csv_records import csv_records, not_encoded
from streams.records.faults import csv_options
from streams.records.sources import open_source
from tests.support.meshes.files import changed, loaded

BREAKS = DialectSettings(line_breaks=True)
LONGEST = 1 << 14


def records(path, content, dialect=BREAKS, columns=None, longest=LONGEST):
    path.write_bytes(content)
    return list(csv_records(str(path), dialect, columns, longest))


def test_a_quoted_line_break_is_part_of_its_record(tmp_path):
    content = b'\xef\xbb\xbfa,"b\nof two"\n\n1,"x\ny\n\nz"\r\n2,"q\r\n"\n\n3,plain\n4,"a"",\nb"'
    assert records(tmp_path / "rows", content) == [
        (1, b'a,"b\nof two"'),
        (4, b'1,"x\ny\n\nz"'),
        (8, b'2,"q\r\n"'),
        (11, b"3,plain"),
        (12, b'4,"a"",\nb"'),
    ]
    lines = [(1, b'a,"b'), (2, b'of two"'), (4, b'1,"x')]
    assert records(tmp_path / "rows", content, None)[:3] == lines


UNCLOSED = b'2,"open\n'


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("others", [b"1,x\n", b'1,"x"\n', b'1,"a ""b"""\n', b'1,"x\ny"\n', b'1,""\n'])
def test_a_quote_that_is_never_closed_takes_no_record_with_it(tmp_path, others, place):
    whole = [b"a,b\n", *[others] * 5]
    before = [record for _, record in records(tmp_path / "rows", b"".join(whole))]
    content = b"".join([*whole[: place + 1], UNCLOSED, *whole[place + 1 :]])
    after = [record for _, record in records(tmp_path / "rows", content)]
    assert after == [*before[: place + 1], UNCLOSED.strip(), *before[place + 1 :]]


def test_a_record_over_lines_has_no_more_bytes_than_a_record_may(tmp_path):
    lines = [b'"', *[b"x" * 9] * 20, b'",1', b"2,2"]
    content = b"a,b\n" + b"\n".join(lines) + b"\n"
    assert len(records(tmp_path / "rows", content)) == 3
    assert len(records(tmp_path / "rows", content, longest=205)) == 3
    assert [record for _, record in records(tmp_path / "rows", content, longest=204)] == [b"a,b", *lines]


def test_a_record_of_other_values_than_the_columns_is_of_one_line(tmp_path):
    content = b'1,"x\n2,"\n3,y\n'
    assert [record for _, record in records(tmp_path / "rows", content, columns=2)] == [
        b'1,"x\n2,"',
        b"3,y",
    ]
    assert [record for _, record in records(tmp_path / "rows", content, columns=3)] == [
        b'1,"x',
        b'2,"',
        b"3,y",
    ]


TEXTS = st.text(st.sampled_from("ab1,;'\"\n\r\té\u20ac \\"), max_size=6)


@given(
    st.lists(st.lists(TEXTS, min_size=3, max_size=3), min_size=1, max_size=6),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(['"', "'"]),
    st.sampled_from(["utf-8", "utf-16", "cp1252", "utf-8-sig"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_a_writer_of_csv_writes_is_read_as_it_was(tmp_path_factory, rows, delimiter, quote, code, end):
    dialect = DialectSettings(delimiter=delimiter, quote=quote, encoding=code, line_breaks=True)
    text = StringIO()
    csv.writer(
        text, delimiter=delimiter, quotechar=quote, quoting=csv.QUOTE_ALL, lineterminator=end
    ).writerows([["a", "b", "c"], *rows])
    path = tmp_path_factory.mktemp("rows") / "rows"
    seen = [record for _, record in records(path, text.getvalue().encode(code), dialect)]
    read = [next(csv.reader([record.decode()], **csv_options(dialect))) for record in seen]
    assert read == [["a", "b", "c"], *rows]


CODES = {
    "utf-8": (b"a\nb\n\xff\n", 3, 4),
    "utf-16": ("a\nb\nc".encode("utf-16") + b"\x00\xdc", 3, 12),
    "utf-16-be": ("a\nb".encode("utf-16-be") + b"\xdc\x00", 2, 6),
    "cp1252": (b"a\x80\n\x81", 2, 3),
    "shift_jis": ("\u65e5\n".encode("shift_jis") + b"\x81", 2, 3),
    "ascii": ("a\né".encode(), 2, 2),
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("length", [0, (1 << 20) - 3, (1 << 20) - 2, 1 << 20])
def test_where_a_file_is_not_in_its_encoding(tmp_path, code, packed, length):
    content, line, byte = CODES[code]
    more = f"{'x' * (length // 2)}\n".encode(code.replace("16", "16-le") if code == "utf-16" else code)
    if code == "utf-16":  # its mark is the first character
        content, more = content[2:], b"\xff\xfe" + more
        byte -= 2
    path = tmp_path / ("rows.gz" if packed else "rows")
    path.write_bytes(gzip.compress(more + content) if packed else more + content)
    assert not_encoded(str(path), code) == (line + 1, len(more) + byte)
    path.write_bytes(gzip.compress(more) if packed else more)
    assert not_encoded(str(path), code) is None


def source(path, content, **more):
    path.write_bytes(content)
    schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "label"}}
    return {"kind": "csv", "path": str(path), "schema": schema} | more


def opened(folder, settings):
    tree = changed(nodes=["a"], loss="squared", topology={"graph": "complete"})
    return open_source(loaded(folder, tree | {"nodes": {"a": {"source": settings}}}), "a", 0)


def test_a_file_that_is_not_in_its_encoding_is_refused_before_its_first_record(tmp_path):
    good = b"x,y,label\n1,2,3\n"
    for content, dialect, place in (
        (good + b"\xe9,1,1\n", {}, "line 3, at byte 16 of the file, is not utf-8"),
        (good + b"\x81,1,1\n", {"encoding": "cp1252"}, "line 3, at byte 16 of the file, is not cp1252"),
        (good.decode().encode("utf-16"), {}, "line 1, at byte 0 of the file, is not utf-8"),
    ):
        with pytest.raises(MeshFileError) as caught:
            opened(tmp_path, source(tmp_path / "rows", content, **({"dialect": dialect} if dialect else {})))
        assert place in str(caught.value)


def test_in_a_pipe_a_record_that_is_not_in_the_encoding_is_unreadable_alone():
    dialect = DialectSettings(encoding="cp1252")
    content = BytesIO("1,é\n2,\u20ac\n".encode("cp1252") + b"3,\x81\n4,x\n")
    seen = [record for _, record in csv_records("-", dialect, 2, LONGEST, content)]
    assert seen[:2] + seen[3:] == ["1,é".encode(), "2,\u20ac".encode(), b"4,x"]
    with pytest.raises(UnicodeDecodeError):
        seen[2].decode()


def every_encoding():
    """Every encoding that a file may name."""
    for name in sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)}):
        with suppress(ValidationError):
            yield DialectSettings(encoding=name).encoding


@pytest.mark.parametrize("name", [name for name in every_encoding() if not is_wide(name)])
def test_whatever_bytes_a_line_holds_the_others_are_read_in_every_encoding(name):
    lines = [f"r{k},1" for k in range(6)]
    code = name.removesuffix("_sig")  # a mark stands before the first line alone
    encoded, ends = [line.encode(code) for line in lines], "\n".encode(code)
    starts = [b"", *(bytes([byte]) for byte in (0x0E, 0x1B, 0x2B, 0x7E, 0x81, 0x84, 0xFE, 0xFF))]
    odd = [start + bytes([byte]) for start in starts for byte in range(256)]
    for bytes_of_line in [*odd, b"\x1b$B", b"\x1b$)C\x0e", b"~{", b"+AGE", b"\x81\x30\x81"]:
        if b"\n" in bytes_of_line or ends in bytes_of_line:
            continue
        content = BytesIO(ends.join([*encoded[:2], bytes_of_line, *encoded[3:], b""]))
        seen = [record for _, record in csv_records("-", DialectSettings(encoding=name), 2, LONGEST, content)]
        assert {line.encode() for line in lines[:2] + lines[3:]} <= set(seen), bytes_of_line


@pytest.mark.parametrize("name", ["iso2022_jp", "iso2022_kr", "hz", "utf_7", "UTF-7"])
def test_an_encoding_with_shifts_is_refused(name):
    with pytest.raises(ValidationError, match="by which one line changes the lines behind it"):
        DialectSettings(encoding=name)


def test_a_pipe_of_two_bytes_a_character_is_refused(tmp_path):
    path = tmp_path / "rows.fifo"
    os.mkfifo(path)
    settings = source(tmp_path / "rows", b"", dialect={"encoding": "utf-16"}) | {"path": str(path)}
    with pytest.raises(MeshFileError, match="in utf-16 a pipe cannot be read: an odd byte"):
        opened(tmp_path, settings)


@pytest.mark.parametrize("code", ["utf-16", "utf-32"])
@pytest.mark.parametrize("line_breaks", [False, True])
def test_a_file_without_the_mark_that_its_encoding_needs_is_refused(tmp_path, code, line_breaks):
    content = "x,y,label\n1,2,3\n".encode(f"{code}-le")
    settings = source(tmp_path / "rows", content, dialect={"encoding": code, "line_breaks": line_breaks})
    assert not_encoded(settings["path"], code) == (1, 0)
    with pytest.raises(MeshFileError, match=f"is not {code}: must be in the encoding that its dialect names"):
        opened(tmp_path, settings)
    with pytest.raises(MeshFileError, match="a pipe cannot be read"):
        opened(tmp_path, settings | {"path": "-"})
