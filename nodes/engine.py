"""Runs a whole mesh in step, as arrays over nodes: for experiments, where one party has all data.

The same `Learner` calls the same `decide`, `update` and `privatise` as on a bus where nobody is late, on
(N, d) in place of (d,). With the same seeded noise its releases equal those of the mesh bit for bit.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from nodes.learner import Learner, StepResult
from nodes.privacy.mechanism import Secret
from nodes.privacy.private import Private
from nodes.values import Consensus, Decision, Mixing, Observations, Release
from topology.schedules import CACHED, Schedule


class Step(NamedTuple):
    """One round of all nodes: `releases` q_t, `consensus` z_t, `decision` x_t, each (N, d), and the lesson.

    `lesson.release` is q_{t+1}; the lesson's private counts are sums over the nodes.
    """

    round: int
    releases: Release
    consensus: Consensus
    decision: Decision
    lesson: StepResult


class State(NamedTuple):
    """What the next round begins from: its number, all releases (N, d), the charged rounds, the noise's."""

    round: int
    releases: Release
    charged: int
    secret: Secret | None = None

    @classmethod
    def after(cls, step: Step) -> "State":
        """Return the state after a round."""
        return cls(step.round + 1, step.lesson.release, step.lesson.charged, step.lesson.secret)


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs all nodes of a schedule, in bytes order, with one learner whose sampler draws for all of them."""

    learner: Learner
    schedule: Schedule

    def steps(self, slots: Iterable[Observations]) -> Iterator[Step]:
        """Yield rounds 1, 2, ..., one per slot of observations: features (N, n, p), n <= batch size."""
        return self.steps_from(self.start(), slots)

    def start(self) -> State:
        """Return the state before round 1."""
        releases = np.tile(self.learner.algorithm.start, (len(self.schedule.graph.nodes), 1))
        return State(1, Release(releases), self.learner.charged_before)

    def steps_from(self, state: State, slots: Iterable[Observations]) -> Iterator[Step]:
        """Yield the rounds from a state on, one per slot."""
        learner, algorithm, nodes = self.learner, self.learner.algorithm, self.schedule.graph.nodes
        first, releases, charged, secret = state
        mixing = lru_cache(CACHED)(Mixing)  # by identity: schedules return recurring weights as one object
        for round, observations in enumerate(slots, first):
            consensus = Consensus(mixing(self.schedule.weights(round, nodes))(releases))
            decision = algorithm.decide(round, consensus)
            lesson = learner.learn(round, consensus, decision, Private(observations), charged, secret)
            yield Step(round, releases, consensus, decision, lesson)
            releases, charged, secret = lesson.release, lesson.charged, lesson.secret
