"""Where a round's time goes, by clocks of the test's own."""

import pytest

from streams.metrics.registry import PrivateRegistry, SharedRegistry
from streams.metrics.shared import Timing, told, told_between
from tests.support.nodes.metrics import shown

WAITS = {"neighbour": SharedRegistry, "plan": SharedRegistry, "data": PrivateRegistry}


def waited(*moments):
    """Seconds of each wait, and of the step, after (moment, time), ...: plans are read up to a round."""
    now = [0.0]
    shared, private = SharedRegistry(mesh="m", node="a"), PrivateRegistry(mesh="m", node="a")
    timing = Timing(shared, private, lambda: 1e9 + now[0], lambda: now[0])
    for moment, at, *round in moments:
        now[0] = at
        getattr(timing, moment)(*round)
    found = shown(shared) | shown(private)
    waits = [found[f"mirrormesh_{wait}_wait_seconds_total",] for wait in WAITS]
    return pytest.approx([*waits, found["mirrormesh_step_seconds_sum",]])


ENTERED = ("planned", 0, 2), ("entered", 1)


def test_the_last_release_ends_the_wait_for_neighbours_and_steps():
    rest = ("began", 2), ("closed", 2), ("began", 5), ("decided", 5.15), ("stepped", 5.5, 2)
    assert waited(*ENTERED, *rest) == [4.1, 0, 0, 0.5]


def test_the_slot_ends_the_wait_for_records():
    rest = ("began", 2), ("decided", 2), ("began", 7), ("closed", 7), ("stepped", 7.25, 2)
    assert waited(*ENTERED, *rest) == [1, 0, 5, 0.25]


def test_the_next_plan_ends_the_wait_for_it():
    rest = ("began", 2), ("decided", 2), ("began", 3), ("closed", 3), ("began", 9), ("stepped", 10, 3)
    assert waited(*ENTERED, *rest) == [1, 7, 1, 1]  # for the plan from the last release on, slot or not


@pytest.mark.parametrize("closed", [3.0, 5.0, 9.0, 30.0])
def test_when_the_slot_comes_nothing_that_is_shared_tells(closed):
    moments = [("began", closed), ("closed", closed), ("began", 6), ("planned", 6, 3)]
    moments.sort(key=lambda moment: moment[1])
    step = ("stepped", max(closed, 6), 3)
    neighbours, plan, _, _ = waited(*ENTERED, ("began", 2), ("decided", 2), *moments, step).expected
    assert (neighbours, plan) == (1, 4)


def latency(*moments):
    """The decisions whose latency was taken, and their seconds."""
    now = [0.0]
    private = PrivateRegistry(mesh="m", node="a")
    timing = Timing(SharedRegistry(mesh="m", node="a"), private, lambda: now[0], lambda: now[0])
    for moment, at, *round in moments:
        now[0] = at
        getattr(timing, moment)(*round)
    found = shown(private)
    return [found[f"mirrormesh_decision_latency_seconds_{of}",] for of in ("count", "sum")]


def test_latency_is_from_a_slots_close_to_the_decision_that_it_changed():
    first = ("entered", 1), ("decided", 1.5), ("closed", 2), ("stepped", 2.25, 2)
    assert latency(*first) == [0, 0]  # nothing was learnt before the first
    second = ("entered", 2.25), ("closed", 2.5), ("decided", 2.75)  # the next slot closes before it
    assert latency(*first, *second) == [1, 0.75]
    assert latency(*first, *second, ("stepped", 3, 3), ("entered", 3), ("decided", 3.5)) == [2, 0.75 + 1]
    again = ("entered", 4), ("decided", 4.5)  # it joins anew: nothing was learnt since
    assert latency(*first, *second, *again) == [1, 0.75]


def test_a_round_without_in_edges_waits_for_nobody():
    rest = ("began", 1), ("entered", 1), ("decided", 1), ("began", 1), ("closed", 1), ("stepped", 1, 2)
    assert waited(ENTERED[0], *rest) == [0, 0, 0, 0]


def test_moments_are_told_to_a_tenth_of_a_second():
    assert told(1_700_000_000.19) == 1_700_000_000.1
    assert told(0.0) == 0.0
    assert told_between(1.19, 1.2) == pytest.approx(0.1)
    assert told_between(1.1, 1.19) == 0
    assert told_between(9.0, 2.0) == 0  # the clock was set back
