from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.accounting.guarantee import Ledger
from nodes.accounting.releases import GrowingEpsilon, GrowingSum, uniform_epsilon
from nodes.checks import as_text
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.laplace import LaplaceGradient, LaplaceSchedule
from nodes.privacy.private import Private

totals = st.fractions(min_value=Fraction(1, 10**4), max_value=10**4)


@settings(max_examples=60)
@given(totals, st.integers(1, 300), st.integers(1, 20))
def test_the_shares_of_a_total_never_sum_to_more_and_hardly_to_less(total, rounds, size):
    growing = GrowingEpsilon(total, rounds, size)
    shares = [growing.epsilon_at(round) for round in range(1, rounds + 1)]
    assert total * (1 - Fraction(1, 10**4)) < size * sum(shares) == size * growing.until(rounds) <= total
    assert shares == sorted(shares)
    assert growing.largest == shares[-1]
    uniform = uniform_epsilon(total, rounds, size)
    assert total * (1 - Fraction(1, 10**4)) < size * rounds * uniform <= total


def test_epsilon_grows_with_the_square_root_of_the_round():
    growing = GrowingEpsilon(Fraction(10), 1000, 2)
    assert float(growing.epsilon_at(900) / growing.epsilon_at(1)) == pytest.approx(30, rel=1e-5)
    assert as_text(growing.epsilon_at(1)) == "0.000236995"  # short in a sentence


def test_uniform_is_exact_where_it_can_be():
    assert uniform_epsilon(Fraction(10), 1000, 1) == Fraction(1, 100)
    assert as_text(uniform_epsilon(Fraction(10), 3, 1)) == "3.33333"


def test_the_noise_of_a_round_is_that_of_its_epsilon():
    schedule = GrowingEpsilon(Fraction(50), 100, 1)
    mechanism = LaplaceSchedule(0.5, schedule, 2, SimulatedSampler(1, "a"))
    gradients = Private(np.array([[0.1, -0.2]]))
    for round in (1, 7, 100):
        alone = LaplaceGradient(0.5, schedule.epsilon_at(round), 1, 2, SimulatedSampler(1, "a"))
        assert mechanism.noise_scale(round) == alone.noise_scale(round)
        made, expected = (one.privatise(round, gradients, lambda g: g) for one in (mechanism, alone))
        assert made.release.tobytes() == expected.release.tobytes()
    assert mechanism.epsilon == schedule.largest
    assert mechanism.noise_scale(1) == pytest.approx(10 * mechanism.noise_scale(100), rel=1e-5)


def test_a_round_outside_the_schedule_is_never_drawn():
    schedule = GrowingEpsilon(Fraction(50), 100, 1)
    mechanism = LaplaceSchedule(0.5, schedule, 2, SimulatedSampler(1, "a"))
    for round in (0, 101):
        with pytest.raises(ValueError, match=f"round is {round}: the schedule is of rounds 1 to 100"):
            mechanism.privatise(round, Private(np.zeros((1, 2))), lambda g: g)
    ledger = Ledger(schedule.largest, 1, None, GrowingSum(schedule), schedule.rounds)
    assert ledger.may_learn(100, 99)
    assert not ledger.may_learn(101, 50)
    assert not ledger.may_learn(100, 100)


@pytest.mark.parametrize(
    ("total", "rounds", "size", "text"),
    [
        (0, 1, 1, "total is 0"),
        (1, 0, 1, "rounds is 0"),
        (1, 1, 0, "batch_size is 0"),
        (1, 10**7, 1, "at most 1000000"),
    ],
)
def test_schedules_that_make_no_sense_are_refused(total, rounds, size, text):
    with pytest.raises(ValueError, match=text):
        GrowingEpsilon(Fraction(total), rounds, size)
