import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.accounting.reuse import Reuse, total
from nodes.accounting.spends import TIME, Span, Spend


def spend(run, *spans, epsilon=1, charged=10, delta=0.0, stream=10.0, **more):
    cost = None if epsilon is None else Fraction(epsilon)
    return Spend(run, charged, cost, delta, stream, 0.0, tuple(spans), **more)


def test_where_records_overlap_epsilons_add_and_elsewhere_the_largest_counts():
    old, new = spend("r1", Span("0", 0, 100)), spend("r2", Span("0", 100), epsilon=2)
    assert total([old, new]).epsilon == 2
    assert total([old, spend("r2", Span("0", 99), epsilon=2)]).epsilon == 3
    assert total([old, spend("r2", Span("0"), epsilon=2)]).epsilon == 3


def test_stream_level_spends_always_add():
    found = total([spend("r1", Span("0", 0, 100), stream=10.5), spend("r2", Span("0", 100), stream=2.0)])
    assert found.stream_epsilon == Fraction(25, 2)


def test_partitions_hold_other_records_but_times_and_the_unknown_may_hold_any():
    first, second = spend("r1", Span("0")), spend("r2", Span("1"))
    assert total([first, second]).epsilon == 1
    assert total([first, spend("r2", Span(TIME, 0, 1))]).epsilon == 2
    assert total([first, second, spend("r3")]).epsilon == 2


def test_a_run_that_charged_nothing_costs_nothing_unless_it_is_open():
    quiet = spend("r1", Span("0"), charged=0)
    assert total([quiet]).epsilon == 0
    assert total([quiet._replace(open=True)]).epsilon == 1


def test_what_protects_nothing_takes_all_with_it():
    found = total([spend("r1"), spend("r2", epsilon=None, stream=math.inf)])
    assert (found.epsilon, found.stream_epsilon) == (None, None)


def test_deltas_add_as_epsilons_do():
    runs = [spend(f"r{k}", Span("0", 0, 10), delta=1e-6) for k in range(3)]
    assert total(runs).delta == pytest.approx(3e-6)
    assert total([*runs[:2], spend("r3", Span("0", 10, 20), delta=1e-6)]).delta == pytest.approx(2e-6)


runs = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(1, 5)), max_size=6)


@settings(max_examples=80)
@given(runs)
def test_the_total_is_what_the_worst_record_pays(found):
    spends = [
        spend(f"r{k}", Span("0", first, first + size), epsilon=price)
        for k, (first, size, price) in enumerate(found)
    ]
    worst = max(
        sum(price for first, size, price in found if first <= record < first + size) for record in range(30)
    )
    assert total(spends).epsilon == worst


def test_a_sentence_says_what_earlier_runs_do():
    own = spend("r2", Span("0", 50), open=True)
    assert Reuse((), own).sentence() == ""
    assert Reuse((spend("r1", Span("0"), charged=0),), own).sentence() == ""
    over = Reuse((spend("r1", Span("0", 0, 100), epsilon="0.5"),), own).sentence()
    assert "Run r1 learnt from some of the same records" in over
    assert "epsilon = 1.5 (pure)" in over
    apart = Reuse((spend("r0", Span("0", 0, 9)), spend("r1", Span("0", 9, 50), epsilon=2)), own).sentence()
    assert apart.startswith("Runs r0, r1 learnt from other records")
    assert "epsilon = 2 (pure)" in apart
    idle = Reuse((spend("r2", Span("0", 0, 9)),), spend("r2", Span("0", 9, 9), charged=0)).sentence()
    assert idle.startswith(
        "Run r2 (an earlier life) learnt from the data, and this life from nothing: over all"
    )
    assert (
        "over all runs nothing is known to be protected"
        in Reuse((spend("r1", epsilon=None),), own).sentence()
    )


def test_an_operators_word_is_said_to_be_one():
    own = spend("r2", Span("0", 50), open=True)
    apart, again = own._replace(before=100, reuse="end"), own._replace(before=100, reuse="reused")
    assert "100 rounds were charged in earlier runs, and none" in Reuse((), apart).sentence()
    assert "are read again: what those runs cost a record adds to its" in Reuse((), again).sentence()


def test_a_word_that_was_given_to_an_earlier_run_is_not_forgotten():
    own, old = spend("r2", Span("0", 50), open=True), spend("r1", Span("0", 0, 50), before=7)
    for reuse in ("end", "reused"):
        said = Reuse((old._replace(reuse=reuse),), own).sentence()
        assert "7 rounds were charged before run r1, and their records may be read again" in said
    said = Reuse((old._replace(reuse="end"),), own._replace(reuse="end", before=9)).sentence()
    assert said.count("and none of their records is read again") == 2


def test_the_schedulers_count_is_said_to_be_its_word():
    own = spend("r2", Span("0", 50), open=True, by_plans=True)
    assert Reuse((), own).sentence() == (
        "The scheduler counted what this run had charged before its journal begins."
    )
