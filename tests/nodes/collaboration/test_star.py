"""Learner and owners together: whatever the order, repetitions and crashes, the run is the same."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.collaborations.star import QUERIES, SIZES, Star, mechanism

PLAIN = Star().run()


def test_a_run_asks_t_queries_and_steps_on_all_answers():
    records = PLAIN.learner.journal
    assert [record.number for record in records] == list(range(1, QUERIES + 2))
    assert [answer.owner for answer in records[1].answers] == ["a", "b", "c"]
    assert [answer.weight for answer in records[1].answers] == [5 / 15, 7 / 15, 3 / 15]
    assert all(len(owner.journal) == QUERIES for owner in PLAIN.owners.values())
    assert not (records[-1].average == records[-1].parameters).all()


@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32), crashes=st.integers(0, 6))
def test_order_repetitions_and_crashes_at_any_effect_change_nothing(seed, crashes):
    star = Star(Random(seed).randrange, crashes).run()  # noqa: S311 # of a test
    assert _bytes(star.learner.journal[-1]) == _bytes(PLAIN.learner.journal[-1])
    for name, owner in star.owners.items():
        assert [record.query for record in owner.journal] == list(range(1, QUERIES + 1))
        assert [record.charged for record in owner.journal] == list(range(1, QUERIES + 1))
        assert owner.journal[-1].epsilon_spent == mechanism(name).spent(QUERIES) == 8.0
        sent = {(one.query, one.response.tobytes()) for one in star.responses if one.owner == name}
        assert len(sent) == QUERIES  # one value for each query, however often it was sent


def test_the_crashes_happen():
    numbers = iter(range(10_000))
    star = Star(lambda n: next(numbers) * 7 % n, 6).run()
    assert star.learner.lives + sum(owner.lives for owner in star.owners.values()) == len(SIZES) + 1 + 6


def _bytes(record):
    answers = [(one.owner, one.weight, one.response.tobytes()) for one in record.answers]
    return record.number, record.parameters.tobytes(), record.average.tobytes(), answers
