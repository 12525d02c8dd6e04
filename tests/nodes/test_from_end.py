"""A new run over data that an earlier one has read: it begins at the end, if its operator says so."""

from dataclasses import replace
from fractions import Fraction

import pytest

from nodes.accounting.guarantee import Ledger
from nodes.accounting.releases import GrowingEpsilon, GrowingSum
from nodes.machine.events import Journal, OpenSlot, Started
from tests.support.nodes.machines import feed, learner, machine, of, plans, started


@pytest.mark.parametrize(("from_end", "position"), [(False, ()), (True, None)])
def test_a_new_journal_reads_from_the_beginning_or_from_the_end_as_it_then_stands(from_end, position):
    node = machine(replace(learner(), from_end=from_end))
    effects = started(node, *plans(1, 2))
    assert [effect.record.data_position for effect in of(effects, Journal)] == [position]
    assert [effect.position for effect in of(effects, OpenSlot)] == [position]


def test_a_journal_goes_on_where_it_was_all_the_same():
    first = machine()
    record = of(started(first, *plans(1, 2)), Journal)[-1].record._replace(data_position=((0, 7),))
    again = machine(replace(learner(), from_end=True))
    effects = started(again, *plans(1, 2), records=(record,))
    assert [effect.position for effect in of(effects, OpenSlot)] == [((0, 7),)]


def test_charges_of_other_runs_have_no_price_where_epsilon_grows():
    schedule = GrowingEpsilon(Fraction(10), 30, 1)
    ledger = Ledger(schedule.largest, 1, None, GrowingSum(schedule), 30)
    with pytest.raises(ValueError, match="charged_before is 2: must be 0 where epsilon grows"):
        replace(learner(), ledger=ledger, charged_before=2)


@pytest.mark.parametrize("before", [0, 4, 90])
def test_a_life_begins_at_the_larger_of_what_its_journal_and_what_others_have_charged(before):
    """Plans that are gone, with the broker's disk, take nothing back."""
    node = machine(replace(learner(), charged_before=before))
    effects = feed(node, Started(carried=60), *plans(1, 2))
    (record,) = [effect.record for effect in of(effects, Journal)]
    assert record.charged == max(60, before)
