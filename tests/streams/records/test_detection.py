"""What `check` and `schema` propose as the dialect of a file."""

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.records.detection import (
    NO_DETECTORS,
    NoDetectors,
    as_text,
    detected_dialect,
    differences,
    misread_utf8,
    proposal,
)
from streams.records.lint import findings
from tests.support.meshes.files import changed, loaded

pytest.importorskip("clevercsv", reason="needs clevercsv: pip install 'mirrormesh[detect]'")
pytest.importorskip("charset_normalizer", reason="needs charset-normalizer: pip install 'mirrormesh[detect]'")


def table(delimiter=",", decimal=".", quote='"', thousands="", note="plain", rows=3000):
    chance = random.Random(4)  # noqa: S311 # no secret
    lines = [delimiter.join(["id", "amount", "shop", "note"])]
    for k in range(rows):
        amount = f"{chance.uniform(0, 99999):,.2f}".translate({ord(","): thousands, ord("."): decimal})
        amount = f"{quote}{amount}{quote}" if delimiter in amount else amount
        text = chance.choice(["ok", f"{quote}a{delimiter} b{quote}", "", note])
        lines.append(delimiter.join([str(k), amount, chance.choice(["a", "b"]), text]))
    return "\n".join(lines) + "\n"


TABLES = [
    (table(), "utf-8", {}),
    (table(note="Größe"), "utf-8-sig", {}),
    (table(";", ",", note="Größe"), "cp1252", {"delimiter": ";", "decimal": ",", "encoding": "cp1252"}),
    (table(";", ",", thousands="."), "utf-8", {"delimiter": ";", "decimal": ",", "thousands": "."}),
    (table("\t", note="Größe"), "utf-16", {"delimiter": "\t", "encoding": "utf-16"}),
    (table("\t", note="Größe"), "utf-16-be", {"delimiter": "\t", "encoding": "utf-16-be"}),
    (table("|", quote="'"), "utf-8", {"delimiter": "|", "quote": "'"}),
    (table(thousands=","), "utf-8", {"thousands": ","}),
    (table(";", ",", thousands=" "), "utf-8", {"delimiter": ";", "decimal": ",", "thousands": " "}),
    (table(note="東京の値段"), "shift_jis", {"encoding": "shift_jis"}),
    (table(note='"a\nb, c"'), "utf-8", {"line_breaks": True}),
    (
        "a;b;c\n" + "51.231;0,63;x\n" * 30,
        "utf-8",
        {"delimiter": ";", "decimal": ",", "thousands": "."},
    ),
    ("a;b;c\n" + "51.231;7;x\n" * 30, "utf-8", {"delimiter": ";"}),
    ("x\n1\n2\n", "utf-8", {}),
    ("", "utf-8", {}),
]


@pytest.mark.parametrize("case", range(len(TABLES)))
def test_a_dialect_is_proposed(tmp_path, case):
    text, encoding, expected = TABLES[case]
    (tmp_path / "rows.csv").write_bytes(text.encode(encoding))
    assert differences(detected_dialect(str(tmp_path / "rows.csv"))) == expected


@given(st.binary(max_size=200) | st.text(st.sampled_from("a1,;\t\"'\n .é"), max_size=200).map(str.encode))
def test_any_file_has_some_dialect(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_bytes(content)
    assert as_text(detected_dialect(str(path))).startswith("dialect: {")


def mesh_of_file(folder, content, **more):
    (folder / "rows.csv").write_bytes(content)
    schema = {"features": {"id": "number", "amount": "number"}, "label": {"column": "shop", "positive": "a"}}
    source = {"kind": "csv", "path": "rows.csv", "schema": schema} | more
    tree = changed(nodes=["a"], loss="hinge", topology={"graph": "complete"})
    return loaded(folder, tree | {"nodes": {"a": {"source": source}}})


def of_file(folder, content, **more):
    return mesh_of_file(folder, content, **more).nodes["a"].source


def test_nothing_is_proposed_where_it_is_said_already(tmp_path):
    content = table(";", ",").encode()
    assert 'look like dialect: {delimiter: ";", decimal: ","}' in proposal(of_file(tmp_path, content))
    assert not proposal(of_file(tmp_path, content, dialect={"delimiter": ";", "decimal": ","}))
    assert not proposal(of_file(tmp_path, table().encode()))


def test_without_the_detectors_it_says_what_to_install(tmp_path, monkeypatch):
    source = of_file(tmp_path, table(";").encode())
    monkeypatch.setitem(sys.modules, "clevercsv", None)
    assert NO_DETECTORS in proposal(source)
    with pytest.raises(NoDetectors):
        detected_dialect(source.path)


def test_nothing_is_proposed_for_an_empty_file(tmp_path):
    for content in (b"", b"\n \n"):
        assert not proposal(of_file(tmp_path, content, dialect={"delimiter": ";"}))


def test_utf8_that_is_read_as_bytes_is_told(tmp_path):
    content = table(note="Größe").encode()
    for encoding in ("cp1252", "latin-1", "mac_roman"):
        text = misread_utf8(of_file(tmp_path, content, dialect={"encoding": encoding}))
        assert f"are UTF-8 with characters beyond ASCII, and are read as {encoding}" in text
        assert not misread_utf8(of_file(tmp_path, table().encode(), dialect={"encoding": encoding}))
        other = table(note="Größe").encode(encoding)
        assert not misread_utf8(of_file(tmp_path, other, dialect={"encoding": encoding}))
    for encoding in ("latin-1", "utf-8"):  # no record is malformed
        lines = findings(mesh_of_file(tmp_path, content, dialect={"encoding": encoding}))
        told = [line for line in lines if line.startswith("nodes.a.source.dialect: the first 64 KiB of ")]
        assert len(told) == (encoding == "latin-1")
    for encoding in ("utf-8", "UTF8", "shift_jis", "gb18030"):
        assert not misread_utf8(of_file(tmp_path, content, dialect={"encoding": encoding}))
