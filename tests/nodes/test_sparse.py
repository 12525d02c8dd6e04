"""Sparse rows give the bits that the same rows give when dense."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.losses.evaluation import mean_gradient, predicted, slot_gradients
from nodes.losses.losses import (
    Absolute,
    Hinge,
    Huber,
    Linear,
    Logistic,
    RangeLoss,
    Softmax,
    Squared,
    Weighted,
    scores,
)
from nodes.losses.own_loss import OwnLoss
from nodes.sparse import SparseRows
from nodes.values import Observations

SIGNS, TWENTY = np.array([-1.0, 1.0]), np.array([1.0, 20.0])
LOSSES = (
    *(Hinge(), Logistic(), Squared(), Absolute(), Huber(0.5), Linear()),
    *(Weighted(loss, SIGNS, TWENTY) for loss in (Hinge(), Logistic())),
)


class Own(Squared):
    def predict(self, decision, features):
        return features.sum(-1) * decision[0]


DENSE = (RangeLoss(), Softmax(3), Weighted(Softmax(3), SIGNS, TWENTY), OwnLoss(Own()))
"""What makes dense gradients of sparse records."""


def rows(n, d, seed, share=0.3):
    """Some rows, sparse, with empty ones among them."""
    random = np.random.default_rng(seed)
    stored = (random.random((n, d)) < share) & (random.random((n, 1)) < 0.8)
    where, indices = np.nonzero(stored)
    indptr = np.searchsorted(where, np.arange(n + 1))
    return SparseRows(indptr, indices, random.standard_normal(indices.size), d)


def observed(sparse, seed):
    random = np.random.default_rng(seed)
    n = sparse.shape[0]
    labels, present = random.choice([-1.0, 1.0], n), random.random(n) < 0.9
    return Observations(sparse, labels, present), Observations(sparse.dense(), labels, present)


SHAPES = {"n": st.integers(0, 12), "d": st.sampled_from([2, 7, 9, 130, 1000]), "seed": st.integers(0, 2**32)}


@given(**SHAPES)
def test_scores_values_and_gradients_are_the_dense_ones(n, d, seed):
    sparse, full = observed(rows(n, d, seed), seed)
    x = np.random.default_rng(seed + 1).standard_normal(d)
    assert scores(x, sparse.features).tobytes() == scores(x, full.features).tobytes()
    for loss in LOSSES:
        assert isinstance(loss.gradients(x, sparse), SparseRows)
        assert predicted(loss, x, sparse.features).tobytes() == predicted(loss, x, full.features).tobytes()
        assert loss.value(x, sparse).tobytes() == loss.value(x, full).tobytes()
        made, expected = slot_gradients(loss, x, sparse), slot_gradients(loss, x, full)
        np.testing.assert_array_equal(made.dense(), expected)
        np.testing.assert_array_equal(mean_gradient(made, 12), mean_gradient(expected, 12))


@given(**SHAPES)
def test_sums_over_rows_are_exact_and_in_order(n, d, seed):
    sparse = rows(n, d, seed)
    np.testing.assert_array_equal(sparse.summed(sparse.values), sparse.dense().sum(0))
    integers = np.rint(sparse.values * 2**40).astype(np.int64)
    full = np.rint(sparse.dense() * 2**40).astype(np.int64)
    np.testing.assert_array_equal(sparse.counted(integers), full.sum(0))
    np.testing.assert_array_equal(sparse.totals(integers), full.sum(1)[sparse.rows])


def test_a_broken_row_leaves_the_mean_alone():
    sparse = SparseRows([0, 2, 4], [0, 2, 1, 2], [1.0, 2.0, np.nan, 5.0], 3)
    assert mean_gradient(sparse, 2).tolist() == [0.5, 0.0, 1.0]
    assert mean_gradient(sparse.with_values(np.array([1.0, 2.0, 7.0, np.inf])), 2).tolist() == [0.5, 0.0, 1.0]


@pytest.mark.parametrize(
    ("indptr", "indices", "values", "words"),
    [
        ([0, 1], [3], [1.0], "an index is out of range: must be from 0 to 2"),
        ([0, 1], [-1], [1.0], "out of range"),
        ([0, 2], [1, 1], [7.5, 7.5], "must ascend, each once"),
        ([0, 2], [2, 0], [1.0, 1.0], "must ascend"),
        ([0, 2, 1], [0], [1.0], "never falling"),
        ([1, 1], [0], [1.0], "from 0 on"),
        ([], [], [], "of shape"),
        ([0, 2], [0], [1.0], "as many as indptr says"),
        ([0, 1], [0], [1.0, 7.5], "of one shape"),
    ],
)
def test_what_are_no_rows_is_refused_and_nothing_shown(indptr, indices, values, words):
    with pytest.raises(ValueError, match=words) as caught:
        SparseRows(np.array(indptr, np.int64), np.array(indices, np.int64), np.array(values), 3)
    assert "7.5" not in str(caught.value)
    assert "7.5" not in repr(SparseRows([0, 1], [1], [7.5], 3))


def test_the_same_coordinate_in_two_rows_is_no_repetition():
    sparse = SparseRows([0, 2, 2, 3], [0, 2, 2], [1.0, 2.0, 3.0], 3)
    assert sparse.dense().tolist() == [[1, 0, 2], [0, 0, 0], [0, 0, 3]]
    assert sparse.row(2).dense().tolist() == [[0, 0, 3]]
    assert sparse.shape == (3, 3)


@pytest.mark.parametrize("loss", DENSE, ids=["range", "softmax", "weighted-softmax", "own"])
def test_other_losses_make_sparse_records_dense(loss):
    sparse, full = observed(rows(4, 5, 1), 1)
    x = np.arange(15.0 if loss in DENSE[1:3] else 5.0) / 10
    assert loss.gradients(x, sparse).tobytes() == loss.gradients(x, full).tobytes()
    assert loss.value(x, sparse).tobytes() == loss.value(x, full).tobytes()
    assert predicted(loss, x, sparse.features).tobytes() == predicted(loss, x, full.features).tobytes()


def test_a_step_takes_no_dense_gradients_of_sparse_records():
    sparse, _ = observed(rows(4, 5, 1), 1)
    made = slot_gradients(Softmax(3), np.ones(15), sparse)
    assert isinstance(made, SparseRows)
    assert made.shape == (4, 15)
    assert np.isnan(made.dense()).any(-1).all()  # broken: zero gradients


class Raises:
    """Raises for one record, and for several at once."""

    def gradients(self, decision, observations):
        if observations.labels.size > 1 or observations.labels[0] < 0:
            raise RuntimeError("no")
        return Squared().gradients(decision, observations)


class Dense:
    def gradients(self, decision, observations):
        return observations.features.dense()


def test_a_loss_that_raises_or_gives_an_array_breaks_its_rows_alone():
    sparse = SparseRows([0, 1, 2], [1, 4], [1.0, 2.0], 5)
    seen = Observations(sparse, np.array([1.0, -1.0]), np.ones(2, dtype=np.bool_))
    made = slot_gradients(Raises(), np.zeros(5), seen)
    np.testing.assert_array_equal(made.dense(), [[0, -1, 0, 0, 0], [np.nan, 0, 0, 0, 0]])
    assert np.isnan(slot_gradients(Dense(), np.zeros(5), seen).values).all()
