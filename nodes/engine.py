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
from nodes.mixing import Mixing
from nodes.privacy.private import Private
from nodes.values import Consensus, Decision, Observations, Release
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


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs all nodes of a schedule, in bytes order, with one learner whose sampler draws for all of them."""

    learner: Learner
    schedule: Schedule

    def steps(self, slots: Iterable[Observations]) -> Iterator[Step]:
        """Yield rounds 1, 2, ..., one per slot of observations: features (N, n, p), n <= batch size."""
        learner, algorithm = self.learner, self.learner.algorithm
        nodes = self.schedule.graph.nodes
        releases = Release(np.tile(algorithm.start, (len(nodes), 1)))
        charged, secret = learner.charged_before, None
        mixing = lru_cache(CACHED)(Mixing)  # by identity: schedules return recurring weights as one object
        for round, observations in enumerate(slots, 1):
            consensus = Consensus(mixing(self.schedule.weights(round, nodes))(releases))
            decision = algorithm.decide(round, consensus)
            lesson = learner.learn(round, consensus, decision, Private(observations), charged, secret)
            yield Step(round, releases, consensus, decision, lesson)
            releases, charged, secret = lesson.release, lesson.charged, lesson.secret
