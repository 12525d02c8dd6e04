"""Which records of plans count, and which are void."""

from dataclasses import replace

import pytest

from tests.support.nodes.scheduling import FULL, plan
from topology.plans import NOTHING, Chain, PlanRecord, after, valid_records

OURS = [plan(round, round - 1, FULL) for round in range(1, 10)]
THEIRS = [plan(round, round - 1, FULL[:2]) for round in range(1, 10)]
"""Two schedulers' plans: the same rounds, other members."""


def of(plans, first, last, base=None):
    """The record of the plans of rounds first..last, after those before, or after `base`."""
    before = plans[first - 2] if first > 1 else None
    return after(base or before, tuple(plans[first - 1 : last]))


def rounds(records):
    return [[(one.round, len(one.members)) for one in record.plans] for record in records]


def test_a_record_is_taken_whole_or_not_at_all():
    chain = Chain()
    assert chain.take(of(OURS, 1, 3))
    assert not chain.take(of(THEIRS, 1, 4))
    assert not chain.take(of(OURS, 2, 5))  # it overlaps: not even what is new is taken
    assert not chain.take(of(OURS, 5, 6))
    assert chain.last is OURS[2]
    assert chain.take(of(OURS, 4, 6))
    assert chain.last is OURS[5]


def test_equal_rounds_are_no_continuation():
    chain = Chain()
    assert chain.take(of(OURS, 1, 3))
    assert not chain.take(of(THEIRS, 4, 6))
    assert chain.take(of(THEIRS, 4, 6, base=OURS[2]))
    assert not chain.take(of(OURS, 7, 8))


def test_a_whole_log_begins_with_a_runs_first_plan_and_a_cut_one_with_any():
    later = of(OURS, 4, 5)
    assert not Chain().take(later)
    assert Chain(whole=False).take(later)
    assert Chain().take(of(OURS, 1, 1))


def test_nothing_follows_the_end():
    end = plan(2, 1, ())
    chain = Chain()
    assert chain.take(after(None, (OURS[0], end)))
    assert not chain.take(after(end, (OURS[2],)))


def test_in_a_whole_log_the_first_of_two_records_counts():
    log = [of(OURS, 1, 2), of(THEIRS, 1, 4), of(THEIRS, 5, 9), of(OURS, 3, 4), of(OURS, 1, 2)]
    assert valid_records(log) == [log[0], log[3]]


def test_a_log_that_begins_with_a_void_record_is_read_by_its_longest_chain():
    log = [of(THEIRS, 3, 4, base=OURS[1]), of(OURS, 3, 3), of(OURS, 4, 5), of(THEIRS, 5, 5), of(OURS, 6, 6)]
    assert rounds(valid_records(log, whole=False)) == rounds([log[1], log[2], log[4]])
    assert valid_records([], whole=False) == []


def test_what_comes_again_changes_nothing():
    log = [of(OURS, 3, 4), of(OURS, 5, 6), of(OURS, 3, 4), of(OURS, 5, 6), of(OURS, 7, 7)]
    assert valid_records(log, whole=False) == [log[0], log[1], log[4]]


def test_a_mark_with_another_round_is_no_continuation():
    log = [of(OURS, 3, 4), PlanRecord(OURS[3].mark, (plan(7, 6, FULL),)), of(OURS, 5, 6)]
    assert valid_records(log, whole=False) == [log[0], log[2]]
    chain = Chain(whole=False)
    assert [chain.take(record) for record in log] == [True, False, True]


@pytest.mark.parametrize(
    ("continues", "plans", "text"),
    [
        (NOTHING, (), "without plans"),
        (NOTHING, (OURS[0], OURS[2]), "plan 3 does not follow plan 1"),
        (NOTHING, (OURS[0], replace(OURS[1], run="q")), "plan 2 does not follow"),
        (NOTHING, (plan(1, 0, ()), OURS[1]), "plan 2 does not follow"),
        (NOTHING, (OURS[1],), "names no plan"),
        (OURS[0].mark, (OURS[0],), "names no plan"),
        (b"short", (OURS[1],), "names no plan"),
    ],
)
def test_what_no_chain_takes_is_no_record(continues, plans, text):
    with pytest.raises(ValueError, match=text):
        PlanRecord(continues, plans)
