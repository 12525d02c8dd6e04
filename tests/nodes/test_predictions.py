"""What a decision says of records before their labels are known."""

import numpy as np
import pytest

from nodes.losses import Hinge, Logistic, RangeLoss, Squared
from nodes.predictions import predicted

DECISIONS = np.array([[1.0, -2.0], [0.5, 3.0]])
FEATURES = np.array([[[1.0, 1.0], [0.0, 2.0], [-3.0, 0.5]], [[2.0, 2.0], [1.0, 0.0], [0.5, 3.0]]])


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Squared()], ids=lambda loss: type(loss).__name__)
def test_linear_losses_predict_the_score(loss):
    assert predicted(loss, DECISIONS[0], FEATURES[0]).tolist() == [-1.0, -4.0, -4.0]
    assert predicted(loss, DECISIONS, FEATURES).tolist() == [[-1.0, -4.0, -4.0], [7.0, 0.5, 9.25]]
    assert predicted(loss, DECISIONS[0], np.zeros((0, 2))).shape == (0,)


def test_the_range_loss_predicts_the_distance():
    np.testing.assert_allclose(predicted(RangeLoss(), DECISIONS[1], FEATURES[1])[2], 0.0)
    np.testing.assert_allclose(predicted(RangeLoss(), DECISIONS[0], FEATURES[0])[1], np.hypot(1.0, 4.0))
