"""Lines of a life from its folder, its copies and the broker: nothing is counted twice, nothing is lost."""

import itertools
import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from nodes.accounting.reuse import total
from nodes.accounting.spends import Data, Span, Spend, merged, merged_lives
from streams.state.spends_topic import unwritten


def spend(run="run-1", folder="s1", life="aa", *, mesh="m", charged=5, end=math.inf, turn=1, **more):
    made = Spend(run, charged, Fraction(1), 0.0, float(charged), 0.0, (Span("0", 0, end),))
    made = made._replace(mesh=mesh, folder=folder, life=life, open=end == math.inf, turn=turn, node="a")
    return made._replace(**more)


def together(*sources):
    return tuple(merged_lives(*sources).values())


def test_a_folder_that_is_lost_is_known_by_what_it_had_written():
    assert together((), [spend(end=5)]) == (spend(end=5),)


def test_three_runs_in_two_folders_are_three():
    """S1, S2, and S1 again."""
    one, two = spend(end=5), spend("run-2", "s2", "bb", end=5)
    three = spend("run-3", life="cc", charged=0)
    assert total(together([one, three], [one, two])).epsilon == 3


def test_two_meshes_with_runs_of_one_name_are_two():
    other = spend(mesh="other", folder="s2", life="bb", end=5)
    assert total(together([spend(end=5)], [spend(end=5), other])).epsilon == 2


def test_an_end_counts_until_another_process_begins():
    begun, ended = spend(charged=0), spend(end=5)
    again = spend(charged=5, turn=2)
    for lines in itertools.permutations([begun, ended]):
        assert together(lines) == (ended,)
    for lines in itertools.permutations([begun, ended, again]):
        assert together(lines) == (again,)


def test_a_killed_life_whose_journal_is_lost_is_unknown():
    (life,) = together((), [spend(charged=0)])
    assert life.open
    assert total([life]).epsilon == 1
    assert total([life]).stream_epsilon is None


def test_the_larger_wins_and_the_unknown_is_unprotected():
    """The folder was put back from yesterday's snapshot."""
    past, now = spend(charged=3, end=3), spend(charged=9, end=9)
    assert together([past], [now]) == (now,)
    assert together([past], [now._replace(epsilon=None)])[0].epsilon is None


def test_a_place_that_an_end_does_not_name_has_none():
    """A partition was added while it ran."""
    two = spend(spans=(Span("0", 0, math.inf), Span("1", 0, math.inf)))
    (life,) = together([two], [spend(end=5)])
    assert life.spans == (Span("0", 0, 5), Span("1", 0, math.inf))


def test_a_life_that_may_have_read_any_record_stays_one():
    known, unknown = spend(end=5), spend(end=5, spans=())
    assert together([unknown], [known]) == together([known], [unknown]) == (unknown,)


def test_a_file_that_has_changed_between_two_starts_is_not_known_to_be_unchanged():
    first, second = (spend(data=(Data("/a", "1:2", state),)) for state in ("10:1", "20:2"))
    assert merged(first, second).data == (Data("/a", "1:2", ""),)


def test_only_what_the_broker_lacks_is_written():
    one, two = spend(end=5), spend("run-2", life="bb", end=5)
    assert unwritten([one, two], [one]) == (two,)
    assert unwritten([one, two], [one, two]) == ()
    assert unwritten([one], [spend(charged=0)]) == (one,)
    assert unwritten([one], [spend(charged=7, end=7)]) == ()


spans = st.lists(
    st.builds(Span, st.sampled_from("012"), st.integers(0, 3), st.sampled_from([4, 5, 6, math.inf])),
    max_size=3,
    unique_by=lambda span: span.where,
).map(lambda found: tuple(sorted(found)))
data = st.lists(
    st.builds(Data, st.sampled_from(["/a", "/b"]), state=st.sampled_from(["", "1", "2"])),
    max_size=2,
    unique_by=lambda one: one.path,
).map(lambda found: tuple(sorted(found)))
costs = st.sampled_from([0.0, 1.0, 2.5, math.inf])
lines = st.builds(
    Spend,
    st.just("run-1"),
    st.integers(0, 4),
    st.sampled_from([None, Fraction(1), Fraction(2)]),
    st.sampled_from([0.0, 1e-6]),
    costs,
    st.sampled_from([0.0, 1e-6]),
    spans,
    st.booleans(),
    before=st.integers(0, 2),
    reuse=st.sampled_from([None, "end", "reused"]),
    by_plans=st.booleans(),
    mesh=st.sampled_from(["", "m"]),
    folder=st.sampled_from(["", "s1"]),
    life=st.just("aa"),
    settings=st.sampled_from([(), (("mechanism", "laplace"),), (("mechanism", "none"),)]),
    node=st.just("a"),
    data=data,
    apart=st.sampled_from([(), ("a/r0/bb",), ("a/r0/cc",)]),
    turn=st.integers(0, 2),
)


@given(lines, lines, lines)
def test_the_order_of_merges_does_not_matter_and_repeating_one_changes_nothing(one, two, three):
    assert merged(one, one) == one
    assert merged(one, two) == merged(two, one)
    assert merged(merged(one, two), three) == merged(one, merged(two, three))
    both = merged(one, two)
    assert merged(both, one) == both


@given(lines, lines)
def test_a_merge_costs_at_least_what_either_does(one, two):
    both = total([merged(one, two)])
    for known in (one, two):
        if known.stage == merged(one, two).stage:  # an end lets an open line cost nothing more
            alone = total([known])
            assert both.epsilon is None or (alone.epsilon is not None and both.epsilon >= alone.epsilon)
            assert both.delta >= alone.delta


@given(st.lists(lines, max_size=4), st.lists(lines, max_size=4))
def test_what_was_written_once_is_known_and_is_not_written_again(here, there):
    pushed = unwritten(here, there)
    assert together(there, pushed) == together(there, here)
    assert unwritten(here, [*there, *pushed]) == ()
