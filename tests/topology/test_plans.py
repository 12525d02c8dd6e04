from dataclasses import replace

import numpy as np
import pytest

from topology.plans import Member, Place, Plan

AB = (Member("a", "a1"), Member("b", "b1"))
ABC = (*AB, Member("c", "c1", full=False))


def plan(members, edges, round=2, follows=1):
    """A plan with edges (source, target, weight)."""
    sources, targets, weights = zip(*edges, strict=True) if edges else ((), (), ())
    return Plan(
        "r", round, follows, members, np.array(sources, int), np.array(targets, int), np.array(weights, float)
    )


def test_a_plan_by_name():
    found = plan(ABC, [(1, 0, 0.5), (0, 1, 0.5), (0, 2, 0.5), (1, 2, 0.5)])
    assert found.member("c") == Member("c", "c1", full=False)
    assert found.member("x") is None
    assert found.incoming("c") == (("a", 0.5), ("b", 0.5))
    assert found.outgoing("a") == ("b", "c")
    assert found.incoming("x") == found.outgoing("c") == ()
    assert not found.ended
    assert plan((), []).ended


def test_what_a_plan_says_to_each_of_its_members():
    a, b, c = ABC
    found = plan(ABC, [(1, 0, 0.25), (0, 1, 0.25), (0, 2, 0.5), (1, 2, 0.5)])
    assert found.place("a") == Place(a, ((b, 0.25),), 0.75, ("b", "c"))
    assert found.place("c") == Place(c, ((a, 0.5), (b, 0.5)), 0.0, ())
    assert found.place("x") is None
    moved = plan((a, Member("b", "b2"), c), [(1, 0, 0.25), (0, 1, 0.25)], round=3)
    assert moved.place("a").row == ((Member("b", "b2"), 0.25),)


def test_the_own_weight_is_added_up_in_the_order_of_the_row_and_is_never_negative():
    members = tuple(Member(name, "1") for name in "abcd")
    third = {(s, t): 1 / 3 for s in range(4) for t in range(4) if s != t}
    edges = [(s, t, w) for (s, t), w in sorted(third.items(), key=lambda edge: (edge[0][1], edge[0][0]))]
    assert plan(members, edges).place("a").own_weight == max(0.0, 1.0 - ((1 / 3 + 1 / 3) + 1 / 3))
    assert plan(AB, [(1, 0, 1 + 5e-10), (0, 1, 1 + 5e-10)]).place("a").own_weight == 0.0


def test_a_plan_follows_the_last_one_and_any_may_be_the_first():
    assert plan(AB, []).may_follow(1)
    assert plan(AB, []).may_follow(None)
    assert not plan(AB, []).may_follow(0)
    assert not plan(AB, []).may_follow(2)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: plan(AB, [], round=1), "plan 1 follows 1: must be from 0 to 0"),
        (lambda: plan(AB, [], follows=-1), "follows -1"),
        (lambda: plan(AB[::-1], []), "bytes order"),
        (lambda: plan(AB + AB[:0] + (AB[1],), []), "distinct"),
        (lambda: plan(AB, [(0, 2, 0.5)]), "outside 0..1"),
        (lambda: plan(AB, [(-1, 1, 0.5)]), "outside 0..1"),
        (lambda: plan(AB, [(0, 1, 0.5), (1, 0, 0.5)]), "sorted"),
        (lambda: plan(AB, [(0, 0, 0.5)]), "self-loops"),
        (lambda: plan(AB, [(1, 0, 0.0), (0, 1, 0.5)]), "outside"),
        (lambda: plan(AB, [(1, 0, float("nan")), (0, 1, 0.5)]), "outside"),
        (lambda: plan(AB, [(1, 0, 1.1), (0, 1, 1.1)]), "outside"),
        (lambda: plan(ABC, [(2, 0, 0.5)]), "a listener is the source"),
        (lambda: plan(AB, [(1, 0, 0.5), (0, 1, 0.25)]), "not doubly stochastic"),
        (lambda: plan(ABC, [(0, 2, 0.75), (1, 2, 0.75)]), "not doubly stochastic"),
        (lambda: replace(plan(AB, []), named=(("a", 2),)), "named in 2 plans up to 1"),
        (lambda: Plan("r", 1, 0, AB, *[np.zeros(1, int)] * 2, np.zeros(2)), "must be equal"),
    ],
)
def test_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
