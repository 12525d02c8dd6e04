"""The way around offsets that cannot be read: exact, and short."""

from bisect import bisect_right
from math import log2

from hypothesis import given
from hypothesis import strategies as st

from streams.bus.logs import Gap

SIZES = st.lists(st.tuples(st.integers(1, 10**5), st.booleans()), min_size=1, max_size=8)


@given(first=st.integers(0, 10**9), sizes=SIZES)
def test_it_ends_with_the_first_offset_behind_the_batch_and_asks_for_few(first, sizes):
    """A log of batches of these sizes, readable or not; the first one is not."""
    starts = [first]
    for size, _ in sizes:
        starts.append(starts[-1] + size)
    bad = [True, *(unreadable for _, unreadable in sizes[1:])]
    gap, asked, over = Gap(first, first), 0, False
    while not over:
        asked += 1
        place = bisect_right(starts, gap.asked) - 1
        over = gap.unreadable(starts[place]) if place < len(bad) and bad[place] else gap.readable()
    assert gap.asked == starts[1]
    assert asked <= 2 * log2(sizes[0][0]) + 3


def test_a_record_alone_is_passed_at_once():
    gap = Gap(7, 7)
    assert (gap.asked, gap.readable()) == (8, True)


def test_the_rest_of_a_batch_is_a_gap_too():
    gap = Gap(7, 3)
    assert not gap.unreadable(3)
    assert gap.asked == 10


def test_offsets_without_a_record_before_another_bad_batch_are_behind_the_gap():
    gap = Gap(7, 7)
    assert (gap.unreadable(12), gap.asked) == (True, 8)


def test_a_log_that_changes_while_it_is_asked_ends_all_the_same():
    gap = Gap(0, 0)
    gap.unreadable(0)
    assert not gap.readable()  # 3 is behind it, and 2 is asked for
    for _ in range(5):
        gap.unreadable(0)  # and now nothing is as it was
    assert gap.asked > 3
    while not gap.readable():
        pass
