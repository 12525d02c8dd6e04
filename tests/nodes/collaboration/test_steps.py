"""The learner's two algorithms against values worked out by hand."""

import math

import numpy as np
import pytest

from nodes.collaboration.steps import (
    Averaged,
    QueryStage,
    StronglyConvex,
    Terms,
    by_noise,
    by_records,
    combined,
    effective_records,
    noise_of,
    weights,
)
from nodes.geometry.constraints import L2Ball, LinfBall, Simplex
from topology.keyed import generator

WIDE = LinfBall(1, 100.0)


def gone(step, *gradients):
    """Return all stages from the start, each gradient given as a number."""
    stages = [step.start()]
    for gradient in gradients:
        stages.append(step.advance(stages[-1], np.array([gradient])))
    return stages


def test_algorithm_1_steps_by_rho_over_t_squared_k():
    stages = gone(StronglyConvex(1, queries=2, rho=8.0), 1.0, -3.0)
    # 8/(4 * 1) = 2, then 8/(4 * 2) = 1: 0 - 2 * 1 = -2, -2 - 1 * -3 = 1
    assert [stage.parameters.item() for stage in stages] == [0.0, -2.0, 1.0]
    assert [stage.average.item() for stage in stages] == [0.0, -2.0, 1.0]
    assert [stage.query for stage in stages] == [1, 2, 3]


def test_algorithm_1_adds_the_regularisers_gradient():
    stages = gone(StronglyConvex(1, queries=2, rho=8.0, regulariser=0.5), 1.0, -3.0)
    assert stages[2].parameters.item() == -2.0 - 1.0 * (0.5 * -2.0 - 3.0) == 2.0


def test_algorithm_2_steps_by_c_over_the_root_of_k():
    stages = gone(Averaged(WIDE, queries=4, step=2.0), 1.0, -3.0, 0.0)
    expected = [0.0, -2.0, -2.0 + 6.0 / math.sqrt(2.0)]
    assert [stage.parameters.item() for stage in stages[:3]] == pytest.approx(expected, rel=1e-15)


def test_algorithm_2_averages_as_equation_8():
    stages = gone(Averaged(WIDE, queries=4, step=1.0), -1.0, 0.0, 0.0, 0.0)
    # theta = 0, 1, 1, 1, 1; 1/sqrt(4) = 1/2, so the new theta weighs (3/2)/(1/2 + k): 1, 3/5, 3/7, 1/3
    averages = [stage.average.item() for stage in stages]
    assert averages == pytest.approx(
        [0.0, 0.0, 0.6, 0.6 * 4 / 7 + 3 / 7, (0.6 * 4 / 7 + 3 / 7) * 2 / 3 + 1 / 3]
    )


def test_the_average_forgets_where_it_started():
    step = Averaged(LinfBall(1, 100.0), queries=1, step=1.0)
    stage = step.advance(QueryStage(1, np.array([3.0]), np.array([99.0])), np.array([0.0]))
    assert stage.average.item() == 3.0


def test_algorithm_2_stays_in_its_constraint_and_adds_the_regulariser():
    step = Averaged(L2Ball(2, 1.0), queries=3, step=1.0, regulariser=2.0)
    stage = step.advance(step.start(), np.array([-3.0, -4.0]))
    np.testing.assert_allclose(stage.parameters, [0.6, 0.8], rtol=1e-15)
    inside = step.advance(stage, np.array([0.0, 0.0]))
    np.testing.assert_allclose(inside.parameters, np.array([0.6, 0.8]) * (1 - math.sqrt(2.0)), rtol=1e-14)


def test_it_starts_at_the_member_nearest_to_zero():
    assert Averaged(Simplex(4), queries=3, step=1.0).start().parameters.tolist() == [0.25] * 4
    assert StronglyConvex(2, queries=3, rho=1.0).start().parameters.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "step",
    [
        StronglyConvex(3, queries=5, rho=7.0, regulariser=0.1),
        Averaged(L2Ball(3, 0.5), queries=5, step=0.3, regulariser=0.1),
    ],
)
def test_a_run_gives_the_same_bits_alone_or_among_others(step):
    gradients = generator("gradients", 1).normal(size=(5, 4, 2, 3))
    sum_epsilons = step.start()
    alone = step.start()
    for k in range(5):
        sum_epsilons = step.advance(sum_epsilons, gradients[k])
        alone = step.advance(alone, gradients[k, 3, 1])
    assert sum_epsilons.parameters.shape == sum_epsilons.average.shape == (4, 2, 3)
    assert sum_epsilons.parameters[3, 1].tobytes() == alone.parameters.tobytes()
    assert sum_epsilons.average[3, 1].tobytes() == alone.average.tobytes()


