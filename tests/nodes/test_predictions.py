import numpy as np
import pytest

from nodes.losses.evaluation import predicted, right, unweighted
from nodes.losses.losses import Hinge, Logistic, RangeLoss, Softmax, Squared, Weighted

FEATURES = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 4.0]])


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Squared()], ids=lambda loss: type(loss).__name__)
def test_scores(loss):
    assert predicted(loss, np.array([2.0, -1.0]), FEATURES).tolist() == [2.0, -2.0, -10.0]


def test_distances():
    assert predicted(RangeLoss(), np.array([0.0, 1.0]), FEATURES[1:]).tolist() == [1.0, 18.0**0.5]


def test_classes():
    x = np.array([1.0, 0.0, 0.0, 1.0, -1.0, 0.0])  # the scores are a_1, a_2 and -a_1
    assert predicted(Softmax(3), x, FEATURES).tolist() == [0.0, 1.0, 1.0]
    assert predicted(Softmax(3), -x, FEATURES).tolist() == [2.0, 0.0, 0.0]
    assert predicted(Softmax(3), np.zeros(6), FEATURES).tolist() == [0.0] * 3  # the first of equals


def test_many_decisions_at_once():
    rng = np.random.default_rng(0)
    x, features = rng.normal(size=(4, 6)), rng.normal(size=(4, 5, 2))
    for loss, d in ((Softmax(3), 6), (Hinge(), 2), (RangeLoss(), 2)):
        sum_epsilons = predicted(loss, x[:, :d], features)
        assert sum_epsilons.shape == (4, 5)
        for i in range(4):
            assert sum_epsilons[i].tobytes() == predicted(loss, x[i, :d], features[i]).tobytes()


def test_weights_have_no_part_in_a_prediction():
    weighted = Weighted(Softmax(2), np.arange(2.0), np.array([1.0, 50.0]))
    assert unweighted(weighted) == Softmax(2)
    x = np.array([1.0, 0.0, 0.0, 1.0])
    assert predicted(weighted, x, FEATURES).tolist() == predicted(Softmax(2), x, FEATURES).tolist()


@pytest.mark.parametrize("loss", [Hinge(), Weighted(Logistic(), np.array([-1.0, 1.0]), np.array([1.0, 9.0]))])
def test_a_class_is_the_sign_of_the_score_and_zero_is_negative(loss):
    features = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 2.0], [1.0, 2.0]])  # scores 2, -2, 0, 0
    labels = np.array([1.0, 1.0, -1.0, 1.0])
    assert right(loss, np.array([2.0, -1.0]), features, labels).tolist() == [True, False, True, False]


def test_a_class_is_the_largest_score_s_and_numbers_have_none():
    x = np.array([1.0, 0.0, 0.0, 1.0, -1.0, 0.0])  # classes 0, 1, 1
    assert right(Softmax(3), x, FEATURES, np.array([0.0, 2.0, 1.0])).tolist() == [True, False, True]
    assert right(Squared(), x[:2], FEATURES, np.zeros(3)) is None
