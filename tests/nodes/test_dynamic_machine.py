"""A node machine with a motion model: what is late, skipped or not heard moves as what came in time."""

import numpy as np
import pytest

from nodes.accounting.guarantee import Ledger
from nodes.algorithms import Constant, DynamicMirrorDescent, dpdo_nc
from nodes.dynamics import gain_metric, motion
from nodes.geometry.constraints import Box
from nodes.geometry.mirror_maps import Mahalanobis
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Learner
from nodes.losses.losses import Linear
from nodes.machine.events import Decided, Journal, Notice, PlanArrived
from nodes.privacy.unprotected import Unprotected
from nodes.protocol import DeadlinePassed, Noticed
from tests.support.nodes.machines import feed, machine, of, plan, release, slot, started

PERIOD = 0.5
FAR = np.array([100.0, 50.0])


def moving(*, by_time, x_1=None):
    """A node on a line, with position and velocity; the linear loss has one gradient everywhere."""
    metric, inverse = gain_metric((0.5, 0.125), 1)
    still = dpdo_nc(mirror_step(Mahalanobis(metric), Box(-FAR, FAR)), Constant(1.0), x_1=x_1)
    algorithm = DynamicMirrorDescent(still, motion(2, 1, PERIOD, by_time=by_time), (0,), inverse[:, :1])
    return Learner(algorithm, Linear(), Unprotected(1e6, "l2", 1, 1), Ledger(None, 1, None), 1)


def shifted(state, times):
    return np.array([state[0] + times * PERIOD * state[1], state[1]])


def planned(rounds, alone_after=0):
    """Plans of these rounds in a row; after that round `a` hears itself alone."""
    before = [0, *rounds]
    return [
        PlanArrived(plan(t, None if not alone_after or t <= alone_after else {}, follows=follows), k)
        for k, (t, follows) in enumerate(zip(rounds, before, strict=False), 1)
    ]


def decided(effects):
    return {one.round: one.decision for one in of(effects, Decided)}


B, C = (3.0, 1.0), (-6.0, 4.0)
GAPS = [
    ((1, 2, 3, 4, 5), 1),
    ((1, 2, 3, 4, 5), 2),  # with a step before the loss
    ((1, 2, 5, 6, 9), 1),  # rounds that no plan has come after the loss
    ((1, 4, 5, 6, 7), 4),  # and before it
]


@pytest.mark.parametrize("by_time", [False, True])
@pytest.mark.parametrize(("rounds", "lost"), GAPS)
def test_a_late_release_ends_where_one_in_time_would_have(rounds, lost, by_time):
    """`a` hears the others up to the round in which c is lost, and then itself: nothing else mixes."""

    def run(*, late):
        node = machine(moving(by_time=by_time), deadlines=True)
        effects = started(node, *planned(rounds, lost))
        for k, t in enumerate(rounds[:-1]):
            heard = [release("b", t, B), release("c", t, C)] if t <= lost else []
            if t == lost and late:
                effects += feed(node, heard[0], DeadlinePassed(t))
            else:
                effects += feed(node, *heard)
            if late and k == 2:  # in the third round or, if that was decided already, the fourth
                effects += feed(node, release("c", lost, C))
            effects += feed(node, slot(t, (0.25 * (k + 1),)))
        return node, effects

    _, in_time = run(late=False)
    _, late = run(late=True)
    assert [one.number for one in of(late, Noticed) if one.notice is Notice.CORRECTED] == [lost]
    expected, found = decided(in_time), decided(late)
    assert list(found) == list(rounds)
    assert not np.allclose(found[rounds[2]], expected[rounds[2]])
    assert found[rounds[-1]] == pytest.approx(expected[rounds[-1]], abs=1e-12)


@pytest.mark.parametrize(("by_time", "times"), [(True, 4), (False, 1)])
def test_skipped_rounds_move_the_consensus_where_rounds_are_of_a_clock(by_time, times):
    node = machine(moving(by_time=by_time, x_1=np.array([1.0, 2.0])))
    started(node, *planned((1, 5, 6)))
    effects = feed(node, release("b", 1, (1.0, 2.0)), release("c", 1, (1.0, 2.0)), slot(1, (0.0,)))
    moved = of(effects, Journal)[-1].record.release
    assert moved == pytest.approx(shifted((1.0, 2.0), 1), abs=1e-12)  # one F a step, whatever follows
    effects = feed(node, release("b", 5, moved), release("c", 5, moved))
    assert decided(effects)[5] == pytest.approx(shifted((1.0, 2.0), times), abs=1e-12)


def test_the_first_plan_starts_at_x_1_whatever_its_round():
    node = machine(moving(by_time=True, x_1=np.array([1.0, 2.0])))
    effects = started(node, PlanArrived(plan(9, {}, follows=0), 1))
    assert decided(effects)[9].tolist() == [1.0, 2.0]


LISTENING = {("b", "c"): 0.5, ("c", "b"): 0.5, ("b", "a"): 0.5, ("c", "a"): 0.5}


@pytest.mark.parametrize(("by_time", "times"), [(True, 4), (False, 1)])
def test_a_joiner_releases_the_average_moved_on(by_time, times):
    node = machine(moving(by_time=by_time))
    listened = PlanArrived(plan(7, LISTENING, listeners="a", follows=3), 1)
    effects = started(node, listened, PlanArrived(plan(8), 2))
    effects += feed(node, release("b", 7, (1.0, 2.0)), release("c", 7, (3.0, 4.0)))
    assert of(effects, Journal)[-1].record.release == pytest.approx(shifted((2.0, 3.0), times), abs=1e-12)


@pytest.mark.parametrize("by_time", [True, False])
def test_a_joiner_that_hears_nobody_moves_its_own_last_release_on(by_time):
    node = machine(moving(by_time=by_time, x_1=np.array([1.0, 2.0])), deadlines=True)
    effects = started(node, PlanArrived(plan(1, {}), 1), PlanArrived(plan(2, {}), 2))
    effects += feed(node, slot(1, (0.0,)))
    (*_, before) = of(effects, Journal)
    records = [before.record]
    again = machine(moving(by_time=by_time), deadlines=True)
    effects = started(again, PlanArrived(plan(7, LISTENING, listeners="a", follows=6), 7), records=records)
    effects += feed(again, *[PlanArrived(plan(t), t) for t in range(8, 11)])
    effects += feed(again, DeadlinePassed(7))
    (found,) = of(effects, Journal)
    assert (found.record.round, found.record.stepped, found.record.exact) == (8, 7, True)
    assert found.record.release == pytest.approx(shifted(before.record.release, 8 - 2), abs=1e-12)
