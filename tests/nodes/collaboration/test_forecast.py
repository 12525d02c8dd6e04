"""The forecast against values worked out by hand, and against runs."""

import math
from fractions import Fraction

import numpy as np
import pytest

from nodes.collaboration.forecast import Cost, Fit, Share, fit, forecast, stages, theorem_2
from nodes.collaboration.steps import Averaged, StronglyConvex, Terms, by_noise, noise_of
from nodes.geometry.constraints import L2Ball
from nodes.losses.losses import Hinge, Logistic, Squared
from nodes.privacy.clipping import clip
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.query import QueryMechanism
from nodes.values import Observations
from topology.keyed import generator

QUADRATIC = Fit(power=2, floor=0.5, slope=2.0, low=0.5, high=2.0, error=0.0, sampling=10.0)


def laplace(records, epsilon, queries=100, sharing=1):
    sampler = SimulatedSampler(1, "owner")
    made = QueryMechanism("laplace", 2.0, Fraction(epsilon), 0.0, queries, sharing, records, 3, sampler)
    return Terms(records, made.noise_deviation)


def test_noise_is_the_theorems_sum_over_the_owners():
    owners = [laplace(100, 1), laplace(300, 2), laplace(600, 5)]
    paper = math.sqrt(8) * 2.0 * 100 / 1000 * math.sqrt(1 + 1 / 4 + 1 / 25)
    assert noise_of(owners) == pytest.approx(paper, rel=1e-6)
    twice = noise_of([laplace(100, 1, sharing=2), laplace(300, 2, sharing=2), laplace(600, 5, sharing=2)])
    assert twice == pytest.approx(2 * paper, rel=1e-6)


def test_theorem_2_is_the_printed_bound_times_the_dimension():
    noise = noise_of([laplace(100, 1), laplace(300, 2)])
    printed = 8 * 2.0**2 * 7.0 / (0.5 * 400**2) * (1 + 1 / 4)
    found = theorem_2(noise, rho=7.0, convexity=0.5, queries=100, dimension=3)
    assert found == pytest.approx(3 * printed, rel=1e-6)
    assert theorem_2(noise, rho=7.0, convexity=0.0, queries=100, dimension=3) == math.inf


@pytest.mark.parametrize("power", [1, 2])
def test_a_fit_finds_the_constants_it_was_made_from(power):
    noises = np.array([0.1, 0.5, 1.0, 4.0])
    means = 0.3 + 2.5 * noises**power
    fitted = fit(noises, means[:, None] * np.array([0.5, 1.0, 1.5]), 9.0, power)
    assert (fitted.floor, fitted.slope) == pytest.approx((0.3, 2.5))
    assert fitted.error == pytest.approx(0.0, abs=1e-12)
    assert (fitted.low, fitted.high) == pytest.approx((0.5, 1.5))
    assert fitted.at(2.0) == pytest.approx(0.3 + 2.5 * 2.0**power)


def test_a_fit_has_no_constant_below_0():
    noises = np.array([1.0, 2.0, 4.0])
    steep = fit(noises, noises[:, None] ** 4, 0.0, 2)
    assert (steep.floor, steep.slope > 0) == (0.0, True)
    falling = fit(noises, 1 / noises[:, None], 0.0, 2)
    assert (falling.slope, falling.floor > 0) == (0.0, True)
    assert steep.error > 0.5


def test_a_fit_of_too_little_is_refused():
    with pytest.raises(ValueError, match="two levels"):
        fit(np.array([1.0]), np.ones((1, 5)), 0.0, 2)
    with pytest.raises(ValueError, match="above 0"):
        fit(np.array([1.0, 2.0]), np.array([[1.0], [np.inf]]), 0.0, 2)


def test_a_forecast_by_hand():
    # noises on the sums: 300 and 400, so 500 in all, over 1000 records: 1/2
    found = forecast({"a": Terms(600, 0.5), "b": Terms(400, 1.0)}, QUADRATIC)
    assert found.noise == 0.5
    assert (found.expected, found.low, found.high) == (1.0, 0.5, 2.0)
    assert found.new == 1.0 + 10 / 1000
    a, b = found.owners["a"], found.owners["b"]
    assert (a.share, b.share) == pytest.approx((0.36, 0.64))
    assert a.without == pytest.approx(0.5 + 2 * 1.0**2 + 10 / 400)
    assert b.without == pytest.approx(0.5 + 2 * 0.5**2 + 10 / 600)
    assert (a.alone, b.alone) == (10 / 600, 10 / 400)
    assert (a.margin, b.margin) == (0.0, 0.0)  # 0.5 is left even without noise: alone is better


def test_the_margin_is_where_learning_alone_is_as_good():
    fitted = QUADRATIC._replace(floor=0.0, sampling=900.0)
    owners = {"a": Terms(600, 0.5), "b": Terms(400, 1.0)}
    margin = forecast(owners, fitted).owners["a"].margin
    at = forecast({name: Terms(n, s * margin) for name, (n, s) in owners.items()}, fitted)
    assert at.new == pytest.approx(at.owners["a"].alone) == pytest.approx(1.5)
    assert margin == pytest.approx(math.sqrt((1.5 - 0.9) / 2) / 0.5)
    assert forecast({"a": Terms(9, 0.0)}, fitted._replace(sampling=0.0)).owners["a"].margin == 0.0
    free = forecast({"a": Terms(9, 0.0), "b": Terms(9, 0.0)}, fitted).owners["a"]
    assert (free.margin, free.share) == (math.inf, 0.0)


