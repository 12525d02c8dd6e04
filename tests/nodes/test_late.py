"""Late policies: where a slot by count begins when records wait."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.slots import LatePolicy

OFFSETS = st.integers(0, 10**6)
SIZES = st.integers(1, 50)


@given(
    st.sampled_from(["drop-oldest", "sample"]), SIZES, st.integers(0, 1000), OFFSETS, st.integers(-5, 10**7)
)
def test_a_slot_begins_no_earlier_and_finds_all_its_records(kind, size, more, first, waiting):
    begun = LatePolicy(kind, size + more, size).begin(first, first + waiting)
    assert begun >= first
    if waiting <= size + more:
        assert begun == first
    else:
        assert begun + size <= first + waiting


@given(SIZES, st.integers(0, 1000), OFFSETS, OFFSETS)
def test_dropping_the_oldest_leaves_the_newest(size, more, first, waiting):
    begun = LatePolicy("drop-oldest", size + more, size).begin(first, first + waiting)
    assert first + waiting - begun == min(waiting, size + more)


@pytest.mark.parametrize(
    ("size", "most", "waiting"), [(1, 10, 1000), (4, 8, 1000), (3, 100, 731), (5, 5, 12)]
)
def test_sampling_is_even_and_catches_up(size, most, waiting):
    policy, at, begun = LatePolicy("sample", most, size), 0, []
    while waiting - at >= 2 * most:
        begun.append(policy.begin(at, waiting))
        at = begun[-1] + size
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    assert gaps == sorted(gaps, reverse=True)  # fewer are passed over as fewer wait
    assert waiting - at < 2 * most
    assert policy.begin(at, waiting) == at


def test_of_a_thousand_records_every_hundredth_is_first_sampled():
    assert LatePolicy("sample", 10).begin(0, 1000) == 99
    assert LatePolicy("sample", 10).begin(100, 1000) == 100 + 89


@pytest.mark.parametrize(("most", "size"), [(0, 1), (3, 4), (5, 0)])
def test_fewer_than_a_slot_cannot_be_left(most, size):
    with pytest.raises(ValueError, match="must be at least"):
        LatePolicy("sample", most, size)
