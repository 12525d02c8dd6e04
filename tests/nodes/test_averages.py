"""The running average of decisions, and a machine that keeps it."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.events import BeforeStep, Decided, Journal
from nodes.privacy.reveal import opened
from nodes.protocol import DeadlinePassed
from nodes.values import averaged
from tests.support.nodes.machines import (
    end,
    feed,
    machine,
    neighbours,
    of,
    plans,
    release,
    run_rounds,
    slot,
    started,
)

numbers = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=60))
def test_the_average_is_the_exact_mean_to_the_last_digits_but_few(decisions):
    average = None
    for decision in decisions:
        average = averaged(average, np.array(decision))
    assert average.rounds == len(decisions)
    for k in range(2):
        column = [decision[k] for decision in decisions]
        scale = max(map(abs, column), default=0.0)
        assert math.isclose(average.mean[k], math.fsum(column) / len(column), abs_tol=1e-14 * scale + 1e-300)


def test_the_average_is_a_value_of_its_own():
    decision = np.array([1.0, 2.0])
    average = averaged(None, decision)
    decision[0] = 9.0
    assert average.mean.tolist() == [1.0, 2.0]
    assert not average.mean.flags.writeable
    assert not averaged(average, decision).mean.flags.writeable


def records(effects):
    return [effect.record for effect in of(effects, Journal)]


def test_a_machine_averages_what_it_decided_in_the_rounds_it_stepped():
    node = machine()
    effects = started(node, *plans(1, 4)) + run_rounds(node, 1, 3)
    decisions = [effect.decision for effect in of(effects, Decided)]
    first, *stepped = records(effects)
    assert first.average is None
    assert len({decision.tobytes() for decision in decisions}) > 1
    for t, record in enumerate(stepped, 1):
        assert record.average.rounds == t
        np.testing.assert_allclose(record.average.mean, np.mean(decisions[:t], 0), rtol=1e-15)


def test_a_restart_goes_on_with_the_average_bit_for_bit():
    node, other, again = machine(), machine(), machine()
    whole = records(started(node, *plans(1, 4)) + run_rounds(node, 1, 3))
    half = records(started(other, *plans(1, 4)) + run_rounds(other, 1, 2))
    rest = records(started(again, *plans(3, 4), records=half) + run_rounds(again, 3, 3))
    assert rest[-1].average.rounds == whole[-1].average.rounds == 3
    assert rest[-1].average.mean.tobytes() == whole[-1].average.mean.tobytes()


def test_who_listens_again_keeps_its_average_and_who_is_new_has_none():
    node = machine()
    before = records(started(node, *plans(1, 3)) + run_rounds(node, 1, 2))
    edges = {(s, t): 0.5 for s in "bc" for t in "abc" if s != t}
    for kept, rounds in ((before, 2), ((), None)):
        again = machine(deadlines=True)
        found = started(again, *plans(9, 9, edges=edges, listeners="a"), records=kept)
        found += feed(again, *plans(10, 10), *[release(s, 9, (1.0, 1.0)) for s in "bc"], DeadlinePassed(9))
        (record,) = records(found)
        assert (record.average and record.average.rounds) == rounds


def test_what_is_foreseen_is_the_slot_before_it_is_learnt_from():
    node = machine()
    effects = started(node, *plans(1, 1), end(2)) + feed(node, *neighbours(1), slot(1, (1.0, 0.0)))
    kinds = [type(effect) for effect in effects]
    (before_step,) = of(effects, BeforeStep)
    assert kinds.index(BeforeStep) < kinds.index(Journal, 2)
    assert before_step.round == 1
    assert opened(before_step.observations).features.tolist() == [[1.0, 0.0]]
    assert before_step.decision is of(effects, Decided)[0].decision
