import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.accounting.guarantee import Ledger
from nodes.accounting.releases import (
    BandComposition,
    GaussianComposition,
    GrowingEpsilon,
    GrowingSum,
    Sum,
    Tight,
    laplace,
)
from nodes.checks import rounded_up
from nodes.privacy.bisr import FINER, GaussianBisr
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.gaussian import GaussianGradient

TENTH = Fraction(1, 10)
positive = st.fractions(min_value=Fraction(1, 10**3), max_value=10**3)


@pytest.mark.parametrize(("budget", "rounds"), [(1, 10), (5, 111), (10, 357)])
def test_laplace_rounds_allowed_are_those_of_privacy_md_5(budget, rounds):
    tight = Tight("laplace", TENTH, 1e-6, Fraction(budget))
    assert Ledger(TENTH, 1, Fraction(budget), tight).last_learning_round == rounds


@pytest.mark.parametrize(("budget", "least", "rounds"), [(1, 10, 10), (5, 106, 108), (10, 338, 346)])
def test_pure_rounds_allowed_are_at_least_those_of_privacy_md_5(budget, least, rounds):
    # there they are of a grid; here of the formula itself, solved (checked to 50 digits)
    tight = Tight("pure", TENTH, 1e-6, Fraction(budget))
    assert least <= tight.affordable(Fraction(budget)) == rounds


@pytest.mark.parametrize("dimension", [10**6, 2**24])
@pytest.mark.parametrize("epsilon", [1, 100])
def test_a_budget_of_gaussian_noise_on_many_coordinates_is_counted_in_no_time(dimension, epsilon):
    made = GaussianGradient(1.0, Fraction(epsilon), 1e-6, 1, dimension, SimulatedSampler(0, "a"))
    composition = GaussianComposition(2 * made.grid.radius, made.scale, dimension, 1e-6)
    ledger = Ledger(Fraction(epsilon), 1, Fraction(10 * epsilon), composition)
    last = ledger.last_learning_round
    assert 1 < last < 1000
    assert composition.spent(last) <= 10 * epsilon < composition.spent(last + 1)
    assert composition.spent(1 << 45) == math.inf
    assert (ledger.left(1 << 45), ledger.may_learn(1, 1 << 45)) == (0.0, False)


def test_correlated_noise_on_many_coordinates_too():
    made = GaussianBisr(1.0, Fraction(1), 1e-6, 1, 10**6, SimulatedSampler(0, "a"), 4)
    moved = 2 * made.grid.radius << FINER
    composition = BandComposition(made.matrix, moved, made.scale, 10**6, 1e-6)
    last = composition.affordable(Fraction(10))
    assert composition.spent(last) <= 10 < composition.spent(last + 1)


TABLE = Tight("laplace", TENTH, 1e-6, Fraction(10))


def test_a_table_rounds_up_to_its_next_point_and_never_beyond_the_sum():
    assert len(TABLE._points) <= 150
    for charged in range(TABLE._points[-1] + 1):
        point, spent = next((n, e) for n, e in zip(TABLE._points, TABLE._spent, strict=True) if n >= charged)
        assert TABLE.spent(charged) == min(spent, Sum(TENTH).spent(charged))
        assert point == charged or spent >= laplace(0.1, charged, 1e-6) * (1 - 1e-6) or charged % 25


def test_a_table_is_as_close_for_few_releases_under_a_budget_that_pays_for_very_many():
    wide = Tight("laplace", TENTH, 1e-6, Fraction(1000))
    for charged in (20, 57, 97, 100, 101, 230, 999, 1500):
        exact = laplace(0.1, charged, 1e-6)
        assert exact * (1 - 1e-6) <= wide.spent(charged) <= 1.1 * exact


COMPOSITIONS = [
    Sum(Fraction(1, 3)),
    GrowingSum(GrowingEpsilon(Fraction(10), 40, 3)),
    GaussianComposition(2**31, 42.25 * 2**31, 2, 1e-6),
    TABLE,
    Tight("pure", Fraction(1, 2), 1e-9, Fraction(20)),
    Tight("pure", Fraction(40), 1e-9, Fraction(100)),
]


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=lambda found: found.words)
def test_what_is_spent_never_falls_and_what_is_affordable_is_within_the_budget(composition):
    spent = [composition.spent(charged) for charged in range(800)]
    assert spent[0] == 0
    assert all(one <= after for one, after in itertools.pairwise(spent))
    for budget in map(Fraction, ("0.001", "1", "3.7", "10")):
        affordable = composition.affordable(budget)
        assert composition.spent(affordable, affordable) <= float(budget) * (1 + 1e-15)


@settings(max_examples=60)
@given(st.sets(st.integers(1, 40)), st.integers(0, 3), positive, st.integers(1, 4))
def test_whatever_rounds_were_charged_a_growing_schedule_cost_no_more_than_is_said(
    rounds, extra, budget, size
):
    schedule = GrowingEpsilon(budget, 40, size)
    truth = size * sum((schedule.epsilon_at(round) for round in rounds), Fraction(0))
    composed = GrowingSum(schedule)
    last = max(rounds, default=0)
    assert truth <= Fraction(composed.spent(len(rounds), last))
    assert composed.spent(len(rounds), last) <= composed.spent(len(rounds))
    assert composed.spent(last, last) == rounded_up(size * schedule.until(last))  # none was missed
    assert composed.spent(len(rounds) + extra, last) >= composed.spent(len(rounds), last)


@pytest.mark.parametrize("delta", [0.0, 1.0, float("nan"), 1e-13])
def test_a_delta_out_of_range_is_refused(delta):
    with pytest.raises(ValueError, match="delta is "):
        Tight("pure", TENTH, delta, Fraction(1))
    if delta != 1e-13:
        with pytest.raises(ValueError, match="delta is "):
            GaussianComposition(1, 1.0, 1, delta)
