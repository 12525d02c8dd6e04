"""A matrix in compressed sparse rows, its rows as libsvm lines; clear errors for files that are none."""

import numpy as np
import pytest
import scipy.sparse

from streams.mesh.file import MeshFileError
from streams.records.observed import observed
from streams.records.sources import held_out, open_source
from tests.support.meshes.sparse import CSR, saved, sparse_mesh


def lines(file, seed=0):
    return [record.value for record in open_source(file, "a", seed).records]


def refused(folder, source=CSR):
    with pytest.raises(MeshFileError) as caught:
        lines(sparse_mesh(folder, source))
    (line,) = caught.value.lines
    start, _, allowed = line.partition("rows.npz: ")
    if not allowed:
        start, _, allowed = line.partition('rows.npz": ')
    assert start.startswith(f"{folder}/mesh.yaml: nodes.a.source.path: ")
    return allowed


def test_rows_are_lines_with_their_labels_in_ascending_order(tmp_path):
    saved(tmp_path)
    assert lines(sparse_mesh(tmp_path, CSR)) == [b"1.0 1:-2.0 5:0.5", b"-1.0", b"1.0 2:1.0 3:3.0"]


def test_what_scipy_saves_is_read_and_each_value_keeps_its_digits(tmp_path):
    random = np.random.default_rng(0)
    matrix = scipy.sparse.random(40, 5, 0.4, format="csr", rng=random)
    scipy.sparse.save_npz(tmp_path / "saved.npz", matrix)
    with np.load(tmp_path / "saved.npz") as file:
        np.savez(tmp_path / "rows.npz", y=random.choice([-1, 1], 40), **file)
    source = open_source(sparse_mesh(tmp_path, CSR), "a", 0)
    found = np.zeros((40, 5))
    for k, record in enumerate(source.records):
        (indices, values), _ = source.decoder.decode(record.value)
        found[k, indices] = values
    np.testing.assert_array_equal(found, matrix.toarray())


def test_part_of_the_rows(tmp_path):
    saved(tmp_path, split=np.array([0, 1, 0]))
    everything = lines(sparse_mesh(tmp_path, CSR))
    assert lines(sparse_mesh(tmp_path, CSR | {"rows": [1, 3]})) == everything[1:]
    assert lines(sparse_mesh(tmp_path, CSR | {"split": 0})) == everything[::2]
    taken = [
        lines(sparse_mesh(tmp_path, CSR | {"shuffle": True, "take": {"every": 2, "offset": k}}), 3)
        for k in (0, 1)
    ]
    assert sorted(line for part in taken for line in part) == sorted(everything)
    features, labels = held_out(sparse_mesh(tmp_path, CSR, held_out=CSR | {"split": 1}))
    assert (features.dense().tolist(), labels.tolist()) == ([[0] * 5], [-1.0])


def test_a_row_with_an_index_twice_or_a_nan_is_no_record(tmp_path):
    saved(tmp_path, indices=np.array([4, 4, 1, 7]), data=np.array([1, 1, np.nan, 1]))
    source = open_source(sparse_mesh(tmp_path, CSR), "a", 0)
    assert [source.decoder.decode(record.value) is None for record in source.records] == [True, False, True]


def test_an_index_that_wraps_in_64_bits_is_no_record(tmp_path):
    for wrapping in (2**63, 2**63 - 1, 2**64 - 1):
        saved(tmp_path, indices=np.array([4, wrapping, 1, 2], np.uint64))
        source = open_source(sparse_mesh(tmp_path, CSR), "a", 0)
        seen = observed(tuple(record.value for record in source.records), source.decoder)
        assert seen.present.tolist() == [False, True, True]


MISSING = "must have data, indices, indptr, shape, y"
WRONG = {
    "columns": ({"shape": np.array([3, 6])}, "has 6 columns: must have 5, the dimension of the mesh"),
    "no labels": ({"y": None}, f"has no array y: {MISSING}"),
    "labels": ({"y": np.ones(2)}, "has 2 numbers in y: must have 3, one a row"),
    "indptr": ({"indptr": np.array([0, 3, 2, 4])}, "has an indptr that does not fit its indices and data"),
    "indptr's end": ({"indptr": np.array([0, 2, 2, 3])}, "has an indptr that does not fit"),
    "indptr's size": ({"indptr": np.array([0, 4])}, "has an indptr that does not fit"),
    "no rows": ({"indptr": np.zeros(0, int), "shape": np.array([-1, 5])}, "has an indptr that does not fit"),
    "data": ({"data": np.ones(3)}, "has an indptr that does not fit"),
    "format": ({"format": np.array(b"csc")}, "is not in compressed sparse rows: must have the format csr"),
    "kinds": ({"indices": np.ones(4)}, "must hold one-dimensional arrays of numbers, whole ones in"),
    "shape": ({"shape": np.array([3, 5, 1])}, "must hold one-dimensional arrays"),
    "pickles": ({"y": np.array([{}, {}, {}])}, "must be an .npz file without pickles"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_is_no_such_matrix_is_told(tmp_path, case):
    arrays, words = WRONG[case]
    saved(tmp_path, **arrays)
    assert refused(tmp_path).startswith(words)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04cut off"], ids=["empty", "text", "cut"])
def test_a_damaged_file_is_told(tmp_path, content):
    (tmp_path / "rows.npz").write_bytes(content)
    assert refused(tmp_path) == "must be an .npz file without pickles"


def test_an_array_alone_or_a_file_cut_off_is_told(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "one.npy").rename(tmp_path / "rows.npz")
    assert refused(tmp_path) == "must be an .npz file without pickles"
    saved(tmp_path)
    whole = (tmp_path / "rows.npz").read_bytes()
    (tmp_path / "rows.npz").write_bytes(whole[:-30])
    assert refused(tmp_path) == "must be an .npz file without pickles"


def test_a_part_that_is_not_there_is_told(tmp_path):
    assert refused(tmp_path) == "cannot be read: No such file or directory"
    saved(tmp_path)
    assert refused(tmp_path, CSR | {"split": 0}).startswith("has no array split")
    assert refused(tmp_path, CSR | {"rows": [0, 4]}) == "has 3 rows: must have the 4 that rows asks for"
    saved(tmp_path, split=np.zeros(3, np.int64))
    assert refused(tmp_path, CSR | {"split": 2}) == "has no row where split is 2"
