import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.decimals import decimal
from nodes.ledger import Ledger, last_learning_round

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)


def test_a_budget_of_1_at_epsilon_0_1_allows_exactly_10_rounds() -> None:
    ledger = Ledger(decimal(0.1), 1, decimal(1))
    assert ledger.last_learning_round == 10
    assert [ledger.may_learn(charged + 1, charged) for charged in range(12)] == [True] * 10 + [False] * 2
    assert 0.1 * 3 > 0.3  # why fractions: in floats the third of three rounds would not be paid for
    assert last_learning_round(decimal(0.3), decimal(0.1), 1) == 3


@pytest.mark.parametrize(("budget", "rounds"), [(1, 10), (5, 50), (10, 100)])
def test_basic_composition_of_privacy_md_5(budget: int, rounds: int) -> None:
    assert last_learning_round(Fraction(budget), decimal("0.1"), 1) == rounds


def test_a_release_costs_h_epsilon_at_stream_level() -> None:
    ledger = Ledger(decimal("0.1"), 5, decimal(1))
    assert ledger.last_learning_round == 2
    assert ledger.spent(2) == 1.0


def test_a_node_that_was_away_stops_in_the_same_round() -> None:
    ledger = Ledger(decimal("0.1"), 1, decimal(1))
    assert ledger.may_learn(10, 3)
    assert not ledger.may_learn(11, 3)


def test_charges_that_rounds_do_not_explain_count_too() -> None:
    ledger = Ledger(decimal("0.1"), 1, decimal(1))
    assert not ledger.may_learn(5, 10)


def test_without_a_budget_nothing_runs_out() -> None:
    ledger = Ledger(decimal(1), 1)
    assert ledger.last_learning_round is None
    assert ledger.may_learn(10**9, 10**9)
    assert ledger.spent(0) == 0.0
    assert ledger.spent(7) == 7.0


def test_what_protects_nothing_has_spent_everything() -> None:
    ledger = Ledger(None, 1)
    assert ledger.may_learn(5, 4)
    assert ledger.spent(4) == math.inf


@settings(max_examples=100)
@given(positive, positive, st.integers(1, 100))
def test_the_last_learning_round_is_the_last_that_is_paid_for(
    budget: Fraction, epsilon: Fraction, batch_size: int
) -> None:
    rounds = last_learning_round(budget, epsilon, batch_size)
    assert rounds is not None
    assert rounds * batch_size * epsilon <= budget < (rounds + 1) * batch_size * epsilon


@settings(max_examples=100)
@given(positive, st.integers(1, 100), st.integers(1, 10**6))
def test_spent_is_rounded_up_and_no_further(epsilon: Fraction, batch_size: int, charged: int) -> None:
    spent = Ledger(epsilon, batch_size).spent(charged)
    exact = charged * batch_size * epsilon
    assert Fraction(math.nextafter(spent, 0.0)) < exact <= Fraction(spent)


@pytest.mark.parametrize(
    ("epsilon", "batch_size", "budget", "text"),
    [
        (Fraction(0), 1, None, "epsilon is 0: must be above 0"),
        (Fraction(1), 0, None, "batch_size is 0"),
        (None, 1, Fraction(1), "budget is 1: a mechanism without epsilon"),
        (Fraction(1), 2, Fraction(1), "budget is 1: must be at least 2"),
        (Fraction(1), 1, Fraction(-1), "budget is -1: must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    epsilon: Fraction | None, batch_size: int, budget: Fraction | None, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        Ledger(epsilon, batch_size, budget)