@pytest.mark.parametrize("step", [StronglyConvex(1, queries=2, rho=8.0), Averaged(WIDE, queries=2, step=1.0)])
def test_there_is_no_query_beyond_the_last(step):
    done = gone(step, 1.0, 1.0)[-1]
    with pytest.raises(ValueError, match="query is 3: must be from 1 to 2"):
        step.advance(done, np.array([1.0]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: StronglyConvex(1, queries=0, rho=1.0), "queries is 0"),
        (lambda: StronglyConvex(0, queries=1, rho=1.0), "dimension is 0"),
        (lambda: StronglyConvex(1, queries=1, rho=0.0), "rho is 0.0"),
        (lambda: StronglyConvex(1, queries=1, rho=1.0, regulariser=-1.0), "regulariser is -1.0"),
        (lambda: Averaged(WIDE, queries=0, step=1.0), "queries is 0"),
        (lambda: Averaged(WIDE, queries=1, step=math.inf), "step is inf"),
        (lambda: Averaged(WIDE, queries=1, step=1.0, regulariser=math.nan), "regulariser is nan"),
    ],
)
def test_wrong_settings_are_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_weights_are_the_shares_of_those_that_answered():
    records = np.array([100, 300, 600])
    answered = np.array([[True, True, True], [True, True, False], [False, False, True], [False] * 3])
    expected = [[0.1, 0.3, 0.6], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    assert weights(records, answered).tolist() == expected


OWNERS = [Terms(1000, 0.001), Terms(100, 0.5), Terms(100, 3.0)]


def test_weights_by_noise_are_one_over_the_variance_of_an_answer():
    dimension, bound = 4, 2.0
    variances = [dimension * s * s + bound * bound / n for n, s in OWNERS]
    total = sum(1 / variance for variance in variances)
    influence = np.array([by_noise(dimension, bound)(owner) for owner in OWNERS])
    everybody = weights(influence, np.ones(3, np.bool_))
    np.testing.assert_allclose(everybody, [1 / variance / total for variance in variances], rtol=1e-14)
    two = weights(influence, np.array([True, False, True]))
    without_the_second = 1 / variances[0] + 1 / variances[2]
    expected = [1 / variances[0] / without_the_second, 0.0, 1 / variances[2] / without_the_second]
    np.testing.assert_allclose(two, expected, rtol=1e-14)
    assert weights(influence, np.zeros(3, np.bool_)).tolist() == [0.0, 0.0, 0.0]


def test_weights_by_noise_are_the_records_without_noise_and_go_by_their_square_times_epsilons_with_much():
    of = by_noise(3, 2.0)
    assert [of(Terms(n, 0.0)) for n in (7, 900)] == [7.0, 900.0]

    def laplace(n, epsilon):
        return of(Terms(n, math.sqrt(2) * 2 * 2.0 * 100 / (n * epsilon)))

    assert laplace(200, 1e-4) / laplace(100, 1e-4) == pytest.approx(4, rel=1e-6)
    assert laplace(100, 3e-4) / laplace(100, 1e-4) == pytest.approx(9, rel=1e-6)


def test_no_weights_have_a_smaller_variance_than_those_by_noise():
    of, dimension, bound = by_noise(4, 2.0), 4, 2.0

    def variance(weigh):
        total = sum(map(weigh, OWNERS))
        each = [
            (weigh(one) / total) ** 2 * (dimension * one.deviation**2 + 4 / one.records) for one in OWNERS
        ]
        noise, few = dimension * noise_of(OWNERS, weigh) ** 2, bound**2 / effective_records(OWNERS, weigh)
        assert noise + few == pytest.approx(sum(each))
        return sum(each)

    best = variance(of)
    assert best < variance(by_records)
    for k in range(3):
        for factor in (0.9, 1.1):
            changed = {one: of(one) * (factor if one is OWNERS[k] else 1.0) for one in OWNERS}
            assert variance(changed.__getitem__) > best
    assert effective_records(OWNERS) == 1200


def test_responses_are_summed_by_weight_and_the_missing_count_nothing():
    responses = np.array([[1.0, 10.0], [2.0, 20.0], [np.nan, np.inf]])
    assert combined(responses, np.array([0.25, 0.75, 0.0])).tolist() == [1.75, 17.5]
    many = combined(np.stack([responses, responses]), np.array([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]))
    assert many.tolist() == [[1.75, 17.5], [1.0, 10.0]]