def test_a_forecast_of_other_weights_has_their_noise_and_the_cost_of_fewer_records():
    owners = {"a": Terms(600, 0.5), "b": Terms(400, 1.0), "c": Terms(100, 9.0)}
    found = forecast(owners, QUADRATIC, by_noise(4, 2.0))
    influence = {name: 1 / (4 * s * s + 4 / n) for name, (n, s) in owners.items()}
    total = sum(influence.values())
    shares = {name: one / total for name, one in influence.items()}
    noise = math.sqrt(sum((shares[name] * owners[name].deviation) ** 2 for name in owners))
    few = sum(shares[name] ** 2 / owners[name].records for name in owners)
    assert found.noise == pytest.approx(noise)
    assert noise < forecast(owners, QUADRATIC).noise
    spread = 0.5 + 2 * noise**2
    assert found.expected == pytest.approx(spread + 10 * (few - 1 / 1100))
    assert found.new == pytest.approx(spread + 10 * few) == pytest.approx(found.expected + 10 / 1100)
    assert (found.low, found.high) == pytest.approx((found.expected - spread / 2, found.expected + spread))
    for name, owner in found.owners.items():
        assert owner.share == pytest.approx((shares[name] * owners[name].deviation / noise) ** 2)
    others = forecast({"a": owners["a"], "b": owners["b"]}, QUADRATIC, by_noise(4, 2.0))
    assert found.owners["c"].without == pytest.approx(others.new)
    fitted = QUADRATIC._replace(floor=0.0, sampling=900.0)
    margin = forecast(owners, fitted, by_noise(4, 2.0)).owners["c"].margin
    grown = {name: Terms(n, s * margin) for name, (n, s) in owners.items()}
    assert forecast(grown, fitted, by_noise(4, 2.0)).new == pytest.approx(900 / 100)


def test_one_owner_has_nobody_to_do_without_and_none_is_refused():
    assert forecast({"a": Terms(600, 0.5)}, QUADRATIC).owners["a"].without is None
    with pytest.raises(ValueError, match="owners are missing"):
        forecast({}, QUADRATIC)


def records(loss_of_signs=False):
    random = generator("cost", 1)
    features = random.normal(size=(400, 3))
    scores = features @ np.array([1.0, -2.0, 0.5]) + 0.3 * random.normal(size=400)
    return features, np.sign(scores) if loss_of_signs else scores


def test_the_least_cost_is_that_of_least_squares():
    features, labels = records()
    theta, least = Cost(Squared(), features, labels, 0.1).least(L2Ball(3, 50.0))
    system = features.T @ features / 400 + 0.1 * np.eye(3)
    exact = np.linalg.solve(system, features.T @ labels / 400)
    np.testing.assert_allclose(theta, exact, rtol=1e-6)
    assert least == pytest.approx(0.05 * exact @ exact + 0.5 * np.mean((features @ exact - labels) ** 2))


@pytest.mark.parametrize("loss", [Hinge(), Logistic()])
def test_the_least_cost_is_below_all_around_it(loss):
    features, labels = records(loss_of_signs=True)
    cost = Cost(loss, features, labels, 0.5)
    theta, least = cost.least(None)
    steps = generator("around", 1).normal(size=(200, 3)) * np.geomspace(1e-4, 1.0, 200)[:, None]
    assert (cost.at(theta + steps) >= least * (1 - 1e-5)).all()


def test_the_least_cost_stays_in_the_constraint():
    features, labels = records()
    theta, least = Cost(Squared(), features, labels).least(L2Ball(3, 1.0))
    assert np.linalg.norm(theta) == pytest.approx(1.0)
    angles = L2Ball(3, 1.0).project(generator("sphere", 1).normal(size=(500, 3)) * 9)
    assert (Cost(Squared(), features, labels).at(angles) >= least * (1 - 1e-6)).all()


@pytest.mark.parametrize(("order", "norm"), [(1, "l1"), (2, "l2")])
def test_clipped_gradients_are_those_of_the_mechanism(order, norm):
    features, labels = records()
    theta = np.array([[0.1, 0.2, 0.3], [3.0, 0.0, -1.0]])
    found = Cost(Squared(), features, labels, 7.0).clipped_gradient(theta, 1.5, order)
    for row, point in zip(found, theta, strict=True):
        gradients = Squared().gradients(point, Observations(features, labels, np.ones(400, np.bool_)))
        np.testing.assert_allclose(row, clip(gradients, 1.5, norm)[0].mean(0), rtol=1e-12)


def last(step, shares, runs=400, bound=1e3):
    features, labels = records()
    *_, stage = stages(Cost(Squared(), features, labels), step, bound, shares, (runs,), 1)
    return stage.average


def test_runs_have_the_noise_that_they_are_given():
    step = StronglyConvex(3, queries=1, rho=1.0)
    clear = last(step, {}, runs=1)
    both = {"a": Share("laplace", 0.3), "b": Share("gaussian", 0.4)}
    moved = last(step, both, runs=20_000) - clear
    assert moved.std() == pytest.approx(0.5, rel=0.02)
    peaked = last(step, {"a": Share("laplace", 0.5)}, runs=20_000) - clear
    assert np.mean(peaked**4) / np.mean(peaked**2) ** 2 == pytest.approx(6.0, rel=0.2)


def test_the_mean_of_runs_grows_with_the_square_of_the_noise():
    features, labels = records()
    cost = Cost(Squared(), features, labels)
    _, least = cost.least(None)
    noises = np.array([0.05, 0.2, 0.8])
    step = Averaged(L2Ball(3, 1e3), queries=60, step=0.8)
    *_, stage = stages(cost, step, 1e3, {"a": Share("laplace", noises[:, None])}, (3, 100), 1)
    fitted = fit(noises, cost.at(stage.average) / least - 1, 1.0, 2)
    assert fitted.error < 0.1
    assert fit(noises, cost.at(stage.average) / least - 1, 1.0, 1).error > 0.3
