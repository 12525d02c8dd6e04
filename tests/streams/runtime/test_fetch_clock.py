"""A clock that stands still while nothing can be fetched."""

from hypothesis import given
from hypothesis import strategies as st

from streams.runtime.deadlines import PATIENCE, FetchClock


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def test_it_goes_with_the_beats_and_stands_still_without():
    hand = Hand()
    clock = FetchClock(hand)
    for _ in range(5):
        hand.time += 1.0
        clock.beat()
    assert clock.now() == 5.0
    hand.time += 1.0
    assert clock.now() == 6.0
    assert clock.going
    hand.time += 60.0
    assert clock.now() == 5.0 + PATIENCE
    assert not clock.going
    clock.beat()
    assert clock.now() == 5.0 + PATIENCE
    assert clock.going


def test_an_outage_alone_makes_nobody_silent():
    hand = Hand()
    clock = FetchClock(hand, silence=0.6)
    hand.time += 60.0
    assert abs(clock.now() - 0.3) < 1e-9
    clock.beat()
    hand.time += 1.0
    assert abs(clock.now() - 0.6) < 1e-9
    assert clock.going  # who asks whether the broker is there hears of no hiccup


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=20))
def test_it_never_goes_back_nor_faster_than_time(steps):
    hand = Hand()
    clock, shown = FetchClock(hand), 0.0
    for seconds, beat in steps:
        hand.time += seconds
        now = clock.now()
        assert shown <= now <= shown + seconds + 1e-9
        if beat:
            clock.beat()
        assert abs(clock.now() - now) < 1e-9
        shown = clock.now()
