"""The node machine when others are at fault: broken losses, misuse by the caller; and its heartbeats."""

import numpy as np
import pytest

from nodes.machine.events import Journal, Scored, SendHeartbeat, Started
from nodes.privacy.reveal import opened
from nodes.protocol import Misused
from tests.support.nodes.machines import (
    feed,
    learner,
    machine,
    neighbours,
    of,
    plans,
    release,
    run_rounds,
    slot,
    started,
)


class RaisingLoss:
    """A user's loss that is broken."""

    def value(self, decision, observations):
        raise RuntimeError("value")

    def gradients(self, decision, observations):
        raise RuntimeError(f"secret {observations.labels}")


class ShapelessLoss(RaisingLoss):
    """A user's loss that returns another shape."""

    def gradients(self, decision, observations):
        return np.zeros(7)


class NanLoss(RaisingLoss):
    """A user's loss that is not finite."""

    def gradients(self, decision, observations):
        return np.full(observations.features.shape, np.nan)


@pytest.mark.parametrize("loss", [RaisingLoss(), ShapelessLoss(), NanLoss()])
def test_the_step_is_total_a_broken_loss_gives_a_zero_gradient(loss):
    node = machine(learner(loss=loss))
    started(node, *plans(1, 2))
    effects = feed(node, *neighbours(1), slot(1, (1.0, 1.0), 1.0))
    np.testing.assert_array_equal(of(effects, Journal)[0].record.release, [1.0, 2.0])
    assert opened(of(effects, Scored)[0].broken) == 1
    assert opened(of(effects, Scored)[0].gradient).tolist() == [0.0, 0.0]


def test_misuse_is_the_callers_error_and_changes_nothing():
    node = machine()
    with pytest.raises(Misused, match="Started"):
        feed(node, *plans(1, 1))
    started(node, *plans(1, 2))
    with pytest.raises(Misused, match="once"):
        feed(node, Started())
    with pytest.raises(Misused, match="no edge from 'd'"):
        feed(node, release("d", 1, (0.0, 0.0)))
    with pytest.raises(Misused, match="slot 2"):
        feed(node, slot(2))
    feed(node, slot(1))
    with pytest.raises(Misused, match="closed twice"):
        feed(node, slot(1))
    assert of(feed(node, *neighbours(1)), Journal)


def test_heartbeats_follow_every_quarter_horizon_of_steps_and_say_what_was_stepped():
    node = machine()
    started(node, *plans(1, 4))
    assert [beat.heartbeat.stepped for beat in of(run_rounds(node, 1, 3), SendHeartbeat)] == [1, 2, 3]
