import math

import numpy as np
import pytest
from scipy import optimize

from nodes.collaboration.own_model import GRID, own_model, serves
from nodes.collaboration.steps import Averaged
from nodes.geometry.constraints import L2Ball
from nodes.losses.losses import Hinge, Logistic, Squared
from nodes.values import Observations


def made_up(seed, n, theta, loss):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, len(theta))) / 2
    scores = rows @ theta
    if isinstance(loss, Squared):
        return rows, scores + random.normal(scale=0.3, size=n)
    return rows, np.where(scores + random.logistic(size=n) > 0, 1.0, -1.0)


def by_solver(loss, rows, labels, star, pull):
    records = Observations(rows, labels, np.ones(len(labels), np.bool_))

    def objective(theta):
        return loss.value(theta, records).mean() + pull / 2 * ((theta - star) ** 2).sum()

    return optimize.minimize(objective, star, tol=1e-12).x


TRUTH = np.array([1.0, -2.0, 0.5])


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_the_model_is_the_minimum_that_an_independent_solver_finds(loss):
    rows, labels = made_up(1, 300, TRUTH, loss)
    star = TRUTH * [0.1, 1.0, -2.0]
    fitted = own_model(loss, rows, labels, star)
    assert fitted.pull in GRID
    expected = by_solver(loss, rows, labels, star, fitted.pull)
    assert fitted.parameters == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_out_of_fold_losses_are_of_models_that_have_not_seen_the_record(loss):
    rows, labels = made_up(2, 23, TRUTH, loss)
    star = -TRUTH
    fitted = own_model(loss, rows, labels, star)
    assert fitted.pull in GRID
    total = 0.0
    for fold in range(10):
        out = np.arange(23) % 10 == fold
        theta = by_solver(loss, rows[~out], labels[~out], star, fitted.pull)
        total += loss.value(theta, Observations(rows[out], labels[out], np.ones(out.sum(), np.bool_))).sum()
    assert fitted.near == pytest.approx(total / 23, rel=1e-4)
    whole = Observations(rows, labels, np.ones(23, np.bool_))
    assert fitted.star == pytest.approx(loss.value(star, whole).mean())


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_few_records_stay_near_a_good_star_and_many_leave_a_bad_one(loss):
    few = own_model(loss, *made_up(3, 8, TRUTH, loss), TRUTH)
    many = own_model(loss, *made_up(4, 3000, TRUTH, loss), -TRUTH)
    assert few.pull > 0.1 > many.pull
    assert many.near < many.star / 1.5
    assert np.abs(many.parameters - TRUTH).max() < 0.5


def test_labels_that_the_star_knows_already_leave_it_as_it_is():
    rows, _ = made_up(5, 30, TRUTH, Squared())
    fitted = own_model(Squared(), rows, rows @ TRUTH, TRUTH)
    assert (fitted.pull, fitted.near, fitted.star) == (math.inf, 0.0, 0.0)
    assert (fitted.parameters == TRUTH).all()


def test_the_largest_pull_within_one_standard_error_is_taken():
    rows, labels = made_up(7, 40, TRUTH, Squared())
    star = TRUTH + 0.4
    losses = {}
    for pull in (*GRID, math.inf):
        own = np.empty(40)
        for fold in range(10):
            out = np.arange(40) % 10 == fold
            theta = star if pull == math.inf else by_solver(Squared(), rows[~out], labels[~out], star, pull)
            own[out] = (rows[out] @ theta - labels[out]) ** 2 / 2
        losses[pull] = own
    least = min(losses.values(), key=np.mean)
    within = [
        pull
        for pull, own in losses.items()
        if (own - least).mean() <= np.std(own - least, ddof=1) / math.sqrt(40)
    ]
    assert own_model(Squared(), rows, labels, star).pull == max(within)
    assert 1 < len(within) < len(losses)


def test_one_record_is_too_few():
    with pytest.raises(ValueError, match="1 records: must be at least 2"):
        own_model(Squared(), np.ones((1, 3)), np.ones(1), TRUTH)


def test_only_smooth_losses_of_few_columns_are_served():
    assert serves(Squared(), 600)
    assert serves(Logistic(), 5)
    assert not serves(Squared(), 601)
    assert not serves(Hinge(), 5)


def test_an_exact_part_in_a_query_would_be_read_from_two_queries():
    # why an owner's own model comes after the last query: as a learner whose own part has no noise, it would
    # show its exact mean gradient to the one other owner, who knows its own answer and reads the queries
    steps, random = Averaged(L2Ball(3, 10.0), queries=8, step=0.5), np.random.default_rng(6)
    exact, answer = random.normal(size=3), random.normal(size=3)
    stage = steps.start()
    following = steps.advance(stage, (exact + answer) / 2)
    seen = (stage.parameters - following.parameters) / 0.5
    assert 2 * seen - answer == pytest.approx(exact, abs=1e-12)
