"""`l2-sphere`, from the gradients to the release: coin, mean, lattice, neighbours, edges (privacy.md 7)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.privacy.exact import ExactSampler, SimulatedSampler
from nodes.privacy.l2_sphere import L2Sphere, sphere_radius
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.values import FloatArray

THETA = 0.5


class Fixed(ExactSampler):
    """Directions and coins that the test chooses, and a memory of the bits that were to be randomised."""

    def __init__(self, directions, fractions, turned) -> None:
        super().__init__()
        self.directions, self.fractions, self.turned = map(np.asarray, (directions, fractions, turned))

    def sphere(self, round, shape):
        return np.broadcast_to(self.directions, shape).copy(), np.broadcast_to(self.fractions, shape[:-1])

    def randomised(self, round, bits, epsilon):
        self.bits = bits
        return bits ^ self.turned


class Biased(ExactSampler):
    """The fault: a coin of `factor` times epsilon."""

    factor = Fraction(1)

    def randomised(self, round, bits, epsilon):
        return super().randomised(round, bits, epsilon * self.factor)


class Strong(Biased):
    factor = Fraction(5, 4)


class Weak(Biased):
    factor = Fraction(4, 5)


class Crooked(ExactSampler):
    """The fault: bits that are true are kept more often than those that are not."""

    def randomised(self, round, bits, epsilon):
        return super().randomised(round, bits, epsilon) | (super().sphere(round, (*bits.shape, 1))[1] < 0.4)


class Sleepy(ExactSampler):
    """The fault: half of the directions have a zero first coordinate."""

    def sphere(self, round, shape):
        directions, fractions = super().sphere(round, shape)
        directions[fractions > 0.5, 0] = 0.0
        return directions, fractions


def made(sampler=None, cls=L2Sphere, **changes) -> L2Sphere:
    options = {"theta": THETA, "epsilon": Fraction(1), "batch_size": 1, "dimension": 2}
    return cls(**options | {"sampler": sampler or ExactSampler()} | changes)


def release(mechanism: L2Sphere, gradients: FloatArray) -> FloatArray:
    return mechanism.privatise(3, Private(gradients), lambda gradient: gradient).release


# --------------------------------------------------------------------------------------- coin and mean


def leans(sampler, epsilon: Fraction) -> float:
    """Return how often a full gradient's draw leans its way, over 20,000 draws."""
    drawn = release(made(sampler, epsilon=epsilon), np.tile([[THETA, 0.0]], (10_000, 1, 1)))
    return float((drawn[:, 0] > 0).mean())


def is_right(share: float, epsilon: Fraction) -> bool:
    """Whether the share is e^epsilon/(1 + e^epsilon) within 5 standard errors: two-sided."""
    wanted = 1 / (1 + math.exp(-epsilon))
    return abs(share - wanted) < 5 * math.sqrt(wanted * (1 - wanted) / 10_000)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_the_right_coin_passes(epsilon: Fraction) -> None:
    assert is_right(leans(ExactSampler(), epsilon), epsilon)


@pytest.mark.parametrize("fault", [Strong, Weak])
def test_wrong_coins_fail(fault) -> None:
    assert not is_right(leans(fault(), Fraction(1)), Fraction(1))


