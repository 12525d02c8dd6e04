"""Measures of a ranking: each is what its definition gives, whatever the order of equal scores."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.local.scoring import Ranking, auc, ranking

pairs_of = st.lists(
    st.tuples(st.integers(-3, 3).map(float), st.sampled_from([-1.0, 1.0])), min_size=1, max_size=40
)


def measured(pairs):
    return ranking(np.array([score for score, _ in pairs]), np.array([label for _, label in pairs]))


def pair_count(pairs):
    """The share of (positive, negative) pairs in the right order, a tie counting half."""
    positive = [score for score, label in pairs if label > 0]
    negative = [score for score, label in pairs if label < 0]
    right = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    return right / (len(positive) * len(negative))


def average_precision(pairs):
    """Sum of (R_k - R_{k-1}) P_k over the thresholds that occur, as scikit-learn defines it."""
    total, before, positives = 0.0, 0.0, sum(label > 0 for _, label in pairs)
    for threshold in sorted({score for score, _ in pairs}, reverse=True):
        taken = [label for score, label in pairs if score >= threshold]
        recall = sum(label > 0 for label in taken) / positives
        total += (recall - before) * sum(label > 0 for label in taken) / len(taken)
        before = recall
    return total


@given(pairs_of)
@settings(max_examples=200)
def test_auc_and_average_precision_are_what_their_definitions_give(pairs):
    found = measured(pairs)
    if len({label for _, label in pairs}) == 1:
        assert found is None
        return
    assert found.auc == pytest.approx(pair_count(pairs), abs=1e-12)
    assert found.auprc == pytest.approx(average_precision(pairs), abs=1e-12)
    assert auc(*map(np.array, zip(*pairs, strict=True))) == found.auc


def test_recall_at_the_top_is_the_mean_over_the_orders_of_equal_scores():
    scores = [9.0, 8.0, 8.0, 8.0, 8.0, *np.linspace(7, 0, 245)]  # 3 of 250 are at the top
    labels = [1.0, 1.0, -1.0, 1.0, -1.0, 1.0, *[-1.0] * 244]
    orders = [
        (labels[0], *some)[: math.ceil(len(scores) / 100)] for some in itertools.permutations(labels[1:5])
    ]
    recalls = [sum(label > 0 for label in top) / 4 for top in orders]
    assert ranking(np.array(scores), np.array(labels)).top == pytest.approx(np.mean(recalls))


@pytest.mark.parametrize("records", [100, 700, 701, 1_000])
def test_one_record_in_a_hundred_is_at_the_top_rounded_up(records):
    labels = np.where(np.arange(records) < 20, 1.0, -1.0)
    ranked = ranking(-np.arange(records, dtype=float), labels)
    assert ranked.top == ranked.best_top == math.ceil(records / 100) / 20


def test_the_best_recall_at_the_top_is_that_of_a_perfect_ranking():
    labels = np.where(np.arange(1_000) < 519, 1.0, -1.0)  # the tutorial's held-out records
    worst = ranking(np.arange(1_000, dtype=float), labels)
    assert (worst.top, round(worst.best_top, 4)) == (0.0, 0.0193)
    assert ranking(np.arange(1_000, dtype=float), np.where(np.arange(1_000) < 3, 1.0, -1.0)).best_top == 1.0


def test_a_rare_class_ranked_by_chance_has_no_more_than_its_share():
    labels = np.where(np.arange(1_000) < 20, 1.0, -1.0)
    assert ranking(np.zeros(1_000), labels) == Ranking(0.5, 0.02, pytest.approx(0.01), 0.5)
