import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.local.scoring import auc, score

margins = st.lists(
    st.tuples(st.integers(-3, 3).map(float), st.sampled_from([-1.0, 1.0])), min_size=1, max_size=40
)


def pair_count(pairs):
    """The share of (positive, negative) pairs in the right order, a tie counting half."""
    positive = [margin for margin, label in pairs if label > 0]
    negative = [margin for margin, label in pairs if label < 0]
    if not positive or not negative:
        return None
    right = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    return right / (len(positive) * len(negative))


@given(margins)
@settings(max_examples=200)
def test_auc_is_the_share_of_pairs_in_order(pairs):
    found = auc(np.array([margin for margin, _ in pairs]), np.array([label for _, label in pairs]))
    expected = pair_count(pairs)
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-12))


def test_a_decision_is_scored_by_the_sign_of_its_margin():
    features = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
    labels = np.array([1.0, -1.0, -1.0, -1.0])
    found = score(np.array([1.0, -0.5]), features, labels)  # margins 1, 1.5, -1, 0
    assert (found.records, found.accuracy) == (4, 0.75)
    assert found.auc == pytest.approx(2 / 3)
