"""Motion models, the step that goes through them, and why they touch no promise."""

from fractions import Fraction

import numpy as np
import pytest

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import Constant, DynamicMirrorDescent, dola, dpdo_nc
from nodes.checks import OutOfRange
from nodes.dynamics import Dynamics, gain_metric, motion
from nodes.geometry.constraints import Box, L2Ball
from nodes.geometry.mirror_maps import Euclidean, Mahalanobis
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Learner
from nodes.losses.losses import RangeLoss
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.values import Consensus, Observations

REACH = np.array([2.0, 2.0, 0.5, 0.5])


def velocity(gains=(0.5, 0.1), matrix=None, name=dpdo_nc, observes=(0, 1)):
    """A state of position and velocity in the plane."""
    metric, inverse = gain_metric(gains, 2)
    still = name(mirror_step(Mahalanobis(metric), Box(-REACH, REACH)), Constant(1.0))
    model = motion(2, 2, 0.1) if matrix is None else Dynamics(matrix)
    return DynamicMirrorDescent(still, model, observes, inverse[:, list(observes)])


# ---------------------------------------------------------------- F


def test_constant_velocity_adds_the_velocity_to_the_position():
    moved = motion(2, 2, 0.1).moved(np.array([1.0, 2.0, 10.0, -20.0]))
    assert moved.tolist() == [2.0, 0.0, 10.0, -20.0]


def test_constant_acceleration_is_taylors():
    model = motion(3, 1, 0.5)
    assert model.matrix.tolist() == [[1.0, 0.5, 0.125], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]
    start, t = np.array([3.0, -1.0, 2.0]), 7 * 0.5
    assert model.moved(start, 7) == pytest.approx([3 - t + t * t, -1 + 2 * t, 2.0], abs=1e-12)


@pytest.mark.parametrize("times", [0, 1, 2, 3, 5, 12, 1000])
def test_a_power_is_as_many_steps(times):
    model, state = motion(2, 2, 0.1), np.array([0.3, -0.2, 0.01, 0.02])
    expected = state
    for _ in range(times):
        expected = model.moved(expected)
    assert model.moved(state, times) == pytest.approx(expected, abs=1e-11)


def test_a_state_gets_the_same_bits_alone_and_among_others():
    random = np.random.default_rng(0)
    model, states = Dynamics(random.normal(size=(5, 5))), random.normal(size=(7, 3, 5))
    for times in (1, 3):
        sum_epsilons = model.moved(states, times)
        for place in np.ndindex(7, 3):
            assert sum_epsilons[place].tobytes() == model.moved(states[place], times).tobytes()


def test_a_model_that_grows_stays_in_the_set_and_is_never_beyond_all_numbers():
    algorithm = velocity(matrix=np.diag([1e60, 1.1, 1.0, 1.0]))
    moved = algorithm.dynamics.moved(np.array([1.0, 1.0, 0.0, 0.0]), 3000)
    assert np.isfinite(moved).all()
    assert (np.abs(algorithm.contain(moved)) <= REACH).all()


def test_rounds_that_no_plan_has_count_by_time_alone_and_not_before_the_first():
    assert Dynamics(np.eye(1), by_time=True).skipped(9, 5) == 3
    assert Dynamics(np.eye(1), by_time=True).skipped(9, 0) == 0
    assert Dynamics(np.eye(1)).skipped(9, 5) == 0


@pytest.mark.parametrize("gains", [(0.5, 0.1), (1.0, 0.03), (0.4, 0.1, 0.02)])
def test_gains_are_the_first_column_of_a_positive_definite_inverse(gains):
    metric, inverse = gain_metric(gains, 2)
    assert metric @ inverse == pytest.approx(np.eye(2 * len(gains)), abs=1e-12)
    assert np.linalg.eigvalsh(inverse).min() > 0
    assert inverse[:, 0].tolist() == [gain if k % 2 == 0 else 0.0 for gain in gains for k in range(2)]
    if len(gains) == 2:
        k1, k2 = gains
        assert inverse[2:, 2:] == pytest.approx(2 * k2 * k2 / k1 * np.eye(2))


@pytest.mark.parametrize("gains", [(0.0, 0.1), (-1.0, 0.1), (1.0, 0.0), (1.0, float("nan"))])
def test_a_gain_that_is_not_above_0_is_refused(gains):
    with pytest.raises(OutOfRange, match="must be finite and above 0"):
        gain_metric(gains, 2)


# ---------------------------------------------------------------- the step


def test_the_step_moves_position_and_velocity_and_then_the_model_moves_the_state():
    z, g = Consensus(np.array([1.0, 0.0, 0.1, 0.2])), np.array([0.2, -0.4])
    at = [1.0 - 0.5 * 0.2, 0.5 * 0.4, 0.1 - 0.1 * 0.2, 0.2 + 0.1 * 0.4]
    expected = [at[0] + 0.1 * at[2], at[1] + 0.1 * at[3], at[2], at[3]]
    assert velocity().update(1, z, g) == pytest.approx(expected, abs=1e-15)


def test_the_set_holds_the_state_after_the_model_in_the_gains_metric():
    algorithm = velocity()
    z = Consensus(np.array([1.99, 0.0, 0.4, 0.0]))
    moved = algorithm.dynamics.moved(z)
    released = algorithm.update(1, z, np.zeros(2))
    assert moved[0] > 2.0
    assert released[0] == 2.0
    # the nearest point in Q's metric: the wall also takes speed, k2/k1 of what it holds back
    assert released[2] == pytest.approx(0.4 - 0.1 / 0.5 * (moved[0] - 2.0), abs=1e-12)


