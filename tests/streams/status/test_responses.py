"""The audit of a collaboration's messages finds each mistake, and none where there is none."""

from collections import Counter

import numpy as np
import pytest

from nodes.collaboration.messages import Query, Response
from streams.status.audit_messages import Said, audit_responses

LIFE, OTHER = "aa" * 16, "bb" * 16


def asked(number, theta=0.0, *, instance=LIFE, final=False):
    return Query("first", "analyst", instance, number, np.array([theta]), final)


def said(query, value=1.0, *, owner="bank-a", instance=LIFE, simulated=False):
    return Response("first", owner, instance, query, simulated, np.array([value]))


RIGHT = ([asked(1), asked(2), asked(3, final=True)], [said(1), said(1, owner="bank-b"), said(2), said(2)])


def found(queries, responses, *, exact=True):
    wrong = audit_responses(Said(queries, responses, Counter()), 2, exact_noise=exact)
    return [(one.kind, one.party, one.query) for one in wrong]


def test_nothing_is_wrong_with_a_run_whose_answers_came_again():
    assert found(*RIGHT) == []
    assert Said(*RIGHT, Counter()).answers == 3


@pytest.mark.parametrize(
    ("queries", "responses", "expected"),
    [
        ([asked(2, 0.5)], [], ("second value", "analyst", 2)),
        ([asked(2, -0.0)], [], ("second value", "analyst", 2)),
        ([asked(3)], [], ("out of order", "analyst", 3)),
        ([asked(2, final=True)], [], ("out of order", "analyst", 2)),
        ([asked(2, instance=OTHER)], [], ("another journal", "analyst", 2)),
        ([], [said(2, 1.5)], ("second value", "bank-a", 2)),
        ([], [said(3)], ("beyond T", "bank-a", 3)),
        ([], [said(2, instance=OTHER)], ("another journal", "bank-a", 2)),
        ([], [said(2, simulated=True)], ("simulated", "bank-a", 2)),
    ],
)
def test_each_mistake_is_found(queries, responses, expected):
    assert found(RIGHT[0] + queries, RIGHT[1] + responses) == [expected]


def test_a_run_may_end_early_at_its_last_query_and_nowhere_else():
    early = [asked(1), asked(1, final=True)]
    assert found(early, [said(1)]) == []
    assert found([asked(1), asked(2), asked(1, final=True)], []) == [("out of order", "analyst", 1)]
    assert found([*early, asked(1, 0.5, final=True)], []) == [("second value", "analyst", 1)]


def test_an_answer_to_a_query_that_nobody_asked_is_found():
    assert found([asked(1)], [said(1), said(2)]) == [("not asked", "bank-a", 2)]


def test_simulated_noise_is_right_where_the_mesh_file_says_so():
    assert found(RIGHT[0], [said(1, simulated=True)], exact=False) == []
