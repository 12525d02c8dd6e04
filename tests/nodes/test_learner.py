"""The lesson of one round: total over what a slot holds, and held within the public bound."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from nodes.privacy.mechanism import Privatised
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.values import Consensus, Decision, Observations, Release
from tests.support.nodes.machines import learner

Z = np.array([1.0, 2.0])


def lesson(parts, features, labels, *, charged=0):
    rows = np.array(features, dtype=np.float64)
    observations = Observations(rows, np.array(labels, dtype=np.float64), np.ones(len(rows), dtype=np.bool_))
    return parts.learn(3, Consensus(Z), Decision(Z), Private(observations), charged)


def test_a_relay_is_what_was_mixed_and_no_regulariser_shrinks_it():
    parts = learner(budget=1)
    parts = replace(parts, algorithm=replace(parts.algorithm, regulariser=1.0))
    made = lesson(parts, [(1.0, 1.0)], [9.0], charged=1)
    assert (made.exact, made.charged) == (True, 1)
    np.testing.assert_array_equal(made.release, Z)
    assert opened(made.gradient).any()  # its records are scored all the same


@dataclass(frozen=True)
class FussyLoss:
    """Raises for a negative label, and with it for a whole slot that has one."""

    def gradients(self, decision, observations):
        if (observations.labels < 0).any():
            raise ValueError("secret")
        return observations.features.copy()


def test_a_record_that_the_loss_raises_on_takes_no_other_with_it():
    parts = replace(learner(loss=FussyLoss()), batch_size=2)
    parts = replace(parts, mechanism=replace(parts.mechanism, batch_size=2))
    made = lesson(parts, [(1.0, 0.0), (5.0, 5.0)], [1.0, -1.0])
    np.testing.assert_array_equal(made.release, Z - 0.5 * np.array([0.5, 0.0]))
    assert opened(made.broken) == 1


@pytest.mark.parametrize("value", [1e308, -1e308, np.inf, np.nan])
def test_numbers_that_overflow_neither_raise_nor_warn(value):  # warnings are errors here
    made = lesson(learner(), [(value, value)], [1.0])
    assert np.isfinite(made.release).all()


def test_a_release_is_held_within_the_public_bound():
    parts = learner()
    held = parts.clamped(Release(np.array([3e4, -4e4])))
    assert np.linalg.norm(held) <= parts.release_bound
    np.testing.assert_allclose(held, [60.0, -80.0], rtol=1e-8)
    inside = Release(np.array([60.0, -80.0]))
    assert parts.clamped(inside) is inside


def test_the_release_of_a_lesson_is_held_within_the_public_bound():
    parts = learner()
    parts = replace(parts, mechanism=Overflowing())
    made = lesson(parts, [(1.0, 1.0)], [9.0])
    assert np.linalg.norm(made.release) <= parts.release_bound
    np.testing.assert_allclose(made.release / np.linalg.norm(made.release), [0.6, 0.8])


class Overflowing:
    """A mechanism whose release is outside every bound."""

    epsilon = None
    simulated = False
    release_slack = 0.0

    def privatise(self, round, gradients, update, secret=None):
        return Privatised(Release(np.array([600.0, 800.0])), Private(0), Private(0))


@pytest.mark.filterwarnings("error")
def test_a_record_that_overflows_everything_is_a_zero_gradient_without_a_word():
    made = lesson(learner(private=True), [(1e308, 1e308)], [-1e308])
    assert opened(made.broken) == 1
    assert np.isfinite(made.release).all()
