"""What a pilot reaches alone is what an independent solver finds on the records that it has not seen."""

import numpy as np
import pytest
from scipy.optimize import minimize

from nodes.losses.losses import Logistic, Squared
from streams.local.scoring import auc
from streams.tools.tuning.pilot import cross_validated, made_up, plain_model


def test_the_plain_model_of_signs_is_a_logistic_regression():
    learnt, test = made_up(4, "signs", 1, 1_000), made_up(4, "signs", 2, 1_000)
    rows = (learnt.features, learnt.labels), (test.features, learnt.labels)

    def cost(weights):
        margins = learnt.labels * (learnt.features @ weights)
        return np.log1p(np.exp(-margins)).mean() + 0.5e-4 * (weights @ weights)

    weights = minimize(cost, np.zeros(4)).x
    alone = plain_model(Logistic(), "signs", *rows)
    assert alone.auc == pytest.approx(auc(test.features @ weights, learnt.labels), abs=1e-3)
    assert alone.loss == pytest.approx(
        np.log1p(np.exp(-learnt.labels * (test.features @ weights))).mean(), rel=1e-3
    )


def test_labels_by_chance_rank_by_chance_and_numbers_have_a_loss():
    pilot = made_up(3, "signs", 1, 2_000)
    by_chance = np.where(np.random.RandomState(0).random(len(pilot.labels)) < 0.5, 1.0, -1.0)
    assert cross_validated(Logistic(), "signs", pilot.features, by_chance).auc == pytest.approx(0.5, abs=0.05)
    assert cross_validated(Logistic(), "signs", pilot.features, pilot.labels).auc > 0.85
    numbers = made_up(3, "numbers", 1, 2_000)
    alone = cross_validated(Squared(), "numbers", numbers.features, numbers.labels)
    assert (alone.auc, alone.auprc) == (None, None)
    assert alone.loss == pytest.approx(0.5 * 0.1**2, rel=0.1)  # half of the square of what is off


def test_some_pilots_have_no_plain_model():
    pilot = made_up(3, "signs", 1, 2_000)
    assert cross_validated(Logistic(), "signs", pilot.features[:9], pilot.labels[:9]) is None
    wide = np.ones((20, 301))
    assert cross_validated(Logistic(), "signs", wide, np.ones(20)) is None
    same = cross_validated(Logistic(), "signs", np.ones((20, 2)), np.ones(20))  # one sign
    assert same.auc is None
    assert same.loss < 0.1
