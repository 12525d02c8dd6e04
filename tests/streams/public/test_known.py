"""A folder's own lines and those on the data broker: nothing is counted twice, and nothing is lost."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from nodes.accounting.spends import Span, Spend, total
from streams.state.known_spends import Written, together, unwritten


def spend(run="run-1", folder="s1", life="aa", *, mesh="m", charged=5, end=math.inf, **more):
    given = {"epsilon": Fraction(1), "open": end == math.inf} | more
    spans = (Span("0", 0, end),)
    cost = float(charged)
    return Spend(
        run,
        charged,
        given.pop("epsilon"),
        0.0,
        cost,
        0.0,
        spans,
        mesh=mesh,
        folder=folder,
        life=life,
        **given,
    )


def written(*spends):
    return [Written(one.folder, one) for one in spends]


def test_a_folder_that_is_lost_is_known_by_what_it_had_written():
    assert together("s2", (), written(spend(end=5))) == (spend(end=5),)


def test_three_runs_in_two_folders_are_three():
    """S1, S2, and S1 again."""
    one, two = spend(end=5), spend("run-2", "s2", "bb", end=5)
    three = spend("run-3", life="cc", charged=0)
    assert total(together("s1", [one, three], written(one, two))).epsilon == 3


def test_two_meshes_with_runs_of_one_name_are_two():
    other = spend(mesh="other", folder="s2", life="bb", end=5)
    assert total(together("s1", [spend(end=5)], written(spend(end=5), other))).epsilon == 2


def test_runs_from_before_lives_had_ids_are_told_apart_by_their_folders():
    old = spend(life="", folder="", end=5)
    (pushed,) = unwritten("s2", [old], ())
    assert pushed == old._replace(folder="s2")
    found = together("s1", [old], written(pushed))
    assert total(found).epsilon == 2
    assert together("s2", [old], written(pushed)) == (pushed,)


def test_its_own_folder_says_that_a_life_is_over_and_no_copy_does():
    begun, ended = spend(charged=0), spend(end=5)
    assert together("s1", [ended], written(begun)) == (ended,)  # killed: its journal tells
    assert together("copy", [ended], written(begun)) == (begun._replace(charged=5, stream_epsilon=5.0),)
    alone = ended._replace(folder="")  # the journal was copied without the rest
    assert together("copy", [alone], written(begun)) == (begun._replace(charged=5, stream_epsilon=5.0),)
    copied = Written("copy", ended)
    assert together("s3", (), [*written(begun), copied])[0].open
    assert together("s3", (), [copied]) == (ended,)  # nobody has said more


def test_a_killed_life_whose_journal_is_lost_is_unknown():
    (found,) = together("s2", (), written(spend(charged=0)))
    assert found.open
    assert total([found]).epsilon == 1
    assert total([found]).stream_epsilon is None


def test_the_larger_wins_and_the_unknown_is_unprotected():
    """The folder was put back from yesterday's snapshot."""
    past, now = spend(charged=3, end=3), spend(charged=9, end=9)
    assert together("s1", [past], written(now)) == (now,)
    assert together("s1", [past], written(now._replace(epsilon=None)))[0].epsilon is None


def test_a_life_whose_places_are_forgotten_may_have_read_any_record():
    """Its topic was made anew, or its records are in another order now."""
    known, forgotten = spend(end=5), spend(end=5)._replace(spans=())
    assert together("s1", [forgotten], written(known)) == (forgotten,)
    assert unwritten("s1", [forgotten], written(known)) == (forgotten,)
    assert together("s2", [forgotten], written(known)) == (forgotten,)
    elsewhere = spend("run-2", "s2", "bb", end=9)._replace(spans=(Span("0", 7, 9),))
    assert total(together("s2", [forgotten, elsewhere], written(known))).epsilon == 2


def test_only_what_the_broker_lacks_is_written():
    one, two = spend(end=5), spend("run-2", life="bb", end=5)
    assert unwritten("s1", [one, two], written(one)) == (two,)
    assert unwritten("s1", [one, two], written(one, two)) == ()
    assert unwritten("s1", [one], written(spend(charged=0))) == (one,)
    assert unwritten("copy", [one], written(one)) == ()
    assert unwritten("copy", [one], written(spend(charged=7, end=7))) == ()


lines = st.builds(
    lambda run, life, charged, open_, bare: spend(
        run,
        *life,
        charged=charged,
        end=math.inf if open_ else charged,
        epsilon=None if bare else Fraction(1),
    ),
    st.sampled_from(["r1", "r2"]),
    st.sampled_from([("s1", ""), ("s2", ""), ("s1", "aa"), ("s2", "bb")]),  # a life is of one folder
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 9).map(lambda k: k == 9),
)


@given(
    st.lists(lines, max_size=4, unique_by=lambda one: one.identity),  # as a folder's file has them
    st.lists(st.tuples(st.sampled_from(["s1", "s2"]), lines), max_size=4),
)
def test_what_was_written_once_is_known_and_is_not_written_otherwise(here, there):
    """It may be written again, the same, where the lines of a life contradict one another."""
    before = [Written(*one) for one in there]
    pushed = unwritten("s1", here, before)
    after = before + [Written("s1", one) for one in pushed]
    assert set(unwritten("s1", here, after)) <= set(pushed)
    known = {(one.run, one.life, one.folder): one for one in together("s9", (), after)}
    for one in here:
        found = known.get((one.run, one.life, one.folder)) or next(
            found for (run, life, _), found in known.items() if (run, life) == (one.run, one.life)
        )
        assert found.charged >= one.charged
        assert one.epsilon is not None or found.epsilon is None