def bias(sampler, gradient, cls=L2Sphere, batch_size: int = 1) -> float:
    """Return how many standard errors the mean of 20,000 draws is from the gradient/h, at epsilon = 3."""
    mechanism = made(sampler, cls, epsilon=Fraction(3), batch_size=batch_size)
    errors = (
        release(mechanism, np.tile(gradient, (10_000 // batch_size, 1, 1))) - np.array(gradient) / batch_size
    )
    return float(np.abs(errors.mean(0)).max() / (mechanism.noise_scale(1) / math.sqrt(len(errors))))


class Short(L2Sphere):
    """The fault: 0.8 of the length."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "length", 0.8 * self.length)


@pytest.mark.parametrize("gradient", [[0.3, -0.2], [0.0, 0.5], [0.0, 0.0]])
def test_the_mean_is_the_gradient(gradient) -> None:
    assert bias(ExactSampler(), gradient) < 5


def test_the_mean_is_the_gradient_over_h_in_a_partial_slot() -> None:
    assert bias(ExactSampler(), [0.3, -0.2], batch_size=4) < 5


@pytest.mark.parametrize(("sampler", "cls"), [(ExactSampler, Short), (Crooked, L2Sphere), (Sleepy, L2Sphere)])
def test_a_bias_fails(sampler, cls) -> None:
    assert bias(sampler(), [0.3, -0.2], cls) > 5


@pytest.mark.parametrize(("dimension", "variance"), [(1, 4.683), (2, 11.554), (10, 69.974), (1000, 7351.9)])
def test_the_length_is_the_papers(dimension: int, variance: float) -> None:
    assert sphere_radius(Fraction(1), dimension) ** 2 == pytest.approx(variance, rel=1e-4)
    drawn = release(made(dimension=dimension), np.zeros((50, 1, dimension)))
    assert (drawn**2).sum(-1) == pytest.approx(THETA**2 * variance, rel=1e-4)


def test_the_noise_that_is_said_is_that_of_zero_gradients() -> None:
    mechanism = made(batch_size=4, dimension=3)
    drawn = release(mechanism, np.zeros((5_000, 0, 3)))
    assert math.sqrt((drawn**2).mean()) == pytest.approx(mechanism.noise_scale(1), rel=0.05)


def test_it_says_from_which_batch_size_on_laplace_has_less_noise() -> None:
    limit = made(dimension=10).laplace_is_better_above
    assert limit == pytest.approx(8 * 100 / sphere_radius(Fraction(1), 10) ** 2)
    variance = made(dimension=10, batch_size=int(limit)).noise_scale(1) ** 2 * 10 * int(limit) ** 2
    assert variance == pytest.approx(8 * 100 * THETA**2, rel=0.1)  # d 2 b^2, b = 2 sqrt(d) theta


# --------------------------------------------------------------------------------------------- lattice


def outcomes(sampler, gradient) -> set[bytes]:
    """Return the releases that 200 draws of one direction reach; each of two is missed once in 10^26 runs."""
    return {row.tobytes() for row in release(made(sampler), np.tile(gradient, (200, 1, 1)))}


class OneWay(ExactSampler):
    """One direction, exact coins."""

    def sphere(self, round, shape):
        return np.broadcast_to([0.6, 0.8], shape).copy(), super().sphere(round, shape)[1]


class Leaky(L2Sphere):
    """The fault: the length is the gradient's own, as in a mechanism that only turns it."""

    def privatise(self, round, gradients, update, secret=None):
        size = math.sqrt(float((opened(gradients) ** 2).sum(-1).flat[0]))
        return super().privatise(round, gradients, lambda estimate: update(estimate * (1 + size)))


GRADIENTS = [[0.5, 0.0], [-0.5, 0.0], [0.1, -0.2], [0.0, 0.0], [math.nan, 1.0], [1e308, 0.0], [5e-324, 0.0]]


def test_both_signs_of_a_direction_occur_whatever_the_gradient_is() -> None:
    reached = [outcomes(OneWay(), gradient) for gradient in GRADIENTS]
    (one, other) = (np.frombuffer(row) for row in reached[0])
    assert np.array_equal(one, -other)
    assert all(each == reached[0] for each in reached)


def test_a_length_that_shows_the_gradient_reaches_other_values() -> None:
    leaky = {
        row.tobytes()
        for size in (0.1, 0.4)
        for row in release(made(OneWay(), Leaky), np.tile([[size, 0.0]], (200, 1, 1)))
    }
    assert len(leaky) > 2


# ------------------------------------------------------------------------------------------ neighbours


def bits_of(sampler: Fixed, rows: FloatArray) -> list[bool]:
    release(made(sampler, batch_size=len(rows), dimension=rows.shape[1]), rows)
    return sampler.bits.tolist()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_a_replaced_record_touches_one_bit_alone(seed: int, batch: int) -> None:
    """Given directions and coins, the release is a function of bits, each of which passed an exact coin."""
    random = np.random.default_rng(seed)
    directions = random.normal(size=(batch, 3))
    sampler = Fixed(directions, random.random(batch), np.zeros(batch, bool))
    rows = random.normal(size=(batch, 3))
    other = rows.copy()
    other[random.integers(batch)] = random.choice([0.0, 1e9, math.nan, -1.0], size=3)
    one, two = bits_of(sampler, rows), bits_of(sampler, other)
    assert len(one) == len(two) == batch
    assert sum(a != b for a, b in zip(one, two, strict=True)) <= 1


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6))
def test_places_show_nothing_the_sum_has_no_order(seed: int, batch: int) -> None:
    """A displaced record changes places with its direction and coin: the same bits leave."""
    random = np.random.default_rng(seed)
    rows, directions = random.normal(size=(batch, 3)), random.normal(size=(batch, 3))
    fractions, turned, order = random.random(batch), random.random(batch) < 0.5, random.permutation(batch)
    one = made(Fixed(directions, fractions, turned), batch_size=batch, dimension=3)
    two = made(Fixed(directions[order], fractions[order], turned[order]), batch_size=batch, dimension=3)
    assert release(one, rows).tobytes() == release(two, rows[order]).tobytes()


class FewDraws(L2Sphere):
    """The fault: a draw a record, none for an empty place."""

    def privatise(self, round, gradients, update, secret=None):
        count = opened(gradients).shape[-2]
        object.__setattr__(self, "batch_size", max(1, count))
        return super().privatise(round, gradients, update)


def coins(cls, records: int) -> int:
    """Return how many coins a slot of h = 4 tosses that holds that many records."""
    sampler = Fixed([1.0, 0.0, 0.0], 0.3, turned=False)
    release(made(sampler, cls, batch_size=4, dimension=3), np.ones((records, 3)))
    return sampler.bits.size


def test_a_slot_makes_h_draws_however_many_records_it_holds() -> None:
    assert [coins(L2Sphere, records) for records in range(5)] == [4] * 5


def test_a_draw_a_record_is_found() -> None:
    assert coins(FewDraws, 1) != coins(FewDraws, 4)


def test_a_zero_inner_product_counts_as_plus() -> None:
    sampler = Fixed([0.0, 1.0], 0.0, turned=False)
    assert bits_of(sampler, np.array([[0.5, 0.0]])) == [True]  # orthogonal, u = +g/||g||
    sampler.fractions = np.asarray(0.999)
    assert bits_of(sampler, np.zeros((1, 2))) == [False]  # u = -e: the fair coin of a zero gradient


# ----------------------------------------------------------------------------------------------- edges


def test_many_nodes_at_once_draw_what_each_draws_alone() -> None:
    rows = np.random.default_rng(1).normal(size=(3, 5, 4))
    sum_epsilons = release(made(SimulatedSampler(7, ("a", "b", "c")), batch_size=9, dimension=4), rows)
    for k, name in enumerate("abc"):
        alone = release(made(SimulatedSampler(7, name), batch_size=9, dimension=4), rows[k])
        assert alone.tobytes() == sum_epsilons[k].tobytes()


@pytest.mark.parametrize("epsilon", ["0.0000001", "0.001", "50", "100000"])
@pytest.mark.parametrize("sampler", [ExactSampler(), SimulatedSampler(0, "a")])
def test_small_and_large_epsilon_give_finite_releases(epsilon: str, sampler) -> None:
    mechanism = made(sampler, epsilon=Fraction(epsilon), dimension=100)
    drawn = release(mechanism, np.full((1, 100), 0.01))
    assert math.hypot(*drawn.tolist()) == pytest.approx(mechanism.length, rel=1e-6)
