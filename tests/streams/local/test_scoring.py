import numpy as np
import pytest

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
)
from nodes.losses.own_loss import OwnLoss
from nodes.sparse import SparseRows
from streams.local.scoring import Score, score


def test_a_decision_is_scored_by_the_sign_of_its_margin():
    features = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
    labels = np.array([1.0, -1.0, -1.0, -1.0])
    for loss in (Hinge(), Logistic(), Weighted(Hinge(), np.array([-1.0, 1.0]), np.array([1.0, 9.0]))):
        found = score(loss, np.array([1.0, -0.5]), features, labels)  # margins 1, 1.5, -1, 0
        assert (found.task, found.records, found.accuracy) == ("two classes", 4, 0.75)
        assert found.majority == 0.75
        assert (found.auc, found.auprc, found.recall_at_top) == (pytest.approx(2 / 3), 0.5, 0.0)
        assert isinstance(loss, Logistic) or found.loss == (0 + 2.5 + 0 + 1) / 4


def test_classes_are_scored_by_the_largest_score():
    features, labels = np.array([[1.0], [-1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0, 0.0])
    found = score(Softmax(2), np.array([np.log(3.0), 0.0]), features, labels)  # 3^a : 1
    cross_entropy = -np.mean(np.log([3 / 4, 3 / 4, 1 / 10, 27 / 28]))
    assert found == Score("classes", 4, pytest.approx(cross_entropy), 0.75, 0.5)
    weighted = Weighted(Softmax(2), np.arange(2.0), np.array([1.0, 7.0]))
    assert score(weighted, np.array([np.log(3.0), 0.0]), features, labels) == found


def test_numbers_are_scored_by_how_far_off_they_are():
    features, labels = np.array([[1.0], [2.0]]), np.array([0.0, 6.0])
    assert score(Squared(), np.array([1.0]), features, labels) == Score(
        "numbers", 2, (0.5 + 8.0) / 2, rmse=np.sqrt((1.0 + 16.0) / 2)
    )
    for loss, mean in ((Absolute(), (1.0 + 4.0) / 2), (Huber(2.0), (0.5 + 6.0) / 2)):
        found = score(loss, np.array([1.0]), features, labels)
        assert found == Score("numbers", 2, mean, rmse=np.sqrt((1.0 + 16.0) / 2))
    assert score(Linear(), np.array([1.0]), features, labels) == Score("other", 2, 1.5)


def test_what_has_no_measure_of_its_own_has_its_mean_loss():
    found = score(RangeLoss(), np.zeros(2), np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([3.0, 1.0]))
    assert found == Score("other", 2, 1.0)


class Broken(Squared):
    def value(self, decision, observations):
        raise ValueError(f"secret {observations}")


def test_a_loss_that_has_no_number_has_none():
    huge = np.full((2, 1), 1e200)
    assert score(Squared(), np.array([1.0]), huge, np.zeros(2)) == Score("numbers", 2, None)
    broken = OwnLoss(Broken())
    assert score(broken, np.ones(1), huge, np.zeros(2)) == Score("other", 2, None)
    assert set(broken.failures) == {"ValueError"}


@pytest.mark.parametrize("loss", [Hinge(), Weighted(Hinge(), np.array([-1.0, 1.0]), np.ones(2)), Squared()])
def test_sparse_records_are_scored_as_the_same_ones_dense(loss):
    random = np.random.default_rng(3)
    decision, labels = random.normal(size=9), np.where(random.random(40) < 0.4, 1.0, -1.0)
    rows = SparseRows(np.arange(0, 81, 2), np.tile([1, 4, 0, 8], 20), random.normal(size=80), 9)
    assert score(loss, decision, rows, labels) == score(loss, decision, rows.dense(), labels)