def test_the_decision_and_the_gradients_place_are_those_of_the_algorithm():
    z = Consensus(np.array([9.0, 0.0, 0.0, 0.0]))
    for name, place in ((dpdo_nc, 2.0), (dola, 9.0)):
        algorithm = velocity(name=name)
        decision = algorithm.decide(1, z)
        assert decision[0] == 2.0
        assert algorithm.observed(algorithm.gradient_point(z, decision))[0] == place


@pytest.mark.parametrize(
    ("observes", "rows", "gain", "words"),
    [
        ((0, 4), 4, 2, "from 0 to 3"),
        ((0, 0), 4, 2, "distinct"),
        ((), 4, 0, "distinct"),
        ((0, 1), 3, 2, "the matrix has 3 rows: must be 4"),
        ((0, 1), 4, 1, "gain has shape"),
    ],
)
def test_what_does_not_fit_is_refused(observes, rows, gain, words):
    still = velocity().still
    with pytest.raises(ValueError, match=words):
        DynamicMirrorDescent(still, Dynamics(np.eye(rows)), observes, np.ones((4, gain)))


def test_a_matrix_that_is_not_square_is_refused():
    with pytest.raises(ValueError, match=r"matrix has shape \(4, 3\): must be \(d, d\)"):
        Dynamics(np.ones((4, 3)))


def test_a_ball_is_refused_as_no_coordinate_has_a_bound_of_its_own():
    still = dpdo_nc(mirror_step(Euclidean(), L2Ball(2, 1.0)), Constant(1.0))
    with pytest.raises(ValueError, match="must be a box"):
        DynamicMirrorDescent(still, motion(2, 1, 1.0), (0,), np.array([[1.0], [0.1]]))


# ---------------------------------------------------------------- privacy


class Seen(RangeLoss):
    """A range loss that keeps what it was asked at."""

    points = None

    def gradients(self, decision, observations):
        type(self).points = np.array(decision)
        return super().gradients(decision, observations)


def lesson(algorithm, distance, epsilon=Fraction(1), dimension=2, seed=0):
    """What a learner releases from one record, and its mechanism."""
    sampler = SimulatedSampler(seed, "a")
    mechanism = LaplaceGradient(0.5, epsilon, 1, dimension, sampler)
    learner = Learner(algorithm, Seen(), mechanism, Ledger(epsilon, 1, None), 1)
    z = Consensus(np.array([0.4, 0.1, 0.2, -0.1]))
    seen = Observations(np.array([[1.5, 0.0]]), np.array([distance]), np.array([True]))
    return learner.learn(1, z, algorithm.decide(1, z), Private(seen), 0), mechanism


def test_the_loss_sees_the_observed_coordinates_alone():
    found, _ = lesson(velocity(), 0.7)
    assert Seen.points.tolist() == [0.4, 0.1]
    assert opened(found.gradient).shape == (2,)


def test_calibration_and_promise_are_those_of_a_loss_in_the_observed_coordinates():
    still = LaplaceGradient(0.5, Fraction(1), 1, 2, SimulatedSampler(0, "a"))
    for matrix in (None, np.diag([5.0, 5.0, 5.0, 5.0])):  # also one that grows
        _, mechanism = lesson(velocity(matrix=matrix), 0.7)
        assert mechanism.dimension == 2
        assert mechanism.noise_scale(1) == still.noise_scale(1)
        assert (mechanism.epsilon, mechanism.delta) == (still.epsilon, still.delta)
    wide = LaplaceGradient(0.5, Fraction(1), 1, 4, SimulatedSampler(0, "a"))
    assert wide.noise_scale(1) > still.noise_scale(1)  # so the test would see a state's dimension


class Watched(DynamicMirrorDescent):
    """Keeps what the mechanism hands to the step."""

    handed = ()

    def update(self, round, consensus, gradient):
        Watched.handed = (*Watched.handed, np.array(gradient))
        return DynamicMirrorDescent.update(self, round, consensus, gradient)


@pytest.mark.parametrize("distance", [0.2, 3.0])
def test_a_release_is_a_function_of_consensus_and_private_gradient_alone(distance):
    made, Watched.handed = velocity(), ()
    algorithm = Watched(made.still, made.dynamics, made.observes, made.gain)
    found, _ = lesson(algorithm, distance)
    (gradient,) = Watched.handed
    assert gradient.shape == (2,)
    z = Consensus(np.array([0.4, 0.1, 0.2, -0.1]))
    assert found.release.tobytes() == made.update(1, z, gradient).tobytes()


def test_a_relay_releases_the_consensus_moved_on():
    algorithm = velocity()
    learner = Learner(
        algorithm,
        RangeLoss(),
        LaplaceGradient(0.5, Fraction(1), 1, 2, SimulatedSampler(0, "a")),
        Ledger(Fraction(1), 1, Fraction(1)),
        1,
    )
    z = Consensus(np.array([0.4, 0.1, 0.2, -0.1]))
    seen = Observations(np.array([[1.5, 0.0]]), np.array([0.3]), np.array([True]))
    found = learner.learn(2, z, algorithm.decide(2, z), Private(seen), 1)
    assert found.exact
    assert found.release.tobytes() == algorithm.contain(algorithm.dynamics.moved(z)).tobytes()
