"""0, infinity, NaN, d = 1, epsilon out of range: the documented value or a clear error (privacy.md 7)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nodes.algorithms import Constant, InverseSqrt
from nodes.checks import decimal
from nodes.geometry.constraints import L1Ball
from nodes.geometry.mirror_maps import Euclidean
from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.laplace_parameters import LaplaceParameters
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.unprotected import Unprotected

HUGE = 1.7e308
SETS = L1Ball(2, 3.0)


def on_parameters(**changes):
    settings = {
        "theta": 0.5,
        "norm": "l2",
        "epsilon": Fraction(1),
        "mirror_map": Euclidean(),
        "constraint": SETS,
        "step_size": Constant(0.1),
        "sampler": SimulatedSampler(0, "a"),
    }
    return LaplaceParameters(**settings | changes)


def on_gradient(**changes):
    settings = {"theta": 0.5, "epsilon": Fraction(1), "batch_size": 4, "dimension": 2}
    return LaplaceGradient(**settings | {"sampler": SimulatedSampler(0, "a")} | changes)


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ([0.0, 0.0], 0),
        ([-0.0, 5e-324], 0),
        ([math.nan, 0.0], 1),
        ([math.inf, 0.1], 1),
        ([0.1, -math.inf], 1),
        ([HUGE, HUGE], 1),
    ],
)
def test_what_counts_as_a_zero_gradient(laplace, silent, row, broken) -> None:
    case = laplace(silent)
    made = case.mechanism.privatise(3, Private(np.array([row])), case.update)
    assert made.release.tolist() == case.offset.tolist()
    assert opened(made.broken) == broken
    assert opened(made.clipped) == 0


def test_an_empty_slot_gives_the_zero_gradients_release(laplace, silent) -> None:
    case = laplace(silent)
    assert case.release(np.empty((0, 2))).tolist() == case.offset.tolist()
    assert not np.array_equal(laplace(ExactSampler()).release(np.empty((0, 2))), case.offset)


def test_the_counts_are_those_of_the_slot() -> None:
    rows = np.array([[0.1, 0.1], [3.0, 0.0], [math.nan, 0.0], [0.0, -9.0]])
    for mechanism in (on_gradient(), Unprotected(0.5, "l1", 4, 2)):
        made = mechanism.privatise(1, Private(rows), lambda gradient: gradient)
        assert (opened(made.clipped), opened(made.broken)) == (2, 1)


def test_one_dimension(laplace, silent) -> None:
    case = laplace(silent, dimension=1)
    assert case.release(np.array([[0.25]])) == pytest.approx(case.update(np.array([0.25])), abs=case.step)


@settings(max_examples=100, deadline=None)
@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(0, 4), st.just(2)),
        elements=st.floats(allow_nan=True, allow_infinity=True),
    )
)
def test_any_floats_give_a_release_without_a_word(rows) -> None:
    for mechanism, slot in (
        (on_gradient(), rows),
        (on_parameters(), rows[:1]),
        (Unprotected(0.5, "l2", 4, 2), rows),
    ):
        made = mechanism.privatise(1, Private(slot), lambda gradient: SETS.project(-gradient))
        assert np.isfinite(made.release).all()


def test_a_partial_slot_is_divided_by_h_all_the_same(silent) -> None:
    row = np.array([[0.25, 0.125]])
    for mechanism in (on_gradient(sampler=silent), Unprotected(0.5, "l1", 4, 2)):
        made = mechanism.privatise(1, Private(row), lambda gradient: gradient)
        assert made.release.tolist() == [0.0625, 0.03125]


@pytest.mark.parametrize("failure", ["raises", "gives no number"])
def test_a_step_that_fails_on_the_gradient_gives_the_zero_step(silent, failure) -> None:
    def update(gradient):
        if gradient.any() and failure == "raises":
            raise ArithmeticError(f"no solution at {gradient}")
        return np.where(gradient == 0, 0.25, math.nan)

    made = on_parameters(sampler=silent).privatise(1, Private(np.array([[0.1, 0.2]])), update)
    assert made.release.tolist() == [0.25, 0.25]
    assert opened(made.broken) == 1


def test_a_step_that_fails_without_a_gradient_is_the_callers_mistake() -> None:
    def update(gradient):
        raise ArithmeticError("public")

    with pytest.raises(ArithmeticError, match="public"):
        on_parameters().privatise(1, Private(np.array([[0.1, 0.2]])), update)


# ------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize("epsilon", ["1e-7", "0.001", "1e6", "1e8"])
def test_small_and_large_epsilon_have_the_noise_of_the_formula(epsilon: str) -> None:
    exact = decimal(epsilon)
    for build, radius in ((on_gradient, 0.5 / 4), (on_parameters, 0.05 * math.sqrt(2))):
        mechanism = build(epsilon=exact)
        assert mechanism.noise_scale(1) == pytest.approx(2 * radius / float(exact), rel=1e-8)
        made = mechanism.privatise(1, Private(np.zeros((1, 2))), lambda gradient: gradient)
        assert np.isfinite(made.release).all()


@pytest.mark.parametrize("epsilon", ["0", "-1", "1e-9", "1e10"])
@pytest.mark.parametrize("build", [on_gradient, on_parameters])
def test_epsilon_out_of_range_is_refused_with_what_is_allowed(build, epsilon: str) -> None:
    with pytest.raises(ValueError, match=r"epsilon is .*: must be above \S+e-08 and at most \S+e\+09"):
        build(epsilon=decimal(epsilon))


@pytest.mark.parametrize("theta", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("build", [on_gradient, on_parameters, lambda theta: Unprotected(theta, "l1", 1, 2)])
def test_a_bound_out_of_range_is_refused(build, theta: float) -> None:
    with pytest.raises(ValueError, match="theta is"):
        build(theta=theta)


@pytest.mark.parametrize("batch_size", [0, -1, 2**33])
def test_a_batch_size_out_of_range_is_refused(batch_size: int) -> None:
    with pytest.raises(ValueError, match="batch_size is"):
        on_gradient(batch_size=batch_size)


def test_draws_stay_inside_64_bits_at_the_edge_of_what_is_allowed() -> None:
    for batch_size in (1, 2**31):
        mechanism = on_gradient(epsilon=decimal("1e-7"), batch_size=batch_size)
        assert mechanism.grid.radius * batch_size + 64 * mechanism.scale < 2**62


@pytest.mark.parametrize("shape", [(2,), (5, 2), (1, 3)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    for mechanism in (on_gradient(), on_parameters(), Unprotected(0.5, "l1", 4, 2)):
        with pytest.raises(ValueError, match="gradients must be of shape"):
            mechanism.privatise(1, Private(np.zeros(shape)), lambda gradient: gradient)


def test_two_observations_a_slot_are_refused_on_parameters() -> None:
    with pytest.raises(ValueError, match="n <= 1"):
        on_parameters().privatise(1, Private(np.zeros((2, 2))), lambda gradient: gradient)


# ------------------------------------------------------------------------- what else a mechanism says


def test_the_noise_on_parameters_has_the_step_size_of_the_step_that_made_them(silent) -> None:
    mechanism = on_parameters(sampler=silent, step_size=InverseSqrt(0.1))
    for round in (1, 2, 21):
        made = mechanism.privatise(round, Private(np.zeros((1, 2))), lambda gradient: gradient)
        assert made.release.tolist() == [0.0, 0.0]
        expected = 2 * math.sqrt(2) * 0.1 / math.sqrt(round) * 0.5
        assert mechanism.noise_scale(round) == pytest.approx(expected, rel=1e-8)


def test_the_slack_is_64_scales_of_the_largest_noise_in_every_coordinate() -> None:
    mechanism = on_parameters(step_size=InverseSqrt(0.1))
    assert mechanism.release_slack == pytest.approx(64 * math.sqrt(2) * mechanism.noise_scale(1))
    assert on_gradient().release_slack == Unprotected(0.5, "l1", 1, 2).release_slack == 0.0


def test_each_says_whether_it_protects() -> None:
    assert on_gradient().simulated
    assert not on_gradient(sampler=ExactSampler()).simulated
    none = Unprotected(0.5, "l1", 1, 2)
    assert (none.name, none.epsilon, none.simulated, none.noise_scale(1)) == ("none", None, False, 0.0)
