"""What a collaboration's learner and owners count: who was left out, what was refused, what is spent."""

import pytest

from nodes.collaboration.messages import CollaborationNotice
from nodes.protocol import Noticed
from streams.collaboration.metrics import LearnerMetrics, OwnerMetrics
from tests.support.collaborations.folders import written


def value(registry, name, **labels):
    return registry.collected.get_sample_value(f"mirrormesh_{name}", registry.labels | labels)


@pytest.fixture
def owner(tmp_path):
    mechanism = written(tmp_path).resolved.mechanism("a")
    return OwnerMetrics("small", "a", mechanism, None, connected=lambda: True, journal_bytes=lambda: 0)


@pytest.mark.parametrize(
    ("notice", "reason"),
    [
        (CollaborationNotice.CHANGED, "changed"),
        (CollaborationNotice.SKIPPED, "skipped"),
        (CollaborationNotice.BEYOND, "beyond"),
    ],
)
def test_a_refused_query_is_counted_by_its_reason(owner, notice, reason):
    assert value(owner.shared, "queries_refused_total", reason=reason) == 0  # there from the start
    owner.noticed(Noticed(notice, "l", 3))
    counts = {one: value(owner.shared, "queries_refused_total", reason=one) for one in REASONS}
    assert counts == dict.fromkeys(REASONS, 0) | {reason: 1}


REASONS = ("changed", "skipped", "beyond")


def test_a_query_asked_again_is_no_refusal(owner):
    owner.noticed(Noticed(CollaborationNotice.DUPLICATE, "l", 1))
    assert {value(owner.shared, "queries_refused_total", reason=one) for one in REASONS} == {0}


def test_an_owner_shows_what_it_has_spent_of_what_it_may_spend(owner):
    assert value(owner.shared, "epsilon_spent", adjacency="event") == 0
    assert value(owner.shared, "epsilon_budget", adjacency="event") == pytest.approx(8)


def test_the_learner_counts_by_owner_who_was_left_out_and_who_answered_twice():
    learner = LearnerMetrics("small", "l", ("a", "b"), 5, 0, connected=lambda: True)
    learner.noticed(Noticed(CollaborationNotice.LEFT_OUT, "a", 1))
    learner.noticed(Noticed(CollaborationNotice.LEFT_OUT, "a", 2))
    learner.noticed(Noticed(CollaborationNotice.EVIDENCE, "b", 2))
    learner.noticed(Noticed(CollaborationNotice.LATE, "a", 2))
    left_out = [value(learner.shared, "owner_left_out_total", owner=owner) for owner in "ab"]
    twice = [value(learner.shared, "owner_evidence_total", owner=owner) for owner in "ab"]
    assert (left_out, twice) == ([2, 0], [0, 1])
