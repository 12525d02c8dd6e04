"""libsvm lines into sparse features and a label, or into nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.sparse import SparseRows
from streams.mesh.settings.sparse import LibsvmSettings
from streams.records.observed import observed
from streams.records.sparse import LibsvmDecoder


def decoder(dimension=5, **settings):
    return LibsvmDecoder(LibsvmSettings.model_validate({"kind": "libsvm"} | settings), dimension)


def decoded(value, **settings):
    found = decoder(**settings).decode(value)
    return None if found is None else (dict(zip(*map(np.ndarray.tolist, found[0]), strict=True)), found[1])


def test_indices_count_from_1_unless_told_otherwise():
    assert decoded(b"2.5 1:0.5 5:-1e3") == ({0: 0.5, 4: -1000.0}, 2.5)
    assert decoded(b"2.5 0:0.5 4:-1e3", index_base=0) == ({0: 0.5, 4: -1000.0}, 2.5)
    assert decoded(b"  -1\t3:2 \r") == ({2: 2.0}, -1.0)
    assert decoded(b"+1") == ({}, 1.0)


BAD = [
    b"",
    b"1 6:1",  # beyond the dimension
    b"1 0:1",
    b"1 -2:1",
    b"1 2:1 2:1",  # repeated
    b"1 3:1 2:1",  # not ascending
    b"1 2:nan",
    b"1 2:inf",
    b"1 2:1e999",
    b"nan 2:1",
    b"inf",
    b"one 2:1",
    b"1 2",
    b"1 2:",
    b"1 :2",
    b"1 2:3:4",
    b"1 1_0:1",
    b"1 2:1_0",
    b"1 1.0:1",
    b"1 99999999999999999999999:1",
    b"1 " + b"9" * 5000 + b":1",
    b"1 5:1 -9223372036854775807:1",  # their difference wraps in 64 bits
    b"1 1:1 9223372036854775807:1 -9223372036854775808:1 5:1",
    b"1 -9223372036854775808:1",
    b"\xff\xfe 1:1",
    b"# 1 2:1",
    b"1 qid:x 2:1",
    b"1 2:1 qid:3",
    b"1,0 2:1",
]


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_what_is_no_record_is_told_from_one(line):
    assert decoded(line) is None


@given(st.binary(max_size=60))
def test_any_bytes_at_all(line):
    found = decoder().decode(line)
    if found is not None:
        (indices, values), label = found
        SparseRows([0, indices.size], indices, values, 5)
        assert np.isfinite(values).all()
        assert np.isfinite(label)


def test_labels_of_two_classes():
    classes = {"label": {"positive": [1, 2], "negative": -1}}
    assert [decoded(line, **classes) for line in (b"1", b"+1.0", b"2", b"-1", b"0")] == [
        ({}, 1.0),
        ({}, 1.0),
        ({}, 1.0),
        ({}, -1.0),
        None,
    ]
    assert decoded(b"0", label={"positive": 1}) == ({}, -1.0)


def test_longer_rows_are_scaled_down_to_the_norm():
    assert decoded(b"1 1:6 3:-8", norm=1)[0] == pytest.approx({0: 0.6, 2: -0.8})
    assert decoded(b"1 1:0.6 3:0.8", norm=2)[0] == {0: 0.6, 2: 0.8}
    assert decoded(b"1 1:6e200 3:-8e200", norm=1)[0] == pytest.approx({0: 0.6, 2: -0.8})


def test_a_slot_is_sparse_rows_and_what_is_no_record_keeps_its_place():
    seen = observed((b"1 2:3", b"1 9:1", b"", b"-1 1:1 5:2"), decoder())
    assert isinstance(seen.features, SparseRows)
    assert seen.features.dense().tolist() == [[0, 3, 0, 0, 0], [0] * 5, [0] * 5, [1, 0, 0, 0, 2]]
    assert seen.labels.tolist() == [1.0, 0.0, 0.0, -1.0]
    assert seen.present.tolist() == [True, False, False, True]
    assert observed((), decoder()).features.shape == (0, 5)
