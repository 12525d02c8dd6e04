import math
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nodes.accounting.guarantee import Ledger
from nodes.accounting.releases import Composition, GaussianComposition, GrowingEpsilon, GrowingSum, Tight
from nodes.checks import decimal

positive = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)


def test_a_budget_of_1_at_epsilon_0_1_allows_exactly_10_rounds() -> None:
    ledger = Ledger(decimal(0.1), 1, decimal(1))
    assert ledger.last_learning_round == 10
    assert [ledger.may_learn(charged + 1, charged) for charged in range(12)] == [True] * 10 + [False] * 2
    assert 0.1 * 3 > 0.3  # why fractions: in floats the third of three rounds would not be paid for
    assert Ledger(decimal(0.1), 1, decimal(0.3)).last_learning_round == 3


@pytest.mark.parametrize(("budget", "rounds"), [(1, 10), (5, 50), (10, 100)])
def test_basic_composition_of_privacy_md_5(budget: int, rounds: int) -> None:
    assert Ledger(decimal("0.1"), 1, Fraction(budget)).last_learning_round == rounds


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
    assume(budget >= batch_size * epsilon)
    rounds = Ledger(epsilon, batch_size, budget).last_learning_round
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


COMPOSITIONS: dict[str, tuple[Composition | None, int | None]] = {
    "sum": (None, None),
    "tight": (Tight("laplace", Fraction(1, 2), 1e-6, Fraction(6)), None),
    "pure": (Tight("pure", Fraction(1, 2), 1e-6, Fraction(6)), None),
    "gaussian": (GaussianComposition(2**31, 5.0 * 2**31, 2, 1e-6), None),
    "uniform": (None, 9),
    "growing": (GrowingSum(GrowingEpsilon(Fraction(20), 30, 1)), 30),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["step", "missed", "crash before the journal", "crash after it", "lost"]), max_size=60
    )
)
def test_no_sequence_of_crashes_spends_more_than_the_budget(name: str, events: list[str]) -> None:
    """As the machine does it: what was journalled counts, and a round is charged in its journal record."""
    composition, rounds = COMPOSITIONS[name]
    ledger = Ledger(Fraction(1, 2), 1, Fraction(6), composition, rounds)
    round, charged, named, drawn, before = 0, 0, 0, 0, 0.0
    for event in events:
        round += 1
        if event == "missed":
            continue
        if event == "lost":
            charged = named  # a new journal takes the plan's word, and listens in its first round
        named += 1
        if event == "crash before the journal":
            continue  # nothing was drawn as far as anyone can see
        if event != "lost" and ledger.may_learn(round, charged):
            charged, drawn = charged + 1, drawn + 1
            assert drawn <= charged
            assert Fraction(ledger.spent(drawn, round)) <= Fraction(6)
        spent = ledger.spent(charged, round)
        assert spent >= before
        assert ledger.left(charged, round) <= max(0, 6 - ledger.spent(drawn, round)) + 1e-12
        before = spent
        assert Fraction(ledger.spent(drawn, round)) <= Fraction(6)
    last = ledger.last_learning_round
    assert last is not None
    assert drawn <= last


def test_what_is_left_is_rounded_down_and_never_below_0() -> None:
    ledger = Ledger(decimal("0.1"), 1, decimal(1))
    assert ledger.left(0) == 1.0
    assert Fraction(ledger.left(3)) <= Fraction(7, 10)
    assert (ledger.left(10), ledger.left(99)) == (0.0, 0.0)
    assert Ledger(decimal(1), 1).left(3) == math.inf


def test_a_schedule_ends_learning_without_a_budget_or_before_it() -> None:
    assert Ledger(decimal(1), 1, rounds=7).last_learning_round == 7
    assert Ledger(decimal(1), 1, decimal(5), rounds=7).last_learning_round == 5
    assert Ledger(decimal(1), 1, decimal(9), rounds=7).last_learning_round == 7


def test_a_budget_at_a_delta_that_does_not_pay_for_one_round_is_refused() -> None:
    with pytest.raises(ValueError, match="budget is 1: must be at least 2, one round's cost"):
        Ledger(decimal(2), 1, decimal(1), Tight("laplace", decimal(2), 1e-6, decimal(1)))


def test_rounds_after_the_last_learning_round_cost_nothing_however_dear_they_would_be() -> None:
    ledger = Ledger(Fraction(1), 1, Fraction(6), GrowingSum(GrowingEpsilon(Fraction(20), 30, 1)), 30)
    last = ledger.last_learning_round
    assert last == 13
    assert ledger.spent(last) == ledger.spent(last, last) == ledger.spent(last, 30) <= 6
