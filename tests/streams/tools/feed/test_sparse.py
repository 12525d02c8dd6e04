"""Feeding sparse records: a matrix as libsvm lines, and what cannot be fed."""

import pytest

from streams.mesh.file import MeshFileError
from streams.tools.feed.lines import FeedOptions, Lines, opened
from streams.tools.up.programs import Options, feeders
from tests.support.meshes.sparse import CSR, saved, sparse_mesh

LIBSVM = {"kind": "libsvm", "path": "rows.txt", "label": {"positive": 1}}


def test_the_rows_are_fed_as_lines_and_what_is_no_record_is_bad(tmp_path):
    saved(tmp_path, indices=[4, 4, 1, 2])
    found = list(Lines(opened(sparse_mesh(tmp_path, CSR), "a", FeedOptions()), 1000))
    assert [line.value for line in found] == [b"1.0 5:0.5 5:-2.0", b"-1.0", b"1.0 2:1.0 3:3.0"]
    assert [line.bad for line in found] == [("index", "not above the one before it"), None, None]


def test_another_file_is_read_as_the_sources_own(tmp_path):
    (tmp_path / "other.txt").write_bytes(b"1 1:2\n")
    found = opened(sparse_mesh(tmp_path, LIBSVM), "a", FeedOptions(str(tmp_path / "other.txt")))
    assert [record.value for record in found.source.records] == [b"1 1:2"]


@pytest.mark.parametrize(
    ("source", "wanted", "words"),
    [
        (CSR, FeedOptions("-"), 'nodes.a.source.kind: "csr": standard input holds lines: must be libsvm'),
        (LIBSVM, FeedOptions(timestamps=True), 'kind: "libsvm": has no times, and --timestamps needs them'),
        (
            LIBSVM | {"shuffle": True},
            FeedOptions("-"),
            "source.shuffle: true: standard input cannot be shuffled",
        ),
    ],
    ids=["csr", "times", "shuffle"],
)
def test_what_cannot_be_fed_is_told(tmp_path, source, wanted, words):
    with pytest.raises(MeshFileError) as caught:
        opened(sparse_mesh(tmp_path, source), "a", wanted)
    assert words in caught.value.lines[0]


def test_up_feeds_what_has_a_file(tmp_path):
    saved(tmp_path)
    for source, fed in ((CSR, ["a"]), (LIBSVM, ["a"]), (LIBSVM | {"path": "-"}, [])):
        file = sparse_mesh(tmp_path, source)
        assert [name for name, _ in feeders(file, Options(tmp_path), None)] == fed
