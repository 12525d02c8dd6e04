"""Where a round's time goes, by a clock of the test's own."""

import pytest

from streams.metrics.registry import PrivateRegistry, SharedRegistry
from streams.metrics.timing import Timing
from tests.support.metrics import shown

WAITS = {"neighbour": SharedRegistry, "plan": SharedRegistry, "data": PrivateRegistry}


def waited(*moments):
    """Seconds of each wait, and of the step, after (moment, time), ..."""
    now = [0.0]
    shared, private = SharedRegistry(mesh="m", node="a"), PrivateRegistry(mesh="m", node="a")
    timing = Timing(shared, private, lambda: now[0])
    for moment, at in moments:
        now[0] = at
        getattr(timing, moment)()
    found = shown(shared) | shown(private)
    waits = [found[f"mirrormesh_{wait}_wait_seconds_total",] for wait in WAITS]
    return pytest.approx([*waits, found["mirrormesh_step_seconds_sum",]])


def test_the_last_release_ends_the_wait_for_neighbours_and_steps():
    assert waited(
        ("entered", 1), ("began", 2), ("closed", 2), ("began", 5), ("decided", 5.1), ("stepped", 5.5)
    ) == [4.1, 0, 0, 0.5]


def test_the_slot_ends_the_wait_for_records():
    assert waited(
        ("entered", 1), ("began", 2), ("decided", 2), ("began", 7), ("closed", 7), ("stepped", 7.25)
    ) == [1, 0, 5, 0.25]


def test_the_next_plan_ends_the_wait_for_it():
    assert waited(
        ("entered", 1),
        ("began", 2),
        ("decided", 2),
        ("began", 3),
        ("closed", 3),
        ("began", 9),
        ("stepped", 10),
    ) == [1, 6, 1, 1]


def test_a_round_without_in_edges_waits_for_nobody():
    assert waited(
        ("began", 1), ("entered", 1), ("decided", 1), ("began", 1), ("closed", 1), ("stepped", 1)
    ) == [
        0,
        0,
        0,
        0,
    ]
