"""What stands still is named, once its time is over, and nothing else is."""

import logging

import pytest

from streams.runtime.process import Liveness, Pulse

LOG = logging.getLogger("mirrormesh.node.a")


class Clock:
    """A clock that a test turns."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_pulse_ages_from_its_last_beat_and_not_before_the_first(clock):
    pulse = Pulse(clock)
    clock.now += 50
    assert pulse.age == 0
    pulse.begin()
    clock.now += 3
    pulse.begin()
    assert pulse.age == 3
    pulse.beat()
    assert pulse.age == 0


def test_a_part_that_has_ended_is_expected_nowhere(clock):
    pulse = Pulse(clock)
    pulse.beat()
    pulse.rest()
    pulse.beat()  # one that was on its way
    clock.now += 50
    assert pulse.age == 0


def test_the_part_that_stands_still_is_named_with_its_time_and_logged_once(clock, caplog):
    pulses = {"the loop": Pulse(clock), "the stream": Pulse(clock)}
    alive = Liveness(30.0, pulses, {}, LOG)
    for pulse in pulses.values():
        pulse.beat()
    clock.now += 30
    assert alive.stalled() is None
    pulses["the loop"].beat()
    clock.now += 1
    for _ in range(3):
        assert alive.stalled() == "the stream has not turned for 31 s"
    assert [record.getMessage() for record in caplog.records] == [
        "the stream has not turned for 31 s: the process must be restarted"
    ]


def test_one_that_turns_again_is_alive_and_is_named_anew_later(clock, caplog):
    pulse = Pulse(clock)
    alive = Liveness(30.0, {"the loop": pulse}, {}, LOG)
    for _ in range(2):
        pulse.beat()
        assert alive.stalled() is None
        clock.now += 31
        assert alive.stalled() == "the loop has not turned for 31 s"
    assert len(caplog.records) == 2


def test_a_dead_thread_is_named_at_once(clock):
    there = [True]
    alive = Liveness(30.0, {"the loop": Pulse(clock)}, {"the reader": lambda: there[0]}, LOG)
    assert alive.stalled() is None
    there[0] = False
    assert alive.stalled() == "the reader is dead"
