"""When a reader looks whether it is deaf, and when it is."""

import pytest

from streams.bus.reader import LOOK, Silent


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def silent(clock):
    return Silent(["a", "b"], clock)


def test_a_topic_is_looked_at_after_a_silence_and_the_longest_first(silent, clock):
    clock.now = LOOK - 1
    silent.heard("a")
    assert silent.due() is None
    clock.now = LOOK
    assert silent.due() == "b"
    clock.now = 2 * LOOK
    assert silent.due() == "b"
    assert not silent.is_deaf("b", 7, 7)
    assert silent.due() == "a"


def test_who_stands_for_two_looks_before_the_end_is_deaf(silent):
    assert not silent.is_deaf("a", 7, 9)
    assert silent.is_deaf("a", 7, 12)


def test_so_is_who_stands_behind_the_end_of_a_log_that_is_another_one(silent):
    assert not silent.is_deaf("a", 7, 3)
    assert silent.is_deaf("a", 7, 4)


@pytest.mark.parametrize("then", [(8, 12), (7, 7)], ids=["it has gone on", "it is at the end"])
def test_who_goes_on_or_is_at_the_end_is_not(silent, then):
    assert not silent.is_deaf("a", 7, 9)
    assert not silent.is_deaf("a", *then)
    assert not silent.is_deaf("a", 8, 12) or then == (8, 12)


def test_who_was_told_something_meanwhile_is_not(silent):
    assert not silent.is_deaf("a", 7, 9)
    silent.heard("a")
    assert not silent.is_deaf("a", 7, 9)


def test_a_broker_that_does_not_answer_says_nothing(silent, clock):
    assert not silent.is_deaf("a", 7, 9)
    clock.now = 2 * LOOK
    silent.put_off()
    assert silent.due() is None
    assert not silent.is_deaf("a", 7, 9)
