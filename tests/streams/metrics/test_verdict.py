"""Whether a run is judged as it is: better than guessing, no better, worse; and why."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nodes.intervals import Interval, area
from nodes.losses.losses import Logistic, Softmax, Squared
from nodes.prequential import Figures, Task
from nodes.sparse import SparseRows
from nodes.values import Observations
from streams.metrics.judgement import as_tree, judged
from streams.metrics.verdict import MOST_NUMBERS, Basis, Cause, Facts, OwnerScore

RIGHT = np.array([2.0, -1.0, 0.0])


def score(loss=None, *, private=True, **options):
    return OwnerScore(loss or Logistic(), lambda x: x, private=private, **options)


def slot(random, size=40, *, signal=1.0, rate=0.0):
    features = random.normal(size=(size, 3))
    margins = signal * (features @ RIGHT) + rate + random.logistic(size=size)
    return Observations(features, np.where(margins > 0.0, 1.0, -1.0), np.ones(size, bool))


def ran(scores, decision, rounds=30, seed=0, clipped=0, **options):
    random = np.random.default_rng(seed)
    for round in range(rounds):
        observations = slot(random, **options)
        scores.add(round + 1, decision, observations, np.ones(3), clipped)
    return scores.verdict(decision)


@pytest.mark.parametrize(("decision", "side"), [(RIGHT, 1), (-RIGHT, -1), (np.zeros(3), 0)])
@pytest.mark.parametrize("private", [True, False])
@pytest.mark.parametrize("rounds", [3, 30])
def test_good_bad_and_useless_decisions_are_called_that(decision, side, private, rounds):
    verdict = ran(score(private=private), decision, rounds)
    assert verdict.side == side
    words = {1: "better than guessing", 0: "no better than guessing", -1: "worse than guessing"}[side]
    assert judged(verdict).startswith(words)
    before = not private and rounds == 30
    assert ("on records before they were learnt from" in judged(verdict)) == before
    assert ("which may flatter it" in judged(verdict)) == (not private and rounds == 3)


def test_a_fair_coin_is_learnt_by_nothing():
    sides = [ran(score(), RIGHT, 30, seed, signal=0.0).side for seed in range(60)]
    assert sides.count(0) >= 54  # 95 % of them, with fixed seeds


def test_two_records_say_nothing():
    verdict = ran(score(), RIGHT, rounds=2, size=5)
    assert verdict.side is None
    assert judged(verdict).startswith("too few records to tell it from guessing (10 scored")
    nothing = score().verdict(None)
    assert judged(nothing).startswith("not scored")
    assert nothing.before is nothing.closing is None


def test_the_rival_at_home_is_told():
    at_home = ran(score(), RIGHT + np.array([0.0, 0.0, 3.0]), 10, size=200)
    assert at_home.alone.side_of(0.0) == -1
    assert "worse than a model without noise of its own records alone (AUC 0." in judged(at_home)
    assert " lower)" in judged(at_home)
    few = ran(score(), RIGHT, 10, size=3)  # so few that the mesh knows better
    assert few.alone.value > 0.0
    assert "no better than a model" in judged(ran(score(), RIGHT, 10, size=100))


def test_records_that_were_kept_back_decide():
    scores, random = score(private=False), np.random.default_rng(5)
    kept_back = slot(random, 500)
    scores.keep_back(kept_back.features, kept_back.labels)
    verdict = ran(scores, RIGHT)
    assert verdict.basis is Basis.KEPT_BACK
    assert verdict.closing.auc == area(kept_back.features @ RIGHT, kept_back.labels > 0.0)
    assert "on records that it never learnt from" in judged(verdict)
    assert "flatter" not in judged(verdict)


def test_kept_records_are_bounded():
    scores, wide = score(), MOST_NUMBERS // 10
    for round in range(25):
        observations = Observations(np.ones((1, wide)), np.ones(1), np.ones(1, bool))
        scores.add(round + 1, np.zeros(wide), observations, np.zeros(wide), 0)
    assert scores._records.joined()[0].size <= MOST_NUMBERS
    assert scores.verdict(np.zeros(wide)).closing.records == 10


def test_rows_of_zeros_are_kept_sparse():
    """So the rare records of a wide set are there at the end: 18,000 rows of 503 columns."""
    scores, random = score(), np.random.default_rng(8)
    for _ in range(90):
        rows = np.zeros((200, 503))
        rows[np.arange(200), random.integers(0, 500, 200)] = rows[:, 502] = 1.0
        labels = np.where(random.random(200) < 0.003, 1.0, -1.0)
        scores.add(1, np.zeros(503), Observations(rows, labels, np.ones(200, bool)), np.zeros(503), 0)
    mixed = Observations(np.ones((1, 503)), np.ones(1), np.ones(1, bool))
    scores.add(1, np.zeros(503), mixed, np.zeros(503), 0)
    closing = scores.verdict(np.arange(503.0)).closing
    assert closing.records == 18_001
    assert closing.auc.low < closing.auc.value < closing.auc.high


def test_sparse_records_have_the_same_verdict_as_dense_ones():
    random, verdicts = np.random.default_rng(6), []
    rows = [
        SparseRows(np.arange(0, 21, 2), np.tile([1, 4, 0, 8], 5), random.normal(size=20), 9) for _ in "ab" * 9
    ]
    labels = [np.where(random.random(10) < 0.5, 1.0, -1.0) for _ in rows]
    for form in (lambda row: row, SparseRows.dense):
        scores = score()
        for row, signs in zip(rows, labels, strict=True):
            scores.add(
                1,
                np.arange(9.0),
                Observations(form(row), signs, signs * row.values[::2] > -1.0),
                np.ones(9),
                0,
            )
        verdicts.append(scores.verdict(np.arange(9.0)))
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize(
    ("facts", "causes"),
    [
        (Facts(100, 4000, 5, 1, 2000, 0, 0.1, 3.0), []),
        (Facts(100, 4000, 5, 1, 2000, 0, 0.1, 30.0), [Cause.NOISE]),
        (Facts(100, 4000, 5, 9, 2000, 0, 0.1, 29.0), []),
        (Facts(90, 18_000, 505, 3, 54, 0, 0.2, 250.0), [Cause.CLASS, Cause.NOISE]),
        (Facts(5, 4000, 5, 1, 2000), [Cause.STEPS]),
        (Facts(5, 4000, 5, 1, 2000, steps=False), []),
        (Facts(100, 4000, 5, 1, 2000, 60, 0.9), [Cause.EMPTY, Cause.CLIP]),
        (Facts(0, 0, 0, 1), [Cause.STEPS]),
    ],
)
def test_the_likeliest_causes_come_first(facts, causes):
    assert facts.causes() == causes


def test_each_cause_is_told_in_numbers():
    verdict = ran(score(noise=lambda _: 500.0), np.zeros(3), 12, size=1, clipped=1)
    assert verdict.facts.noise == pytest.approx(500.0 / np.sqrt(3.0))
    text = judged(replace(verdict, closing=Figures(Task.TWO, 40, 9, auc=Interval(0.5, 0.4, 0.6))))
    assert "likeliest: the noise is 289 times as long as a slot's signal, in 12 rounds, and " in text
    assert "records of the rarer class for 3 numbers to learn" in text
    clear = replace(verdict, facts=Facts(100, 4000, 5, 1, 2000), drifts=2)
    text = judged(replace(clear, closing=Figures(Task.TWO, 40, 9, auc=Interval(0.5, 0.4, 0.6))))
    assert "no reason shows" in text
    assert "its loss has risen for good 2 times" in text


def test_classes_and_numbers_are_judged_too():
    random = np.random.default_rng(7)
    classes, numbers = score(Softmax(3)), score(Squared())
    right = np.array([3.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 3.0])
    for round in range(20):
        features = random.normal(size=(30, 3))
        labels = np.argmax(features + random.normal(size=(30, 3)), -1).astype(float)
        classes.add(round, right, Observations(features, labels, np.ones(30, bool)), np.ones(9), 0)
        values = features @ RIGHT + 9.0 + random.normal(size=30)
        numbers.add(round, RIGHT, Observations(features, values, np.ones(30, bool)), np.ones(3), 0)
    assert judged(classes.verdict(right)).startswith("better than guessing: accuracy 0.")
    assert "no better than a model" in judged(classes.verdict(right))
    assert judged(numbers.verdict(RIGHT)).startswith("worse than guessing: error 8")  # it lacks the 9
    assert "worse than a model without noise" in judged(numbers.verdict(RIGHT))


@pytest.mark.parametrize("rounds", [0, 2, 30])
def test_a_verdict_is_plain_json(rounds):
    tree = json.loads(json.dumps(as_tree(ran(score(), RIGHT, rounds)), allow_nan=False))
    assert tree["judgement"]
    assert tree["against_guessing"] == ("better than guessing" if rounds else None)
